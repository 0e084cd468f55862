package cycle

import (
	"math"
	"time"
)

// Arrivals remembers when offsets arrived, about once a second, to turn the
// replay limit (a time) into an offset.
type Arrivals struct {
	at []arrival
}

type arrival struct {
	offset int64
	t      time.Time
}

// Add records that the input up to offset had arrived at t.
func (a *Arrivals) Add(offset int64, t time.Time) {
	if n := len(a.at); n > 0 && t.Sub(a.at[n-1].t) < time.Second {
		return
	}
	a.at = append(a.at, arrival{offset, t})
}

// Before returns the newest remembered offset that arrived before t, or the lowest
// offset if none did.
func (a *Arrivals) Before(t time.Time) int64 {
	i := 0
	for i < len(a.at) && a.at[i].t.Before(t) {
		i++
	}
	if i == 0 {
		return math.MinInt64
	}
	off := a.at[i-1].offset
	a.at = append(a.at[:0], a.at[i-1:]...)
	return off
}
