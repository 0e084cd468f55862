package knn

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"odradek/detectors/vec"
)

// Top returns the points of largest weight: the same as Algorithms do for the float32 points of the
// tree, to the bit. The nearest of the points beside a point in the tree give an upper bound of its
// weight. Searches begin with the largest bounds, and end at the first that is below the least of the n
// largest weights; a search is dropped once its neighbours lower its bound below that. Top ignores the
// parameters Candidates and Workers: parallel divides the work.
func (t *Tree) Top(p TopParams, parallel func(n int, f func(i int))) []Outlier {
	top := best{n: p.N}
	others := min(p.K-number(p.Self), t.n-1)
	if others < 1 {
		for i := range min(p.N, t.n) {
			top.add(Outlier{i, scaleToK(0, p.K, number(p.Self))})
		}
		return top.list
	}
	bounds := t.bounds(p, others, parallel)
	order := make([]int32, t.n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(bounds[b], bounds[a]), cmp.Compare(t.order[a], t.order[b]))
	})
	var lock sync.Mutex
	const each = 16
	parallel((t.n+each-1)/each, func(chunk int) {
		positions := order[chunk*each : min((chunk+1)*each, t.n)]
		v := t.visit()
		defer v.leave()
		cut := func() (weight float64, last int) {
			lock.Lock()
			defer lock.Unlock()
			return top.least()
		}
		v.drop = func(g *gathered) bool {
			least, _ := cut()
			return v.upper(g, p, others) < least
		}
		for _, i := range positions {
			least, last := cut()
			if bounds[i] < least || bounds[i] == least && int(t.order[i]) > last {
				continue
			}
			if v.search(int(i), int(i), others+1); v.dropped {
				continue
			}
			v.squares(0, int(i))
			o := Outlier{int(t.order[i]), v.defined(p, others)}
			lock.Lock()
			top.add(o)
			lock.Unlock()
		}
	})
	return top.list
}

// defined returns the weight of the point that squares was called for, summed as by Define.
func (v *visit) defined(p TopParams, others int) float64 {
	slices.Sort(v.square)
	sum := 0.0
	for _, s := range v.square[:others] {
		sum += math.Sqrt(s)
	}
	return scaleToK(sum, p.K, others+number(p.Self))
}

// bounds returns upper bounds of the weights of the points by position, from those that lie in
// the same range of positions, a few times as many as a point has neighbours.
func (t *Tree) bounds(p TopParams, others int, parallel func(n int, f func(i int))) []float64 {
	bounds := make([]float64, t.n)
	length := (4*(others+1) + vec.Group - 1) / vec.Group * vec.Group
	parallel((t.padded+length-1)/length, func(chunk int) {
		v := t.visit()
		defer v.leave()
		from := chunk * length
		to := min(from+length, t.padded)
		for l := range v.pair {
			v.pair[l].D = grown(v.pair[l].D, to-from)
		}
		v.near, v.places = grown(v.near, to-from+vec.Lanes), grown(v.places, to-from+vec.Lanes)
		for i := from; i < min(to, t.n); i += 2 {
			pair := [2]int{i, min(i+1, t.n-1)}
			for l, at := range pair {
				for c := range t.dim {
					v.pair[l].Q[c] = t.column[c*t.padded+at]
				}
			}
			vec.SqDists(&v.pair[0], &v.pair[1], t.column[from:], t.padded)
			for l, at := range pair {
				bounds[at] = math.Inf(1)
				if min(to, t.n)-from > others {
					bounds[at] = v.bound(v.pair[l].D, p, others)
				}
			}
		}
	})
	return bounds
}

// upper returns an upper bound of a weight by the points that a search has gathered so far.
func (v *visit) upper(g *gathered, p TopParams, others int) float64 {
	n := len(g.near)
	if n <= others {
		return math.Inf(1)
	}
	for len(g.near)%vec.Lanes != 0 {
		g.near = append(g.near, float32(math.Inf(1)))
	}
	room := max(len(v.near), len(g.near)+vec.Lanes)
	v.near, v.places = grown(v.near, room), grown(v.places, room)
	w := v.bound(g.near, p, others)
	g.near = g.near[:n]
	return w
}

// bound returns an upper bound of a weight by squared distances d of float32, scaled, the
// point's own among them.
func (v *visit) bound(d []float32, p TopParams, others int) float64 {
	last := vec.Rank(d, others+1)
	if last == 0 && v.exact {
		return 0
	}
	n := vec.AtMost(v.places, v.near, d, last)
	sum := -float64(n-others-1) * math.Sqrt(float64(last)) // of those as far as the last, only the needed ones count
	for _, s := range v.near[:n] {
		sum += math.Sqrt(float64(s))
	}
	// What rounding may have taken from the squares, see margin, and from the sum.
	sum += sum*float64(4*(v.dim+6))*0x1p-24 + float64(n)*math.Sqrt(float64(4*v.dim)*0x1p-149)
	sum += 2 * float64(others) * v.off // and the rounding of both points
	return scaleToK(sum/float64(v.scale), p.K, others+number(p.Self))
}
