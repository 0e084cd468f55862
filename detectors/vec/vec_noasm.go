//go:build !amd64 || noasm

package vec

const hasAVX2 = false

func dotAVX2(x, y []float32) float32                              { panic("vec: no assembly") }
func sumAVX2(x []float32) float64                                 { panic("vec: no assembly") }
func axpyAVX2(a float32, x, y []float32)                          { panic("vec: no assembly") }
func scaleAVX2(a float32, x []float32)                            { panic("vec: no assembly") }
func centreAVX2(dst, x []float32, mean float64) float32           { panic("vec: no assembly") }
func narrowAVX2(dst []float32, x []uint64, center float64)        { panic("vec: no assembly") }
func hankelAVX2(y, x, v []float32)                                { panic("vec: no assembly") }
func laneMulAVX2(y, m []float32, stride int, v []float32)         { panic("vec: no assembly") }
func laneDotAVX2(h *[Lanes]float32, x, y []float32)               { panic("vec: no assembly") }
func laneAxpyAVX2(h *[Lanes]float32, x, y []float32)              { panic("vec: no assembly") }
func laneScaleAVX2(dst []float32, h *[Lanes]float32, x []float32) { panic("vec: no assembly") }
func slideAVX2(dst []float64, low []float32, src, in, out []float64, p, q float64) {
	panic("vec: no assembly")
}

func hankel64AVX2(y, x, v []float64)                               { panic("vec: no assembly") }
func laneMomentsAVX2(h, k *[Lanes]float32, s, v []float32)         { panic("vec: no assembly") }
func laneShiftAVX2(y []float32, h, k *[Lanes]float32, s []float32) { panic("vec: no assembly") }

func sqDistsAVX2(d, e, lowd, lowe, x *float32, blocks, groups, stride int, q, r *float32, dim int) {
	panic("vec: no assembly")
}
func sqDistsOneAVX2(d, low, x *float32, blocks, groups, stride int, q *float32, dim int) {
	panic("vec: no assembly")
}
func extentAVX2(x *float32, n int) (most, least uint32)    { panic("vec: no assembly") }
func columnAVX2(dst, x *float32, n, stride int, a float32) { panic("vec: no assembly") }
func rankAVX2(x *float32, n, least, most int) float32      { panic("vec: no assembly") }
func atMostAVX2(at *int32, near, d *float32, n int, t float32, packing *[256]uint64) int {
	panic("vec: no assembly")
}
func sqDists64AVX2(d *float64, x *float32, at *int32, n, step int, q *float64, dim int) {
	panic("vec: no assembly")
}

func covariancesAVX2(cov, a, x, mean *float64, n int) { panic("vec: no assembly") }
func joinAVX2(cov, rho, df, dg, inv, row, column *float64, i, j, end int) int {
	panic("vec: no assembly")
}
func join32AVX2(cov, rho, df, dg, inv, row, column *float32, i, j, end int) int {
	panic("vec: no assembly")
}
func maxRunsAVX2(most, slope, c, c0, b, b0 *float64, n int) { panic("vec: no assembly") }

func add64AVX2(dst, x, y *float64, n int) { panic("vec: no assembly") }
func mergeAVX2(sum, square, s1, q1, s2, q2 *float64, n int, a, b float64) {
	panic("vec: no assembly")
}
func deviationsAVX2(sums, squares *float64, n int, inverse, ratio, least float64, roots bool) int {
	panic("vec: no assembly")
}
func correlateAVX2(rho, p, more, mean, inv *float64, n int, rest, scale float64) float64 {
	panic("vec: no assembly")
}
func most64AVX2(x *float64, n int) float64 { panic("vec: no assembly") }
func largestAVX2(p, more, mean, squares *float64, n int, rest, least float64) float64 {
	panic("vec: no assembly")
}
func candidateAVX2(p, more *float32, mean, squares *float64, from, n int, m *Margin, least float64) int {
	panic("vec: no assembly")
}
func hankel64Few(y, x, v []float64) { panic("vec: no assembly") }
