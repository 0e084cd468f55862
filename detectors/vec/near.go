package vec

import (
	"math"
	"math/bits"
	"slices"
)

// Nearest neighbours among many points, for one query after the other: SqDists
// gives the distances and their minima by groups, Bound from those a bound
// within which lie a few more than the wanted number, AtMost their places, SqDists64
// their distances in float64.

// Group is the number of points that SqDists takes at a time.
const Group = 64

var inf = func() (a [Group]float32) {
	for i := range a {
		a[i] = float32(math.Inf(1))
	}
	return a
}()

// Distances is a query and what SqDists finds for it.
type Distances struct {
	Q   []float32 // the query's coordinates
	D   []float32 // squared distances of the points; their number is a multiple of Group
	Low []float32 // the smallest of those whose number modulo len(Low), a multiple of Group, is the same
}

// SqDists sets a.D[i] to the sum over c of (a.Q[c]-x[c*stride+i])^2, a.Low[j] to
// the smallest a.D[i] of those with i modulo len(a.Low) = j, +Inf where there is
// none; and the same for b, of the same lengths, unless it is nil. Without NaN.
func SqDists(a, b *Distances, x []float32, stride int) {
	n, groups, dim := len(a.D), len(a.Low), len(a.Q)
	if b != nil {
		same(n, len(b.D))
		same(groups, len(b.Low))
		same(dim, len(b.Q))
	}
	if n%Group != 0 || groups%Group != 0 || groups == 0 {
		panic("vec: not whole groups")
	}
	if dim == 0 || n == 0 || stride < 1 || len(x) < (dim-1)*stride+n {
		panic("vec: too few points")
	}
	for j := 0; j < groups; j += Group {
		copy(a.Low[j:], inf[:])
		if b != nil {
			copy(b.Low[j:], inf[:])
		}
	}
	if b == nil {
		if hasAVX2 {
			sqDistsOneAVX2(&a.D[0], &a.Low[0], &x[0], n/Group, groups*4, stride, &a.Q[0], dim)
			return
		}
		sqDistsGo(a.D, a.Low, x, stride, a.Q)
		return
	}
	if hasAVX2 {
		sqDistsAVX2(&a.D[0], &b.D[0], &a.Low[0], &b.Low[0], &x[0], n/32, groups*4, stride, &a.Q[0], &b.Q[0], dim)
		return
	}
	sqDistsGo(a.D, a.Low, x, stride, a.Q)
	sqDistsGo(b.D, b.Low, x, stride, b.Q)
}

// Extent returns the largest |x[i]|, 0 for none, and the smallest that is not 0,
// 0 for none. If some are not finite, the largest is not either.
func Extent(x []float32) (most, least float32) {
	var m uint32
	l := ^uint32(0)
	if n := len(x) / Lanes; n > 0 && hasAVX2 {
		m, l = extentAVX2(&x[0], n)
		l--
		x = x[n*Lanes:]
	}
	for _, v := range x {
		b := math.Float32bits(v) &^ (1 << 31)
		m, l = max(m, b), min(l, b-1)
	}
	return math.Float32frombits(m), math.Float32frombits(l + 1)
}

// Column sets dst[i] to a*x[i*stride].
func Column(dst []float32, a float32, x []float32, stride int) {
	n := len(dst)
	if n == 0 {
		return
	}
	if stride < 1 || len(x) < (n-1)*stride+1 {
		panic("vec: too few numbers")
	}
	if stride == 1 && a == 1 {
		copy(dst, x)
		return
	}
	if hasAVX2 {
		columnAVX2(&dst[0], &x[0], n, stride, a)
		return
	}
	for i := range dst {
		dst[i] = a * x[i*stride]
	}
}

// Rank returns the m-th smallest number of x. len(x) is a multiple of 8, m at
// least 1 and at most the count of x's finite numbers. None of x is negative or
// NaN.
func Rank(x []float32, m int) float32 { return rank(x, m, m) }

// Bound is Rank for about m: it returns a number of x that at least m are not
// above, and other than by ties not more than m+m/16.
func Bound(x []float32, m int) float32 { return rank(x, m, m+m/16) }

func rank(x []float32, least, most int) float32 {
	whole(len(x))
	if least < 1 || least > len(x) {
		panic("vec: too few numbers")
	}
	if hasAVX2 {
		return rankAVX2(&x[0], len(x)/Lanes, least, most)
	}
	return rankGo(x, least)
}

// AtMost sets at to the places of the numbers of d that are not above t, in
// order, near to those numbers, and returns how many there are. len(d) is a
// multiple of 8, len(at) and len(near) at least len(d)+8; what lies after the
// result is overwritten.
func AtMost(at []int32, near, d []float32, t float32) int {
	whole(len(d))
	if len(d) == 0 || len(at) < len(d)+Lanes || len(near) < len(d)+Lanes {
		panic("vec: lengths do not match")
	}
	if hasAVX2 {
		return atMostAVX2(&at[0], &near[0], &d[0], len(d)/Lanes, t, &packing)
	}
	return atMostGo(at, near, d, t)
}

// SqDists64 sets d[i] to the sum over c of (q[c]-x[at[i]*step+c])^2, in
// float64, term by term in order, products rounded.
func SqDists64(d []float64, x []float32, at []int32, step int, q []float64) {
	same(len(d), len(at))
	dim := len(q)
	if step < 1 || len(x) < dim && len(at) > 0 {
		panic("vec: no such point")
	}
	last := uint(max(0, len(x)-dim) / step)
	for _, p := range at {
		if uint(p) > last {
			panic("vec: no such point")
		}
	}
	if hasAVX2 && len(d) > 0 && dim > 0 {
		sqDists64AVX2(&d[0], &x[0], &at[0], len(at), step, &q[0], dim)
		return
	}
	sqDists64Go(d, x, at, step, q)
}

// packing has for each set of lanes their numbers, in order, one a byte.
var packing = func() (table [256]uint64) {
	for set := range table {
		for i, s := 0, uint(set); s != 0; s &= s - 1 {
			table[set] |= uint64(bits.TrailingZeros(s)) << (8 * i)
			i++
		}
	}
	return table
}()

func sqDistsGo(d, low, x []float32, stride int, q []float32) {
	clear(d)
	for c, v := range q {
		column := x[c*stride : c*stride+len(d)]
		for i, w := range column {
			e := v - w
			d[i] += e * e
		}
	}
	for i, v := range d {
		low[i%len(low)] = min(low[i%len(low)], v)
	}
}

func rankGo(x []float32, m int) float32 {
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	return sorted[m-1]
}

func atMostGo(at []int32, near, d []float32, t float32) int {
	n := 0
	for i, v := range d {
		if v <= t {
			at[n], near[n] = int32(i), v
			n++
		}
	}
	return n
}

func sqDists64Go(d []float64, x []float32, at []int32, step int, q []float64) {
	for i, p := range at {
		row := x[int(p)*step:][:len(q)]
		d[i] = 0
		for c, v := range q {
			e := v - float64(row[c])
			d[i] += float64(e * e)
		}
	}
}
