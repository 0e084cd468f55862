package discord

import (
	"math"

	"odradek/detectors"
)

// MERLIN returns the first `count` discords of each length, as [Define] does, up to rounding.
// options returns the options of a length. The result does not depend on the order in which parallel
// runs its calls.
//
// All neighbours are found at the first length. From then on each subsequence has an upper
// bound: the distance to the neighbour of the length before, whose covariance is carried
// from length to length. Those whose bound is at least a radius r are range discords or not
// (range.go), and once the first discords by bounds are distances, they are the discords. As
// in MERLIN, r is the mean less two standard deviations of the last five distances of the
// last discord, and then falls; where it has to fall more than a few times, or would leave
// too many subsequences, all neighbours are found again. So the search ends for any
// distances, also where all are equal.
func MERLIN(x []float64, l Lengths, count int, options func(m int) Options, parallel detectors.Parallel) [][]Discord {
	return merlin(x, 0, l, count, options, parallel)
}

// merlin is MERLIN for discords that begin at a given place of the series or later; earlier
// subsequences are neighbours alone.
func merlin(x []float64, from int, l Lengths, count int, options func(m int) Options, parallel detectors.Parallel) [][]Discord {
	var found [][]Discord
	everyLength(x, from, l, options, parallel, func(m int, t table) bool {
		found = append(found, t.discords(count))
		return true
	})
	return found
}

// Tops is MERLIN that calls visit for each length, the least first, while visit returns true.
func Tops(x []float64, l Lengths, count int, options func(m int) Options, parallel detectors.Parallel,
	visit func(m int, top []Discord) bool) {
	everyLength(x, 0, l, options, parallel, func(m int, t table) bool { return visit(m, t.discords(count)) })
}

// table has the subsequences of one length, whose discords are searched as they are asked for.
type table interface {
	// discords returns the first discords.
	discords(count int) []Discord
	// ranged returns the range discords in the order of their places.
	ranged(r float64) []Discord
}

// everyLength calls visit for each length, the least first, while visit returns true. A table is valid until visit
// returns.
func everyLength(x []float64, from int, l Lengths, options func(m int) Options, parallel detectors.Parallel,
	visit func(m int, t table) bool) {
	s := search{from: lanes + from}
	for _, m := range l.All() {
		o := options(m)
		var t table = &s
		if o.k() > 1 || len(x) < m {
			p := Compute(x, m, o, parallel)
			for i := range min(from, len(p.Distance)) {
				p.Distance[i] = math.NaN()
			}
			t = whole{p, m}
		} else {
			s.exclusion, s.parallel = o.exclusion(m), parallel
			if s.series.m == 0 {
				s.series.load(x, m, o.ExcludeFlat)
				s.findAll(o.Single)
			} else {
				s.advance(m)
			}
		}
		if !visit(m, t) {
			return
		}
	}
}

// whole is the table of a profile.
type whole struct {
	profile Profile
	m       int
}

func (w whole) discords(count int) []Discord { return w.profile.Top(w.m, count) }
func (w whole) ranged(r float64) []Discord   { return w.profile.Range(w.m, r) }

// search is a search for the discords of one length after the other.
type search struct {
	series    series
	from      int // the first that may be a discord
	exclusion int
	parallel  detectors.Parallel
	near      []int32   // a near subsequence, by subsequence; -1: none is known
	cov       []float64 // the covariance with it
	d         []float64 // the distance to it, Inf without one; NaN: the subsequence has no distance
	exact     []bool    // it is the nearest
	limit     []float64 // least correlation of a nearer neighbour; Inf: none is searched
	never     []float64
	last      []float64 // distances of the last discords of the last lengths
}

// findAll finds all neighbours. In single precision their distances are upper bounds.
func (s *search) findAll(inSingle bool) {
	near := s.series.all(s.exclusion, inSingle, s.parallel)
	n := s.series.starts
	s.reserve()
	const each = 512
	s.parallel((n+each-1)/each, func(unit int) {
		for i := unit * each; i < min(n, (unit+1)*each); i++ {
			s.near[i] = near[i]
			if s.series.flat(i) {
				s.near[i] = int32(s.series.flatNeighbour(i, s.exclusion))
			}
			s.measure(i)
			if inSingle && s.series.usual(i) {
				s.exact[i] = false
				if s.near[i] < 0 {
					s.d[i] = math.Inf(1)
				}
			}
		}
	})
}

// reserve makes room for all subsequences.
func (s *search) reserve() {
	n := s.series.starts
	s.near, s.cov, s.d, s.exact = sized(s.near, n), sized(s.cov, n), sized(s.d, n), sized(s.exact, n)
	s.limit, s.never = sized(s.limit, n+lanes), sized(s.never, n+lanes)
	for i := range s.never {
		s.limit[i], s.never[i] = math.Inf(1), math.Inf(1)
	}
}

// measure computes a subsequence's distance to its nearest and their covariance.
func (s *search) measure(i int) {
	s.exact[i], s.d[i], s.cov[i] = true, math.NaN(), 0
	if j := int(s.near[i]); j >= 0 {
		s.d[i], s.cov[i] = s.series.distance(i, j), s.covariance(i, j)
	}
}

// covariance returns the covariance of two subsequences, times their length.
func (s *search) covariance(i, j int) float64 {
	a, b := s.series.x[i:i+s.series.m], s.series.x[j:j+s.series.m]
	ea, eb := s.series.sum[i]/float64(s.series.m), s.series.sum[j]/float64(s.series.m)
	sum := 0.0
	for k, v := range a {
		sum += (v - a[0] - ea) * (b[k] - b[0] - eb)
	}
	return sum
}

// advance proceeds to a larger length: distances become upper bounds.
func (s *search) advance(m int) {
	x, sum := s.series.x, s.series.sum
	for s.series.m < m {
		at := s.series.m
		t := float64(at)
		n := s.series.starts - 1
		for i := range n {
			if j := int(s.near[i]); j >= n {
				s.near[i] = -1
			} else if j >= 0 {
				s.cov[i] += t / (t + 1) * (x[i+at] - x[i] - sum[i]/t) * (x[j+at] - x[j] - sum[j]/t)
			}
		}
		s.series.lengthen()
	}
	s.series.derive()
	for i := range s.series.starts {
		s.bound(i)
	}
}

// bound computes the distance to the near subsequence if the two are still compared.
func (s *search) bound(i int) {
	s.exact[i], s.d[i] = false, math.Inf(1)
	switch j := int(s.near[i]); {
	case s.series.flat(i):
		s.near[i] = int32(s.series.flatNeighbour(i, s.exclusion))
		s.measure(i)
	case !s.series.usual(i):
		s.near[i] = -1
		s.measure(i)
	case j < 0 || j > i-s.exclusion && j < i+s.exclusion || isBad(s.series.inv[j]):
		s.near[i] = -1
	default:
		s.d[i] = s.apart(s.cov[i] * s.series.inv[i] * s.series.inv[j])
	}
}

// apart converts a correlation to a distance.
func (s *search) apart(rho float64) float64 {
	return math.Sqrt(2 * float64(s.series.m) * max(0, 1-rho))
}

const (
	mostRounds = 12   // how often a radius is tried
	slack      = 1e-9 // of a radius that distances are compared with
)

// discords returns the first discords.
func (s *search) discords(count int) []Discord {
	r := s.radius()
	found, known := s.first(count)
	for round := 0; !known; round++ {
		if round > 0 {
			r *= 0.98
		}
		r = min(r, found[len(found)-1].Distance*(1-slack))
		if round == mostRounds || !s.ranges(r, s.series.starts/refineOneIn) {
			s.findAll(false)
			found, _ = s.first(count)
			break
		}
		found, known = s.first(count)
	}
	if len(found) == count {
		s.last = append(s.last[max(0, len(s.last)-4):], found[count-1].Distance)
	}
	return found
}

// radius returns the first radius to try.
func (s *search) radius() float64 { return radiusAfter(s.last) }

// radiusAfter returns the first radius to try after the distances of the last lengths, at most five.
func radiusAfter(last []float64) float64 {
	n := len(last)
	if n == 0 {
		return math.Inf(1)
	}
	spread := deviation(last)
	if n < 5 || spread == 0 {
		return 0.99 * last[n-1]
	}
	mean := 0.0
	for _, d := range last {
		mean += d / float64(n)
	}
	return mean - 2*spread
}

// deviation returns the standard deviation.
func deviation(x []float64) float64 {
	mean, variance := 0.0, 0.0
	for _, d := range x {
		mean += d / float64(len(x))
	}
	for _, d := range x {
		variance += (d - mean) * (d - mean) / float64(len(x))
	}
	return math.Sqrt(variance)
}

// first returns the first discords by the distances and bounds so far; known reports that
// no other subsequence can be one.
func (s *search) first(count int) (found []Discord, known bool) {
	known = true
	free := make([]bool, s.series.starts)
	for i := s.from; i < s.series.starts-lanes; i++ {
		free[i] = s.d[i] == s.d[i]
	}
	for len(found) < count {
		best := -1
		for i, ok := range free {
			if ok && (best < 0 || s.d[i] > s.d[best]) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		known = known && s.exact[best]
		found = append(found, Discord{At: best - lanes, Length: s.series.m, Distance: s.d[best], Nearest: int(s.near[best]) - lanes})
		for j := max(0, best-s.series.m+1); j < min(len(free), best+s.series.m); j++ {
			free[j] = false
		}
	}
	return found, known
}
