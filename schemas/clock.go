package schemas

import "math"

// Times are in microseconds since 1970. NoTime marks one that was not found.
const (
	NoTime  = math.MinInt64
	MinTime = -62135596800 * 1_000_000 // 0001-01-01T00:00:00Z
	MaxTime = 253370764800*1_000_000 - 1
)

// Clock is a unit of time stamps: value * multiply / divide is microseconds.
type Clock struct {
	Multiply, Divide int64
	Low, High        int64 // values within the accepted years
}

func newClock(multiply int64) Clock {
	return Clock{Multiply: multiply, Divide: 1, Low: MinTime / multiply, High: MaxTime / multiply}
}

// The units of time stamps.
var (
	ClockDays    = newClock(86400 * 1_000_000)
	ClockSeconds = newClock(1_000_000)
	ClockMillis  = newClock(1000)
	ClockMicros  = newClock(1)
	ClockNanos   = Clock{1, 1000, math.MinInt64, math.MaxInt64} // the years 1677 to 2262
)

// ClockIn returns the clock of a mapping's time unit.
func ClockIn(unit string) Clock {
	switch unit {
	case "s":
		return ClockSeconds
	case "us":
		return ClockMicros
	case "ns":
		return ClockNanos
	}
	return ClockMillis
}

// Micros converts a time stamp; ok is false outside the accepted years.
func (c *Clock) Micros(v int64) (t int64, ok bool) {
	if v < c.Low || v > c.High {
		return NoTime, false
	}
	v *= c.Multiply
	if c.Divide > 1 {
		q := v / c.Divide
		if v%c.Divide < 0 {
			q--
		}
		return q, true
	}
	return v, true
}

// MicrosOf converts a time stamp with a fraction, to the nearest microsecond.
func (c *Clock) MicrosOf(f float64) (t int64, ok bool) {
	f = math.Round(f * float64(c.Multiply) / float64(c.Divide))
	if !(f >= MinTime && f <= MaxTime) { // NaN as well
		return NoTime, false
	}
	return int64(f), true
}
