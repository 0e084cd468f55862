// Package tables reads the labelled tables that detectors are tested with, and ranks
// scores against their labels. The tables and reference figures of other programs lie
// beside the repository, not in it.
package tables

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// Shared is the folder that has reference/file, beside the repository; without it the
// test is skipped.
func Shared(t testing.TB, file string) string {
	for up, i := "..", 0; i < 6; up, i = filepath.Join(up, ".."), i+1 {
		if _, err := os.Stat(filepath.Join(up, "shared", "reference", file)); err == nil {
			return filepath.Join(up, "shared")
		}
	}
	t.Skip("no ../shared/reference/" + file)
	return ""
}

// Reference is rows of reference figures: a table's file and folder, and what they are
// of. The folder is that of Shared.
func Reference(t testing.TB, file string) (folder string, rows [][]string) {
	t.Helper()
	folder = Shared(t, file)
	f, err := os.Open(filepath.Join(folder, "reference", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err = csv.NewReader(f).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return folder, rows[1:]
}

// Standardise brings the columns of n rows to mean 0 and deviation 1.
func Standardise(x []float64, n int) {
	dim := len(x) / n
	for c := range dim {
		var sum, sq float64
		for i := c; i < len(x); i += dim {
			sum += x[i]
		}
		mean := sum / float64(n)
		for i := c; i < len(x); i += dim {
			sq += (x[i] - mean) * (x[i] - mean)
		}
		for i := c; i < len(x); i += dim {
			if x[i] -= mean; sq > 0 {
				x[i] /= math.Sqrt(sq / float64(n))
			}
		}
	}
}

// Ranking gives the area under the curve of scores against labels, and the
// average precision.
func Ranking[T float32 | float64](scores []T, y []float64) (area, precision float64) {
	order := make([]int, len(scores))
	positive := 0.0
	for i := range order {
		order[i] = i
		positive += y[i]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	hits, seen := 0.0, 0.0
	for len(order) > 0 {
		n, hit := 0, 0.0
		for n < len(order) && scores[order[n]] == scores[order[0]] {
			hit += y[order[n]]
			n++
		}
		misses := float64(n) - hit
		area += misses * (hits + hit/2)
		hits, seen = hits+hit, seen+float64(n)
		precision += hit * hits / seen
		order = order[n:]
	}
	return area / (positive * (float64(len(y)) - positive)), precision / positive
}

// ReadNPY reads an array of an npz file and its first dimension.
func ReadNPY(t testing.TB, path, name string) ([]float64, int) {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	f, err := z.Open(name + ".npy")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	head := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	m := regexp.MustCompile(`'descr': '[<|](..)'.*'shape': \((\d+)`).FindSubmatch(b[:head])
	if m == nil {
		t.Fatalf("%s: %s", path, b[:head])
	}
	n, _ := strconv.Atoi(string(m[2]))
	kind, size := string(m[1]), int(m[1][1]-'0')
	var x []float64
	for b := b[head:]; len(b) >= size; b = b[size:] {
		le := binary.LittleEndian
		switch kind {
		case "f8":
			x = append(x, math.Float64frombits(le.Uint64(b)))
		case "f4":
			x = append(x, float64(math.Float32frombits(le.Uint32(b))))
		case "i8":
			x = append(x, float64(int64(le.Uint64(b))))
		case "i4":
			x = append(x, float64(int32(le.Uint32(b))))
		case "i2":
			x = append(x, float64(int16(le.Uint16(b))))
		case "i1":
			x = append(x, float64(int8(b[0])))
		case "u1", "b1":
			x = append(x, float64(b[0]))
		default:
			t.Fatalf("%s: %s", path, kind)
		}
	}
	if bytes.Contains(b[:head], []byte("'fortran_order': True")) {
		columns := x
		x = make([]float64, 0, len(columns))
		for i := range n {
			for c := i; c < len(columns); c += n {
				x = append(x, columns[c])
			}
		}
	}
	return x, n
}
