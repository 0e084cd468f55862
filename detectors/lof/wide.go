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

	points []float64 // and virtual ones
	dim, k int
	lists  [][]neighbour // by point, in the order of points; nil: not needed yet
	kdist  []float64     // squared
	lrd    []float64     // NaN: not needed yet
	found  []neighbour
}

// Score sets scores to the scores of the last len(scores) points of points, dim numbers each, among them and the virtual points,
// whose counts are counts. Many searches are run by parallel:
// f(0) to f(n-1), perhaps several at a time, each of at most `each` points. Once done reports true it returns early, and scores
// are undefined.
func (s *WideScorer) Score(p *Params, scores []float32, points []float64, dim int, virtuals, counts []float64, each int,
	parallel func(n int, f func(i int)), done func() bool) {
	n := len(points) / dim
	if !s.load(p, points, dim, virtuals) {
		fill(scores, float32(math.NaN()))
		return
	}
	if s.k < 1 {
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
	if dim == 1 && len(counts) == 0 {
		l := &s.line
		l.line.SortWide(points)
		l.resolution = resolved
		l.lrd = grown(l.lrd, n)
		from, to := 0, n
		if len(scores) == 1 {
			from = slices.Index(l.line.At, int32(n-1))
			to = from + 1
		}
		l.score(p, s.k, from, to, n-len(scores), scores)
		return
	}
	total := s.clearLists()
	if dim == 1 {
		s.searchLine()
	} else if len(scores) > 1 || len(counts) > 0 { // mostly all are needed
		parallel((total+each-1)/each, func(i int) {
			var found []neighbour
			for at := i * each; at < min((i+1)*each, total); at++ {
				found = s.search(at, found)
			}
		})
		if done() {
			return
		}
	}
	s.lrd = grown(s.lrd, total)
	for i := range s.lrd {
		s.lrd[i] = math.NaN()
	}
	density := func(i int32) float64 {
		if s.lrd[i] != s.lrd[i] {
			sum := 0.0
			for _, o := range s.listOf(i) {
				s.listOf(o.at)
				sum += math.Sqrt(max(s.kdist[o.at], o.square))
			}
			s.lrd[i] = p.Density(sum, s.k, resolved)
		}
		return s.lrd[i]
	}
	if len(counts) > 0 {
		var median, medianLog float64
		if p.Alpha == 0 {
			densities, logs := make([]float64, n), make([]float64, len(counts))
			for i := range densities {
				densities[i] = density(int32(i))
			}
			for i, c := range counts {
				logs[i] = math.Log1p(c)
			}
			median, medianLog = medianOf(densities), medianOf(logs)
		}
		a, literal := p.scale(median, medianLog)
		for i, c := range counts {
			s.lrd[n+i] = virtual(a, literal, c)
		}
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

// load takes the points of a task. It reports whether all numbers are finite.
func (s *WideScorer) load(p *Params, points []float64, dim int, virtuals []float64) bool {
	s.points, s.dim = points, dim
	if len(virtuals) > 0 {
		s.points = slices.Concat(points, virtuals)
	}
	s.k = min(p.K, len(s.points)/dim-1)
	return !slices.ContainsFunc(s.points, func(v float64) bool { return v-v != 0 })
}

// clearLists forgets the lists of the points before and returns the number of points.
func (s *WideScorer) clearLists() int {
	total := len(s.points) / s.dim
	s.lists, s.kdist = slices.Grow(s.lists[:0], total)[:total], grown(s.kdist, total)
	clear(s.lists)
	return total
}

// Neighbours returns what Scorer.Neighbours does of points of float64: the neighbours of each point by which Score scores.
func (s *WideScorer) Neighbours(p *Params, points []float64, dim int, virtuals []float64) func(i int) []int {
	if !s.load(p, points, dim, virtuals) || s.k < 1 {
		return func(int) []int { return nil }
	}
	if s.clearLists(); dim == 1 {
		s.searchLine()
	}
	return func(i int) (at []int) {
		for _, o := range s.listOf(int32(i)) {
			at = append(at, int(o.at))
		}
		return at
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

// searchLine is search of all points, of one coordinate.
func (s *WideScorer) searchLine() {
	l := &s.line
	l.line.SortWide(s.points)
	l.line.Near(s.k, 0, len(l.line.X))
	for i, at := range l.line.At {
		if l.line.Far[i] == 0 { // of more points on its spot, the first are its neighbours
			s.found = s.search(int(at), s.found)
			continue
		}
		list := make([]neighbour, 0, s.k)
		for _, j := range l.neighbours(i) {
			d := l.line.X[j] - l.line.X[i]
			list = append(list, neighbour{d * d, l.line.At[j]})
		}
		s.lists[at], s.kdist[at] = list, l.line.Far[i]*l.line.Far[i]
	}
}

// search makes point i's list, and sets its k-distance. found is its memory.
func (s *WideScorer) search(i int, found []neighbour) []neighbour {
	found = found[:0] // the k nearest so far, the nearest first, of equal ones the first
	at := s.points[i*s.dim:][:s.dim]
	for j := range s.lists {
		square := 0.0
		for c, v := range s.points[j*s.dim:][:s.dim] {
			d := at[c] - v
			square += float64(d * d)
		}
		if j == i || len(found) == s.k && square >= found[s.k-1].square {
			continue
		}
		if len(found) < s.k {
			found = append(found, neighbour{})
		}
		to := len(found) - 1
		for ; to > 0 && found[to-1].square > square; to-- {
			found[to] = found[to-1]
		}
		found[to] = neighbour{square, int32(j)}
	}
	slices.SortFunc(found, func(a, b neighbour) int { return int(a.at) - int(b.at) })
	list := make([]neighbour, s.k)
	s.kdist[i] = nearest(list, found)
	s.lists[i] = list
	return found
}
