package quality

import "slices"

// Change measures how well change points agree with several annotators', by the
// two measures of van den Burg & Williams 2020.
type Change struct {
	Covering              float64
	F1, Precision, Recall float64 // within Margin samples
}

// Margin is the largest distance of a found change point from an annotated one, in samples.
const Margin = 5

// ChangeOf compares change points found in a series of n samples with its
// annotators' points. A change point is the first sample after the change; 0 counts as one
// everywhere, found and annotated.
func ChangeOf(annotations [][]int, found []int, n int) Change {
	all := []int{}
	for _, a := range annotations {
		all = append(all, a...)
	}
	x := points0(found, n)
	var c Change
	c.Precision = ratio(matches(points0(all, n), x), len(x))
	for _, a := range annotations {
		t := points0(a, n)
		c.Recall += ratio(matches(t, x), len(t)) / float64(len(annotations))
		c.Covering += cover(t, x, n) / float64(len(annotations))
	}
	if c.Precision+c.Recall > 0 {
		c.F1 = 2 * c.Precision * c.Recall / (c.Precision + c.Recall)
	}
	return c
}

// points0 returns change points in order, once each, with 0.
func points0(p []int, n int) []int {
	out := []int{0}
	for _, x := range p {
		if x > 0 && x < n {
			out = append(out, x)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// matches returns how many of t have a point of x within Margin, each of x used once,
// the nearest first.
func matches(t, x []int) (n int) {
	x = slices.Clone(x)
	for _, tau := range t {
		best := -1
		for i, p := range x {
			d := max(p-tau, tau-p)
			if d <= Margin && (best < 0 || d < max(x[best]-tau, tau-x[best])) {
				best = i
			}
		}
		if best >= 0 {
			n++
			x = slices.Delete(x, best, best+1)
		}
	}
	return n
}

// cover returns the mean over the samples of the largest Jaccard index of the segment of
// t that the sample is in with a segment of x.
func cover(t, x []int, n int) (sum float64) {
	end := func(p []int, i int) int {
		if i+1 < len(p) {
			return p[i+1]
		}
		return n
	}
	for i, a := range t {
		best := 0.0
		for j, b := range x {
			both := min(end(t, i), end(x, j)) - max(a, b)
			if both > 0 {
				best = max(best, float64(both)/float64(max(end(t, i), end(x, j))-min(a, b)))
			}
		}
		sum += float64(end(t, i)-a) * best / float64(n)
	}
	return sum
}
