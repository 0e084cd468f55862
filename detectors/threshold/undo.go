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
func (p *Params) Save(dst, state []float32) []float32 {
	if len(state) == 0 {
		return append(dst, make([]float32, Saved)...)
	}
	dst = append(dst, state[:head]...)
	return append(dst, state[head+Count(state)%p.History], state[head+p.History])
}

// Undo undoes the last Judge, before which Save gave saved. Later ones must have been
// undone before.
func (p *Params) Undo(state, saved []float32) {
	added := state[atCount] != saved[atCount] || state[atCountHigh] != saved[atCountHigh]
	if copy(state, saved[:head]); !added {
		return
	}
	if p.Span > 0 {
		state[head+p.History] = saved[head+1]
	}
	h, n := p.History, Count(state)
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
func (p *Params) Stored() int {
	if p.Kind == Off {
		return 0
	}
	return head + p.History + p.extra()
}

// Restore computes the rest of a state from its front. It returns false for the front of no
// state, with which Judge might panic.
func (p *Params) Restore(state []float32) bool {
	whole := func(v float32) bool { return v >= 0 && v < digit && v == float32(int(v)) }
	if p.Kind == Off || len(state) != p.Size() || !whole(state[atCount]) || !whole(state[atCountHigh]) || !whole(state[atRun]) {
		return false
	}
	n := min(Count(state), p.History)
	ring := state[head : head+p.History]
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
	if p.Span > 0 && !whole(state[head+p.History]) {
		return false
	}
	sorted := state[len(state)-p.History:]
	clear(sorted[copy(sorted, ring[:n]):])
	slices.Sort(sorted[:n])
	return true
}

// Sound reports whether a stored threshold can judge; Check of this version may refuse it.
func (p *Params) Sound() bool {
	v := p.Value
	return p.Kind > Off && p.Kind <= PerDay && v-v == 0 && p.Margin-p.Margin == 0 && (p.Kind != Conformal || v > 0 && v <= maxRate) &&
		p.History >= minHistory && p.History <= MaxHistory && p.Warmup >= 0 && p.Warmup <= maxWarmup && p.Decluster >= 0 &&
		p.Decluster <= maxApart && p.checkSpan() == nil
}

// Like reports whether a state of p is also a state of the other threshold.
func (p *Params) Like(o *Params) bool {
	return p.Kind == o.Kind && p.SameSize(o) && p.Bounded == o.Bounded && math.Float64bits(p.Value) == math.Float64bits(o.Value)
}

// SameSize reports whether states of both thresholds have the same length, so that Adopt can convert them.
func (p *Params) SameSize(o *Params) bool { return p.History == o.History && p.extra() == o.extra() }

// Adopt converts a state of another threshold of the same size to one of p: it
// keeps the scores and recomputes what depends on the threshold; the mean is then that of the
// history.
func (p *Params) Adopt(state []float32) {
	clear(state[atMean:head])
	for i, v := range state[head:][:min(Count(state), p.History)] {
		p.addMean(state, i, v)
	}
}
