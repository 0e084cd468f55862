//go:build amd64 && !noasm

package vec

import (
	"math"

	"golang.org/x/sys/cpu"
)

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

//go:generate go run gen.go

//go:noescape
func dotAVX2(x, y []float32) float32

//go:noescape
func sumAVX2(x []float32) float64

//go:noescape
func axpyAVX2(a float32, x, y []float32)

//go:noescape
func scaleAVX2(a float32, x []float32)

//go:noescape
func centreAVX2(dst, x []float32, mean float64) float32

//go:noescape
func narrowAVX2(dst []float32, x []uint64, center float64)

//go:noescape
func slideAVX2(dst []float64, low []float32, src, in, out []float64, p, q float64)

//go:noescape
func laneDotAVX2(h *[Lanes]float32, x, y []float32)

//go:noescape
func laneAxpyAVX2(h *[Lanes]float32, x, y []float32)

//go:noescape
func laneScaleAVX2(dst []float32, h *[Lanes]float32, x []float32)

//go:noescape
func laneMomentsAVX2(h, k *[Lanes]float32, s, v []float32)

//go:noescape
func laneShiftAVX2(y []float32, h, k *[Lanes]float32, s []float32)

// hankelRows computes blocks*8 elements of a Hankel product: 1 to 13 blocks,
// side by side but for the last, which begins at element last of y and x. n is
// the length of v, at least 1.
//
//go:noescape
func hankelRows(y, x, v *float32, n, blocks, last int)

// hankelRows64 is hankelRows in float64, in blocks of 4.
//
//go:noescape
func hankelRows64(y, x, v *float64, n, blocks, last int)

// laneMul12 and laneMul8 compute 12 and 8 rows of LaneMul: y[a*8+l] for a below
// 12 or 8, the sum over n rows of v. stride counts floats.
//
//go:noescape
func laneMul12(y, m, v *float32, n, stride int)

//go:noescape
func laneMul8(y, m, v *float32, n, stride int)

// hankelAVX2 goes over y in passes of up to 13 blocks of 8 elements, as many as
// there are registers to sum in. A last block that would stick out is moved
// back over its neighbour, which computes the same again.
func hankelAVX2(y, x, v []float32) {
	blocks := (len(y) + 7) / 8
	for at := 0; blocks > 0; {
		n := pass(blocks)
		hankelRows(&y[at], &x[at], &v[0], len(v), n, min(8*(n-1), len(y)-8-at))
		blocks -= n
		at += 8 * n
	}
}

func hankel64AVX2(y, x, v []float64) {
	blocks := (len(y) + 3) / 4
	for at := 0; blocks > 0; {
		n := pass(blocks)
		hankelRows64(&y[at], &x[at], &v[0], len(v), n, min(4*(n-1), len(y)-4-at))
		blocks -= n
		at += 4 * n
	}
}

// hankel64Few adds up in the order of hankelRows64.
func hankel64Few(y, x, v []float64) {
	for i := range y {
		sum, j := 0.0, 0
		for ; j+8 <= len(v); j += 8 {
			for k := j; k < j+4; k++ {
				sum = math.FMA(x[i+k], v[k], sum)
				sum = math.FMA(x[i+k+4], v[k+4], sum)
			}
		}
		for ; j < len(v); j++ {
			sum = math.FMA(x[i+j], v[j], sum)
		}
		y[i] = sum
	}
}

// pass returns how many of the remaining blocks to take at once: the passes are
// about equal.
func pass(blocks int) int {
	const most = 13
	passes := (blocks + most - 1) / most
	return (blocks + passes - 1) / passes
}

func laneMulAVX2(y, m []float32, stride int, v []float32) {
	na, nb := len(y)/Lanes, len(v)/Lanes
	rows, f := 12, laneMul12
	if na < 12 {
		rows, f = 8, laneMul8
	}
	for a := 0; a < na; a += rows {
		a = min(a, na-rows)
		f(&y[a*Lanes], &m[a], &v[0], nb, stride)
	}
}

// sqDistsAVX2 takes blocks of 32 points, for two queries; lowd and lowe have
// groups bytes of minima.
//
//go:noescape
func sqDistsAVX2(d, e, lowd, lowe, x *float32, blocks, groups, stride int, q, r *float32, dim int)

// sqDistsOneAVX2 takes blocks of 64 points, for one query.
//
//go:noescape
func sqDistsOneAVX2(d, low, x *float32, blocks, groups, stride int, q *float32, dim int)

// extentAVX2 takes n*8 numbers and returns bits.
//
//go:noescape
func extentAVX2(x *float32, n int) (most, least uint32)

//go:noescape
func columnAVX2(dst, x *float32, n, stride int, a float32)

// rankAVX2 returns a number of the n*8 of x that at least least are not above,
// and other than by ties not more than most.
//
//go:noescape
func rankAVX2(x *float32, n, least, most int) float32

// atMostAVX2 takes n*8 numbers.
//
//go:noescape
func atMostAVX2(at *int32, near, d *float32, n int, t float32, packing *[256]uint64) int

//go:noescape
func sqDists64AVX2(d *float64, x *float32, at *int32, n, step int, q *float64, dim int)

// covariancesAVX2 takes n deviations, at least one.
//
//go:noescape
func covariancesAVX2(cov, a, x, mean *float64, n int)

//go:noescape
func joinAVX2(cov, rho, df, dg, inv, row, column *float64, i, j, end int) int

//go:noescape
func join32AVX2(cov, rho, df, dg, inv, row, column *float32, i, j, end int) int

// maxRunsAVX2 takes n columns, at least one.
//
//go:noescape
func maxRunsAVX2(most, slope, c, c0, b, b0 *float64, n int)

//go:noescape
func add64AVX2(dst, x, y *float64, n int)

//go:noescape
func mergeAVX2(sum, square, s1, q1, s2, q2 *float64, n int, a, b float64)

//go:noescape
func deviationsAVX2(sums, squares *float64, n int, inverse, ratio, least float64, roots bool) int

//go:noescape
func correlateAVX2(rho, p, more, mean, inv *float64, n int, rest, scale float64) float64

//go:noescape
func most64AVX2(x *float64, n int) float64

//go:noescape
func largestAVX2(p, more, mean, squares *float64, n int, rest, least float64) float64

//go:noescape
func candidateAVX2(p, more *float32, mean, squares *float64, from, n int, m *Margin, least float64) int
