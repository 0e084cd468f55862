package vec

import (
	"math"
	"math/bits"
	"slices"
)

// Fit sets dst to the values of the rising line in x that fits y best where most of the pairs lie near one: least squares over
// three fifths of the pairs, those nearest to the line (least trimmed squares, Rousseeuw 1984, by the concentration steps of
// Rousseeuw and Van Driessen 1999). The steps begin with the lines through the first half of the pairs, through the second and
// through all; the best result counts, the first of equal ones. A few values far off, wherever they are, and a level that the
// last third of y does not share with the rest, change nothing. The line is level
// where y does not rise with x. Pairs with a NaN do not count. The first known pairs are known to be on the line: where they are at
// least a third of all, they alone count. The three have equal lengths.
func Fit(dst, y, x []float64, known int) {
	pairs := make([]int, 0, len(y))
	for i := range y {
		if i == known && 3*len(pairs) >= len(y) {
			break
		}
		if y[i] == y[i] && x[i] == x[i] {
			pairs = append(pairs, i)
		}
	}
	half := (len(pairs) + 1) / 2
	level, slope, least := math.NaN(), 0.0, math.Inf(1)
	c := concentration{y: y, x: x, pairs: pairs, apart: make([]uint64, len(pairs)), reordered: make([]uint64, len(pairs))}
	for _, initial := range [][]int{pairs[:half], pairs[len(pairs)-half:], pairs} {
		if l, s, sum := c.from(initial); sum < least {
			level, slope, least = l, s, sum
		}
	}
	for i := range dst {
		dst[i] = level + slope*x[i]
	}
}

// concentration finds three fifths of the pairs that lie near one line.
type concentration struct {
	y, x          []float64
	pairs         []int
	apart         []uint64 // distances of the pairs from the line, as orderOf has them
	reordered     []uint64 // the same, for selected
	kept, nearest []int
}

// from returns the line that the concentration steps lead to from the line through the pairs of initial, and the sum of the squared
// distances of those that it keeps.
func (c *concentration) from(initial []int) (level, slope, sum float64) {
	const most = 16 // steps; more change little
	level, slope = line(c.y, c.x, initial)
	c.kept = c.kept[:0]
	for range most {
		for k, i := range c.pairs {
			c.apart[k] = orderOf(math.Abs(c.y[i] - (level + slope*c.x[i])))
		}
		c.choose()
		if slices.Equal(c.nearest, c.kept) {
			break
		}
		level, slope = line(c.y, c.x, c.nearest)
		c.kept, c.nearest = c.nearest, c.kept
	}
	for _, i := range c.kept {
		e := c.y[i] - (level + slope*c.x[i])
		sum += float64(e * e)
	}
	return level, slope, sum
}

// choose sets nearest to three fifths of the pairs, those with the least distances, of equal ones the first, in their order.
func (c *concentration) choose() {
	c.nearest = c.nearest[:0]
	keep := (3*len(c.pairs) + 4) / 5
	if keep == 0 {
		return
	}
	copy(c.reordered, c.apart)
	limit := selected(c.reordered, keep-1)
	equal := keep // of the distances that are kept, those that are the limit
	for _, a := range c.apart {
		if a < limit {
			equal--
		}
	}
	for k, a := range c.apart {
		if a == limit {
			equal--
		}
		if a < limit || a == limit && equal >= 0 {
			c.nearest = append(c.nearest, c.pairs[k])
		}
	}
}

// orderOf returns a word for a number that is not negative, ordered as cmp.Compare orders the numbers: NaN is the least.
func orderOf(v float64) uint64 {
	if v != v {
		return 0
	}
	return math.Float64bits(v) + 1
}

// selected returns what the k-th word would be if they were sorted, and reorders them.
func selected(a []uint64, k int) uint64 {
	for turns := 2 * bits.Len(uint(len(a))); len(a) > 12 && turns > 0; turns-- {
		first, mid, last := a[0], a[len(a)/2], a[len(a)-1]
		pivot := max(min(first, mid), min(max(first, mid), last))
		i, j := 0, len(a)-1
		for i <= j {
			for a[i] < pivot {
				i++
			}
			for a[j] > pivot {
				j--
			}
			if i <= j {
				a[i], a[j] = a[j], a[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			a = a[:j+1]
		case k >= i:
			a, k = a[i:], k-i
		default:
			return pivot
		}
	}
	slices.Sort(a)
	return a[k]
}

// line returns the least-squares line through some pairs; a level one where it would fall.
func line(y, x []float64, pairs []int) (level, slope float64) {
	if len(pairs) == 0 {
		return math.NaN(), 0
	}
	n := float64(len(pairs))
	meanX, meanY := 0.0, 0.0
	for _, i := range pairs {
		meanX += x[i] / n
		meanY += y[i] / n
	}
	square, product := 0.0, 0.0
	for _, i := range pairs {
		square += float64((x[i] - meanX) * (x[i] - meanX))
		product += float64((x[i] - meanX) * (y[i] - meanY))
	}
	if square > 0 && product > 0 {
		slope = product / square
	}
	return meanY - slope*meanX, slope
}
