package detectors

import (
	"math"
	"math/bits"

	"odradek/detectors/vec"
)

// Float32 rows are centred, column by column, on the median of three values of their own window:
// float32 has its digits around the values of this task, regardless of the series earlier. A mean
// would follow a single spike, and costs a pass.
//
// Consecutive tasks of a series differ by one row, and the rest of X is equal if they have the same
// center. So the rows of a series are counted in blocks of B, the largest power of two that is at most
// half of a full window's rows, 128 at most. The full windows whose newest rows are in one block share
// one center, that of the rows common to all of them: N-B+1 of N, which end at the block's first. These
// rows depend on the series' own count alone, and so do a task's bits.

// mostBlock is the largest number of tasks with the same center.
const mostBlock = 128

// BlockRows returns the number of consecutive windows of the given length that share one center.
func BlockRows(rows int) int {
	return 1 << max(0, bits.Len(uint(min(rows/2, mostBlock)))-1)
}

// CenterRows returns the rows that a full window is centred on, n rows from row from on.
// rows is the window's length, block BlockRows of it, count the number of its newest row in the series, from 1.
func CenterRows(block, rows int, count int64) (from, n int) {
	behind := int(count & int64(block-1))
	return block - 1 - behind, rows - block + 1
}

// Centers appends the center of each column of rows x, at least one, and then y, floats by their bits:
// the median of the first, the middle and the last of n rows from row from on. Where one of the three
// is missing (NaN) it is the first of them that is present, and where all are missing, the first value
// of these rows. ok is false where a column has no value; its center is 0.
func Centers(dst []float64, x, y []uint64, dim, from, n int) (centers []float64, ok bool) {
	ok = true
	at := from * dim
	middle, last := at+n/2*dim, at+(n-1)*dim
	for c := range dim {
		u, v, w := valueOf(x, y, at+c), valueOf(x, y, middle+c), valueOf(x, y, last+c)
		var center float64
		if u == u && v == v && w == w {
			center = median(u, v, w)
		} else {
			center, ok = firstOf(x, y, dim, at+c, middle+c, last+c, ok)
		}
		dst = append(dst, center)
	}
	return dst, ok
}

// median returns the median of three numbers. Devices make the same comparisons, so that
// a zero has the same sign.
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

// firstOf returns the first value of a column that is not missing: of the three, or else of
// those from first to last. ok becomes false if there is none.
func firstOf(x, y []uint64, dim, first, middle, last int, ok bool) (float64, bool) {
	for _, i := range [...]int{first, middle, last} {
		if v := valueOf(x, y, i); v == v {
			return v, ok
		}
	}
	for i := first; i <= last; i += dim {
		if v := valueOf(x, y, i); v == v {
			return v, ok
		}
	}
	return 0, false
}

// valueOf returns number i of x followed by y.
func valueOf(x, y []uint64, i int) float64 {
	if i < len(x) {
		return math.Float64frombits(x[i])
	}
	return math.Float64frombits(y[i-len(x)])
}

// Pack packs rows x and then y, a value for each of the centers, floats by their bits: it sets dst to
// the differences to the centers, in float64, and then rounded.
func Pack(dst []float32, x, y []uint64, centers []float64) {
	if len(centers) == 1 {
		vec.Narrow(dst[:len(x)], x, centers[0])
		vec.Narrow(dst[len(x):len(x)+len(y)], y, centers[0])
		return
	}
	packRows(dst[:len(x)], x, centers)
	packRows(dst[len(x):len(x)+len(y)], y, centers)
}

// PackOne is Centers and Pack for rows of one value, inlined, because calls dominate in
// short windows.
func PackOne(dst []float32, x, y []uint64, from, n int) (center float64, ok bool) {
	u, v, w := valueOf(x, y, from), valueOf(x, y, from+n/2), valueOf(x, y, from+n-1)
	if u == u && v == v && w == w {
		center, ok = median(u, v, w), true
	} else {
		center, ok = firstOf(x, y, 1, from, from+n/2, from+n-1, true)
	}
	vec.Narrow(dst[:len(x)], x, center)
	if len(y) > 0 {
		vec.Narrow(dst[len(x):len(x)+len(y)], y, center)
	}
	return center, ok
}

// PackF64 sets dst to the floats whose bits are in x and then y.
func PackF64(dst []float64, x, y []uint64) {
	copy(dst[copy(dst, vec.BitsF64(x)):], vec.BitsF64(y))
}

// packRows is Pack for rows of several values.
func packRows(dst []float32, x []uint64, centers []float64) {
	for len(x) >= len(centers) {
		to, row := dst[:len(centers)], x[:len(centers)]
		for c, center := range centers {
			to[c] = float32(math.Float64frombits(row[c]) - center)
		}
		dst, x = dst[len(centers):], x[len(centers):]
	}
}

// Count converts the value of a counter to the nearest whole number.
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
