package threshold

import "fmt"

// A rule with a Span has a history of scores that lie apart in event time, so that it covers the span
// with no more than History scores however many a series has a day: a cycle of the data, a day or a week,
// is then in it several times. Event time is divided into slots of Span/History. While there are fewer than
// History scores, each is added, as of any rule; from then on the first of each slot is, and takes
// the place of the oldest. So once it is full the history covers the span after as long as the
// span lasts, and of a series with fewer scores than slots more than that. Which score is the first of a
// slot has nothing to do with its height: the history is a fair sample of the scores.

// maxSpan is the longest span, in microseconds.
const maxSpan = 3660 * 86400e6

// extra returns the number of those numbers of a state that only a rule with a Span has, between the ring and
// the sorted scores: the slot of the last score that was added, modulo digit.
func (r *Rule) extra() int {
	if r.Span > 0 {
		return 1
	}
	return 0
}

// checkSpan returns an error for a span that is out of its limits.
func (r *Rule) checkSpan() error {
	if r.Span < 0 || r.Span > maxSpan {
		return fmt.Errorf("threshold: a history of %v hours must be of up to 3660 days", float64(r.Span)/3600e6)
	}
	return nil
}

// turn reports whether a score at a time is the first of a slot, and notes its slot.
func (r *Rule) turn(state []float32, count int, time int64) bool {
	width := max(1, r.Span/int64(max(1, r.History)))
	slot := float32((time / width) & (digit - 1))
	at := &state[head+r.History]
	if count >= r.History && *at == slot {
		return false
	}
	*at = slot
	return true
}
