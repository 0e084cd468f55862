package vec

import "math"

// Embed appends one point for each run of m successive rows of dim numbers: the rows one
// after the other. With znorm the m numbers of each dimension are brought to mean 0 and
// standard deviation 1, equal ones to 0, and rounded to their type; definitions take
// these points too.
func Embed[F float32 | float64](dst, rows []F, dim, m int, znorm bool) []F {
	for at := 0; at+m*dim <= len(rows); at += dim {
		dst = append(dst, rows[at:at+m*dim]...)
		if znorm {
			Normalise(dst[len(dst)-m*dim:], dim)
		}
	}
	return dst
}

// Normalise brings the numbers of each dimension of a run of rows to mean 0 and standard
// deviation 1, equal ones to 0.
func Normalise[F float32 | float64](rows []F, dim int) {
	for c := range dim {
		mean, sd := Moments(rows, c, dim)
		for i := c; i < len(rows); i += dim {
			if sd == 0 {
				rows[i] = 0
			} else {
				rows[i] = F((float64(rows[i]) - mean) / sd)
			}
		}
	}
}

// Moments returns the mean and the standard deviation (of the population) of dimension c of
// a run of rows. The deviation is 0 exactly where the numbers are all equal.
func Moments[F float32 | float64](rows []F, c, dim int) (mean, sd float64) {
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
