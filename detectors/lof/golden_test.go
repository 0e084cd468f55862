package lof

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"odradek/detectors/tables"
)

func near(got, want, rel float64) bool {
	return got == want || math.Abs(got-want) <= rel*math.Abs(want)
}

// The definition and the fast form against scikit-learn; see
// testdata/golden.py.
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
			p := &Params{K: c.K, Alpha: c.Alpha}
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

// The example of the page of sklearn.neighbors.LocalOutlierFactor with the
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

// AUROC and average precision on tables of the ADBench collection, k = 20,
// columns z-scored, as an independent program computed them. Data and figures
// lie beside the repository, not in it.
func TestTables(t *testing.T) {
	shared, rows := tables.Reference(t, "tabular_reference_zscored_dev.csv")
	for _, row := range rows {
		path := filepath.Join(shared, "data", "tabular", row[1], row[0])
		if _, err := os.Stat(path); err != nil {
			t.Logf("no %s", path)
			continue
		}
		x, n := tables.ReadNPY(t, path, "X")
		if n > 12_000 && testing.Short() {
			continue
		}
		y, _ := tables.ReadNPY(t, path, "y")
		dim := len(x) / n
		tables.Standardise(x, n)
		check := func(form string, scores []float32, tol float64) {
			area, precision := tables.Ranking(scores, y)
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
