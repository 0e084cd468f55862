package discord

import (
	"math"

	"odradek/detectors/vec"
)

// leftSearch computes LeftQuery.Define of one neighbour, of a subsequence of each of several lengths in a series of one value, as
// LeftScorer does, to the bit, but reads the past backwards from the subsequence and may end early: what it has found so far is an
// upper bound of the score. Moments are computed where they are read. It keeps memory for reuse.
type leftSearch struct {
	t     leftColumn // its x is of the caller, during a search
	sums  []float64
	scale []float64 // by length: of correlations
	far   []float64 // by length: the largest correlation with subsequences far from the center
	all   []int
	n     int // neighbours of the shortest length
	from  int
	end   int
}

// seeds is the number of neighbours around the last score's nearest one that are compared first.
const seeds = 16

// scores sets scores to bounds for which enough returns true, or to the scores of the subsequences that end before row end. lag is
// how many rows before the end of the last score's subsequences their nearest neighbour ended, 0: unknown; the second result is the one
// of these. It returns false where LeftScorer has to compute the scores.
func (s *leftSearch) scores(w *LeftMemory, scores, x []float64, lengths []int, excludeFlat bool, from, end, lag int,
	enough func(scores []float64) bool) (int, bool) {
	t := &s.t
	defer func() { t.x = nil }()
	s.load(x, lengths, from, end)
	shortest, longest := lengths[0], lengths[len(lengths)-1]
	if end-2*longest < from || !s.ask(w, excludeFlat) {
		return 0, false
	}
	try := func(at, size int, filter bool) (again int) {
		before := w.most[len(lengths)-1]
		s.prepare(at, size, excludeFlat)
		if filter {
			again = t.filter(w, from, at, size, s.n, s.all)
		} else {
			t.tile(w, nil, from, at, size, s.n, s.all, nil)
		}
		for a := range t.moments {
			o := &t.moments[a]
			for _, f := range o.farFrom(from, max(0, end-2*o.m-from+1)) {
				s.far[a] = max(s.far[a], f.product(x[f.at:int(f.at)+o.m], w.query[longest-o.m:])*f.inv*s.scale[a])
			}
		}
		if w.most[len(lengths)-1] > before {
			lag = end - (from + s.place(w, at, size, filter) + shortest)
		}
		s.bound(w, scores)
		return again
	}
	if at := end - lag - shortest - from - seeds/2; lag > 0 && at >= longest-shortest && at+seeds <= s.n-(longest-shortest) {
		if try(at, seeds, false); enough(scores) {
			return lag, true
		}
	}
	filter, again := !w.plain && w.low.load(t, w, s.all), 0
	for top := s.n; top > 0; {
		size := leftTile
		if top < 2*leftTile {
			size = top
		}
		top -= size
		again += try(top, size, filter)
		filter = filter && again <= mostAgain+(s.n-top)/mostAgainShare
		if top > 0 && enough(scores) {
			break
		}
	}
	return lag, true
}

func (s *leftSearch) load(x []float64, lengths []int, from, end int) {
	t := &s.t
	last := len(x) - 1
	if t.center = middle(x[0], x[last/2], x[last]); t.center-t.center != 0 {
		t.center = 0
	}
	t.x, t.y, t.run = x[:end], sized(t.y, end), t.run[:0]
	t.moments = sized(t.moments, len(lengths))
	s.all, s.from, s.end, s.n = s.all[:0], from, end, end-2*lengths[0]-from+1
	s.scale, s.far = sized(s.scale, len(lengths)), sized(s.far, len(lengths))
	for a, m := range lengths {
		o := &t.moments[a]
		o.m, o.roots, o.mean, o.inv = m, false, sized(o.mean, end-m+1), sized(o.inv, end-m+1)
		s.all, s.far[a] = append(s.all, a), math.Inf(-1)
	}
	sumsOfLengths(t.moments)
}

// prepare computes the moments of the subsequences that are neighbours from number at to at+size-1.
func (s *leftSearch) prepare(at, size int, excludeFlat bool) {
	shortest, longest := s.t.moments[0].m, s.t.moments[len(s.t.moments)-1].m
	first := max(s.from, s.from+at+shortest-longest)
	s.rows(first, s.from+at+size-first, excludeFlat)
}

// rows computes the moments of the subsequences that begin at n rows from row first on, and forgets which others are flat or far.
func (s *leftSearch) rows(first, n int, excludeFlat bool) {
	t := &s.t
	longest := t.moments[len(t.moments)-1].m
	for a := range t.moments {
		t.moments[a].flat, t.moments[a].far = t.moments[a].flat[:0], t.moments[a].far[:0]
	}
	y := t.y[first:min(first+n+longest-1, s.end)]
	for i, v := range t.x[first:][:len(y)] {
		y[i] = v - t.center
	}
	s.sums = sized(s.sums, 2*(n+longest))
	t.prepare(first, n, s.sums, excludeFlat)
}

// ask prepares the subsequences' products. It returns false unless all of them are usual and share their products.
func (s *leftSearch) ask(w *LeftMemory, excludeFlat bool) bool {
	t, last := &s.t, len(s.all)-1
	shortest, longest := t.moments[0].m, t.moments[last].m
	s.rows(s.end-longest, longest-shortest+1, excludeFlat)
	mean := func(a int) float64 { return t.moments[a].mean[s.end-t.moments[a].m] }
	center := (mean(0) + mean(last)) / 2
	w.most = sized(w.most, len(s.all))
	for a := range t.moments {
		o := &t.moments[a]
		inv, usual := o.usual(s.end - o.m)
		d := (mean(a) - center) * inv
		if !usual || !(float64(o.m)*d*d <= togetherRatio) {
			return false
		}
		w.most[a], s.scale[a] = math.Inf(-1), inv
	}
	if last == 0 {
		center = mean(0)
	}
	inv := s.scale[last]
	for a := range s.scale {
		if s.scale[a] /= inv; last == 0 {
			s.scale[a] = 1
		}
	}
	t.ask(w, t.y, 0, center, inv, s.end, s.all)
	return true
}

// bound sets scores by the largest correlations so far.
func (s *leftSearch) bound(w *LeftMemory, scores []float64) {
	for a := range scores {
		best := w.most[a]
		if !math.IsInf(best, -1) {
			best = math.Copysign(math.Sqrt(math.Abs(best)), best) * s.scale[a]
		}
		if best = max(best, s.far[a]); math.IsInf(best, -1) {
			scores[a] = math.NaN()
			continue
		}
		scores[a] = math.Sqrt(max(0, 1-best))
	}
}

// place returns which of size neighbours from number at on is the longest length's nearest.
func (s *leftSearch) place(w *LeftMemory, at, size int, filtered bool) int {
	t, last := &s.t, len(s.all)-1
	o := &t.moments[last]
	i, j, row := o.among(at, size, s.n, t.moments[0].m, s.from)
	if filtered {
		i, j, row = w.low.rose, min(w.low.rose+8, j), row+w.low.rose-i
	}
	for ; i < j; i, row = i+8, row+8 {
		n := min(8, j-i)
		t.exact(w, w.products[:n], s.from+i+t.moments[0].m, s.all)
		for k := range n {
			if vec.Largest(w.products[k:k+1], nil, o.mean[row+k:row+k+1], o.inv[row+k:row+k+1], w.rest[last], math.Inf(-1)) == w.most[last] {
				return i + k
			}
		}
	}
	return at
}
