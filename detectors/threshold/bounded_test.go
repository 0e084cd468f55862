package threshold

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestBoundsOfBoundedScoresCanBeExceeded judges scores of [0, 1]: a bound stays below 1
// unless the history itself has a 1 at its rank, and what is far outside exceeds.
func TestBoundsOfBoundedScoresCanBeExceeded(t *testing.T) {
	rnd := seedtest.New(t)
	for _, text := range []string{"conformal:0.001", "mad:6", "mean:4", "quantile:0.995*2"} {
		for _, next := range []func() float64{
			rnd.Float64,
			func() float64 { return 0.5 + rnd.Float64()/2 },
			func() float64 { return 1 - math.Pow(rnd.Float64(), 4) },
			func() float64 { return 0.01 * rnd.Float64() },
		} {
			r, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			r.Bounded = true
			state := make([]float32, r.Size())
			for i := range 2000 {
				v := r.Judge(state, min(belowOne, float32(next())))
				if i >= 128 && !(v.Threshold < 1) {
					t.Fatalf("%s: after %d scores the bound is %v", text, i, v.Threshold)
				}
			}
			if v := r.Judge(state, 1); !v.Exceeds || v.Threshold >= 1 {
				t.Errorf("%s: 1 does not exceed: %+v", text, v)
			}
		}
	}
	// Where half of the scores are 1, 1 is ordinary.
	r := New(Conformal, 0.01)
	r.Bounded = true
	state := make([]float32, r.Size())
	for i := range 1000 {
		if v := r.Judge(state, float32(i%2)); v.Exceeds {
			t.Fatalf("score %d: %+v", i, v)
		}
	}
}

// TestRateOfBoundedScores measures the rate of uniform scores, whose opened form is exponential.
func TestRateOfBoundedScores(t *testing.T) {
	rnd := seedtest.New(t)
	r := New(Conformal, 0.001)
	r.Bounded = true
	state := make([]float32, r.Size())
	const n = 200_000
	alarms := 0
	for range n {
		if r.Judge(state, rnd.Float32()).Exceeds {
			alarms++
		}
	}
	if share := float64(alarms) / n / r.Value; share < 0.02 || share > 1 {
		t.Errorf("%.2f times the rate", share)
	}
}
