package threshold

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestLeft: the first score with a bound comes after as many as Left says, or for a threshold of time after more; Smoothing.Left counts
// the scores up to the first mean.
func TestLeft(t *testing.T) {
	r := seedtest.New(t)
	for range 300 {
		kind := Fixed + Kind(r.IntN(int(PerDay)))
		value := map[Kind]float64{Fixed: 3, Mean: 2, Quantile: 0.9, MAD: 4, Conformal: math.Pow(10, -0.4-2*r.Float64()), PerDay: 2}[kind]
		params := New(kind, value)
		params.Warmup = r.IntN(2) * r.IntN(200)
		if kind != PerDay && r.IntN(4) == 0 {
			params.Span = 1e6
		}
		if err := params.Check(); err != nil {
			t.Fatal(err)
		}
		state := make([]float32, params.Size())
		for i := range int64(400) {
			left := params.Left(state)
			v := params.JudgeAt(state, float32(r.ExpFloat64()), 1000*i, true)
			if bound := !math.IsInf(float64(v.Threshold), 0); bound && left > 0 || !bound && left == 0 && kind != PerDay {
				t.Fatalf("%+v: score %d, of %d left, has the bound %v", params, i, left, v.Threshold)
			}
		}
	}
	for _, n := range []Smoothing{0, 1, 2, 7} {
		state := make([]uint64, n.Size())
		if n.Left(nil) != max(1, int(n)) {
			t.Errorf("%d scores are left of %d", n.Left(nil), n)
		}
		for i := range 20 {
			left := max(1, n.Left(state))
			if mean := n.Add(state, 1); (mean == mean) != (left == 1) {
				t.Fatalf("mean of %d scores: %v of score %d, with %d left", n, mean, i, left)
			}
		}
	}
}
