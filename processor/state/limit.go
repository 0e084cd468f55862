package state

import (
	"math"
)

// limit is the largest jump in force.
type limit struct {
	most  int64  // microseconds; 0: any
	reach uint64 // most; without a limit, the largest number
}

// set sets the largest jump that samples are judged by.
func (l *limit) set(jump int64) {
	l.most, l.reach = jump, math.MaxUint64
	if jump > 0 {
		l.reach = uint64(jump)
	}
}

// Judging reports whether samples can be suspects at all.
func (l *limit) Judging() bool { return l.most > 0 }

// Far reports whether a time is further past an earlier one than the largest jump.
func (l *limit) Far(time, top int64) bool { return uint64(time)-uint64(top) > l.reach }

// Beyond reports whether a sample of that time is a suspect where top is the
// largest one.
func (l *limit) Beyond(time, top int64) bool {
	switch {
	case l.most == 0:
		return false
	case top == noTime:
		return true
	}
	return time > top && l.Far(time, top)
}
