// Package knn is the weight of a point: how far it lies from the k points nearest
// to it (Angiulli and Pizzuti, Fast outlier detection in high dimensional spaces,
// 2002), among the points before it.
//
// The weight of point p is the sum of the Euclidean distances, not squared, to the k
// nearest of the points before it; p itself is not one of them. (The pseudocode of
// Angiulli et al. 2013 counts it, at distance 0, and so has k-1 neighbours.) Where
// there are fewer than k points, the sum is over all of them, times k divided by
// their number. It has the unit of the values. A NaN or an infinity in one of the
// points makes it NaN.
//
// Unlike the local outlier factor it does not ask how dense the points lie around
// the neighbours, so a score means the same in every corner of the window; that is
// what a threshold on the score's own history wants.
package knn

import (
	"math"
	"slices"
)

// MaxK is the largest number of neighbours.
const MaxK = 1 << 10

// Define is the definition: the weight of the last of the points in x, which has
// successive rows of dim values; points are m successive rows and begin at every
// row.
func Define(x []float64, dim, m, k int) float64 {
	rows := len(x) / dim
	point := func(i int) []float64 { return x[i*dim : (i+m)*dim] }
	last := rows - m
	var d []float64
	for i := range last {
		sum := 0.0
		for c, v := range point(last) {
			sum += (v - point(i)[c]) * (v - point(i)[c])
		}
		d = append(d, math.Sqrt(sum))
	}
	for _, v := range x {
		if math.IsNaN(v - v) {
			return math.NaN()
		}
	}
	if len(d) == 0 {
		return math.NaN()
	}
	slices.Sort(d)
	n := min(k, len(d))
	sum := 0.0
	for _, v := range d[:n] {
		sum += v
	}
	return sum * float64(k) / float64(n)
}

// Scorer is the fast form, with its memory. It is for one goroutine at a time.
type Scorer struct{ squares []float64 }

// Weight is Define, but for the rounding of a sum in another order.
func (s *Scorer) Weight(x []float64, dim, m, k int) float64 {
	last := len(x)/dim - m
	if last <= 0 {
		return math.NaN()
	}
	if cap(s.squares) < last {
		s.squares = make([]float64, last, 2*last)
	}
	d := s.squares[:last]
	clear(d)
	q := x[last*dim:]
	if dim == 1 {
		// A value of the point at a time, over all points: the inner loop is long and
		// has no sum to wait for.
		for c := 0; c+1 < m; c += 2 {
			a, b := q[c], q[c+1]
			v := x[c : c+last+1]
			for i := range d {
				e, f := a-v[i], b-v[i+1]
				d[i] += e*e + f*f
			}
		}
		if m%2 == 1 {
			a, v := q[m-1], x[m-1:][:last]
			for i := range d {
				e := a - v[i]
				d[i] += e * e
			}
		}
	} else {
		for i := range d {
			p := x[i*dim:][:len(q)]
			sum := 0.0
			for c, v := range q {
				e := v - p[c]
				sum += e * e
			}
			d[i] = sum
		}
	}
	n := min(k, last)
	smallest(d, n)
	sum := 0.0
	for _, v := range d[:n] {
		if math.IsNaN(v - v) {
			return math.NaN()
		}
		sum += math.Sqrt(v)
	}
	return sum * float64(k) / float64(n)
}

// smallest brings the n smallest of d to the front (Hoare's FIND, 1961). There must
// be no NaN.
func smallest(d []float64, n int) {
	lo, hi := 0, len(d)-1
	for lo < hi {
		// The median of three keeps sorted and equal distances from being the worst case.
		a, b, c := d[lo], d[(lo+hi)/2], d[hi]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := lo, hi
		for i <= j {
			for d[i] < pivot {
				i++
			}
			for d[j] > pivot {
				j--
			}
			if i <= j {
				d[i], d[j] = d[j], d[i]
				i++
				j--
			}
		}
		switch {
		case n-1 <= j:
			hi = j
		case n-1 >= i:
			lo = i
		default:
			return
		}
	}
}
