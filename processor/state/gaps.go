package state

import (
	"math"

	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// This file finds the scores that span a gap: an interval without a sample that is longer than rules.Order.MaxGap allows. A score
// of several successive rows of which some are before a gap and some behind it has no meaning: the row of such a sample has no
// score, as where the window warms up. Rows before a gap stay in the window, and rows behind it are compared with them.
//
// What is a gap follows from the times of the rows that a task could read, so it is no state of its own.

const (
	// usualRows is the most intervals, the newest ones, that say what is usual.
	usualRows = 512
	// leastUsual is the least of them.
	leastUsual = 20
	// gapTimes is how many times longer than usual a gap is.
	gapTimes = 10
)

// longest returns the longest interval between two of times, in order, that is no gap; MaxInt64: none is one. With
// rules.OwnGap it is ten times the 0.99 quantile of the newest intervals, of which at least one may be a gap.
func longest(maxGap int64, a, b []int64) int64 {
	if maxGap != rules.OwnGap {
		return maxGap
	}
	n := len(a) + len(b) - 1
	if n < leastUsual {
		return math.MaxInt64
	}
	var most longestOf
	from := max(0, n-usualRows)
	most.add(max(1, (n-from)/100)+1, a, b, from)
	if q := most.least(); q <= math.MaxInt64/gapTimes {
		return q * gapTimes
	}
	return math.MaxInt64
}

// spans are the fresh rows of tasks whose scores span a gap: how many further rows come until one that spans none, 0 for one that
// spans none itself.
type spans struct {
	maxGap int64   // of the reading in force
	left   []int32 // of the fresh rows of tasks near a gap
}

// mark finds the fresh rows of a steady task whose scores span a gap. It returns where their numbers begin in left, plus 1; 0 if
// there is none.
func (s *spans) mark(w *series.Window, d *series.SetDetector) uint32 {
	if s.maxGap == 0 || d.Reads < 2 {
		return 0
	}
	n := min(w.Rows, d.Fresh+d.Reads-1)
	var few longestOf
	if int(n) > len(few.list) { // else too few intervals to say what is usual
		if least, ok := w.Even(n, gapTimes); ok && (s.maxGap < 0 || gapTimes*least <= s.maxGap) {
			return 0
		}
	}
	a, b := w.Times(n, 0)
	few.add(len(few.list), a, b, 0)
	most, usual := few.list[0], few.least()
	if s.maxGap > 0 && most <= s.maxGap || s.maxGap < 0 && (most-1)/gapTimes < usual {
		return 0 // the quantile is of these intervals, too, and so not below the last of the longest
	}
	x, y := w.Times(min(w.Rows, d.Full, usualRows+1), 0)
	limit := longest(s.maxGap, x, y)
	if most <= limit {
		return 0
	}
	from := len(s.left)
	since, last := int32(math.MaxInt32), a[0] // rows behind the newest gap
	for i := range n {
		t := a
		j := int(i)
		if j >= len(a) {
			t, j = b, j-len(a)
		}
		if since < math.MaxInt32 {
			since++
		}
		if t[j]-last > limit {
			since = 1
		}
		if last = t[j]; i >= n-d.Fresh {
			s.left = append(s.left, max(0, d.Reads-since))
		}
	}
	return uint32(from) + 1
}

// after returns how many rows come after the i-th fresh row of a task until one whose score spans no gap; 0 if its own spans none.
func (s *spans) after(t *pendingTask, i int) int32 {
	if t.spans == 0 {
		return 0
	}
	return s.left[int(t.spans)-1+i]
}

// across reports whether a finding about the rows between two of a task's, whose times these are, spans a gap.
func (s *State) across(d *series.SetDetector, times []int64, from, to int) bool {
	maxGap := s.judge.maxGap
	if maxGap == 0 || d.Grid != nil {
		return false
	}
	limit := int64(-1)
	for i := from + 1; i <= to; i++ {
		if d := times[i] - times[i-1]; d > 0 {
			if limit < 0 {
				limit = longest(maxGap, times[max(0, len(times)-usualRows-1):], nil)
			}
			if d > limit {
				return true
			}
		}
	}
	return false
}

// longestOf are the longest of some intervals, in falling order: as many as say what is usual, at the most.
type longestOf struct {
	list  [usualRows/100 + 2]int64
	count int
}

// add adds the intervals between two of times from a number on, in order, and keeps count of them.
func (l *longestOf) add(count int, a, b []int64, from int) {
	l.count = count
	if from >= len(a) {
		a, b, from = b, nil, from-len(a)
	}
	last := a[from]
	for _, part := range [2][]int64{a[from+1:], b} {
		for _, t := range part {
			d := t - last
			if last = t; d <= l.list[count-1] {
				continue
			}
			j := count - 1
			for ; j > 0 && l.list[j-1] < d; j-- {
				l.list[j] = l.list[j-1]
			}
			l.list[j] = d
		}
	}
}

// least returns the last of those that are kept; 0 if there are fewer.
func (l *longestOf) least() int64 { return l.list[l.count-1] }
