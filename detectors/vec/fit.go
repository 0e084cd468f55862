package vec

import (
	"cmp"
	"math"
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
	for _, initial := range [][]int{pairs[:half], pairs[len(pairs)-half:], pairs} {
		if l, s, sum := concentrate(y, x, pairs, initial); sum < least {
			level, slope, least = l, s, sum
		}
	}
	for i := range dst {
		dst[i] = level + slope*x[i]
	}
}

// concentrate returns the line through three fifths of the pairs that the concentration steps lead to from the line through those of
// initial, and the sum of their squared distances from it.
func concentrate(y, x []float64, pairs, initial []int) (level, slope, sum float64) {
	const most = 16 // steps; more change little
	keep := (3*len(pairs) + 4) / 5
	apart := make([]float64, len(y))
	level, slope = line(y, x, initial)
	var kept []int
	for range most {
		for _, i := range pairs {
			apart[i] = math.Abs(y[i] - (level + slope*x[i]))
		}
		nearest := slices.Clone(pairs)
		slices.SortStableFunc(nearest, func(a, b int) int { return cmp.Compare(apart[a], apart[b]) })
		nearest = nearest[:keep]
		slices.Sort(nearest)
		if slices.Equal(nearest, kept) {
			break
		}
		level, slope = line(y, x, nearest)
		kept = nearest
	}
	for _, i := range kept {
		e := y[i] - (level + slope*x[i])
		sum += float64(e * e)
	}
	return level, slope, sum
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
