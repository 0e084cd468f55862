package schemas

import (
	"math"
	"time"
)

// Times are microseconds since 1970. noTime marks one that was not found.
const (
	noTime  = math.MinInt64
	minTime = -62135596800 * 1_000_000 // 0001-01-01T00:00:00Z
	maxTime = 253370764800*1_000_000 - 1
)

// clock is a unit of time stamps: value * multiply / divide is microseconds.
type clock struct {
	multiply, divide int64
	low, high        int64 // values within the accepted years
}

func newClock(multiply int64) clock {
	return clock{multiply: multiply, divide: 1, low: minTime / multiply, high: maxTime / multiply}
}

var (
	clockDays    = newClock(86400 * 1_000_000)
	clockSeconds = newClock(1_000_000)
	clockMillis  = newClock(1000)
	clockMicros  = newClock(1)
	clockNanos   = clock{1, 1000, math.MinInt64, math.MaxInt64} // the years 1677 to 2262
)

// clockIn is the clock of a mapping's time unit.
func clockIn(unit string) clock {
	switch unit {
	case "s":
		return clockSeconds
	case "us":
		return clockMicros
	case "ns":
		return clockNanos
	}
	return clockMillis
}

// micros converts a time stamp; ok is false outside the accepted years.
func (c *clock) micros(v int64) (t int64, ok bool) {
	if v < c.low || v > c.high {
		return noTime, false
	}
	v *= c.multiply
	if c.divide > 1 {
		q := v / c.divide
		if v%c.divide < 0 {
			q--
		}
		return q, true
	}
	return v, true
}

// microsOf converts a time stamp with a fraction, to the nearest microsecond.
func (c *clock) microsOf(f float64) (t int64, ok bool) {
	f = math.Round(f * float64(c.multiply) / float64(c.divide))
	if !(f >= minTime && f <= maxTime) { // NaN as well
		return noTime, false
	}
	return int64(f), true
}

// microsText converts RFC 3339.
func microsText(b []byte) (t int64, wrong fault) {
	var v time.Time
	if len(b) > 64 || v.UnmarshalText(b) != nil {
		return noTime, faultTimeText
	}
	t = v.UnixMicro() // rounds down; years 0 to 9999 are far from its limits
	if t < minTime || t > maxTime {
		return noTime, faultTimeRange
	}
	return t, faultNone
}
