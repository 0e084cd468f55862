package vec

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestFit requires the line of most pairs, regardless of the values of the others.
func TestFit(t *testing.T) {
	rng := seedtest.New(t)
	for range 500 {
		n := 20 + rng.IntN(100)
		x, y, got := make([]float64, n), make([]float64, n), make([]float64, n)
		level, slope := 1e3*rng.NormFloat64(), rng.Float64()*5
		if rng.IntN(8) == 0 {
			slope = 0
		}
		for i := range x {
			x[i] = rng.NormFloat64()
			y[i] = level + slope*x[i]
		}
		want := append([]float64(nil), y...)
		known := 0
		switch rng.IntN(5) {
		case 4: // most of them, after those that are known
			known = n/3 + 1
			for i := known; i < n; i++ {
				y[i] = 7 * x[i] * rng.Float64()
			}
		case 0: // a spike
			y[rng.IntN(n)] += 1e6 * rng.NormFloat64()
		case 1: // a step
			for i := n - n/4; i < n; i++ {
				y[i] += 50 + 10*slope
			}
		case 2: // missing ones
			y[rng.IntN(n)], x[rng.IntN(n)] = math.NaN(), math.NaN()
		}
		Fit(got, y, x, known)
		for i := range got {
			if x[i] == x[i] && !(math.Abs(got[i]-want[i]) <= 1e-6*(1+math.Abs(want[i]))) {
				t.Fatalf("%v at %v, want %v", got[i], x[i], want[i])
			}
		}
	}
	got := make([]float64, 3)
	if Fit(got, []float64{3, 2, 1}, []float64{1, 2, 3}, 0); got[0] != got[2] {
		t.Errorf("a falling line: %v", got)
	}
	if Fit(got, []float64{5, 5, 5}, []float64{1, 1, 1}, 0); got[0] != 5 {
		t.Errorf("equal pairs: %v", got)
	}
}
