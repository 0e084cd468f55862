package threshold

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// rising is the definition of Risen: it keeps all thresholds.
type rising struct {
	rounds   [][]float32 // thresholds of each round of the ring, from the first one that matters
	reported float32     // 0: nothing was said
}

func (r *rising) risen(t float32) (from float32) {
	if !(t > 0) || math.IsInf(float64(t), 1) {
		return 0
	}
	if r.reported > 0 && t < r.reported/3 {
		r.reported, r.rounds = 0, [][]float32{nil}
	}
	last := len(r.rounds) - 1
	r.rounds[last] = append(r.rounds[last], t)
	if from = r.reported; from == 0 {
		from = t
		for _, round := range r.rounds[max(0, last-1):] {
			for _, was := range round {
				from = min(from, was)
			}
		}
	}
	if t < 10*from {
		return 0
	}
	r.reported = t
	return 10 * from / 10
}

// TestRise compares what a judgement says of a risen threshold with the definition, for series whose scale changes, and with the same
// judgement after others were undone and the state was restored.
func TestRise(t *testing.T) {
	rng := seedtest.New(t)
	said, again := 0, 0
	for range 60 {
		p := randomThreshold(rng)
		p.Kind, p.Value = []Kind{Mean, Quantile, MAD, Conformal, PerDay}[rng.IntN(5)], 0
		p.Value = [...]float64{0, 0, 1 + 2*rng.Float64(), 1 - 0.08*rng.Float64(), 1 + 5*rng.Float64(), 0.002 + 0.05*rng.Float64(), 1e6}[p.Kind]
		p.History, p.Runs, p.Bounded, p.Late = 64+rng.IntN(100), false, false, Late{}
		if p.Check() != nil {
			continue
		}
		state, time, scale := make([]float32, p.Size()), int64(1.7e15), 1.0
		definition := rising{rounds: [][]float32{nil}}
		for range 3000 {
			if rng.IntN(100) == 0 {
				scale = math.Pow(10, float64(rng.IntN(7)))
			}
			score := float32(scale * rng.ExpFloat64())
			if time += 1 + rng.Int64N(100); rng.IntN(20) == 0 {
				saved := p.Save(nil, state, 1e9)
				p.JudgeAt(state, 1e9, time, true)
				p.Undo(state, saved)
				restored := make([]float32, p.Size())
				if copy(restored, state[:p.Stored()]); !p.Restore(restored) {
					t.Fatal("no state")
				}
				state = restored
			}
			before := Count(state)
			saved := p.Save(nil, state, score)
			v := p.JudgeAt(state, score, time, true)
			got, reported := Risen(saved, state), definition.reported
			if want := definition.risen(v.Threshold); got != want {
				t.Fatalf("%+v, after %d scores: threshold %v has risen from %v, want %v", p, before, v.Threshold, got, want)
			} else if want > 0 {
				if said++; reported > 0 {
					again++
				}
			}
			if n := Count(state); n > before && n%p.History == 0 {
				definition.rounds = append(definition.rounds, nil)
			}
		}
	}
	if said < 50 || again == 0 {
		t.Errorf("risen %d times, %d of them from a risen one", said, again)
	}
}

// TestRiseOfOne: one fault says that the threshold has risen once, however long it stays there.
func TestRiseOfOne(t *testing.T) {
	p := New(Mean, 2)
	state := make([]float32, p.Size())
	var from, to []float32
	judge := func(n int, score float32) {
		for range n {
			saved := p.Save(nil, state, score)
			v := p.Judge(state, score)
			if low := Risen(saved, state); low > 0 {
				from, to = append(from, low), append(to, v.Threshold)
			}
		}
	}
	judge(100, 1)
	judge(5000, 80)
	if len(from) != 1 || from[0] != 2 || to[0] < 20 || to[0] > 30 {
		t.Errorf("risen from %v to %v", from, to)
	}
}
