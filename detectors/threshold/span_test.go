package threshold

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestSpan compares a history spread over time with a list of scores by the definition: all while there
// are few, then the first of each slot in place of the oldest. Judgements are as with the same threshold
// without a span on the scores of that list; undone judgements leave no trace, and the front of a state
// restores it.
func TestSpan(t *testing.T) {
	rng := seedtest.New(t)
	list := []Params{{Kind: Conformal, Value: 0.02}, {Kind: Conformal, Value: 0.004}, {Kind: Quantile, Value: 0.9, Margin: 1.2},
		{Kind: MAD, Value: 3},
		{Kind: Mean, Value: 2}, {Kind: PerDay, Value: 5000}}
	thinned, all := 0, 0
	for range 40 {
		r := list[rng.IntN(len(list))]
		r.History, r.Warmup, r.Decluster = 32+rng.IntN(40), rng.IntN(20), rng.IntN(4)
		plain := r
		r.Span = []int64{1e6, 1e6 + rng.Int64N(1e9), 1e9}[rng.IntN(3)]
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		step := max(1, r.Span/int64(r.History)/(1+rng.Int64N(8))*rng.Int64N(3))
		time := int64(-1e9) + rng.Int64N(2e9)
		state, other := make([]float32, r.Size()), make([]float32, plain.Size())
		count, slot := 0, int64(math.MinInt64)
		for i := range 600 {
			time += rng.Int64N(2*step + 1)
			score := float32(rng.ExpFloat64())
			if rng.IntN(5) == 0 {
				score = float32(rng.IntN(3)) // ties
			}
			saved := r.Save(nil, state, score)
			before := slices.Clone(state)
			got := r.JudgeAt(state, score, time, true)
			if rng.IntN(4) == 0 {
				r.Undo(state, saved)
				if !slices.Equal(before, state) {
					t.Fatalf("%v of %d: a judgement that was undone has left a trace", r, r.Span)
				}
				if again := r.JudgeAt(state, score, time, true); again != got {
					t.Fatalf("%v: judged again as %+v, was %+v", r, again, got)
				}
			}
			// The other threshold's state gets the score, but does not keep it unless it is the first of its
			// slot.
			earlier := slices.Clone(other)
			want := plain.JudgeAt(other, score, time, true)
			if r.Kind != PerDay && want != got || r.Kind == PerDay && want.Exceeds != got.Exceeds {
				t.Fatalf("%v, score %d: %+v, want %+v", r, i, got, want)
			}
			width := r.Span / int64(r.History)
			now := time / width
			switch added := Count(other) > Count(earlier); {
			case added && (count < r.History || now != slot):
				count++
				slot = now
				all++
			case added:
				thinned++
				run := other[atRun]
				times := slices.Clone(other[atMean:atLow])
				copy(other, earlier)
				other[atRun] = run
				if want.Threshold < other[atLow] || want.Threshold >= other[atHigh] {
					judged(other, want.Threshold)
				}
				if r.Kind == PerDay {
					copy(other[atMean:atLow], times)
				}
			}
			if !slices.Equal(state[:head+r.History], other[:head+r.History]) {
				t.Fatalf("%v, score %d: another history", r, i)
			}
			restored := make([]float32, r.Size())
			if copy(restored, state[:r.Stored()]); !r.Restore(restored) || !slices.Equal(restored, state) {
				t.Fatalf("%v, score %d: restored otherwise", r, i)
			}
		}
	}
	if thinned < 1000 || all < 1000 {
		t.Errorf("%d scores were left out, %d not", thinned, all)
	}
}

// TestSpanCovers requires that a full history has scores of the whole span, however many there are a
// second, and for a sparse series the last ones.
func TestSpanCovers(t *testing.T) {
	const hour = 3600e6
	for _, step := range []int64{1e6, 60e6, 3600e6} {
		r := Params{Kind: Quantile, Value: 0.9, History: 100, Span: 24 * hour}
		state := make([]float32, r.Size())
		var last int64
		for i := range 4 * 24 * hour / step {
			last = i
			r.JudgeAt(state, float32(i), 1e15+i*step, true) // the score is its own time
		}
		oldest := int64(state[len(state)-r.History])
		want := 24 * hour
		if n := int64(r.History) * step; n > int64(want) {
			want = float64(min(n, 4*24*hour))
		}
		if got := float64((last - oldest) * step); Count(state) >= r.History && (got < 0.98*want-float64(step) || got > 1.02*want+float64(step)) {
			t.Errorf("a score each %d s: the history covers %v h, want %v", step/1e6, got/hour, want/hour)
		}
	}
}
