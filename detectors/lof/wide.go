package lof

import (
	"math"
	"slices"
)

// WideScorer scores points of float64, whose differences float32 would round away. The zero value is ready; it is for one
// goroutine at a time. Points of one coordinate are sorted, as line.go has it; of others all distances of those points are
// computed whose neighbours a score needs.
type WideScorer struct {
	line onLine

	points []float64
	dim, k int
	lists  [][]neighbour // by point, in the order of points; nil: not needed yet
	kdist  []float64     // squared
	found  []neighbour
}

// Score sets scores to those of the last len(scores) points of points, dim numbers each. Many searches are run by parallel:
// f(0) to f(n-1), perhaps several at a time, each of at most `each` points. Once done reports true it returns early, and scores
// are undefined.
func (s *WideScorer) Score(p *Params, scores []float32, points []float64, dim int, each int, parallel func(n int, f func(i int)),
	done func() bool) {
	n := len(points) / dim
	for _, v := range points {
		if v-v != 0 {
			fill(scores, float32(math.NaN()))
			return
		}
	}
	if s.k = min(p.K, n-1); s.k < 1 {
		fill(scores, 1)
		return
	}
	least := math.NaN()
	resolved := func() float64 {
		if least != least {
			least = ResolutionOf(points, dim)
		}
		return least
	}
	if dim == 1 {
		l := &s.line
		l.SortWide(points)
		l.resolution = resolved
		l.lrd = grown(l.lrd, n)
		from, to := 0, n
		if len(scores) == 1 {
			from = slices.Index(l.At, int32(n-1))
			to = from + 1
		}
		l.score(p, s.k, from, to, n-len(scores), scores)
		return
	}
	s.points, s.dim = points, dim
	s.lists, s.kdist = slices.Grow(s.lists[:0], n)[:n], grown(s.kdist, n)
	clear(s.lists)
	if len(scores) > 1 { // mostly all are needed
		parallel((n+each-1)/each, func(i int) {
			var found []neighbour
			for at := i * each; at < min((i+1)*each, n); at++ {
				found = s.search(at, found)
			}
		})
		if done() {
			return
		}
	}
	lrd := map[int32]float64{}
	density := func(i int32) float64 {
		d, ok := lrd[i]
		if !ok {
			sum := 0.0
			for _, o := range s.listOf(i) {
				s.listOf(o.at)
				sum += math.Sqrt(max(s.kdist[o.at], o.square))
			}
			d = p.Density(sum, s.k, resolved)
			lrd[i] = d
		}
		return d
	}
	for f := range scores {
		i := int32(n - len(scores) + f)
		sum := 0.0
		for _, o := range s.listOf(i) {
			sum += density(o.at)
		}
		scores[f] = float32(p.factor(sum, density(i), s.k))
	}
}

func fill(scores []float32, v float32) {
	for i := range scores {
		scores[i] = v
	}
}

func (s *WideScorer) listOf(i int32) []neighbour {
	if s.lists[i] == nil {
		s.found = s.search(int(i), s.found)
	}
	return s.lists[i]
}

// search makes point i's list, and sets its k-distance. found is its memory.
func (s *WideScorer) search(i int, found []neighbour) []neighbour {
	found = found[:0]
	at := s.points[i*s.dim:][:s.dim]
	for j := range s.lists {
		if j == i {
			continue
		}
		square := 0.0
		for c, v := range s.points[j*s.dim:][:s.dim] {
			d := at[c] - v
			square += float64(d * d)
		}
		found = append(found, neighbour{square, int32(j)})
	}
	list := make([]neighbour, s.k)
	s.kdist[i] = nearest(list, found)
	s.lists[i] = list
	return found
}
