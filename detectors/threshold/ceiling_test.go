package threshold

import (
	"math/rand/v2"
	"testing"
)

// TestRecurringFaults: equal faults exceed each time while they are rare, with any number of them in the history. High scores that are
// frequent, and a new level, exceed at most about three times as often as the rate says.
func TestRecurringFaults(t *testing.T) {
	for _, tt := range []struct {
		kind            Kind
		value           float64
		found           [3]int // of 8 faults each 400, 700 and 1,100 scores
		frequent, level int    // of 5,000 scores
	}{
		{Conformal, 0.0015, [3]int{8, 8, 8}, 23, 23},
		{Conformal, 0.0003, [3]int{7, 8, 8}, 12, 12},
		{PerDay, 1, [3]int{7, 8, 8}, 15, 15},
	} {
		p := New(tt.kind, tt.value)
		p.History = 2048
		exceed := func(n, from int, score func(i int) float32) (times int) {
			state := make([]float32, p.Size())
			for i := range n {
				if p.JudgeAt(state, score(i), int64(i+1)*60e6, true).Exceeds && i >= from {
					times++
				}
			}
			return times
		}
		rng := rand.New(rand.NewPCG(5, 8))
		noise := func() float32 { return float32(rng.NormFloat64()) }
		for i, each := range []int{400, 700, 1100} {
			faults := func(i int) float32 {
				if i >= 3000 && (i-3000)%each == 0 {
					return 60
				}
				return noise()
			}
			if got := exceed(3000+8*each, 3000, faults); got < tt.found[i] || got > tt.found[i]+8 {
				t.Errorf("%v: %d of 8 equal faults, one in %d scores, exceed", p, got, each)
			}
		}
		if n := exceed(9000, 4000, func(i int) float32 {
			if i >= 3000 && i%20 == 0 {
				return 60 + noise()
			}
			return noise()
		}); n > tt.frequent {
			t.Errorf("%v: of 250 high scores, one in 20, %d exceed", p, n)
		}
		if n := exceed(9000, 4000, func(i int) float32 {
			if i >= 3000 {
				return 60 + noise()
			}
			return noise()
		}); n > tt.level {
			t.Errorf("%v: of 5,000 scores after a change of level %d exceed", p, n)
		}
	}
}
