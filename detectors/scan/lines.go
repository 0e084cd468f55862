package scan

import (
	"math"

	"odradek/detectors/vec"
)

// lines are a filter: a rectangle of the ratio level or more, on their side of what is expected, lies above one of them: its count
// c, or for the side below -c, is more than offset + slope*b. The ratio is convex in c and b together, so the rectangles below
// the level are a convex set of (b, c), and a chord of its border lies within it: what is beyond
// the border lies above the chord of its b. (Agarwal et al., Spatial scan statistics:
// approximations and performance study, KDD 2006, approximate the ratio by linear functions
// from outside.)
//
// margin allows for the roundings of ratios, and offsets are lowered by more than the rounding of sums
// of cells in float64, so that no such rectangle is missed.
type lines struct {
	side          side
	level         float64
	slope, offset [vec.RunLines]float64
}

// margin is the part of a level by which the lines stay below it: a ratio's own roundings are
// about 1e-14 of it.
const margin = 1e-9

// newLines returns the filter of a side for a level.
func (s *scanner) newLines(side side, level float64) *lines {
	l := &lines{side: side, level: level}
	level *= 1 - margin
	least, most := s.least, s.most
	// The logarithm of the odds goes up by equal steps, as the deviation at which a ratio
	// is reached is about the root of b(B-b); the last line, up to the largest baseline, may
	// be longer.
	all := float64(s.total.Baseline)
	odds := func(b float64) float64 { return math.Log(b / (all - b)) }
	upper := min(most, all-least)
	from, to := odds(least), odds(upper)
	node := func(k int) float64 {
		switch k {
		case 0:
			return least
		case vec.RunLines:
			return most
		case vec.RunLines - 1:
			return max(least, upper)
		}
		x := math.Exp(from + (to-from)*float64(k)/(vec.RunLines-1))
		return min(max(all*(x/(1+x)), least), most)
	}
	border := func(b float64) float64 {
		return float64(side)*s.total.expected(b) + reach(s.f, s.total, side, level, b)
	}
	b := least
	c := border(b)
	for k := range l.slope {
		nextB := node(k + 1)
		if !(nextB > b) {
			l.offset[k] = math.Inf(1) // no baseline between the two
			continue
		}
		nextC := border(nextB)
		l.set(k, (nextC-c)/(nextB-b), b, c, s)
		b, c = nextB, nextC
	}
	if least == most {
		l.set(0, 0, b, c, s)
	}
	return l
}

// set puts line k through the point (b, c), lowered by more than the rounding of the sums of a strip's
// cells.
func (l *lines) set(k int, slope, b, c float64, s *scanner) {
	offset := c - slope*b
	off := 8 * float64(s.grid.Cols+8) * 0x1p-53 * (s.magnitude + math.Abs(slope)*float64(s.total.Baseline) + math.Abs(offset))
	l.slope[k], l.offset[k] = slope, offset-off
}

// reach returns an excess d, to one side, with which a rectangle of baseline b does not exceed the level: about
// the largest such excess.
func reach(f Family, total Sums, side side, level, b float64) float64 {
	if b >= float64(total.Baseline) { // the count is the total
		return 0
	}
	least, most := f.Counts(b, total)
	if side == below {
		most = total.expected(b) - least
	} else {
		most -= total.expected(b)
	}
	if !(most > 0 && level > 0) {
		return 0
	}
	if !math.IsInf(most, 1) && f.Ratio(float64(side)*most, b, total) <= level {
		return most
	}
	const near = 1e-3 // of the level
	low, high := 0.0, most
	d := min(most/1024, math.MaxInt32)
	for i := range 24 {
		v := f.Ratio(float64(side)*d, b, total)
		if v > level {
			high = d
		} else if low = d; v >= level*(1-near) {
			break
		}
		next := d * math.Sqrt(level*(1-near/2)/v) // a ratio is about a multiple of d^2
		switch {
		case next > low && next < high && i%3 != 2: // other than close to the largest count
			d = next
		case math.IsInf(high, 1):
			d *= 2
		default:
			d = (low + high) / 2
		}
	}
	return low
}
