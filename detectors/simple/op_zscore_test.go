package simple

import (
	"context"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
)

func mustZScore(t testing.TB, window int) detectors.Detector {
	t.Helper()
	d, err := NewZScore(window)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestZScoreOfKnownWindows(t *testing.T) {
	nan, large := float32(math.NaN()), float32(1<<20)
	f := func(want float64, x ...float32) {
		t.Helper()
		for _, score := range []func(detectors.Rows){scoreZScore, func(r detectors.Rows) { zscoreCPU(t.Context(), &r, detectors.Sequential) }} {
			out := []float32{-1}
			score(detectors.Rows{Dim: 1, Fresh: 1, Params: detectors.Words{uint32(len(x))}, X: x, Scores: out})
			if got := float64(out[0]); got != want && (got == got || want == want) {
				t.Errorf("%v: got %v, want %v", x, got, want)
			}
		}
	}
	// Mean 5, standard deviation 2: the textbook's eight numbers.
	f(2, 2, 4, 4, 4, 5, 5, 7, 9, 9)
	f(0, 2, 4, 4, 4, 5, 5, 7, 9, 5)
	f(2, large+2, large+4, large+4, large+4, large+5, large+5, large+7, large+9, large+1)
	f(0, 3, 3, 3, 3)
	f(maxScore, 3, 3, 3, 3.0000002)
	f(maxScore, 0, 1e-30, 0, 1e9)
	f(math.NaN(), 1, 1, 1, nan)
	f(math.NaN(), nan, nan, nan, 1, 1)
	f(math.NaN(), 1, float32(math.Inf(1)), 2, 3)
	f(maxScore, 1, 2, 3, float32(math.Inf(-1)))
	f(3, 1, nan, 2, 3)
	f(0, nan, 1, 1, 1)
	f(2, nan, 2, 4, 4, nan, nan, 4, 5, 5, 7, nan, 9, 1)
	f(math.NaN(), nan, nan, nan, nan)
}

// TestZScoreOfVectors requires that one value of 40 that is 50 standard deviations off scores 50 and
// has the largest share, also where others are missing.
func TestZScoreOfVectors(t *testing.T) {
	const n, dim, off = 101, 40, 17
	d, nan := mustZScore(t, n), float32(math.NaN())
	row := func(x []float32, i int) []float32 { return x[i*dim : (i+1)*dim] }
	for name, spoil := range map[string]func(x []float32){
		"all there":            func([]float32) {},
		"one null beside it":   func(x []float32) { row(x, n-1)[3] = nan },
		"nulls before":         func(x []float32) { row(x, 5)[3], row(x, 6)[off], row(x, 40)[off] = nan, nan, nan },
		"a field is not there": func(x []float32) { each(n, func(i int) { row(x, i)[39] = nan }) },
	} {
		x := make([]float32, n*dim)
		for i := range n {
			for c := range dim {
				row(x, i)[c] = float32(1 - 2*(i%2)) // mean 0, deviation 1
			}
		}
		row(x, n-1)[off] = 50
		spoil(x)
		out := []float32{-1, -1}
		r := detectors.Rows{Dim: dim, Fresh: 1, Params: d.Params(), X: x}
		r.Scores = out[:1]
		scoreZScore(r)
		r.Scores = out[1:]
		zscoreCPU(t.Context(), &r, detectors.Sequential)
		if out[0] < 49 || out[0] > 51 || math.Abs(float64(out[0]-out[1])) > 1e-4 {
			t.Errorf("%s: scores %v by the definition, %v by the fast form", name, out[0], out[1])
		}
		expected, share := make([]float64, dim), make([]float64, dim)
		if _, ok := d.(detectors.Explainer).Explain(r, 0, 0, expected, share); !ok || slices.Index(share, slices.Max(share)) != off ||
			math.Abs(expected[off]) > 0.1 {
			t.Errorf("%s: expected %v, shares %v", name, expected, share)
		}
	}
}

func each(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

func BenchmarkZScore(b *testing.B) {
	d := mustZScore(b, 8)
	e := detectors.NewCPU(1)
	batch := e.Batch()
	for range 1024 {
		t := detectors.Task{Op: d.Op(), Dim: 1, Fresh: 1}
		var p []float32
		t.Params = batch.Put(d.Params())
		t.X, p = batch.GrowF32(8)
		copy(p, []float32{1, 2, 3, 1, 2, 3, 4, 9})
		t.Scores, t.Next = batch.GrowOut(1), batch.GrowOut(0)
		batch.Tasks = append(batch.Tasks, t)
	}
	for b.Loop() {
		if err := e.Execute(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Tasks)), "ns/score")
}

func TestZScoreExplains(t *testing.T) {
	d := mustZScore(t, 5).(detectors.Explainer)
	r := detectors.Rows{Dim: 2, Fresh: 2, Params: d.Params(), X: []float32{1, 10, 3, 10, 1, 20, 3, 20, 4, 15, 2, 30}}
	expected, share := make([]float64, 2), make([]float64, 2)
	if _, ok := d.Explain(r, 0, 0, expected, share); !ok || !slices.Equal(expected, []float64{2, 15}) ||
		!slices.Equal(share, []float64{1, 0}) {
		t.Errorf("expected %v, shares %v", expected, share)
	}
	if _, ok := d.Explain(r, 1, 0, expected, share); !ok || !slices.Equal(expected, []float64{2.75, 16.25}) ||
		math.Abs(share[0]+share[1]-1) > 1e-12 || share[1] < share[0] {
		t.Errorf("expected %v, shares %v", expected, share)
	}
	r.X[10] = float32(math.NaN())
	if _, ok := d.Explain(r, 1, 0, expected, share); !ok || !slices.Equal(expected, []float64{2.75, 16.25}) ||
		!slices.Equal(share, []float64{0, 1}) {
		t.Errorf("a value is missing: expected %v, shares %v", expected, share)
	}
	r.X[11] = float32(math.NaN())
	if _, ok := d.Explain(r, 1, 0, expected, share); ok {
		t.Error("a score that is not a number is explained")
	}
}
