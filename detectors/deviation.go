package detectors

import (
	"math"

	"odradek/detectors/vec"
)

// Deviation is Explainer.Explain of a score about a run of rows, the last of which has the given number: from the run that was
// expected, and from the sums of the squared differences of each value from so many neighbours that make the score. Both are
// row by row, as X is.
func Deviation(last, since, neighbours int, run, squares, expected, contribution []float64) (Location, bool) {
	dim := len(expected)
	if !shares(squares, contribution) {
		return Location{}, false
	}
	p := LocationOf(last+1-len(run)/dim, since, column(squares, dim, Largest(contribution)))
	p.Spread /= math.Sqrt(float64(max(1, neighbours)))
	copy(expected, run[len(run)-(last-p.Row+1)*dim:][:dim])
	return p, true
}

// DeviationOfShape is Deviation where shapes were compared: shape, which was expected, is of mean 0 and deviation 1. It is
// brought to the level and the scale that most of the rows have (vec.Fit): all rows together would have the fault's where
// one reading is far off. since is as in Explainer.Explain.
func DeviationOfShape(last, since int, rows, shape, squares, expected, contribution []float64) (Location, bool) {
	dim := len(expected)
	if !shares(squares, contribution) {
		return Location{}, false
	}
	n := len(rows) / dim
	run, off := make([]float64, len(rows)), make([]float64, n)
	for c := range dim {
		x := column(rows, dim, c)
		fitted := make([]float64, n)
		vec.Fit(fitted, x, column(shape, dim, c), since-(last+1-n))
		for i, v := range fitted {
			run[i*dim+c] = v
			if c == Largest(contribution) {
				off[i] = (x[i] - v) * (x[i] - v)
			}
		}
	}
	p := LocationOf(last+1-n, since, off)
	copy(expected, run[len(run)-(last-p.Row+1)*dim:][:dim])
	return p, true
}

// shares sets contribution to the shares of the values of a row in the sum of squares; false: it is 0 or not known.
func shares(squares, contribution []float64) bool {
	total := 0.0
	clear(contribution)
	for i, v := range squares {
		contribution[i%len(contribution)] += v
		total += v
	}
	if !(total > 0) || math.IsInf(total, 1) {
		return false
	}
	for c := range contribution {
		contribution[c] /= total
	}
	return true
}

// column returns the values of a column.
func column(x []float64, dim, c int) []float64 {
	values := make([]float64, 0, len(x)/dim)
	for i := c; i < len(x); i += dim {
		values = append(values, x[i])
	}
	return values
}
