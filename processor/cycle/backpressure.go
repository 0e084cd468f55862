package cycle

import "time"

// backpressureAfter is how long cycles are small and the lag grows before that is called backpressure: a backlog after a
// restart, or a burst, shrinks by then.
const backpressureAfter = time.Minute

// Backpressure finds out that brokers take less than the input brings: the lag grows though cycles are as small as they get.
type Backpressure struct {
	since time.Time // of this interval of small cycles; zero: the last cycle was larger
	lag   int64     // at its begin
	on    bool      // it grew in the interval before
}

// Note takes the lag after a cycle, and reports whether the brokers hold the worker back.
func (b *Backpressure) Note(least bool, lag int64, now time.Time) bool {
	switch {
	case !least:
		*b = Backpressure{}
	case b.since.IsZero():
		b.since, b.lag = now, lag
	case now.Sub(b.since) >= backpressureAfter:
		b.since, b.lag, b.on = now, lag, lag > b.lag
	}
	return b.on
}
