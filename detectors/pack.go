package detectors

import (
	"math"

	"odradek/detectors/vec"
)

// Float32 rows are centred, column by column, on the median of the task's first,
// middle and last row: a value of these rows and of nothing before, so that
// float32 has its digits where this task's values are, whatever the series was
// like earlier. A mean would go off with a single spike, and costs a pass.

func median(a, b, c float64) float64 {
	if a > b {
		a, b = b, a
	}
	if c < a {
		return a
	}
	if c > b {
		return b
	}
	return c
}

// Center is the center of a column of rows x and then y, the median of the first, the
// middle and the last value. Where one of the three is
// missing it is the first of them that is there, and where all are, the first value
// of the column.
func Center(x, y []uint64, dim, c int) float64 {
	n := (len(x) + len(y)) / dim
	first, middle, last := valueOf(x, y, c), valueOf(x, y, n/2*dim+c), valueOf(x, y, (n-1)*dim+c)
	if first == first && middle == middle && last == last {
		return median(first, middle, last)
	}
	for _, v := range [...]float64{first, middle, last} {
		if v == v {
			return v
		}
	}
	for i := c; i < n*dim; i += dim {
		if v := valueOf(x, y, i); v == v {
			return v
		}
	}
	return 0
}

// valueOf is the i-th number of x and then y.
func valueOf(x, y []uint64, i int) float64 {
	if i < len(x) {
		return math.Float64frombits(x[i])
	}
	return math.Float64frombits(y[i-len(x)])
}

// Pack packs rows x, at least one, and then y of dim values, floats by their bits,
// centred.
func Pack(dst []float32, x, y []uint64, dim int) {
	if dim == 1 {
		pack1(dst, x, y)
	} else {
		packN(dst, x, y, dim)
	}
}

// pack1 packs rows of one value, x and then y.
func pack1(dst []float32, x, y []uint64) {
	n := len(x) + len(y)
	middle, last := n/2, y
	if len(y) == 0 {
		last = x
	}
	var mid uint64
	if middle < len(x) {
		mid = x[middle]
	} else {
		mid = y[middle-len(x)]
	}
	center := median(math.Float64frombits(x[0]), math.Float64frombits(mid), math.Float64frombits(last[len(last)-1]))
	dst = dst[:n]
	vec.Narrow(dst[:len(x)], x, center)
	vec.Narrow(dst[len(x):], y, center)
}

// packN packs rows of dim values.
func packN(dst []float32, x, y []uint64, dim int) {
	for c := range dim {
		center := Center(x, y, dim, c)
		for i := c; i < len(x); i += dim {
			dst[i] = float32(math.Float64frombits(x[i]) - center)
		}
		for i := c; i < len(y); i += dim {
			dst[len(x)+i] = float32(math.Float64frombits(y[i]) - center)
		}
	}
}

// Count is the value of a counter, the nearest whole number.
func Count(v float64) int64 {
	const most = 1 << 62
	switch v = math.RoundToEven(v); {
	case v >= most:
		return most
	case v <= -most:
		return -most
	}
	return int64(v)
}
