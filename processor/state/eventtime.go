package state

import "math"

// This file has the arithmetic of event times: microseconds since the epoch, any
// int64 but the smallest, which stands for no time.

// noTime stands for the event time of no sample.
const noTime = math.MinInt64

// timeBefore returns the time that is a number of microseconds before t, not negative, or the
// smallest time if there is none as early.
func timeBefore(t, microseconds int64) int64 {
	if d := t - microseconds; d <= t && d > noTime {
		return d
	}
	return noTime + 1
}
