// Package vec has the arithmetic that the methods share, on float32 vectors and on
// lanes, eight vectors interleaved.
//
// On amd64 with AVX2 and FMA the functions are assembly; elsewhere, and with the build tag noasm, they
// are Go. Each function's comment is its definition, except for the order of a sum and the rounding of
// products before they are added. On one class of machine a result depends on the arguments' values
// alone: not on alignment, and not on the run.
//
// Arguments of one call must not overlap except where they are the same slice.
// Lengths that do not fit panic.
package vec

import "unsafe"

// Lanes is the number of vectors that a lane array interleaves: element i of
// vector l is at i*Lanes+l.
const Lanes = 8

// Dot returns the sum of x[i]*y[i].
func Dot(x, y []float32) float32 {
	same(len(x), len(y))
	if hasAVX2 {
		return dotAVX2(x, y)
	}
	return dotGo(x, y)
}

// Sum returns the sum of x[i], in float64.
func Sum(x []float32) float64 {
	if hasAVX2 {
		return sumAVX2(x)
	}
	return sumGo(x)
}

// Axpy adds a*x[i] to y[i].
func Axpy(a float32, x, y []float32) {
	same(len(x), len(y))
	if hasAVX2 {
		axpyAVX2(a, x, y)
		return
	}
	axpyGo(a, x, y)
}

// Scale multiplies x[i] by a.
func Scale(a float32, x []float32) {
	if hasAVX2 {
		scaleAVX2(a, x)
		return
	}
	scaleGo(a, x)
}

// Centre sets dst[i] to x[i]-mean, the difference taken in float64, and returns
// the largest |dst[i]|, 0 for none. Without NaN in x and mean.
func Centre(dst, x []float32, mean float64) (peak float32) {
	same(len(dst), len(x))
	if hasAVX2 {
		return centreAVX2(dst, x, mean)
	}
	return centreGo(dst, x, mean)
}

// Narrow sets dst[i] to x[i]-center, a difference in float64; x are float64 by their
// bits.
func Narrow(dst []float32, x []uint64, center float64) {
	same(len(dst), len(x))
	if hasAVX2 {
		narrowAVX2(dst, x, center)
		return
	}
	narrowGo(dst, x, center)
}

// Hankel sets y[i] to the sum over j of x[i+j]*v[j]: y is the product of the
// Hankel matrix of x with v. len(x) = len(y)+len(v)-1.
func Hankel(y, x, v []float32) {
	if len(y) == 0 {
		return
	}
	if len(v) == 0 {
		clear(y)
		return
	}
	same(len(x), len(y)+len(v)-1)
	if hasAVX2 && len(y) >= 8 {
		hankelAVX2(y, x, v)
		return
	}
	hankelGo(y, x, v)
}

// Hankel64 is Hankel in float64. A sum has the same bits regardless of the other ones, and their number.
func Hankel64(y, x, v []float64) {
	if len(y) == 0 {
		return
	}
	if len(v) == 0 {
		clear(y)
		return
	}
	same(len(x), len(y)+len(v)-1)
	switch {
	case hasAVX2 && len(y) >= 4:
		hankel64AVX2(y, x, v)
	case hasAVX2:
		hankel64Few(y, x, v)
	default:
		hankel64Go(y, x, v)
	}
}

// Slide is one step along the diagonals of a Gram matrix: dst[i] = src[i] +
// p*in[i] - q*out[i], and low[i] is dst[i] rounded. All lengths are equal.
func Slide(dst []float64, low []float32, src, in, out []float64, p, q float64) {
	same(len(dst), len(low))
	same(len(dst), len(src))
	same(len(dst), len(in))
	same(len(dst), len(out))
	if hasAVX2 {
		slideAVX2(dst, low, src, in, out, p, q)
		return
	}
	slideGo(dst, low, src, in, out, p, q)
}

// LaneMul sets y[a*Lanes+l] to the sum over b of m[b*stride+a]*v[b*Lanes+l]:
// the product of a matrix of rows b and columns a, transposed, with the lanes
// of v. y and v have whole rows of lanes.
func LaneMul(y, m []float32, stride int, v []float32) {
	whole(len(y))
	whole(len(v))
	na, nb := len(y)/Lanes, len(v)/Lanes
	if na == 0 {
		return
	}
	if nb == 0 {
		clear(y)
		return
	}
	if stride < na || len(m) < (nb-1)*stride+na {
		panic("vec: matrix too small")
	}
	if hasAVX2 && na >= 8 {
		laneMulAVX2(y, m, stride, v)
		return
	}
	laneMulGo(y, m, stride, v)
}

// LaneDot sets h[l] to the sum over i of x[i*Lanes+l]*y[i*Lanes+l].
func LaneDot(h *[Lanes]float32, x, y []float32) {
	same(len(x), len(y))
	whole(len(x))
	if hasAVX2 {
		laneDotAVX2(h, x, y)
		return
	}
	laneDotGo(h, x, y)
}

// LaneAxpy adds h[l]*x[i*Lanes+l] to y[i*Lanes+l].
func LaneAxpy(h *[Lanes]float32, x, y []float32) {
	same(len(x), len(y))
	whole(len(x))
	if hasAVX2 {
		laneAxpyAVX2(h, x, y)
		return
	}
	laneAxpyGo(h, x, y)
}

// LaneScale sets dst[i*Lanes+l] to h[l]*x[i*Lanes+l].
func LaneScale(dst []float32, h *[Lanes]float32, x []float32) {
	same(len(dst), len(x))
	whole(len(x))
	if hasAVX2 {
		laneScaleAVX2(dst, h, x)
		return
	}
	laneScaleGo(dst, h, x)
}

// LaneMoments sets h[l] to the sum over i of s[i]*v[i*Lanes+l], and k[l] to the sum
// of v[i*Lanes+l].
func LaneMoments(h, k *[Lanes]float32, s, v []float32) {
	same(len(s)*Lanes, len(v))
	if hasAVX2 {
		laneMomentsAVX2(h, k, s, v)
		return
	}
	laneMomentsGo(h, k, s, v)
}

// LaneShift adds h[l]*s[i]+k[l] to y[i*Lanes+l].
func LaneShift(y []float32, h, k *[Lanes]float32, s []float32) {
	same(len(s)*Lanes, len(y))
	if hasAVX2 {
		laneShiftAVX2(y, h, k, s)
		return
	}
	laneShiftGo(y, h, k, s)
}

// Aligned returns n zeros at the start of a cache line.
func Aligned(n int) []float32 {
	const line = 64 / 4
	a := make([]float32, n+line-1)
	off := 0
	if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(a)))/4) % line; r != 0 {
		off = line - r
	}
	return a[off : off+n : off+n]
}

func same(a, b int) {
	if a != b {
		panic("vec: lengths do not match")
	}
}

func whole(n int) {
	if n%Lanes != 0 {
		panic("vec: not whole rows of lanes")
	}
}
