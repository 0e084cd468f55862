package threshold

import (
	"math"
	"slices"
)

// This file serves callers that keep many states, undo judgements and store states: a
// judgement changes few numbers of a state, and its sorted half follows from the rest.

// Saved is the number of numbers that Save appends.
const Saved = head + 2

// Head is the length of what comes before the scores of a state: all that Adopt
// changes of a state of the same length.
const Head = head

// Save appends to dst what Undo needs to undo the next Judge of a score that is not NaN. state
// may be nil before the first.
func (r *Rule) Save(dst, state []float32) []float32 {
	if len(state) == 0 {
		return append(dst, make([]float32, Saved)...)
	}
	dst = append(dst, state[:head]...)
	return append(dst, state[head+Count(state)%r.History], state[head+r.History])
}

// Undo undoes the last Judge, before which Save gave saved. Later ones must have been
// undone before.
func (r *Rule) Undo(state, saved []float32) {
	added := state[atCount] != saved[atCount] || state[atCountHigh] != saved[atCountHigh]
	if copy(state, saved[:head]); !added {
		return
	}
	if r.Span > 0 {
		state[head+r.History] = saved[head+1]
	}
	h, n := r.History, Count(state)
	at := head + n%h
	x, old := state[at], saved[head]
	state[at] = old
	sorted := state[len(state)-h:]
	if n >= h {
		to, from := lowers(sorted, old, x)
		replace(sorted, from, old, to)
		return
	}
	i := lower(sorted[:n+1], x)
	copy(sorted[i:n], sorted[i+1:n+1])
	sorted[n] = 0
}

// Stored is the length of the front of a state from which Restore makes the rest.
func (r *Rule) Stored() int {
	if r.Kind == Off {
		return 0
	}
	return head + r.History + r.extra()
}

// Restore computes the rest of a state from its front. It returns false for the front of no
// state, with which Judge might panic.
func (r *Rule) Restore(state []float32) bool {
	whole := func(v float32) bool { return v >= 0 && v < digit && v == float32(int(v)) }
	if r.Kind == Off || len(state) != r.Size() || !whole(state[atCount]) || !whole(state[atCountHigh]) || !whole(state[atRun]) {
		return false
	}
	n := min(Count(state), r.History)
	ring := state[head : head+r.History]
	for i, v := range ring {
		if v-v != 0 || v == 0 && math.Signbit(float64(v)) || i >= n && v != 0 {
			return false
		}
	}
	for _, v := range state[atMean:head] {
		if v-v != 0 {
			return false
		}
	}
	if r.Span > 0 && !whole(state[head+r.History]) {
		return false
	}
	sorted := state[len(state)-r.History:]
	clear(sorted[copy(sorted, ring[:n]):])
	slices.Sort(sorted[:n])
	return true
}

// Sound reports whether a stored rule can judge; Check of this version may refuse it.
func (r *Rule) Sound() bool {
	v := r.Value
	return r.Kind > Off && r.Kind <= PerDay && v-v == 0 && r.Margin-r.Margin == 0 && (r.Kind != Conformal || v > 0 && v <= maxRate) &&
		r.History >= minHistory && r.History <= MaxHistory && r.Warmup >= 0 && r.Warmup <= maxWarmup && r.Decluster >= 0 &&
		r.Decluster <= maxApart && r.checkSpan() == nil
}

// Like reports whether a state of r is also a state of the other rule.
func (r *Rule) Like(o *Rule) bool {
	return r.Kind == o.Kind && r.SameSize(o) && r.Bounded == o.Bounded && math.Float64bits(r.Value) == math.Float64bits(o.Value)
}

// SameSize reports whether states of both rules have the same length, so that Adopt can convert them.
func (r *Rule) SameSize(o *Rule) bool { return r.History == o.History && r.extra() == o.extra() }

// Adopt converts a state of another rule of the same size to one of r: it
// keeps the scores and recomputes what depends on the rule; the mean is then that of the
// history.
func (r *Rule) Adopt(state []float32) {
	clear(state[atMean:head])
	for i, v := range state[head:][:min(Count(state), r.History)] {
		r.addMean(state, i, v)
	}
}
