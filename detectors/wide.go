package detectors

import (
	"math"
	"slices"
)

// Float32 rows have the digits of their distance to the center. After a change of level the center is still
// a row of the level before, up to half a window later, and differences at the new level lose what float32
// rounds at the old one: a step of 10,000 deviations leaves three digits of them. No other center helps where
// scores need differences at both levels. So a task of an op with [Spec.Wide] whose window shows such a
// change has rows of float64 (Task.Wide), not centred, which the CPU scores. Whether it does follows from the
// rows of the task alone.

// Limits of a change of level.
const (
	levelRows   = 7               // rows before one that show the deviation at its level
	levelBack   = 64              // rows before, where these do not differ
	levelFar    = 16              // deviations from the center: below, float32 has about the digits that it has of a single level;
	levelRest   = 4096 / levelFar // in a window of fewer rows more, as the points there are farther from each other
	levelEvery  = 4               // of the rows that are looked at, at most one of so many: a level has more
	sampled     = 128             // rows that show whether there are values in between
	between     = 3               // of them, so many may have some, on a way from one level to the other
	levelEdge   = 3               // rows at an end of the window that have no third one at their level
	levelBeside = 5               // rows beside these that show the deviation
	levelAway   = 64              // times the span of these: a spike of fewer takes few digits from the rest of the window
)

// InWide is set in the offset of an X of float64 of an op of float32; the rest of the offset counts pairs of words.
const InWide = 1 << 30

// Wide reports whether a task of an op of float32 has rows of float64.
func (t *Task) Wide() bool { return t.X.Off>>30 == 1 && t.Op.Elem() == F32 }

// PackWide appends rows x and then y, floats by their bits, to the batch as the rows of a task of an op of float32.
func (b *Batch) PackWide(t *Task, x, y []uint64) []float64 {
	span, dst := b.GrowF64(len(x) + len(y))
	PackF64(dst, x, y)
	t.X = Span{InWide | span.Off, span.Len}
	return dst
}

// Near returns the task with rows of float32. It is r itself where r has such rows; else they are centred on a fresh row, so
// that what is near that row keeps its digits, and origin is that row.
func (r *Rows) Near(fresh int) (near Rows, origin []float64) {
	if r.X != nil || r.X64 == nil {
		return *r, nil
	}
	near = *r
	row := r.Row(fresh)
	origin = r.X64[row*r.Dim:][:r.Dim]
	near.X, near.X64 = make([]float32, len(r.X64)), nil
	for i, v := range r.X64 {
		near.X[i] = float32(v - origin[i%r.Dim])
	}
	return near, origin
}

// ChangesLevel reports whether a row of x and then y, floats by their bits, is at another level than the centers: much
// farther from one of them than from the rows just before it, with hardly any value of the window on the way. Noise, waves,
// trends, walks and single spikes are not. wide says which rows: the last fresh ones or all; and whether a
// change counts that is just entering or leaving the window, as does a spike there.
func ChangesLevel(wide Wide, x, y []uint64, dim, fresh int, centers []float64) bool {
	rows := (len(x) + len(y)) / dim
	times := levelFar * max(1, levelRest/float64(rows))
	switch wide {
	case NotWide:
		return false
	case AlwaysWide:
		return true
	case WideFresh:
	case WideAll:
		fresh = rows
	case WideCourse, WideSet:
		fresh = rows
		if rows < levelEdge+levelBeside {
			break
		}
		for c := range dim {
			if leaves(x, y, dim, c, rows-1, rows-levelEdge-levelBeside) || leaves(x, y, dim, c, 0, levelEdge) {
				return true
			}
		}
	}
	for c, center := range centers {
		least := 0.0
		if wide == WideSet {
			least = usual(x, y, dim, c, center) / 2
		}
		for row := rows - 1; row >= rows-fresh; row -= levelEvery {
			far := math.Abs(valueOf(x, y, row*dim+c) - center)
			if far > least && far <= math.MaxFloat64 && far > times*deviation(x, y, dim, c, row) && !isContinuous(x, y, dim, c, center, far) {
				return true
			}
		}
	}
	return false
}

// usual returns the median distance of a column's values from the center.
func usual(x, y []uint64, dim, c int, center float64) float64 {
	var far []float64
	for i := c; i < len(x)+len(y); i += dim {
		if d := math.Abs(valueOf(x, y, i) - center); d <= math.MaxFloat64 {
			far = append(far, d)
		}
	}
	if len(far) == 0 {
		return 0
	}
	slices.Sort(far)
	return far[len(far)/2]
}

// leaves reports whether a row is much farther from rows than these, levelBeside of them from row from on, are from each other.
func leaves(x, y []uint64, dim, c, row, from int) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for i := from; i < from+levelBeside; i++ {
		v := valueOf(x, y, i*dim+c)
		low, high = min(low, v), max(high, v)
	}
	v := valueOf(x, y, row*dim+c)
	far := max(v-high, low-v)
	return high > low && far <= math.MaxFloat64 && far > levelAway*(high-low)
}

// deviation returns how far the third nearest of the rows just before one, or of the window's first rows, is from it; where that
// is equal, the nearest that is not. It is infinite where there is none.
func deviation(x, y []uint64, dim, c, row int) float64 {
	v := valueOf(x, y, row*dim+c)
	first, second, third := math.Inf(1), math.Inf(1), math.Inf(1)
	from := max(0, row-levelRows)
	for i := from; i < min(from+levelRows+1, (len(x)+len(y))/dim); i++ {
		if i == row {
			continue
		}
		switch d := math.Abs(valueOf(x, y, i*dim+c) - v); {
		case d < first:
			first, second, third = d, first, second
		case d < second:
			second, third = d, second
		case d < third:
			third = d
		}
	}
	if third > 0 {
		return third
	}
	least := math.Inf(1)
	for i := row - 1; i >= max(0, row-levelBack); i-- {
		if d := math.Abs(valueOf(x, y, i*dim+c) - v); d > 0 {
			least = min(least, d)
		}
	}
	return least
}

// isContinuous reports whether values of the window lie between the center and the distance far from it. The rows are spread
// over the window by the golden ratio, which no period of a series goes along with.
func isContinuous(x, y []uint64, dim, c int, center, far float64) bool {
	rows, found := uint64((len(x)+len(y))/dim), 0
	for i := range uint64(sampled) {
		row := ((i + 1) * 0x9e3779b97f4a7c15 >> 32) * rows >> 32
		if d := math.Abs(valueOf(x, y, int(row)*dim+c) - center); d > far/4 && d < far*3/4 {
			if found++; found > between {
				return true
			}
		}
	}
	return false
}
