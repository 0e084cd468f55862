package lof

import (
	"math"
	"slices"

	"odradek/detectors/vec"
)

// Points of one coordinate. In ascending order the neighbours of a point lie side by side
// (vec.Line), so all of them are found in O(n) after a sort, and sums over neighbours take
// O(k) a point. One score alone needs neighbours of neighbours, and their k-distances, all
// of which are close to the point: a part of the points is sorted, unless what lies outside
// might be nearer.
//
// Sums of positive numbers in different orders differ by few roundings, while a score is
// rounded to float32. Sums here are in the order of the coordinates; where the order could change the
// rounded score, they are computed again in the order of the points, as everywhere else.
// So scores have the same bits as scores of Scorer's search in any number of dimensions.
//
// Measured at n=1024, k=20 on one EPYC 9004 core: 45 ns a point for whole windows, of which
// 15 ns sort and find neighbours, and 4 us for one score.

// onLine is the memory for points of one coordinate.
type onLine struct {
	line   vec.Line
	lrd    []float64 // by position
	exact  []float64 // by position: densityInOrder, NaN where it is not known; empty before it is needed
	near   []float32 // the points that are sorted, where not all are
	places []int32

	resolution func() float64 // of all points
}

// nearby is how many of the points nearest to one are sorted for its score, in units of k.
const nearby = 5

// scoreLine sets scores to the scores of the last len(scores) points of the loaded ones, none of
// them virtual.
func (s *Scorer) scoreLine(p *Params, scores []float32) {
	l := &s.line
	l.resolution = s.resolved
	if len(scores) == 1 && s.n > 2*nearby*(s.k+1) && s.scoreNear(p, scores) {
		return
	}
	l.line.Sort(s.rows[:s.n], nil)
	l.lrd = grown(l.lrd, s.n)
	from, to := 0, s.n
	if len(scores) == 1 {
		from = slices.Index(l.line.At, int32(s.n-1))
		to = from + 1
	}
	l.score(p, s.k, from, to, s.n-len(scores), scores)
}

// scoreNear is scoreLine for one score, from the points nearest to it. It returns false
// where others might be needed.
func (s *Scorer) scoreNear(p *Params, scores []float32) bool {
	l, h := &s.line, &s.own
	groups := 2 * nearby * (s.k + 1)
	groups += -groups & (vec.Group - 1)
	for i := range h.pair {
		h.pair[i].Q = grown(h.pair[i].Q, 1)
		h.pair[i].Q[0] = s.columns[s.n-1]
		h.pair[i].D = grown(h.pair[i].D, s.padded)
		h.pair[i].Low = grown(h.pair[i].Low, groups)
	}
	l.places, l.near = grown(l.places, s.padded+vec.Lanes), grown(l.near, s.padded+vec.Lanes)
	d := &h.pair[0]
	vec.SqDists(d, &h.pair[1], s.columns, s.padded)
	// Rounded distances are in the order of the exact ones, so these are all points of an
	// interval.
	n := vec.AtMost(l.places, l.near, d.D, vec.Bound(d.Low, nearby*(s.k+1)))
	if n > s.n/2 {
		return false
	}
	for i, at := range l.places[:n] {
		l.near[i] = s.rows[at]
	}
	l.line.Sort(l.near[:n], l.places[:n])
	below, above := false, false // there are points outside the interval
	for low, high, i := float32(l.line.X[0]), float32(l.line.X[n-1]), 0; i < s.n && !(below && above); i++ {
		below, above = below || s.rows[i] < low, above || s.rows[i] > high
	}
	l.lrd = grown(l.lrd, n)
	at := slices.Index(l.line.At, int32(s.n-1))
	from, to := l.score(p, s.k, at, at+1, s.n-1, scores)
	for i := from; i < to; i++ {
		if below && l.line.Far[i] >= l.line.X[i]-l.line.X[0] || above && l.line.Far[i] >= l.line.X[n-1]-l.line.X[i] {
			return false
		}
	}
	return true
}

// score sets scores to the scores of the points from place first on that lie at positions from
// to to-1. It returns the positions whose neighbours it has read.
func (l *onLine) score(p *Params, k, from, to, first int, scores []float32) (low, high int) {
	l.line.Near(k, from, to)
	a, b := l.around(from, to)
	if b-a > to-from {
		l.line.Near(k, a, b)
		low, high = l.around(a, b)
		if high-low > b-a {
			l.line.Near(k, low, high)
		}
	} else {
		low, high = a, b
	}
	l.densities(p, k, a, b)
	l.exact = l.exact[:0]
	// Each of the sums has at most k-1 roundings in either order, and the steps after it a few.
	open := float64(8*k+64) * 0x1p-53
	for i := from; i < to; i++ {
		f := int(l.line.At[i]) - first
		if f < 0 {
			continue
		}
		r := l.line.Range[i]
		sum := 0.0
		for _, v := range l.lrd[r.From:i] {
			sum += v
		}
		for _, v := range l.lrd[i+1 : r.To] {
			sum += v
		}
		for _, j := range l.line.Tied(r) {
			sum += l.lrd[j]
		}
		score := p.factor(sum, l.lrd[i], k)
		if scores[f] = float32(score * (1 - open)); scores[f] != float32(score*(1+open)) {
			scores[f] = l.inOrder(p, k, i)
		}
	}
	return low, high
}

// around returns the positions that the points at positions from to to-1 and their
// neighbours lie among.
func (l *onLine) around(from, to int) (low, high int) {
	low, high = from, to
	for i := from; i < to; i++ {
		r := l.line.Range[i]
		low, high = min(low, int(r.From)), max(high, int(r.To))
		for _, j := range l.line.Tied(r) {
			low, high = min(low, int(j)), max(high, int(j)+1)
		}
	}
	return low, high
}

// densities computes lrd of the points at positions from to to-1.
func (l *onLine) densities(p *Params, k, from, to int) {
	x, far := l.line.X, l.line.Far
	for i := from; i < to; i++ {
		r, q, sum := l.line.Range[i], x[i], 0.0
		for j := int(r.From); j < i; j++ {
			sum += max(far[j], q-x[j])
		}
		for j := i + 1; j < int(r.To); j++ {
			sum += max(far[j], x[j]-q)
		}
		for _, j := range l.line.Tied(r) {
			sum += max(far[j], math.Abs(x[j]-q))
		}
		l.lrd[i] = p.Density(sum, k, l.resolution)
	}
}

// inOrder returns the score of the point at position i, by sums in the order of the points.
func (l *onLine) inOrder(p *Params, k, i int) float32 {
	sum := 0.0
	for _, j := range l.neighbours(i) {
		sum += l.densityInOrder(p, k, int(j))
	}
	return float32(p.factor(sum, l.densityInOrder(p, k, i), k))
}

// densityInOrder returns the density of the point at position i, by a sum in the order of the points. Where many scores need
// it, as with two levels and half of the points as neighbours, it is computed once.
func (l *onLine) densityInOrder(p *Params, k, i int) float64 {
	if len(l.exact) == 0 {
		l.exact = grown(l.exact, len(l.line.X))
		for j := range l.exact {
			l.exact[j] = math.NaN()
		}
	}
	if d := l.exact[i]; d == d {
		return d
	}
	sum := 0.0
	for _, j := range l.neighbours(i) {
		sum += max(l.line.Far[j], math.Abs(l.line.X[j]-l.line.X[i]))
	}
	l.exact[i] = p.Density(sum, k, l.resolution)
	return l.exact[i]
}

// neighbours returns the positions of the neighbours of the point at position i, in the
// order of the points.
func (l *onLine) neighbours(i int) []int32 {
	r := l.line.Range[i]
	list := slices.Clone(l.line.Tied(r))
	for j := r.From; j < r.To; j++ {
		if int(j) != i {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return int(l.line.At[a]) - int(l.line.At[b]) })
	return list
}
