package threshold

import "fmt"

// A threshold with a Span has a history of scores spread over that event time, so that at most History
// scores cover it regardless of the number of scores a day: several cycles of the data, of a day or a week,
// are then in it. Event time is divided into slots of Span/History. While there are fewer than History
// scores, each is added, as for any threshold; from then on the first of each slot replaces the oldest. So
// after the length of the span a full history covers it, and for a series with fewer scores than slots,
// more than it. The choice of a slot's first score does not depend on its height: the history is a fair
// sample of the scores.

// maxSpan is the longest span, in microseconds.
const maxSpan = 3660 * 86400e6

// extra returns the number of a state's numbers that only a threshold with a Span has, between the ring and
// the sorted scores: the slot of the last score that was added, modulo digit.
func (p *Params) extra() int {
	if p.Span > 0 {
		return 1
	}
	return 0
}

// checkSpan returns an error for a span outside its limits.
func (p *Params) checkSpan() error {
	if p.Span < 0 || p.Span > maxSpan {
		return fmt.Errorf("threshold: a history of %v hours must be of up to 3660 days", float64(p.Span)/3600e6)
	}
	return nil
}

// opensSlot reports whether a score at a time is the first of a slot, and records its slot.
func (p *Params) opensSlot(state []float32, count int, time int64) bool {
	width := max(1, p.Span/int64(max(1, p.History)))
	slot := float32((time / width) & (digit - 1))
	at := &state[head+p.History]
	if count >= p.History && *at == slot {
		return false
	}
	*at = slot
	return true
}
