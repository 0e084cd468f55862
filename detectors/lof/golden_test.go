package lof

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
	"testing"
)

func near(got, want, rel float64) bool {
	return got == want || math.Abs(got-want) <= rel*math.Abs(want)
}

// TestGolden compares the definition and the fast form with scikit-learn; see testdata/golden.py.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name        string
		Dim, K      int
		X, Virtuals []float64 // in 1/1024
		Counts      []float64
		Alpha       float64
		Scores      []float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			for _, x := range [][]float64{c.X, c.Virtuals} {
				for i := range x {
					x[i] /= 1024
				}
			}
			p := &Params{K: c.K, Floor: Added, Alpha: c.Alpha}
			n := len(c.X) / c.Dim
			scores := Define(p, c.X, c.Dim, n, c.Virtuals, c.Counts)
			fast := make([]float32, n)
			new(Scorer).Score(p, fast, narrow(c.X), c.Dim, narrow(c.Virtuals), narrow(c.Counts))
			for i, want := range c.Scores {
				if !near(scores[i], want, 1e-9) {
					t.Errorf("score %d: the definition gives %v, scikit-learn %v", i, scores[i], want)
				}
				if !near(float64(fast[i]), want, 1e-6) {
					t.Errorf("score %d: the fast form gives %v, scikit-learn %v", i, fast[i], want)
				}
			}
		})
	}
}

// TestTextbook computes the example of the page of sklearn.neighbors.LocalOutlierFactor with the
// numbers printed there, and one worked out by hand: three points a unit apart
// on a line, the middle one's neighbours tied, and one at 10. For k = 2 the
// k-distances are 2, 1, 2, 9, the mean reachability distances 3/2, 2, 3/2,
// 17/2.
func TestTextbook(t *testing.T) {
	f := func(x []float64, k int, tol float64, want ...float64) {
		t.Helper()
		for i, s := range Define(&Params{K: k}, x, 1, len(x), nil, nil) {
			if math.Abs(s-want[i]) > tol {
				t.Errorf("LOF of point %d of %v is %v, want %v", i, x, s, want[i])
			}
		}
	}
	f([]float64{-1.1, 0.2, 101.1, 0.3}, 2, 5e-5, 0.9821, 1.0370, 73.3697, 0.9821)
	f([]float64{0, 1, 2, 10}, 2, 1e-8, (2./4+2./3)/2/(2./3), (2./3)/(1./2), (2./4+2./3)/2/(2./3), (2./4+2./3)/2/(2./17))
}

// TestTables compares AUROC and average precision on tables of the ADBench collection, k = 20, columns
// z-scored, with an independent program's. Data and figures lie beside the repository, not in it.
func TestTables(t *testing.T) {
	shared := ""
	for up, i := "..", 0; i < 6 && shared == ""; up, i = filepath.Join(up, ".."), i+1 {
		if _, err := os.Stat(filepath.Join(up, "shared", "reference", "tabular_reference_zscored_dev.csv")); err == nil {
			shared = filepath.Join(up, "shared")
		}
	}
	if shared == "" {
		t.Skip("no ../shared/reference/tabular_reference_zscored_dev.csv")
	}
	f, err := os.Open(filepath.Join(shared, "reference", "tabular_reference_zscored_dev.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		path := filepath.Join(shared, "data", "tabular", row[1], row[0])
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
		check := func(form string, scores []float32, tol float64) {
			area, precision := ranking(scores, y)
			for i, got := range []float64{area, precision} {
				want, _ := strconv.ParseFloat(row[4+i], 64)
				if math.Abs(got-want) > tol {
					t.Errorf("%s: %s: AUROC, average precision %.4f, %.4f, want %s, %s", row[0], form, area, precision, row[4], row[5])
					break
				}
			}
		}
		if n < 2000 {
			check("definition", narrow(Define(&Params{K: 20}, x, dim, n, nil, nil)), 0.0005)
		}
		// Rounded to float32, points that were equally far are not: with scikit-learn,
		// too, that moves annthyroid by 0.0006.
		fast := make([]float32, n)
		new(Scorer).Score(&Params{K: 20}, fast, narrow(x), dim, nil, nil)
		check("fast form", fast, 0.001)
	}
}

// ranking gives the area under the curve of scores against labels, and the
// average precision.
func ranking(scores []float32, y []float64) (area, precision float64) {
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
	m := regexp.MustCompile(`'descr': '<(..)'.*'shape': \((\d+)`).FindSubmatch(b[:head])
	if m == nil {
		t.Fatalf("%s: %s", path, b[:head])
	}
	n, _ := strconv.Atoi(string(m[2]))
	var x []float64
	for r := bytes.NewReader(b[head:]); r.Len() > 0; {
		var v any
		switch string(m[1]) {
		case "f8":
			v = new(float64)
		case "i8":
			v = new(int64)
		case "i4":
			v = new(int32)
		case "i2":
			v = new(int16)
		default:
			t.Fatalf("%s: %s", path, b[:head])
		}
		if err := binary.Read(r, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
		switch v := v.(type) {
		case *float64:
			x = append(x, *v)
		case *int64:
			x = append(x, float64(*v))
		case *int32:
			x = append(x, float64(*v))
		case *int16:
			x = append(x, float64(*v))
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

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
