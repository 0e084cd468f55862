package threshold

import (
	"math"
	"slices"
)

// What a caller needs that keeps many states, can take judgements back and stores
// states: a state changes in few numbers, and its sorted half follows from the rest.

// Saved is the number of numbers that Save appends.
const Saved = head + 1

// Layout is the version of a state's front; Upgrade makes one of a version before.
const Layout = 1

// Head is the length of what comes before the scores of a state: all that Adopt
// changes of a state of the same length.
const Head = head

// Save appends to dst what Undo needs to take back the next Judge of a score that is
// not NaN. state may be nil before the first.
func (r *Rule) Save(dst, state []float32) []float32 {
	if len(state) == 0 {
		return append(dst, make([]float32, Saved)...)
	}
	dst = append(dst, state[:head]...)
	return append(dst, state[head+Count(state)%r.History])
}

// Undo takes back the last Judge, before which Save gave saved. Later ones must have
// been taken back before.
func (r *Rule) Undo(state, saved []float32) {
	added := state[atCount] != saved[atCount] || state[atCountHigh] != saved[atCountHigh]
	if copy(state, saved[:head]); !added {
		return
	}
	h, n := r.History, Count(state)
	at := head + n%h
	x, old := state[at], saved[head]
	state[at] = old
	sorted := state[head+h : head+2*h]
	if n >= h {
		insert(sorted, h, h, x, old, lower(sorted, old))
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
	return head + r.History
}

// Restore makes the rest of a state whose front is there. False: it is the front of
// no state; Judge might panic.
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
	sorted := state[head+r.History:]
	clear(sorted[copy(sorted, ring[:n]):])
	slices.Sort(sorted[:n])
	return true
}

// Sound reports whether a rule that was stored can judge: it may be one that Check has
// come to advise against.
func (r *Rule) Sound() bool {
	v := r.Value
	return r.Kind > Off && r.Kind <= Conformal && v-v == 0 && r.Margin-r.Margin == 0 && (r.Kind != Conformal || v > 0 && v <= maxRate) &&
		r.History >= minHistory && r.History <= maxHistory && r.Warmup >= 0 && r.Warmup <= maxWarmup && r.Decluster >= 0 &&
		r.Decluster <= maxApart
}

// Like reports whether a state of r is one of the other rule as it is.
func (r *Rule) Like(o *Rule) bool {
	return r.Kind == o.Kind && r.History == o.History && r.Bounded == o.Bounded && math.Float64bits(r.Value) == math.Float64bits(o.Value)
}

// Adopt makes a state of another rule with as long a history one of r: its scores are
// kept, and what follows from the rule is made anew; the mean is then that of the
// history.
func (r *Rule) Adopt(state []float32) {
	clear(state[atMean:head])
	for i, v := range state[head:][:min(Count(state), r.History)] {
		r.addMean(state, i, v)
	}
}

// Upgrade makes a front of layout 0, which had no run, one of Layout.
func Upgrade(front []float32) []float32 {
	if len(front) < atRun {
		return front
	}
	return slices.Insert(front, atRun, 0)
}
