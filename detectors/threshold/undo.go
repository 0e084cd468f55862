package threshold

import (
	"math"
)

// This file serves callers that keep many states, undo judgements and store states: a
// judgement changes few numbers of a state, and what orders its scores follows from the rest.

// Head is the length of what comes before the scores of a state: all that Adopt
// changes of a state of the same length.
const Head = head

// Save appends to dst what Undo needs to undo the next judgement, of a score that is not NaN: the head, the number after the ring, and
// the scores in the ring that others replace; those that wait where an anomaly may end. state may be nil before the first.
func (p *Params) Save(dst, state []float32, score float32) []float32 {
	if len(state) == 0 {
		return append(dst, make([]float32, head+2)...)
	}
	h, count, n := p.History, Count(state), 1
	if p.Runs {
		n = p.ending(state, score)
	}
	if p.Late.Close > 0 {
		n = max(1, min(h, p.mayAdmit(state)))
	}
	dst = append(append(dst, state[:head]...), state[head+h])
	for i := range n {
		dst = append(dst, state[head+(count+i)%h])
	}
	if p.Late.Close > 0 && n > 1 {
		dst = append(dst, p.Waiting(state)...)
	}
	return dst
}

// Undo undoes the last judgement, before which Save gave saved. Later ones must have been
// undone before.
func (p *Params) Undo(state, saved []float32) {
	h, last := p.History, Count(state)
	p.undoWait(state, saved)
	copy(state, saved[:head])
	n := Count(state)
	added := last - n
	if last < n { // modulo the largest count
		added += digit * digit
	}
	if added == 0 {
		return
	}
	if p.Span > 0 {
		state[head+h] = saved[head]
	}
	ring, replaced := state[head:head+h], saved[head+1:]
	for i := added - 1; i >= 0; i-- {
		at := (n + i) % h
		x, old := ring[at], replaced[i]
		ring[at] = old
		if s := p.scores(state, min(n+i+1, h)); added <= fewScores && n+i >= h {
			s.exchange(x, old)
		} else if added <= fewScores {
			s.remove(x)
		}
	}
	if added > fewScores {
		p.sort(state)
	}
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
	if p.Kind == Off || len(state) != p.Size() || !whole(state[atCount]) || !whole(state[atCountHigh]) || !whole(state[atRun]) ||
		!whole(state[atWaiting]) || p.Late.Close > 0 && !(state[atWaiting] < mostWaits && whole(state[atCalm])) {
		return false
	}
	n := min(Count(state), p.History)
	ring := state[head : head+p.History]
	for i, v := range ring {
		if v-v != 0 || v == 0 && math.Signbit(float64(v)) || i >= n && v != 0 {
			return false
		}
	}
	for _, v := range state[atLast:head] {
		if v-v != 0 {
			return false
		}
	}
	if p.Span > 0 && !whole(state[head+p.History]) {
		return false
	}
	p.sort(state)
	return true
}

// Sound reports whether a stored threshold can judge; Check of this version may refuse it.
func (p *Params) Sound() bool {
	v := p.Value
	return p.Kind > Off && p.Kind <= PerDay && v-v == 0 && p.Margin-p.Margin == 0 && (p.Kind != Conformal || v > 0 && v <= maxRate) &&
		p.History >= minHistory && p.History <= MaxHistory && p.Warmup >= 0 && p.Warmup <= maxWarmup && p.Decluster >= 0 &&
		p.Decluster <= maxApart && p.checkSpan() == nil && !(p.Runs && p.Span > 0) && p.checkLate() == nil
}

// Like reports whether a state of p is also a state of the other threshold.
func (p *Params) Like(o *Params) bool {
	return p.Kind == o.Kind && p.SameSize(o) && p.Bounded == o.Bounded && math.Float64bits(p.Value) == math.Float64bits(o.Value) &&
		p.late() == o.late()
}

// SameSize reports whether the fronts of states of both thresholds have the same length, so that Adopt can convert them.
func (p *Params) SameSize(o *Params) bool { return p.History == o.History && p.extra() == o.extra() }

// Adopt converts a state of another threshold whose front has the same size to one of p: it
// keeps the scores and recomputes what depends on the threshold; the mean is then the mean of the
// history. Scores that wait go on waiting if they do under p, and are forgotten otherwise. It returns another slice, and leaves state as
// it is, where the rest of the state has another form; otherwise it changes the Head of state alone.
func (p *Params) Adopt(from *Params, state []float32) []float32 {
	front := state
	if p.banded() != from.banded() || p.late() != from.late() {
		state = make([]float32, p.Size())
		copy(state, front[:p.Stored()])
		if p.late() != from.late() {
			state[atRun], state[atWaiting], state[atCalm] = 0, 0, 0
		} else {
			copy(p.waiting(state), from.waiting(front))
		}
		p.sort(state)
	}
	clear(state[atMean:head])
	for i, v := range state[head:][:min(Count(state), p.History)] {
		p.addMean(state, i, v)
	}
	return state
}
