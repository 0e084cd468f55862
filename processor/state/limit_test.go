package state

import (
	"math"
	"testing"
)

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		jump, time, top int64
		want            bool
	}{
		{0, math.MaxInt64, 5, false},
		{0, 5, noTime, false},
		{10, 5, noTime, true}, // the first sample of a partition
		{10, 15, 5, false},
		{10, 16, 5, true},
		{10, math.MinInt64 + 1, 5, false}, // in the past
		{10, math.MaxInt64, math.MinInt64 + 1, true},
	} {
		var l limit
		if l.set(c.jump); l.Judging() != (c.jump > 0) || l.Beyond(c.time, c.top) != c.want {
			t.Errorf("%d past %d is a suspect with a largest jump of %d: %v", c.time, c.top, c.jump, !c.want)
		}
	}
}
