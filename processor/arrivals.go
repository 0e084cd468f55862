package processor

import (
	"math"
	"time"
)

// arrivals remembers when offsets arrived, about once a second, to turn the
// replay limit (a time) into an offset.
type arrivals struct {
	at []arrival
}

type arrival struct {
	offset int64
	t      time.Time
}

func (a *arrivals) add(offset int64, t time.Time) {
	if n := len(a.at); n > 0 && t.Sub(a.at[n-1].t) < time.Second {
		return
	}
	a.at = append(a.at, arrival{offset, t})
}

// before is the newest remembered offset that arrived before t, or the lowest
// offset if none did.
func (a *arrivals) before(t time.Time) int64 {
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
