package detectors

import (
	"context"
	"math"
	"testing"
)

func mustZScore(t testing.TB, window int) Detector {
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
		for _, score := range []func(Rows){zscoreScore, func(r Rows) { zscoreCPU(&r) }} {
			out := []float32{-1}
			score(Rows{Dim: 1, Fresh: 1, Params: []float32{float32(len(x))}, X: x, Scores: out})
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
	f(zscoreCap, 3, 3, 3, 3.0000002)
	f(zscoreCap, 0, 1e-30, 0, 1e9)
	f(math.NaN(), 1, nan, 2, 3)
	f(math.NaN(), 1, 1, 1, nan)
	f(math.NaN(), nan, 1, 1, 1)
}

func BenchmarkZScore(b *testing.B) {
	d := mustZScore(b, 8)
	e := NewCPU(1)
	batch := e.Batch()
	for range 1024 {
		t := Task{Op: d.Op(), Dim: 1, Fresh: 1}
		var p []float32
		t.Params, p = batch.GrowF32(1)
		copy(p, d.Params())
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
