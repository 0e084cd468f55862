package threshold

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestPerDay compares the scores that exceed with a number a day of event time, at several distances of
// scores, even and uneven, before 1970 and after, after a gap of days, and after the distance has
// changed.
func TestPerDay(t *testing.T) {
	rng := seedtest.New(t)
	const minute = 60e6
	for _, c := range []struct {
		name    string
		perDay  float64
		start   int64
		spacing func(i int) int64
		days    float64 // a score
	}{
		{"a score a minute", 14.4, 1.7e15, func(int) int64 { return minute }, minute / day},
		{"before 1970", 14.4, -1e15, func(int) int64 { return minute }, minute / day},
		{"uneven", 14.4, 1.7e15, func(int) int64 { return int64(minute * rng.ExpFloat64()) }, minute / day},
		{"a score an hour", 0.24, 1.7e15, func(int) int64 { return 60 * minute }, 60 * minute / day},
		{"a thousand a second", 864e3, 1.7e15, func(int) int64 { return 1000 }, 1000 / day},
		{"gaps of a month", 14.4, 1.7e15, func(i int) int64 {
			if i%5000 == 4999 {
				return 30 * day
			}
			return minute
		}, minute / day},
		{"a distance that changes", 14.4, 1.7e15, func(i int) int64 {
			if i < 4000 {
				return minute / 30
			}
			return minute
		}, minute / day},
	} {
		var judged, exceed int
		for range 10 {
			r := New(PerDay, c.perDay)
			r.History = 1024
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
			state := make([]float32, r.Size())
			time := c.start
			for i := range 20000 {
				v := r.JudgeAt(state, float32(rng.NormFloat64()), time, true)
				time += c.spacing(i)
				if i < 8000 {
					continue
				}
				judged++
				if v.Exceeds {
					exceed++
				}
			}
		}
		// Each asks for one score in a hundred.
		if got := float64(exceed) / (float64(judged) * c.days); got < 0.8*c.perDay || got > 1.15*c.perDay {
			t.Errorf("%s: %.4g scores a day exceed, of %v asked for", c.name, got, c.perDay)
		}
	}
}

// TestPerDayIsConformal requires that at a constant distance the judgements are as with the conformal
// threshold of the rate, which is at least the rate that the history supports.
func TestPerDayIsConformal(t *testing.T) {
	rng := seedtest.New(t)
	for _, c := range []struct{ perDay, rate float64 }{{86.4, 0.001}, {1728, 0.02}, {1e9, 0.5}, {0.001, 0.1 / 101}} {
		a, b := New(PerDay, c.perDay), Params{Kind: Conformal, Value: c.rate, Warmup: DefaultWarmup}
		a.History, b.History = 100, 100
		one, two := make([]float32, a.Size()), make([]float32, b.Size())
		differ := 0
		for i := range 5000 {
			x := float32(rng.NormFloat64())
			got, want := a.JudgeAt(one, x, 1e15+int64(i)*1e6, true), b.Judge(two, x)
			if i < 100 {
				continue // the shortest history supports less
			}
			if math.Abs(float64(got.Threshold-want.Threshold)) > 1e-4 {
				t.Fatalf("%v a day: bound %v of score %d, want %v", c.perDay, got.Threshold, i, want.Threshold)
			}
			if got.Severity != want.Severity || got.Exceeds != want.Exceeds {
				differ++
			}
		}
		if differ > 5 { // bounds that differ in the last digits
			t.Errorf("%v a day: %d judgements differ", c.perDay, differ)
		}
	}
	r, same := New(PerDay, 10), make([]float32, 0)
	same = slices.Grow(same, r.Size())[:r.Size()]
	for i := range 2000 {
		if v := r.JudgeAt(same, float32(i), 1e15, true); v.Exceeds {
			t.Fatal("a score exceeds where no time passes")
		}
	}
	other := New(MAD, 3)
	state := make([]float32, other.Size())
	for range 600 {
		other.Judge(state, float32(rng.NormFloat64()))
	}
	r.Adopt(&other, state)
	r.JudgeAt(state, 0, 1e15, true)
	if v := r.JudgeAt(state, 0, 1e15+3600e6, true); math.IsInf(float64(v.Threshold), 1) || state[atGap] != 3600e6 {
		t.Errorf("after another threshold's scores: %+v at a distance of %v", v, state[atGap])
	}
}
