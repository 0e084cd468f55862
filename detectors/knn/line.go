package knn

import (
	"math"
	"slices"

	"odradek/detectors/vec"
)

// Line computes the weights of points of one coordinate from their order (vec.Line), in
// O(k) a point after a sort. The zero value is ready; it is for one goroutine at a time.
type Line struct{ line vec.Line }

// Weights sets weights to those, rounded to float32, of the last len(weights) points of x
// among all of x. They have the bits of Scorer's.
//
// Distances are summed in the order of the coordinates. Where the order could change the
// rounded weight, they are summed in the order of the points, as Scorer sums them. Mostly
// coordinates are of similar size and both sums are exact.
//
// Measured at n=1024, k=20 on one EPYC 9004 core: 30 ns a point.
func (l *Line) Weights(weights, x []float32, k int, self bool) {
	peak, least := vec.Extent(x)
	if !(peak <= math.MaxFloat32) {
		for i := range weights {
			weights[i] = float32(math.NaN())
		}
		return
	}
	others := min(k-number(self), len(x)-1)
	if others < 1 {
		for i := range weights {
			weights[i] = float32(scaleToK(0, k, number(self)))
		}
		return
	}
	s := &l.line
	s.Sort(x, nil)
	s.Near(others, 0, len(x))
	open := float64(4*k+16) * 0x1p-53 // roundings of both sums
	if least == 0 || 2*float64(k)*float64(peak) <= 0x1p53*math.Ldexp(1, math.Ilogb(float64(least))-23) {
		open = 0 // sums are multiples, by less than 2^53, of the last place of the least
	}
	first := len(x) - len(weights)
	for i, q := range s.X {
		at := int(s.At[i]) - first
		if at < 0 {
			continue
		}
		r := s.Range[i]
		below, above := 0.0, 0.0
		for _, v := range s.X[r.From:i] {
			below += q - v
		}
		for _, v := range s.X[i+1 : r.To] {
			above += v - q
		}
		for _, j := range s.Tied(r) {
			above += math.Abs(s.X[j] - q)
		}
		w := scaleToK(below+above, k, others+number(self))
		if weights[at] = float32(w * (1 - open)); weights[at] != float32(w*(1+open)) {
			weights[at] = float32(scaleToK(l.inOrder(i), k, others+number(self)))
		}
	}
}

// inOrder returns the sum of the distances of the point at position i to its neighbours, in the
// order of the points.
func (l *Line) inOrder(i int) (sum float64) {
	s := &l.line
	r := s.Range[i]
	list := slices.Clone(s.Tied(r))
	for j := r.From; j < r.To; j++ {
		if int(j) != i {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return int(s.At[a]) - int(s.At[b]) })
	for _, j := range list {
		sum += math.Abs(s.X[j] - s.X[i])
	}
	return sum
}
