package vec

import (
	"math"
	"math/bits"
	"slices"
)

// Nearest neighbours among many points, for one query after the other: SqDists
// gives the distances and their minima by groups, Bound from those a bound that
// a few more than the wanted number are within, AtMost their places.

// Group is the number of points that SqDists takes at a time.
const Group = 64

var inf = func() (a [Group]float32) {
	for i := range a {
		a[i] = float32(math.Inf(1))
	}
	return a
}()

// SqDists sets d[i] to the sum over c of (q[c]-x[c*stride+i])^2, and low[j] to
// the smallest d[i] of those with i modulo len(low) = j, +Inf where there is
// none. len(d), not 0, and len(low) are multiples of Group. Without NaN.
func SqDists(d, low, x []float32, stride int, q []float32) {
	if len(d)%Group != 0 || len(low)%Group != 0 || len(low) == 0 {
		panic("vec: not whole groups")
	}
	if len(q) == 0 || len(d) == 0 || stride < len(d) || len(x) < (len(q)-1)*stride+len(d) {
		panic("vec: too few points")
	}
	for j := 0; j < len(low); j += Group {
		copy(low[j:], inf[:])
	}
	if hasAVX2 {
		sqDistsAVX2(&d[0], &low[0], &x[0], len(d)/Group, len(low)/Group, stride, &q[0], len(q))
		return
	}
	sqDistsGo(d, low, x, stride, q)
}

// Bound returns a number that at least m of low are not above, and usually not
// many more. len(low) is a multiple of 8 and at least m; m is at least 1. Of
// low's numbers none is negative or NaN.
func Bound(low []float32, m int) float32 {
	whole(len(low))
	if m < 1 || m > len(low) {
		panic("vec: too few numbers")
	}
	if hasAVX2 {
		return boundAVX2(&low[0], len(low)/Lanes, m, m+m/16)
	}
	return boundGo(low, m)
}

// AtMost sets at to the places of the numbers of d that are not above t, in
// order, and returns how many there are. len(d) is a multiple of 8, len(at) at
// least len(d)+8; what lies behind the places is overwritten.
func AtMost(at []int32, d []float32, t float32) int {
	whole(len(d))
	if len(d) == 0 || len(at) < len(d)+Lanes {
		panic("vec: lengths do not match")
	}
	if hasAVX2 {
		return atMostAVX2(&at[0], &d[0], len(d)/Lanes, t, &packing)
	}
	return atMostGo(at, d, t)
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

func boundGo(low []float32, m int) float32 {
	sorted := slices.Clone(low)
	slices.Sort(sorted)
	return sorted[m-1]
}

func atMostGo(at []int32, d []float32, t float32) int {
	n := 0
	for i, v := range d {
		if v <= t {
			at[n] = int32(i)
			n++
		}
	}
	return n
}
