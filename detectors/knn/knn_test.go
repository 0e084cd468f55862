package knn

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestWeightOfKnownPoints(t *testing.T) {
	f := func(want float64, dim, m, k int, x ...float64) {
		t.Helper()
		var s Scorer
		for name, got := range map[string]float64{"definition": Define(x, dim, m, k), "fast form": s.Weight(x, dim, m, k)} {
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s of %v: got %v, want %v", name, x, got, want)
			}
		}
	}
	f(2, 1, 1, 2, 1, 9, 5, 3, 4)    // 5 and 3
	f(5, 1, 1, 3, 1, 9, 5, 3, 4)    // and 1
	f(0, 1, 1, 2, 4, 4, 9, 4)       // k others on its spot
	f(5, 2, 1, 1, 0, 0, 9, 9, 3, 4) // the sides of 5 are 3 and 4
	f(5, 1, 2, 1, 0, 0, 9, 3, 4)    // (0,0), (0,9), (9,3) and (3,4)
	f(8, 1, 1, 4, 1, 3, 4)          // only two others: 3 and 1, twice
	f(math.NaN(), 1, 1, 1, 4)       // none
	f(math.NaN(), 1, 3, 1, 4, 5)    // not even a point
}

func TestWeightIsTheDefinition(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var s Scorer
	for range 2000 {
		dim, m, k := 1+rnd.IntN(3), 1+rnd.IntN(7), 1+rnd.IntN(12)
		x := make([]float64, dim*(m+rnd.IntN(60)))
		for i := range x {
			switch rnd.IntN(3) {
			case 0:
				x[i] = float64(rnd.IntN(3))
			default:
				x[i] = rnd.NormFloat64()
			}
		}
		if rnd.IntN(20) == 0 {
			for i := range x {
				x[i] = 7
			}
		}
		want, got := Define(x, dim, m, k), s.Weight(x, dim, m, k)
		if !(math.Abs(got-want) <= 1e-12*want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("dim %d m %d k %d, %d values: got %v, want %v", dim, m, k, len(x), got, want)
		}
	}
}
