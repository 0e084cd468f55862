package knn

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestWideIsTheDefinition requires the weights and the neighbours of the definition, to the bit, ties and missing values
// included.
func TestWideIsTheDefinition(t *testing.T) {
	rng := seedtest.New(t)
	var s WideScorer
	for range 2000 {
		dim, m, n := 1+rng.IntN(3), 1+rng.IntN(3), 1+rng.IntN(60)
		x := make([]float64, (n+m-1)*dim)
		for i := range x {
			switch rng.IntN(3) {
			case 0:
				x[i] = float64(rng.IntN(3))
			case 1:
				x[i] = 1e9 + 1e-3*rng.NormFloat64()
			default:
				x[i] = rng.NormFloat64()
			}
		}
		if rng.IntN(5) == 0 {
			x[rng.IntN(len(x))] = []float64{math.NaN(), math.Inf(1), 1e200}[rng.IntN(3)]
		}
		from := rng.IntN(n)
		q := Query{At: rng.IntN(n), From: from, To: from + rng.IntN(n-from+1)}
		k, self := 1+rng.IntN(n+3), rng.IntN(2) == 0
		want, nearest := Define(x, dim, m, k, self, q)
		got, near := s.Weight(x, dim, m, k, self, q)
		if math.Float64bits(got) != math.Float64bits(want) && !(got != got && want != want) || !slices.Equal(near, nearest) && want == want {
			t.Fatalf("%v, points of %d rows of %d, k=%d, self %v, %+v: %v of %v, want %v of %v", x, m, dim, k, self, q, got, near, want, nearest)
		}
	}
}

func BenchmarkWide(b *testing.B) {
	rng := seedtest.New(b)
	x := make([]float64, 1024)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	var s WideScorer
	for b.Loop() {
		s.Weight(x, 1, 1, 10, false, Query{At: 1023, To: 1023})
	}
}
