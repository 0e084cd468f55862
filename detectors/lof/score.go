package lof

import (
	"math"
	"slices"
	"sync"

	"odradek/detectors/vec"
)

// The fast form for points of several coordinates; line.go has the one for points of one. It computes
// only what the requested scores need: the neighbours of the points to score and of those neighbours,
// and the k-distances of the neighbours of all of these. For one point of 1,024 in 8 dimensions with k
// = 20 these are 160 points. All points are needed where all are to be scored, and with virtual points
// without Alpha, whose scale needs the median of all.
//
// A point's neighbours are searched in float32, then decided in float64:
//
//   - all squared distances, from two points at a time, with the minima of 64
//     groups of them (vec.SqDists);
//   - a bound within which lie a few more than k of these minima (vec.Bound), and
//     so at least k points: about 1.2 k, regardless of the number of points;
//   - the points within, and within the bound's rounding errors (vec.AtMost);
//   - of these the k nearest, and those that float32 cannot tell from the k-th
//     (vec.Rank): mostly none;
//   - the distances of the rest as the definition computes them.
//
// So neighbours are the definition's, ties included, and a score is the
// same to the bit however many are requested.
//
// Floor at n=1024, d=8: 2n*d operations a point, at AVX2's 32 a cycle 512
// cycles, 0.15 us. Measured on one EPYC 9004 core: 0.9 us a point for whole
// windows, 120 us for one score; of that a third distances, a sixth each the
// two ranks and AtMost.

// Scorer is the scratch memory of scoring; the zero value is ready. It is used by one
// goroutine at a time, for any parameters.
type Scorer struct {
	n, total, padded int // real points; all; all with the padding
	dim, k           int
	rows             []float32 // all points, dim numbers each
	columns          []float32 // the same by dimension, scaled, padded apart
	exact            bool      // a float32 distance is 0 only between equal points
	least            float64   // the resolution; NaN: not computed yet
	resolved         func() float64

	todo   []int32 // points to search from
	listed []int32 // points that have a list
	own    search  // of the goroutine that has the Scorer

	state []uint8     // by point: which of the following are known
	list  []neighbour // k a point
	kdist []float64   // squared
	lrd   []float64
	sort  []float64

	line onLine // where dim is 1
}

// search is the scratch memory of a search from two points at a time. It writes its results
// to the Scorer's entries of these points alone.
type search struct {
	*Scorer
	pair   [2]vec.Distances
	q64    []float64
	places []int32   // candidates
	near   []float32 // their distances in float32
	square []float64 // and in float64
	found  []neighbour
}

// searches has the memory of other goroutines' searches.
var searches = sync.Pool{New: func() any { return new(search) }}

const (
	hasKDist uint8 = 1 << iota
	hasList
)

type neighbour struct {
	square float64
	at     int32
}

// Score sets scores to the scores of the last len(scores) points of points, dim
// numbers each.
func (s *Scorer) Score(p *Params, scores, points []float32, dim int, virtuals, counts []float32) {
	s.ScoreParallel(p, scores, points, dim, virtuals, counts, 0, nil, nil)
}

// ScoreParallel is Score with the searches run by parallel, if it is not nil: f(0) to
// f(n-1), perhaps several at a time, each of at most `each` points. Once done reports
// true it returns early, and scores are undefined.
func (s *Scorer) ScoreParallel(p *Params, scores, points []float32, dim int, virtuals, counts []float32, each int,
	parallel func(n int, f func(i int)), done func() bool) {
	if !s.load(points, dim, virtuals) {
		for i := range scores {
			scores[i] = float32(math.NaN())
		}
		return
	}
	s.k = min(p.K, s.total-1)
	if s.k < 1 {
		for i := range scores {
			scores[i] = 1
		}
		return
	}
	if dim == 1 && s.total == s.n {
		s.scoreLine(p, scores)
		return
	}
	s.scoreSearched(p, scores, counts, each, parallel, done)
}

// scoreSearched is ScoreParallel for points that are loaded.
func (s *Scorer) scoreSearched(p *Params, scores, counts []float32, each int, parallel func(n int, f func(i int)), done func() bool) {
	s.reserve()
	first := s.n - len(scores)
	if len(counts) > 0 && p.Alpha == 0 {
		first = 0 // the median of lrd is over all points
	}
	for i := first; i < s.n; i++ {
		s.want(i, hasList)
	}
	all := func(find func(*search, int, *vec.Distances)) (ended bool) {
		if parallel == nil {
			s.own.all(s.todo, find)
		} else {
			n := (len(s.todo) + each - 1) / each
			parallel(n, func(k int) {
				h := searches.Get().(*search)
				h.reserve(s)
				h.all(s.todo[k*each:min((k+1)*each, len(s.todo))], find)
				h.Scorer = nil
				searches.Put(h)
			})
			ended = done()
		}
		s.todo = s.todo[:0]
		return ended
	}
	if all((*search).makeList) {
		return
	}
	for i := first; i < s.n; i++ {
		for _, o := range s.listOf(i) {
			if int(o.at) < s.n {
				s.want(int(o.at), hasList)
			}
		}
	}
	if all((*search).makeList) {
		return
	}
	for _, i := range s.listed {
		for _, o := range s.listOf(int(i)) {
			s.want(int(o.at), hasKDist)
		}
	}
	if all((*search).findKDist) {
		return
	}
	for _, i := range s.listed {
		s.density(p, int(i))
	}
	if len(counts) > 0 {
		s.virtual(p, counts)
	}
	for f := range scores {
		i := s.n - len(scores) + f
		sum := 0.0
		for _, o := range s.listOf(i) {
			sum += s.lrd[o.at]
		}
		scores[f] = float32(p.factor(sum, s.lrd[i], s.k))
	}
}

// load copies the points; it returns false where one is not finite.
func (s *Scorer) load(points []float32, dim int, virtuals []float32) bool {
	s.dim, s.n = dim, len(points)/dim
	s.total = s.n + len(virtuals)/dim
	if s.least = math.NaN(); s.resolved == nil {
		s.resolved = func() float64 {
			if s.least != s.least {
				s.least = ResolutionOf(s.rows[:s.n*s.dim], s.dim)
			}
			return s.least
		}
	}
	s.padded = (s.total + vec.Group - 1) / vec.Group * vec.Group
	s.rows = points
	if len(virtuals) > 0 {
		s.rows = append(append(s.rows[:0:0], points...), virtuals...)
	}
	peak, least := vec.Extent(s.rows)
	if !(peak <= math.MaxFloat32) {
		return false
	}
	// Squares must not overflow, and should not be 0.
	scale := float32(1)
	if peak > 0x1p40 || peak < 0x1p-20 && peak > 0 {
		scale = float32(math.Ldexp(1, min(20-math.Ilogb(float64(peak)), 120)))
	}
	// Differences of floats are whole multiples of the lesser's last place.
	s.exact = least == 0 || float64(least)*float64(scale) >= 0x1p-50
	s.columns = grown(s.columns, dim*s.padded)
	for c := range dim {
		column := s.columns[c*s.padded : (c+1)*s.padded]
		vec.Column(column[:s.total], scale, s.rows[c:], dim)
		for i := s.total; i < s.padded; i++ {
			column[i] = float32(math.Inf(1))
		}
	}
	return true
}

func grown[T any](a []T, n int) []T {
	if cap(a) < n {
		return make([]T, n, n+n/4)
	}
	return a[:n]
}

func (s *Scorer) reserve() {
	s.own.reserve(s)
	s.todo, s.listed = s.todo[:0], s.listed[:0]
	s.state = grown(s.state, s.total)
	clear(s.state)
	s.list = grown(s.list, s.total*s.k)
	s.kdist = grown(s.kdist, s.total)
	s.lrd = grown(s.lrd, s.total)
}

// reserve prepares sr to search the points of s.
func (sr *search) reserve(s *Scorer) {
	sr.Scorer = s
	groups := (2*(s.k+1) + vec.Group - 1) / vec.Group * vec.Group
	for l := range sr.pair {
		sr.pair[l].Q = grown(sr.pair[l].Q, s.dim)
		sr.pair[l].D = grown(sr.pair[l].D, s.padded)
		sr.pair[l].Low = grown(sr.pair[l].Low, groups)
	}
	sr.places = grown(sr.places, s.padded+vec.Lanes)
	sr.near = grown(sr.near, s.padded+vec.Lanes)
	sr.square = grown(sr.square, s.padded)
	sr.q64 = grown(sr.q64, s.dim)
}

func (s *Scorer) listOf(i int) []neighbour { return s.list[i*s.k : (i+1)*s.k] }

// want puts point i on the list of those to search from, unless its result is known.
// Lists are requested before k-distances.
func (s *Scorer) want(i int, what uint8) {
	if s.state[i]&what != 0 {
		return
	}
	s.state[i] |= what | hasKDist
	s.todo = append(s.todo, int32(i))
	if what == hasList {
		s.listed = append(s.listed, int32(i))
	}
}

// all measures the distances from the points of todo, two at a time, and passes them to
// find.
func (sr *search) all(todo []int32, find func(sr *search, i int, d *vec.Distances)) {
	for ; len(todo) > 0; todo = todo[min(2, len(todo)):] {
		pair := [2]int{int(todo[0]), int(todo[min(1, len(todo)-1)])}
		for l, i := range pair {
			for c := range sr.pair[l].Q {
				sr.pair[l].Q[c] = sr.columns[c*sr.padded+i]
			}
		}
		vec.SqDists(&sr.pair[0], &sr.pair[1], sr.columns, sr.padded)
		for l, i := range pair[:min(2, len(todo))] {
			find(sr, i, &sr.pair[l])
		}
	}
}

// candidates puts a superset of point i's k neighbours, in order, with i itself,
// into places and their distances into near. If equal, they all coincide with i;
// if not, the k-th neighbour's distance lies between low and high.
func (sr *search) candidates(d *vec.Distances) (n int, low, high float32, equal bool) {
	t := vec.Bound(d.Low, sr.k+1)
	if equal = t == 0 && sr.exact; equal {
		return vec.AtMost(sr.places, sr.near, d.D, 0), 0, 0, true
	}
	_, t = sr.margin(t)
	n = vec.AtMost(sr.places, sr.near, d.D, t)
	end := (n + vec.Lanes - 1) / vec.Lanes * vec.Lanes
	for a := n; a < end; a++ {
		sr.near[a] = t
	}
	low, high = sr.margin(vec.Rank(sr.near[:end], sr.k+1))
	return n, low, high, false
}

// margin returns the range of float32 distances of a point that may be as far as d, given
// the rounding of both.
func (s *Scorer) margin(d float32) (low, high float32) {
	relative := float64(4*(s.dim+4)) * 0x1p-24
	absolute := float64(4*s.dim) * 0x1p-149 // of squares too small for float32
	return float32(float64(d)*(1-relative) - absolute), float32(float64(d)*(1+relative) + absolute)
}

// squares sets s.square to the distances of point i to places, as the
// definition has them.
func (sr *search) squares(i int, places []int32) []float64 {
	for c, v := range sr.rows[i*sr.dim : (i+1)*sr.dim] {
		sr.q64[c] = float64(v)
	}
	vec.SqDists64(sr.square[:len(places)], sr.rows, places, sr.dim, sr.q64)
	return sr.square[:len(places)]
}

// makeList makes point i's list, in order of place.
func (sr *search) makeList(i int, d *vec.Distances) {
	list := sr.listOf(i)
	n, _, high, equal := sr.candidates(d)
	places := sr.places[:n]
	if equal {
		for a := range list {
			if int(places[a]) == i {
				places = places[1:]
			}
			list[a] = neighbour{0, places[a]}
		}
		sr.kdist[i] = 0
		return
	}
	m := 0
	for a, j := range places {
		places[m] = j
		if sr.near[a] <= high && int(j) != i {
			m++
		}
	}
	places = places[:m]
	squares := sr.squares(i, places)
	if m == sr.k {
		most := 0.0
		for a, j := range places {
			list[a] = neighbour{squares[a], j}
			most = max(most, squares[a])
		}
		sr.kdist[i] = most
		return
	}
	sr.found = sr.found[:0]
	for a, j := range places {
		sr.found = append(sr.found, neighbour{squares[a], j})
	}
	sr.kdist[i] = nearest(list, sr.found)
}

// nearest puts the len(list) nearest of found, which are in order of place, into
// list, in that order, and returns the largest square. found may be changed.
func nearest(list, found []neighbour) float64 {
	for drop := len(found) - len(list); drop > 0 && drop <= 12; drop-- {
		far := 0
		for a := range found {
			if found[a].square >= found[far].square {
				far = a
			}
		}
		copy(found[far:], found[far+1:])
		found = found[:len(found)-1]
	}
	if len(found) > len(list) {
		slices.SortStableFunc(found, func(a, b neighbour) int {
			switch {
			case a.square < b.square:
				return -1
			case a.square > b.square:
				return 1
			}
			return 0
		})
		found = found[:len(list)]
		slices.SortFunc(found, func(a, b neighbour) int { return int(a.at) - int(b.at) })
	}
	most := 0.0
	for a, c := range found {
		list[a] = c
		most = max(most, c.square)
	}
	return most
}

// findKDist finds point i's squared k-distance. After float32 few points may
// have it, mostly one.
func (sr *search) findKDist(i int, d *vec.Distances) {
	n, low, high, equal := sr.candidates(d)
	if equal {
		sr.kdist[i] = 0
		return
	}
	places, m, below := sr.places[:n], 0, 0
	for a, d := range sr.near[:n] {
		if d < low {
			below++
		} else if j := places[a]; d <= high && int(j) != i {
			places[m] = j
			m++
		}
	}
	if low > 0 {
		below-- // i itself
	}
	squares := sr.squares(i, places[:m])
	if m > 1 {
		slices.Sort(squares)
	}
	sr.kdist[i] = squares[sr.k-below-1]
}

// density computes point i's lrd from its list.
func (s *Scorer) density(p *Params, i int) {
	sum := 0.0
	for _, o := range s.listOf(i) {
		sum += math.Sqrt(max(s.kdist[o.at], o.square))
	}
	s.lrd[i] = p.Density(sum, s.k, s.resolved)
}

// virtual sets the virtual points' densities.
func (s *Scorer) virtual(p *Params, counts []float32) {
	var median, medianLog float64
	if p.Alpha == 0 {
		s.sort = append(s.sort[:0], s.lrd[:s.n]...)
		median = s.middle()
		s.sort = s.sort[:0]
		for _, c := range counts {
			s.sort = append(s.sort, math.Log1p(float64(c)))
		}
		medianLog = s.middle()
	}
	a, literal := p.scale(median, medianLog)
	for i, c := range counts {
		s.lrd[s.n+i] = virtual(a, literal, float64(c))
	}
}

func (s *Scorer) middle() float64 {
	slices.Sort(s.sort)
	return s.sort[(len(s.sort)-1)/2]
}

// Neighbours are the places of point i's neighbours, in order; neighbours of virtual
// points come after the points'. It is nil where there are none, or a number is
// not finite.
func (s *Scorer) Neighbours(p *Params, points []float32, dim int, virtuals []float32, i int) []int {
	if !s.load(points, dim, virtuals) {
		return nil
	}
	if s.k = min(p.K, s.total-1); s.k < 1 {
		return nil
	}
	s.reserve()
	s.want(i, hasList)
	s.own.all(s.todo, (*search).makeList)
	at := make([]int, s.k)
	for a, o := range s.listOf(i) {
		at[a] = int(o.at)
	}
	return at
}
