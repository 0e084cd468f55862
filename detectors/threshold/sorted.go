package threshold

import "math"

// lower is the number of scores in sorted that are below x.
func lower(sorted []float32, x float32) int {
	lo, n := 0, len(sorted)
	for n > 1 {
		half := n >> 1
		step := 0
		if sorted[lo+half-1] < x {
			step = half
		}
		lo += step
		n -= half
	}
	if n == 1 && sorted[lo] < x {
		lo++
	}
	return lo
}

// insert puts x, which goes at index to, among the first n of sorted; when n is h,
// one score equal to old is taken out for it.
func insert(sorted []float32, n, h int, old, x float32, to int) {
	if n < h {
		copy(sorted[to+1:n+1], sorted[to:n])
		sorted[to] = x
		return
	}
	from := lower(sorted, old)
	if from < to {
		copy(sorted[from:to-1], sorted[from+1:to])
		sorted[to-1] = x
	} else {
		copy(sorted[to+1:from+1], sorted[to:from])
		sorted[to] = x
	}
}

// median of sorted, the mean of the middle two when there are two.
func median(sorted []float32) float64 {
	n := len(sorted)
	return (float64(sorted[(n-1)/2]) + float64(sorted[n/2])) / 2
}

// deviation is the k-th smallest (from 1) distance of a score from m: the distances
// below and above m are two sorted lists, whose k-th smallest is found by bisection.
func deviation(sorted []float32, m float64, k int) float64 {
	n := len(sorted)
	split := 0 // scores below m; m need not be a float32
	for size := n; size > 0; {
		half := size >> 1
		if float64(sorted[split+half]) < m {
			split += half + 1
			size -= half + 1
		} else {
			size = half
		}
	}
	below := func(i int) float64 { return m - float64(sorted[split-1-i]) }
	above := func(i int) float64 { return float64(sorted[split+i]) - m }
	// i of the k smallest lie below m.
	lo, hi := max(0, k-(n-split)), min(k, split)
	for lo < hi {
		i := (lo + hi) / 2
		if above(k-i-1) > below(i) {
			lo = i + 1
		} else {
			hi = i
		}
	}
	d := 0.0
	if lo > 0 {
		d = below(lo - 1)
	}
	if k-lo > 0 {
		d = max(d, above(k-lo-1))
	}
	return d
}

// madScale makes the median absolute deviation of a normal distribution its
// standard deviation: 1/Phi^-1(3/4).
const madScale = 1.482602218505602

// quarters are quantiles with 1/Phi^-1 of them: what scale falls back to.
var quarters = [...]struct{ q, scale float64 }{{0.9, 0.7803041}, {0.99, 0.4298583}, {1, 0.3333333}}

// scale is the scaled median absolute deviation of sorted. Where more than half of
// the scores are equal it is zero and would make everything else an anomaly; then
// the first of the 0.9, the 0.99 quantile and the maximum that lies above the
// median gives the scale as it would for a normal distribution. It is never below
// grain of the median, so that rounding is no anomaly.
func scale(sorted []float32) float64 {
	n := len(sorted)
	m := median(sorted)
	s := (deviation(sorted, m, (n+1)/2) + deviation(sorted, m, n/2+1)) / 2 * madScale
	for i := 0; s == 0 && i < len(quarters); i++ {
		q := quarters[i]
		s = (float64(sorted[quantileIndex(q.q, n)]) - m) * q.scale
	}
	return max(s, grain*math.Abs(m))
}

// grain is the smallest spread of scores relative to their size.
const grain = 1.0 / 1024
