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
// farther from one of them than from the rows just before it, with hardly any value of the window in between. Noise, waves,
// trends, walks and single spikes are not. wide says which rows: the last fresh ones or all; and whether a
// change counts that is just entering or leaving the window, as does a spike there. Devices make the same comparisons for
// WideSet (cuda/kernels/solvingset_level.h).
func ChangesLevel(wide Wide, x, y []uint64, dim, fresh int, centers []float64) bool {
	rows := (len(x) + len(y)) / dim
	var memory span
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
		for c := range dim {
			if rows > levelRows && (spanOf(&memory, x, y, dim, c, rows-1-levelRows).entering() || spanOf(&memory, x, y, dim, c, 0).leaving()) {
				return true
			}
		}
	}
	for c, center := range centers {
		least := -1.0 // of WideSet: not known yet
		k := course{x, y, dim, c, center, levelTimes(rows), 0, 0}
		for row := rows - 1; row >= rows-fresh; row -= levelEvery {
			far := math.Abs(valueOf(x, y, row*dim+c) - center)
			if !(far > max(least, 0) && far <= math.MaxFloat64 && k.changes(row, far)) {
				continue
			}
			if wide == WideSet && least < 0 {
				least = usual(x, y, dim, c, center) / 2
			}
			if far > least {
				return true
			}
		}
	}
	return false
}

// course is a column of a window, with its center. least and most are the smallest and the largest distance from the center of
// the values in between that isContinuous has found last; it found too many of them, if any.
type course struct {
	x, y        []uint64
	dim, c      int
	center      float64
	times       float64
	least, most float64
}

// changes reports whether a row, far from the center, is much farther from it than from the rows just before it, with hardly any
// value of the window in between.
func (c *course) changes(row int, far float64) bool {
	if c.least > far/4 && c.most < far*3/4 {
		return false
	}
	var memory span
	from := max(0, row-levelRows)
	return spanOf(&memory, c.x, c.y, c.dim, c.c, from).leads(row-from, c.x, c.y, c.dim, c.c, row, far, c.times) && !c.isContinuous(far)
}

// levelTimes returns how many deviations from the center are far in a window of so many rows.
func levelTimes(rows int) float64 {
	if rows >= levelRest {
		return levelFar
	}
	return levelFar * (levelRest / float64(rows))
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

// A span is consecutive rows of a column: one, and those before or behind it that show its deviation.
type span [levelRows + 1]uint64

// spanOf returns the span from a row on, in memory where its rows are not next to each other; rows that are not there are missing.
func spanOf(memory *span, x, y []uint64, dim, c, from int) *span {
	if dim == 1 {
		if from+levelRows < len(x) {
			return (*span)(x[from:])
		}
		if at := from - len(x); at >= 0 && at+levelRows < len(y) {
			return (*span)(y[at:])
		}
	}
	for i := range memory {
		memory[i] = math.Float64bits(math.NaN())
		if from+i < (len(x)+len(y))/dim {
			memory[i] = math.Float64bits(valueOf(x, y, (from+i)*dim+c))
		}
	}
	return memory
}

// at returns a value of the span.
func (s *span) at(i int) float64 { return math.Float64frombits(s[i]) }

// levelled reports whether two rows of a span are so far from each other that one at a place is not at another level than they.
func (s *span) levelled(at, beside, next int) bool {
	return math.Abs(s.at(at)-s.at(beside)) <= levelAway*math.Abs(s.at(beside)-s.at(next))
}

// entering reports whether the last row of a window, of its last span, is at another level than the others; leaving, whether
// the first one of its first span is.
func (s *span) entering() bool { return !s.levelled(levelRows, 0, 1) && s.leaves(levelRows, 0) }
func (s *span) leaving() bool {
	return !s.levelled(0, levelEdge, levelEdge+1) && s.leaves(0, levelEdge)
}

// leaves reports whether the row at a place is much farther from levelBeside others than these are from each other.
func (s *span) leaves(at, beside int) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for i := beside; i < beside+levelBeside; i++ {
		low, high = min(low, s.at(i)), max(high, s.at(i))
	}
	far := max(s.at(at)-high, low-s.at(at))
	return high > low && far <= math.MaxFloat64 && far > levelAway*(high-low)
}

// near reports whether a row of a span is so near to a value that far is more than so many times its distance from it.
func (s *span) near(at int, v, far, times float64) bool {
	return far > times*math.Abs(s.at(at&levelRows)-v) // levelRows+1 is a power of two
}

// leads reports whether the row at a place of a span leads: its distance far from the center, which is above 0, is more than so
// many times its deviation. The span has the rows just before it, or the window's first rows. The deviation is how far the third nearest
// of them is from the row; where that is equal, the nearest row before that is not. row is its place in the window.
func (s *span) leads(at int, x, y []uint64, dim, c, row int, far, times float64) bool {
	v := s.at(at)
	// Hardly any row of noise leads: five rows without a near one end it, as the two others are no three.
	if !(s.near(at+1, v, far, times) || s.near(at+2, v, far, times) || s.near(at+3, v, far, times) ||
		s.near(at+4, v, far, times) || s.near(at+5, v, far, times)) {
		return false
	}
	near, equal := 0, 0
	for i := range s {
		if s.near(i, v, far, times) {
			near++
		}
		if s.at(i) == v {
			equal++
		}
	}
	if near <= 3 {
		return false
	}
	if equal <= 3 {
		return true
	}
	for i := row - 1; i >= max(0, row-levelBack); i-- {
		if d := math.Abs(valueOf(x, y, i*dim+c) - v); d > 0 && far > times*d {
			return true
		}
	}
	return false
}

// isContinuous reports whether values of the window lie between the center and the distance far from it. The rows are spread
// over the window by the golden ratio, which no period of a series goes along with.
func (c *course) isContinuous(far float64) bool {
	rows, found := (len(c.x)+len(c.y))/c.dim, 0
	c.least, c.most = math.Inf(1), 0
	for i := range sampled {
		if d := math.Abs(valueOf(c.x, c.y, sampleOf(i, rows)*c.dim+c.c) - c.center); d > far/4 && d < far*3/4 {
			c.least, c.most = min(c.least, d), max(c.most, d)
			if found++; found > between {
				return true
			}
		}
	}
	return false
}

// sampleOf returns the i-th row of those that show whether there are values in between.
func sampleOf(i, rows int) int {
	return int((uint64(i+1) * 0x9e3779b97f4a7c15 >> 32) * uint64(rows) >> 32)
}
