package threshold

import (
	"math"
	"slices"
)

// What a caller needs that keeps many states, can take judgements back and stores
// states: a state changes in few numbers, and its sorted half follows from the rest.

// Saved is the number of numbers that Save appends.
const Saved = head + 1

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
	copy(state, saved[:head])
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

// Restore makes the rest of a state whose front is there. With another, the front is
// of a rule of another kind or value: its scores are kept, and what follows from the
// rule is made anew; the mean is then that of the history. False: it is the front of
// no state; Judge might panic.
func (r *Rule) Restore(state []float32, another bool) bool {
	whole := func(v float32) bool { return v >= 0 && v < digit && v == float32(int(v)) }
	if r.Kind == Off || len(state) != r.Size() || !whole(state[atCount]) || !whole(state[atCountHigh]) {
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
	if another {
		clear(state[atMean:head])
		for i, v := range ring[:n] {
			r.addMean(state, i, v)
		}
	}
	return true
}
