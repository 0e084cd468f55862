package knn

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func near(got, want, rel float64) bool {
	return got == want || math.Abs(got-want) <= rel*math.Abs(want)
}

// all returns the fast form's weights of all points among all, and their neighbours.
func all(x []float32, dim, k int, self bool) (weights []float64, neighbours [][]int) {
	n := len(x) / dim
	weights, neighbours = make([]float64, n), make([][]int, n)
	query := func(i int) Query { return Query{i, 0, n} }
	var s Scorer
	s.Load(x, dim, 1)
	s.Weights(weights, k, self, query, func(i int, near []Neighbour) { neighbours[i] = list(0, self, query(i), near) })
	return weights, neighbours
}

// TestGolden compares the definition and the fast form with scikit-learn; see testdata/golden.py.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name       string
		Dim, K     int
		X          []float64 // in 1/1024
		Weights    []float64
		Neighbours []int
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			for i := range c.X {
				c.X[i] /= 1024
			}
			fast, neighbours := all(narrow(c.X), c.Dim, c.K, false)
			for i, want := range c.Weights {
				weight, ids := Define(c.X, c.Dim, 1, c.K, false, Query{i, 0, len(fast)})
				for form, got := range map[string]float64{"definition": weight, "fast form": fast[i]} {
					if !near(got, want, 1e-12) {
						t.Errorf("weight %d: the %s gives %v, scikit-learn %v", i, form, got, want)
					}
				}
				if i*c.K >= len(c.Neighbours) {
					continue
				}
				want := c.Neighbours[i*c.K : (i+1)*c.K]
				for form, got := range map[string][]int{"definition": ids, "fast form": neighbours[i]} {
					if !slices.Equal(got, want) {
						t.Errorf("neighbours of %d: the %s gives %v, scikit-learn %v", i, form, got, want)
					}
				}
			}
		})
	}
}

// shared returns the path of data and figures beside the repository.
func shared(t *testing.T, file string) string {
	for up, i := "..", 0; i < 6; up, i = filepath.Join(up, ".."), i+1 {
		if _, err := os.Stat(filepath.Join(up, "shared", "reference", file)); err == nil {
			return filepath.Join(up, "shared")
		}
	}
	t.Skip("no ../shared/reference/" + file)
	return ""
}

// TestTables compares AUROC and average precision on tables of the ADBench collection, k = 50, columns
// z-scored, with an independent program's.
func TestTables(t *testing.T) {
	at := shared(t, "tabular_reference_zscored_dev.csv")
	f, err := os.Open(filepath.Join(at, "reference", "tabular_reference_zscored_dev.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		path := filepath.Join(at, "data", "tabular", row[1], row[0])
		if _, err := os.Stat(path); err != nil {
			t.Logf("no %s", path)
			continue
		}
		x, n := readNPY(t, path, "X")
		if n > 12_000 && os.Getenv("ODRADEK_LONG") == "" {
			t.Logf("%s, of %d rows, is left to a long run (ODRADEK_LONG=1)", row[0], n)
			continue
		}
		y, _ := readNPY(t, path, "y")
		standardise(x, n)
		weights := make([]float32, n)
		NewTree(narrow(x), len(x)/n, together).Weights(weights, 50, false, together)
		area, precision := ranking(widen(weights), y)
		for i, got := range []float64{area, precision} {
			if want, _ := strconv.ParseFloat(row[6+i], 64); !(math.Abs(got-want) <= 0.0005) {
				t.Errorf("%s: AUROC, average precision %.5f, %.5f, want %s, %s", row[0], area, precision, row[6], row[7])
				break
			}
		}
	}
}

// TestLargest compares the twelve largest weights of unscaled tables, k = 50, with an independent
// program's.
func TestLargest(t *testing.T) {
	const file = "knn_weight_topn_raw_k50_selfexcluded.txt"
	at := shared(t, file)
	text, err := os.ReadFile(filepath.Join(at, "reference", file))
	if err != nil {
		t.Fatal(err)
	}
	pair := regexp.MustCompile(`(\d+):([\d.]+)`)
	for line := range strings.Lines(string(text)) {
		name := strings.Fields(line)[0]
		paths, _ := filepath.Glob(filepath.Join(at, "data", "tabular", "*", name+".npz"))
		if len(paths) == 0 {
			t.Logf("no %s.npz", name)
			continue
		}
		x, n := readNPY(t, paths[0], "X")
		y := narrow(x)
		exact := true
		for i, v := range y {
			exact = exact && float64(v) == x[i]
		}
		for i, o := range NewTree(y, len(x)/n, together).Top(TopParams{N: 12, K: 50}, together) {
			m := pair.FindAllStringSubmatch(line, -1)[i]
			at, _ := strconv.Atoi(m[1])
			weight, _ := strconv.ParseFloat(m[2], 64)
			if o.At != at || !near(o.Weight, weight, 1e-6) {
				t.Errorf("%s: the tree finds %v in place %d, want %s", name, o, i, m[0])
			}
		}
		if n < 50_000 {
			testTop(t, name, x, len(x)/n, pair.FindAllStringSubmatch(line, -1))
		}
		var s Scorer
		s.Load(y, len(x)/n, 1)
		// All points of a small one; of a large one those in question.
		if n < 12_000 {
			weights, _ := all(y, len(x)/n, 50, false)
			order := make([]int, n)
			zero := 0
			for i, w := range weights {
				order[i] = i
				if w == 0 {
					zero++
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
			for i, m := range pair.FindAllStringSubmatch(line, -1) {
				if want, _ := strconv.Atoi(m[1]); order[i] != want {
					t.Errorf("%s: point %d is in place %d, want %d", name, order[i], i, want)
				}
			}
			if m := regexp.MustCompile(`zero-weight rows (\d+)`).FindStringSubmatch(line); m != nil && exact && strconv.Itoa(zero) != m[1] {
				t.Errorf("%s: %d weights are 0, want %s", name, zero, m[1])
			}
		}
		for _, m := range pair.FindAllStringSubmatch(line, -1) {
			i, _ := strconv.Atoi(m[1])
			want, _ := strconv.ParseFloat(m[2], 64)
			w := make([]float64, 1)
			s.Weights(w, 50, false, func(int) Query { return Query{i, 0, n} }, nil)
			if !near(w[0], want, 1e-6) {
				t.Errorf("%s: weight of point %d is %v, want %v", name, i, w[0], want)
			}
		}
	}
}

// testTop compares the algorithms with a solving set with reference weights, point:weight.
func testTop(t *testing.T, name string, x []float64, dim int, want [][]string) {
	for _, algorithm := range Algorithms[2:] {
		top, err := algorithm.Find(x, dim, TopParams{N: len(want), K: 50, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range want {
			at, _ := strconv.Atoi(m[1])
			weight, _ := strconv.ParseFloat(m[2], 64)
			if got := top.Outliers[i]; got.At != at || !near(got.Weight, weight, 1e-6) {
				t.Errorf("%s: %s finds %v in place %d, want %s", name, algorithm.Name, got, i, m[0])
			}
		}
	}
}

// standardise brings columns to mean 0 and deviation 1.
func standardise(x []float64, n int) {
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

// ranking gives the area under the curve of scores against labels, and the
// average precision.
func ranking(scores, y []float64) (area, precision float64) {
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

// readNPY reads an array of an npz file and its first dimension.
func readNPY(t *testing.T, path, name string) ([]float64, int) {
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
