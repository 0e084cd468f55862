package vec

import (
	"cmp"
	"math"
	"slices"
)

// Line has points of one coordinate in ascending order. A point's nearest then lie
// side by side, and Near finds the nearest of all points in one pass. The zero value is ready.
type Line struct {
	X  []float64 // coordinates, ascending
	At []int32   // the points' places as they came, ascending where coordinates are equal

	// The results of Near, by position in X:
	Far   []float64 // distance to the k-th neighbour
	Range []Range

	tied        []int32
	keys, spare []uint64
}

// Range has the neighbours of a point: those at positions From to To-1 without the point itself, and
// those that Tied returns.
type Range struct{ From, To, tied, end int32 }

// Sort takes points x at places, or at 0 to len(x)-1 where places is nil. Without NaN.
func (l *Line) Sort(x []float32, places []int32) {
	n := len(x)
	l.keys, l.spare = grown(l.keys, n), grown(l.spare, n)
	for i, v := range x {
		// Floats are in the order of these integers; -0 becomes 0.
		b := math.Float32bits(v + 0)
		b ^= uint32(int32(b)>>31) | 1<<31
		l.keys[i] = uint64(b)<<32 | uint64(uint32(i))
	}
	l.sortKeys()
	l.X, l.At, l.Far, l.Range = grown(l.X, n), grown(l.At, n), grown(l.Far, n), grown(l.Range, n)
	for i, key := range l.keys {
		b := uint32(key >> 32)
		b ^= ^uint32(int32(b)>>31) | 1<<31
		l.X[i], l.At[i] = float64(math.Float32frombits(b)), int32(uint32(key))
	}
	if places != nil {
		for i, at := range l.At {
			l.At[i] = places[at]
		}
	}
}

// SortWide is Sort for float64.
func (l *Line) SortWide(x []float64) {
	n := len(x)
	l.X, l.At, l.Far, l.Range = grown(l.X, n), grown(l.At, n), grown(l.Far, n), grown(l.Range, n)
	for i := range l.At {
		l.At[i] = int32(i)
	}
	slices.SortStableFunc(l.At, func(a, b int32) int { return cmp.Compare(x[a], x[b]) })
	for i, at := range l.At {
		l.X[i] = x[at]
	}
}

func grown[T any](a []T, n int) []T {
	if cap(a) < n {
		return make([]T, n, n+n/4)
	}
	return a[:n]
}

// fewKeys is the number of keys up to which insertion sorts faster than counting.
const fewKeys = 40

// sortKeys sorts by the upper half of the keys and leaves equal ones in their order: by
// counts of one byte after the other, the least first.
func (l *Line) sortKeys() {
	if len(l.keys) <= fewKeys {
		for i, key := range l.keys {
			for ; i > 0 && l.keys[i-1] > key; i-- {
				l.keys[i] = l.keys[i-1]
			}
			l.keys[i] = key
		}
		return
	}
	var counts [4][256]uint32
	for _, key := range l.keys {
		counts[0][byte(key>>32)]++
		counts[1][byte(key>>40)]++
		counts[2][byte(key>>48)]++
		counts[3][byte(key>>56)]++
	}
	for b := range counts {
		count, shift := &counts[b], 32+8*b
		if count[byte(l.keys[0]>>shift)] == uint32(len(l.keys)) {
			continue
		}
		sum := uint32(0)
		for i, c := range count {
			count[i] = sum
			sum += c
		}
		to := l.spare
		for _, key := range l.keys {
			at := &count[byte(key>>shift)]
			to[*at] = key
			*at++
		}
		l.keys, l.spare = to, l.keys
	}
}

// Near finds the k nearest others of the points at positions from to to-1: of those equally
// far the ones at the lowest places. Distances are differences in float64. 1 <= k < len(l.X).
// What Tied gave for other points is overwritten.
//
// Where more than k others are equal to a point, any k of them are given: Far is then 0.
func (l *Line) Near(k, from, to int) {
	x := l.X
	n := len(x)
	if k < 1 || k >= n {
		panic("vec: no such neighbour")
	}
	l.tied = l.tied[:0]
	at := 0 // of k+1 points, the nearest of the last point and itself
	for i := from; i < to; i++ {
		q := x[i]
		if i > from && q == x[i-1] && l.Far[i-1] > 0 {
			l.Far[i], l.Range[i] = l.Far[i-1], l.Range[i-1]
			continue
		}
		at = max(at, i-k)
		for last := min(i, n-1-k); at < last && x[at+k+1]-q < q-x[at]; {
			at++
		}
		far := max(q-x[at], x[at+k]-q)
		l.Far[i], l.Range[i] = far, Range{From: int32(at), To: int32(at + k + 1)}
		if far > 0 && (at > 0 && q-x[at-1] == far || at+k+1 < n && x[at+k+1]-q == far) {
			l.tie(k, i, at)
		}
	}
}

// tie finds the neighbours of the point at position i among those that are as far as the
// farthest of k+1 points from position at on, which are more than needed.
func (l *Line) tie(k, i, at int) {
	x, q, far := l.X, l.X[i], l.Far[i]
	a, b := at, at+k+1 // those nearer
	for q-x[a] == far {
		a++
	}
	for x[b-1]-q == far {
		b--
	}
	below, above := a, b // the first and behind the last of those as far
	for below > 0 && q-x[below-1] == far {
		below--
	}
	for above < len(x) && x[above]-q == far {
		above++
	}
	start, want := len(l.tied), k-(b-a-1)
	if x[below] == x[max(a-1, below)] && x[above-1] == x[min(b, above-1)] {
		for u, v := below, b; want > 0; want-- {
			if v == above || u < a && l.At[u] < l.At[v] {
				l.tied = append(l.tied, int32(u))
				u++
			} else {
				l.tied = append(l.tied, int32(v))
				v++
			}
		}
	} else { // different points, equally far by rounding
		for u := below; u < a; u++ {
			l.tied = append(l.tied, int32(u))
		}
		for v := b; v < above; v++ {
			l.tied = append(l.tied, int32(v))
		}
		slices.SortFunc(l.tied[start:], func(u, v int32) int { return cmp.Compare(l.At[u], l.At[v]) })
		l.tied = l.tied[:start+want]
	}
	l.Range[i] = Range{int32(a), int32(b), int32(start), int32(len(l.tied))}
}

// Tied returns the positions of neighbours outside From to To-1.
func (l *Line) Tied(r Range) []int32 { return l.tied[r.tied:r.end] }
