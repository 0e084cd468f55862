package knn

import (
	"cmp"
	"context"
	"math"
	"slices"

	"odradek/detectors"
)

// LeafSearch finds the p.N points of largest weight, above 0, among n points of dim float32s, in any order. fill sets the points.
type LeafSearch func(n, dim int, p TopParams, fill func(x []float32)) ([]Outlier, error)

// LeavesBy returns the search by an executor's op topn, in one of its batches.
func LeavesBy(ctx context.Context, exec detectors.Executor, b *detectors.Batch) LeafSearch {
	return func(n, dim int, p TopParams, fill func(x []float32)) (found []Outlier, err error) {
		d, err := NewTopN(TopNParams{Window: max(2, n, 2*p.K), K: p.K, Top: p.N, Tumbling: true, IncludeSelf: p.Self})
		if err != nil {
			return nil, err
		}
		b.Reset()
		t := detectors.Task{Op: OpTopN, Dim: uint32(dim), Fresh: uint32(n), Params: b.Put(d.Params())}
		var x []float32
		t.X, x = b.GrowF32(n * dim)
		fill(x)
		t.Scores = b.GrowOut(n)
		b.Tasks = append(b.Tasks, t)
		if err = exec.Execute(ctx, b); err != nil {
			return nil, err
		}
		for i, w := range b.Rows(0).Scores {
			if w > 0 {
				found = append(found, Outlier{i, float64(w)})
			}
		}
		return found, nil
	}
}

const (
	// leafSlack is the factor by which a weight may be above one that a LeafSearch finds for the same points: Compare of op topn.
	leafSlack = 1 + 0x1p-18
	// leafMost times n, and leafLeast more, are the most points of a leaf that are asked for, and the most whose weights are computed.
	leafMost, leafLeast = 8, 1 << 10
)

// FindByLeaves returns the same points as the Algorithms by searches in float32, such as a GPU's, of up to most points each. A weight
// among the points of a leaf is an upper bound of one among all, so the points that a search finds, and the least of their weights for
// all others, bound the weights of all. The weights with the largest bounds are computed in float64, until no other bound reaches the n-th.
//
// Leaves are halves of the points, and halves of these, across the widest column: few points have their neighbours in another leaf.
// ok is false, with an undefined result, where the bounds are so close to each other that too many weights would have to be computed:
// of ties, or of points that float32s hardly tell apart. parallel is as in FindFast.
func FindByLeaves(x []float64, dim int, p TopParams, most int, search LeafSearch, parallel func(n int, f func(i int))) (
	t Top, ok bool, err error,
) {
	s, err := newMining(x, dim, p)
	if err != nil {
		return Top{}, false, err
	}
	if s.others < 1 {
		t, err = Algorithms[0].Find(x, dim, p)
		return t, true, err
	}
	leaves := s.leaves(max(most, 4*(s.K+1)), parallel)
	top, known := best{n: s.N}, map[int]bool{}
	var open []Outlier // points with bounds whose weights are not known
	for !s.stopped() {
		least, _ := top.least()
		searched := false
		for i := range leaves {
			q := &leaves[i]
			if q.rest < least || q.asked >= q.n {
				continue
			}
			if q.asked > leafMost*s.N+leafLeast {
				return Top{}, false, nil
			}
			searched = true
			found, ok, err := q.search(s, search)
			if err != nil || !ok {
				return Top{}, false, err
			}
			for _, o := range found {
				if !known[o.At] {
					known[o.At] = true
					open = append(open, o)
				}
			}
		}
		if !searched {
			return Top{Outliers: top.list}, true, nil
		}
		slices.SortFunc(open, func(a, b Outlier) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.At, b.At)) })
		for len(open) > 0 && !s.stopped() {
			least, _ := top.least()
			next := open[:min(len(open), max(s.N-len(top.list), s.Workers))]
			if i := slices.IndexFunc(next, func(o Outlier) bool { return o.Weight < least }); i >= 0 {
				next = next[:i]
			}
			if len(next) == 0 {
				break
			}
			if len(known)-len(open)+len(next) > leafMost*s.N+leafLeast {
				return Top{}, false, nil
			}
			parallel(len(next), func(i int) {
				next[i].Weight = s.weight(s.nearest(next[i].At, make([]float64, 0, s.others)))
			})
			for _, o := range next {
				top.add(o)
			}
			open = open[len(next):]
		}
	}
	return Top{}, true, nil
}

// leaf has a part of the points.
type leaf struct {
	points []int32 // nil: all of them
	n      int
	asked  int     // points of the last search
	rest   float64 // bounds the weights of those that it did not find
}

// leaves divides the points into leaves of up to most.
func (m *mining) leaves(most int, parallel func(n int, f func(i int))) []leaf {
	if m.n <= most {
		return []leaf{{n: m.n, rest: math.Inf(1)}}
	}
	order := make([]int32, m.n)
	for i := range order {
		order[i] = int32(i)
	}
	leaves := []leaf{{points: order, n: m.n}}
	for leaves[0].n > most { // all are of the same size, to a point
		parallel(len(leaves), func(i int) {
			points := leaves[i].points
			low, high := m.extent(points, len(points))
			widest, width := 0, -1.0
			for c := range low {
				if w := high[c] - low[c]; w > width {
					widest, width = c, w
				}
			}
			halve(m.x[widest:], m.dim, points, (len(points)+1)/2)
		})
		halves := make([]leaf, 0, 2*len(leaves))
		for _, q := range leaves {
			middle := (q.n + 1) / 2
			halves = append(halves, leaf{points: q.points[:middle], n: middle}, leaf{points: q.points[middle:], n: q.n - middle})
		}
		leaves = halves
	}
	for i := range leaves {
		leaves[i].rest = math.Inf(1)
	}
	return leaves
}

// extent returns the least and the largest value of each column of n points; points is nil for the first.
func (m *mining) extent(points []int32, n int) (low, high []float64) {
	low, high = make([]float64, m.dim), make([]float64, m.dim)
	for c := range low {
		low[c], high[c] = math.Inf(1), math.Inf(-1)
	}
	for i := range n {
		if points != nil {
			i = int(points[i])
		}
		for c, v := range m.x[i*m.dim : (i+1)*m.dim] {
			low[c], high[c] = min(low[c], v), max(high[c], v)
		}
	}
	return low, high
}

// search asks for more points than before, the first time for somewhat more than n, and returns those found with bounds of their
// weights; ok is false where values are too large or too small to be squared.
func (pr *leaf) search(s *mining, search LeafSearch) (found []Outlier, ok bool, err error) {
	low, high := s.extent(pr.points, pr.n)
	peak := 0.0
	for c := range low {
		low[c] += (high[c] - low[c]) / 2 // the origin
		peak = max(peak, high[c]-low[c])
	}
	if peak > 0x1p500 || peak < 0x1p-400 && peak > 0 {
		return nil, false, nil
	}
	scale := 1.0
	if peak > 0 {
		scale = math.Ldexp(1, -math.Ilogb(peak))
	}
	p := s.TopParams
	if pr.asked *= 4; pr.asked == 0 {
		pr.asked = 2*s.N + 128
	}
	p.N = min(pr.asked, pr.n)
	off := make([]float64, s.dim) // most by which a value is away from its float32
	found, err = search(pr.n, s.dim, p, func(y []float32) {
		for i := range pr.n {
			at := i
			if pr.points != nil {
				at = int(pr.points[i])
			}
			for c, v := range s.x[at*s.dim : (at+1)*s.dim] {
				scaled := (v - low[c]) * scale
				narrow := float32(scaled)
				y[i*s.dim+c] = narrow
				off[c] = max(off[c], math.Abs(scaled-float64(narrow))+(math.Abs(v)+math.Abs(low[c]))*scale*0x1p-52)
			}
		}
	})
	if err != nil {
		return nil, false, err
	}
	away := 0.0
	for _, v := range off {
		away += v * v
	}
	bound := func(w float64) float64 { return (w*leafSlack + 2*float64(s.K)*math.Sqrt(away)*leafSlack) / scale }
	least := math.Inf(1)
	if len(found) < p.N { // the others have the weight 0
		least = 0
	}
	if pr.asked >= pr.n { // they are known, too
		weights := make([]float64, pr.n)
		for _, o := range found {
			weights[o.At] = o.Weight
		}
		found = found[:0]
		for i, w := range weights {
			found = append(found, Outlier{i, w})
		}
	}
	for i, o := range found {
		least = min(least, o.Weight)
		if pr.points != nil {
			o.At = int(pr.points[o.At])
		}
		found[i] = Outlier{o.At, bound(o.Weight)}
	}
	pr.rest = bound(least)
	return found, true, nil
}
