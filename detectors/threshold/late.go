package threshold

import (
	"errors"
	"fmt"
)

// Late admission: the scores of an anomaly wait, and enter the history when it has ended. So the history, and the bounds, stay as they
// were while it lasts, and an anomaly covers a state, not only its beginning.
//
// An anomaly begins with a score above the threshold. It is open from the Open-th consecutive one on. From then on the bound is the
// history's own at a rate of lastingRate, if that is lower. It ends with Close consecutive scores that do not exceed, before it is open
// with the first.
// If no more than mostShort scores came before these, they all enter the history, but for those that Decluster leaves out. Otherwise only
// those at its end do, which do not exceed. After mostWaits scores it ends, and all enter: the state is what is usual now. Of more scores
// than the history has, the last ones enter.

// Late says when an anomaly is open, and when it ends. The zero value has no scores wait.
type Late struct{ Open, Close int }

const (
	lastingRate = 0.02
	mostShort   = 128
	mostWaits   = 1024
)

// atCalm has the number of scores at the end of those that wait that do not exceed. A threshold with Runs has another number in its place.
const atCalm = atLast

// checkLate returns an error for a Late that cannot be.
func (p *Params) checkLate() error {
	l := p.Late
	switch {
	case l == Late{}:
	case l.Open < 1 || l.Open > maxApart || l.Close < 1 || l.Close > maxApart:
		return fmt.Errorf("threshold: late admission opens after %d scores and ends after %d: use 1 to %d", l.Open, l.Close, maxApart)
	case p.Span > 0:
		return errors.New("threshold: late admission needs a history of the last scores, not one over a time: use a number of scores")
	case p.Runs:
		return errors.New("threshold: scores that count samples wait for the end of their run anyway: do not set late admission")
	}
	return nil
}

// late returns the length of the part of a state with the scores that wait.
func (p *Params) late() int {
	if p.Late.Close == 0 {
		return 0
	}
	return mostWaits
}

// waiting returns the memory of the scores that wait.
func (p *Params) waiting(state []float32) []float32 { return state[len(state)-p.late():] }

// Waiting returns the scores of a state that wait: a part of the state that Restore does not compute. nil: none can.
func (p *Params) Waiting(state []float32) []float32 {
	if p.Late.Close == 0 || len(state) == 0 {
		return nil
	}
	return p.waiting(state)[:int(state[atWaiting])]
}

// SetWaiting sets the scores of a restored state that wait. It returns false if they are not the ones of the state.
func (p *Params) SetWaiting(state, scores []float32) bool {
	for _, v := range scores {
		if v-v != 0 {
			return false
		}
	}
	waiting := p.Waiting(state)
	return len(waiting) == len(scores) && copy(waiting, scores) == len(scores)
}

// isOpen reports whether the scores of an anomaly wait that is open.
func (p *Params) isOpen(state []float32) bool {
	return p.Late.Close > 0 && state[atWaiting] >= float32(p.Late.Open)
}

// lasting returns the bound above which an open anomaly stays open; of a history of less than 1/lastingRate scores the highest.
func lasting(s *scores) float32 {
	m := int(lastingRate*float64(s.n+1)) - 1
	return s.at(s.n - 1 - max(0, m))
}

// wait takes a judged score that waits, or ends an anomaly, and reports whether it is one. The judgement is then by the bound of an open
// anomaly.
func (p *Params) wait(state []float32, s *scores, v Judgement, score float32) (_ Judgement, waits bool) {
	isOpen := p.isOpen(state)
	if isOpen && s.n > 0 {
		if low := lasting(s); low < v.Threshold {
			if v.Threshold = low; !v.Exceeds && score > low {
				v.Exceeds, v.Tail = true, p.tail(s, score)
			}
		}
	}
	if n := int(state[atWaiting]); n == 0 && !v.Exceeds {
		return v, false
	}
	waiting := p.waiting(state)
	waiting[int(state[atWaiting])] = score
	state[atWaiting]++
	if state[atCalm]++; v.Exceeds {
		state[atCalm] = 0
	}
	n, calm := int(state[atWaiting]), int(state[atCalm])
	switch {
	case n == mostWaits:
		p.admit(state, waiting)
	case calm < p.calmLeast(isOpen):
	case n-calm <= mostShort:
		p.admit(state, p.thinned(waiting[:n], v.Threshold))
	default:
		p.admit(state, waiting[n-calm:n])
	}
	return v, true
}

// calmLeast returns how many consecutive scores that do not exceed end an anomaly.
func (p *Params) calmLeast(isOpen bool) int {
	if isOpen {
		return p.Late.Close
	}
	return 1
}

// thinned returns, in their place, scores without those above a bound that Decluster leaves out.
func (p *Params) thinned(list []float32, bound float32) []float32 {
	kept, run := list[:0], 0
	for _, score := range list {
		if run++; score <= bound {
			run = 0
		}
		if p.Decluster < 2 || run == 0 || run%p.Decluster == 1 {
			kept = append(kept, score)
		}
	}
	return kept
}

// admit adds the last History of some of the scores of an anomaly that has ended.
func (p *Params) admit(state, list []float32) {
	list = list[max(0, len(list)-p.History):]
	p.addAll(state, len(list), func(i int) float32 { return list[i] })
	clear(p.waiting(state))
	state[atWaiting], state[atCalm] = 0, 0
}

// mayAdmit returns how many scores may enter the history with the next score, if there are any that wait.
func (p *Params) mayAdmit(state []float32) int {
	waiting := p.Waiting(state)
	if len(waiting) == 0 || len(waiting)+1 < mostWaits && int(state[atCalm])+1 < p.calmLeast(p.isOpen(state)) {
		return 0
	}
	return len(waiting) + 1
}

// undoWait undoes what wait has done with the scores that wait.
func (p *Params) undoWait(state, saved []float32) {
	if p.Late.Close == 0 {
		return
	}
	waiting, n := p.waiting(state), int(saved[atWaiting])
	if state[atWaiting] > 0 {
		waiting[n] = 0
	} else {
		copy(waiting, saved[len(saved)-n:])
	}
}
