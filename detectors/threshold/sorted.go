package threshold

import "math"

// lower returns the number of scores in sorted that are below x. A branch would be
// mispredicted at every other step, so the sign of the difference is the step. Each round looks at
// seven scores, none of which waits for another, and leaves an eighth: the loads of a search by
// halves wait for each other, eleven times in 2,048 scores.
func lower(sorted []float32, x float32) int {
	lo, n := 0, len(sorted)
	for n >= 16 {
		step := n >> 3
		at := sorted[lo : lo+7*step]
		below := sign(at[step-1]-x) + sign(at[2*step-1]-x) + sign(at[3*step-1]-x) + sign(at[4*step-1]-x) +
			sign(at[5*step-1]-x) + sign(at[6*step-1]-x) + sign(at[7*step-1]-x)
		lo += below * step
		if n -= 7 * step; below < 7 {
			n = step - 1 // the score at its end is not below x
		}
	}
	for n > 0 {
		half := (n + 1) >> 1
		lo += half & -sign(sorted[lo+half-1]-x)
		n -= half
	}
	return lo
}

// lowers returns lower of x and of y. The loads of one search do not wait for the loads of the other, whose scores are mostly in
// none of the caches, so that both take little longer than one.
func lowers(sorted []float32, x, y float32) (below, under int) {
	n := len(sorted)
	for n >= 16 {
		step := n >> 3
		at, to := sorted[below:below+7*step], sorted[under:under+7*step]
		first := sign(at[step-1]-x) + sign(at[2*step-1]-x) + sign(at[3*step-1]-x) + sign(at[4*step-1]-x) +
			sign(at[5*step-1]-x) + sign(at[6*step-1]-x) + sign(at[7*step-1]-x)
		second := sign(to[step-1]-y) + sign(to[2*step-1]-y) + sign(to[3*step-1]-y) + sign(to[4*step-1]-y) +
			sign(to[5*step-1]-y) + sign(to[6*step-1]-y) + sign(to[7*step-1]-y)
		below += first * step
		under += second * step
		n -= 7 * step // at least step
	}
	for n > 0 {
		half := (n + 1) >> 1
		below += half & -sign(sorted[below+half-1]-x)
		under += half & -sign(sorted[under+half-1]-y)
		n -= half
	}
	return below, under
}

// sign returns 1 for a number with a minus sign, 0 for one without.
func sign(x float32) int { return int(math.Float32bits(x) >> 31) }

// replace puts x in place of the score at index from; to is lower of x.
func replace(sorted []float32, from int, x float32, to int) {
	if from < to {
		copy(sorted[from:to-1], sorted[from+1:to])
		sorted[to-1] = x
	} else {
		copy(sorted[to+1:from+1], sorted[to:from])
		sorted[to] = x
	}
}

// median returns the median, opened: the mean of the middle two where there are two.
func (p *Params) median(s *scores) float64 {
	return (p.open(s.at((s.n-1)/2)) + p.open(s.at(s.n/2))) / 2
}

// deviation returns the median distance of the scores from their median m: the distances
// below and above m are two sorted lists, and how many of the smaller half of all
// of them lie below is found by bisection.
func (p *Params) deviation(sorted []float32, m float64) float64 {
	n := len(sorted)
	down, up := sorted[:n/2], sorted[n/2:]
	below := func(i int) float64 { return m - p.open(down[len(down)-1-i]) }
	above := func(i int) float64 { return p.open(up[i]) - m }
	k := (n + 1) / 2
	lo, hi := k-len(up), len(down)
	for lo < hi {
		i := (lo + hi) / 2
		if above(k-i-1) > below(i) {
			lo = i + 1
		} else {
			hi = i
		}
	}
	d, next := 0.0, math.Inf(1)
	if lo > 0 {
		d = below(lo - 1)
	}
	if lo < k {
		d = max(d, above(k-lo-1))
	}
	if n%2 == 1 {
		return d
	}
	if lo < len(down) {
		next = below(lo)
	}
	if k-lo < len(up) {
		next = min(next, above(k-lo))
	}
	return (d + next) / 2
}

// madScale makes the median absolute deviation of a normal distribution its
// standard deviation: 1/Phi^-1(3/4).
const madScale = 1.482602218505602

// quarters are the quantiles of spread, with 1/Phi^-1 of them.
var quarters = [...]struct{ q, scale float64 }{{0.9, 0.7803041}, {0.99, 0.4298583}, {1, 0.3333333}}

// scale returns the median and the scaled median absolute deviation. Where more than half of
// the scores are equal it is zero and would make everything else an anomaly; then
// the spread of the upper scores is the scale. It is never below grain of the median,
// so that a rounding error is no anomaly.
func (p *Params) scale(s *scores) (m, scale float64) {
	m = p.median(s)
	if scale = p.deviation(s.sorted, m) * madScale; scale == 0 {
		return p.spread(s)
	}
	return m, max(scale, grain*math.Abs(m))
}

// spread returns the median, and how far the upper scores lie above it, in terms of a
// normal distribution's standard deviation: by the first of the 0.9, the 0.99 quantile and
// the maximum that is above the median; not below grain of it.
func (p *Params) spread(s *scores) (m, spread float64) {
	m = p.median(s)
	for i := 0; spread == 0 && i < len(quarters); i++ {
		q := quarters[i]
		spread = (p.open(s.at(quantileIndex(q.q, s.n))) - m) * q.scale
	}
	return m, max(spread, grain*math.Abs(m))
}

// grain is the smallest spread of scores relative to their size.
const grain = 1.0 / 1024
