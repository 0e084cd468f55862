package knn

import (
	"cmp"
	"math"
	"slices"
)

// WideScorer computes weights of points of float64, whose differences float32 would round away. The zero value is ready;
// it is for one goroutine at a time.
type WideScorer struct {
	square, least []float64
	near          []int
}

// Weight is Define in O(n), to the bit. The neighbours are valid until the next call.
func (s *WideScorer) Weight(x []float64, dim, m, k int, self bool, q Query) (weight float64, neighbours []int) {
	width := m * dim
	at := x[q.At*dim:][:width]
	for _, v := range at {
		if isBad(v) {
			return math.NaN(), nil
		}
	}
	s.square = s.square[:0]
	for i := q.From; i < q.To; i++ {
		sum := 0.0
		for c, v := range x[i*dim:][:width] {
			d := at[c] - v
			sum += float64(d * d)
		}
		if sum-sum != 0 { // not finite, or too far to be squared
			for _, v := range x[i*dim:][:width] {
				if isBad(v) {
					return math.NaN(), nil
				}
			}
		}
		s.square = append(s.square, sum)
	}
	s.near = s.near[:0]
	if self {
		s.near = append(s.near, q.At)
	}
	s.least = append(s.least[:0], s.square...)
	if i := q.At - q.From; i >= 0 && i < len(s.least) {
		s.least[i] = s.least[len(s.least)-1]
		s.least = s.least[:len(s.least)-1]
	}
	n := min(k-number(self), len(s.least))
	if n > 0 {
		far := smallest(s.least, n)
		last := n // of those at the largest distance
		for _, v := range s.least {
			if v < far {
				last--
			}
		}
		for i, v := range s.square {
			if q.From+i == q.At || v > far || v == far && last == 0 {
				continue
			}
			if v == far {
				last--
			}
			s.near = append(s.near, q.From+i)
		}
		others := s.near[number(self):]
		slices.SortStableFunc(others, func(a, b int) int { return cmp.Compare(s.square[a-q.From], s.square[b-q.From]) })
		for _, i := range others {
			weight += math.Sqrt(s.square[i-q.From])
		}
	}
	return scaleToK(weight, k, len(s.near)), s.near
}
