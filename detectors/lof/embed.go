package lof

import "math"

// Embed appends one point for each run of m successive rows of dim numbers: the rows one
// after the other. With znorm the m numbers of each dimension are brought to mean 0 and
// standard deviation 1, equal ones to 0, and rounded to float32; the definition takes
// these points too.
func Embed(dst, rows []float32, dim, m int, znorm bool) []float32 {
	for at := 0; at+m*dim <= len(rows); at += dim {
		dst = append(dst, rows[at:at+m*dim]...)
		if znorm {
			point := dst[len(dst)-m*dim:]
			for c := range dim {
				normalise(point, c, dim)
			}
		}
	}
	return dst
}

func normalise(point []float32, c, dim int) {
	mean, sd := Moments(point, c, dim)
	for i := c; i < len(point); i += dim {
		if sd == 0 {
			point[i] = 0
		} else {
			point[i] = float32((float64(point[i]) - mean) / sd)
		}
	}
}

// Moments returns the mean and the standard deviation (of the population) of dimension c of
// a run of rows. The deviation is 0 exactly where the numbers are all equal.
func Moments(rows []float32, c, dim int) (mean, sd float64) {
	n, equal := float64(len(rows)/dim), true
	for i := c; i < len(rows); i += dim {
		mean += float64(rows[i]) / n
		equal = equal && rows[i] == rows[c]
	}
	if equal {
		return float64(rows[c]), 0
	}
	for i := c; i < len(rows); i += dim {
		d := float64(rows[i]) - mean
		sd += float64(d * d)
	}
	return mean, math.Sqrt(sd / n)
}
