package threshold

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestUndo requires that undone judgements leave the state as it was, to the bit, and that the front of
// a state restores all of it.
func TestUndo(t *testing.T) {
	rng := seedtest.New(t)
	bits := func(v []float32) []uint32 {
		out := make([]uint32, len(v))
		for i := range v {
			out[i] = math.Float32bits(v[i])
		}
		return out
	}
	for _, k := range []Kind{Fixed, Mean, Quantile, MAD, Conformal, PerDay} {
		for range 20 {
			r := New(k, []float64{0, 5, 1.5, 0.9, 3, 0.001, 1e9}[k])
			r.History, r.Warmup, r.Decluster = 32+rng.IntN(40), rng.IntN(10), rng.IntN(5)
			if r.Runs = rng.IntN(3) == 0; !r.Runs && rng.IntN(2) == 0 {
				r.Late = Late{1 + rng.IntN(2), 1 + rng.IntN(20)}
			}
			state := make([]float32, r.Size())
			run := 0
			time := int64(1.7e15)
			ties := rng.IntN(2) == 0
			score := func() float32 {
				if r.Runs {
					if run++; rng.IntN(30) == 0 || ties && rng.IntN(3) == 0 {
						run = rng.IntN(2) * rng.IntN(3)
					}
					return float32(run)
				}
				switch rng.IntN(20) {
				case 0:
					return float32(math.Copysign(0, -1))
				case 1:
					return float32(math.Inf(1 - 2*rng.IntN(2)))
				}
				if ties {
					return float32(rng.IntN(4))
				}
				return float32(rng.NormFloat64())
			}
			for range 30 {
				before := slices.Clone(state)
				var saved [][]float32
				n := rng.IntN(50)
				for range n {
					s := score()
					saved = append(saved, r.Save(nil, state, s))
					time += rng.Int64N(100)
					r.JudgeAt(state, s, time, true)
				}
				for i := n - 1; i >= 0; i-- {
					r.Undo(state, saved[i])
				}
				if !slices.Equal(bits(before), bits(state)) {
					t.Fatalf("kind %d, history %d: %d judgements taken back leave another state", k, r.History, n)
				}
				for range rng.IntN(20) {
					time += rng.Int64N(100)
					r.JudgeAt(state, score(), time, true)
				}
				again := make([]float32, r.Size())
				copy(again, state[:r.Stored()])
				if ok := r.Restore(again); copy(r.Waiting(again), r.Waiting(state)) < 0 || !ok || !slices.Equal(bits(again), bits(state)) {
					t.Fatalf("kind %d: the state is another one when it is restored", k)
				}
			}
		}
	}
	old, now := New(MAD, 3), New(Mean, 1.5)
	state := make([]float32, old.Size())
	for i := range 700 {
		old.Judge(state, float32(10+i%3))
	}
	if state = now.Adopt(&old, state); now.Like(&old) || !now.Like(&now) {
		t.Error("thresholds of two kinds are alike")
	} else if v := now.Judge(state, 17); !v.Exceeds || v.Threshold < 16 {
		t.Errorf("the mean of another threshold's history: %+v", v)
	}
	r := New(MAD, 3)
	first := r.Save(nil, nil, 1)
	state = make([]float32, r.Size())
	if r.Judge(state, 1); Count(state) != 1 {
		t.Errorf("%d scores", Count(state))
	}
	if r.Undo(state, first); slices.ContainsFunc(state, func(v float32) bool { return v != 0 }) {
		t.Error("the first judgement of a series leaves a state")
	}
	for i, bad := range []float32{float32(math.NaN()), -1, 0.5, float32(math.Inf(1)), digit} {
		state := make([]float32, r.Size())
		state[atCount] = bad
		if r.Restore(state) {
			t.Errorf("bad count %d is taken", i)
		}
		if state[atCount], state[head] = 1, bad; r.Restore(state) != (bad == -1 || bad == 0.5 || bad == digit) {
			t.Errorf("score %v", bad)
		}
		if state[head], state[atRun] = 0, bad; r.Restore(state) {
			t.Errorf("bad run %d is taken", i)
		}
	}
}
