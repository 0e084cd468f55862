package state

import (
	"math"
	"testing"
)

func TestBefore(t *testing.T) {
	for _, c := range []struct{ time, us, want int64 }{
		{5, 0, 5},
		{5, 7, -2},
		{noTime + 5, 4, noTime + 1},
		{noTime + 5, 5, noTime + 1},
		{noTime + 5, math.MaxInt64, noTime + 1},
		{math.MaxInt64, math.MaxInt64, 0},
	} {
		if got := timeBefore(c.time, c.us); got != c.want {
			t.Errorf("%d before %d is %d, want %d", c.us, c.time, got, c.want)
		}
	}
}
