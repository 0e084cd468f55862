package knn

import (
	"math"
	"slices"
	"sync"

	"odradek/detectors/vec"
)

// Tree finds weights among many points by a kd-tree (Bentley, Multidimensional binary search
// trees used for associative searching, 1975) whose leaves are groups of points that lie side
// by side, for vec.SqDists. It halves points by their number, so that clusters and outliers
// far away make it neither deep nor uneven.
//
// A search takes two points of one leaf at a time, in float32: it leaves out leaves whose box
// is farther than the neighbours found so far. The distances of the points that are left are
// computed in float64, as by Scorer.
type Tree struct {
	n, dim int
	x      []float32 // points in the order of the input
	order  []int32   // points in the order of leaves
	column []float32 // coordinates in that order, scaled; infinite beyond the last point
	padded int
	scale  float32
	exact  bool      // a float32 distance is 0 only between equal points
	wide   []float64 // the points of which x has float32s; nil: x has them all
	off    float64   // most, scaled, by which a point of x is away from its point of wide
	nodes  []treeNode
	box    []float32 // of each node: least and most of each scaled coordinate
}

// leafGroups is the number of groups of vec.Group points in a leaf.
const leafGroups = 1

// treeNode has the points of a range of leaves.
type treeNode struct {
	from, to int32 // points
	low      int32 // its children are low and low+1; 0: a leaf
}

// NewTree makes a tree of the points x, dim values each, all finite: see Finite. The points
// must not change while it is used. parallel divides the work; if it leaves out calls, as it
// does once a context is done, the tree must not be used.
func NewTree(x []float32, dim int, parallel func(n int, f func(i int))) *Tree {
	t := &Tree{x: x, dim: dim, n: len(x) / dim, scale: 1}
	peak, least := vec.Extent(x)
	if peak > 0x1p40 || peak < 0x1p-20 && peak > 0 { // as Scorer.Load does
		t.scale = float32(math.Ldexp(1, min(20-math.Ilogb(float64(peak)), 120)))
	}
	t.exact = least == 0 || float64(least)*float64(t.scale) >= 0x1p-50
	t.order = make([]int32, t.n)
	for i := range t.order {
		t.order[i] = int32(i)
	}
	t.padded = (t.n + vec.Group - 1) / vec.Group * vec.Group
	t.nodes = append(t.nodes, treeNode{to: int32(t.n)})
	// Nodes are split level by level, the nodes of a level in parallel.
	for from, to := 0, 1; from < to; from, to = to, len(t.nodes) {
		t.box = grownTo(t.box, 2*dim*to)
		level := t.nodes[from:to]
		parallel(len(level), func(i int) { t.split(from + i) })
		for i := range level {
			if level := t.nodes[from : from+len(level)]; level[i].low < 0 {
				node := level[i]
				middle := t.middle(node)
				t.nodes[from+i].low = int32(len(t.nodes))
				t.nodes = append(t.nodes, treeNode{from: node.from, to: middle}, treeNode{from: middle, to: node.to})
			}
		}
	}
	t.column = make([]float32, dim*t.padded)
	for c := range dim {
		column := t.column[c*t.padded : (c+1)*t.padded]
		for i, p := range t.order {
			column[i] = t.scale * x[int(p)*dim+c]
		}
		infinite(column[t.n:])
	}
	return t
}

func grownTo[T any](a []T, n int) []T { return append(a, make([]T, n-len(a))...) }

// Finite reports whether all values are finite.
func Finite(x []float32) bool {
	peak, _ := vec.Extent(x)
	return peak <= math.MaxFloat32
}

// middle returns the first point of a node's second half, which begins with a group.
func (t *Tree) middle(node treeNode) int32 {
	const leaf = leafGroups * vec.Group
	leaves := (int(node.to-node.from) + leaf - 1) / leaf
	return node.from + int32((leaves+1)/2*leaf)
}

// split finds the box of a node and orders its points by the halves of its longest side. It
// marks a node that has two halves with low = -1.
func (t *Tree) split(i int) {
	node := &t.nodes[i]
	dim := t.dim
	box := t.box[2*dim*i : 2*dim*(i+1)]
	points := t.order[node.from:node.to]
	widest, width := 0, float32(-1)
	for c := range dim {
		low, high := float32(math.Inf(1)), float32(math.Inf(-1))
		for _, p := range points {
			v := t.x[int(p)*dim+c]
			if v < low {
				low = v
			}
			if v > high {
				high = v
			}
		}
		box[2*c], box[2*c+1] = t.scale*low, t.scale*high
		if w := box[2*c+1] - box[2*c]; w > width {
			widest, width = c, w
		}
	}
	if len(points) <= leafGroups*vec.Group {
		return
	}
	node.low = -1
	halve(t.x[widest:], dim, points, int(t.middle(*node)-node.from))
}

// halve puts the n points of the least coordinate first (Hoare's FIND, 1961). x has every dim-th one.
func halve[F float32 | float64](x []F, dim int, points []int32, n int) {
	for lo, hi := 0, len(points)-1; lo < hi; {
		u, v, w := x[int(points[lo])*dim], x[int(points[(lo+hi)/2])*dim], x[int(points[hi])*dim]
		pivot := max(min(u, v), min(max(u, v), w))
		i, j := lo, hi
		for i <= j {
			for x[int(points[i])*dim] < pivot {
				i++
			}
			for x[int(points[j])*dim] > pivot {
				j--
			}
			if i <= j {
				points[i], points[j] = points[j], points[i]
				i++
				j--
			}
		}
		switch {
		case n-1 <= j:
			hi = j
		case n-1 >= i:
			lo = i
		default:
			return
		}
	}
}

// visit has the memory of a search.
type visit struct {
	*Tree
	pair   [2]vec.Distances
	seen   [2]gathered
	at     [2]int // positions of the points
	queue  []int32
	places []int32
	near   []float32
	q64    []float64
	square []float64
	count  int // queries of the pair: 1 or 2
	// drop reports whether a search can end without a result, given its gathered points; nil: it
	// cannot. It is called after each shrink of these.
	drop    func(g *gathered) bool
	dropped bool
}

var visits = sync.Pool{New: func() any { return new(visit) }}

func (t *Tree) visit() *visit {
	v := visits.Get().(*visit)
	v.Tree = t
	for l := range v.pair {
		v.pair[l].Q = grown(v.pair[l].Q, t.dim)
		v.pair[l].D = grown(v.pair[l].D, leafGroups*vec.Group)
		v.pair[l].Low = grown(v.pair[l].Low, vec.Group)
	}
	v.places = grown(v.places, leafGroups*vec.Group+vec.Lanes)
	v.near = grown(v.near, leafGroups*vec.Group+vec.Lanes)
	v.q64 = grown(v.q64, t.dim)
	return v
}

func (v *visit) leave() {
	v.Tree, v.drop = nil, nil
	visits.Put(v)
}

// search gathers the points that may be among the want nearest to those at positions i and j,
// which may be one point; they are among their own nearest.
func (v *visit) search(i, j, want int) {
	v.count = 2
	if i == j {
		v.count = 1
	}
	v.seen[1].bound, v.at = -1, [2]int{i, j}
	for l, at := range v.at {
		g := &v.seen[l]
		if g.places, g.near = g.places[:0], g.near[:0]; l < v.count {
			g.bound = math.MaxFloat32
		}
		for c := range v.dim {
			v.pair[l].Q[c] = v.column[c*v.padded+at]
		}
	}
	v.dropped = false
	v.queue = append(v.queue[:0], 0)
	for len(v.queue) > 0 && !v.dropped {
		at := v.queue[len(v.queue)-1]
		v.queue = v.queue[:len(v.queue)-1]
		if v.away(int(at)) {
			continue
		}
		node := v.nodes[at]
		if node.low > 0 {
			// The half that has the points comes first, or else the nearer one.
			a, b := node.low, node.low+1
			if at := int32(i); at >= v.nodes[b].from && at < node.to ||
				(at < node.from || at >= node.to) && v.far(0, int(b)) < v.far(0, int(a)) {
				a, b = b, a
			}
			v.queue = append(v.queue, b, a)
			continue
		}
		v.leaf(node, want)
	}
	for l := range v.count {
		v.shrink(l, want)
	}
}

// leaf gathers the points of a leaf that are within the bounds.
func (v *visit) leaf(node treeNode, want int) {
	from := int(node.from)
	length := (int(node.to) - from + vec.Group - 1) / vec.Group * vec.Group
	for l := range v.pair {
		v.pair[l].D = v.pair[l].D[:length]
	}
	vec.SqDists(&v.pair[0], &v.pair[1], v.column[from:], v.padded)
	for l := range v.count {
		g := &v.seen[l]
		n := vec.AtMost(v.places, v.near, v.pair[l].D, g.bound)
		if n == 0 {
			continue
		}
		for _, p := range v.places[:n] {
			g.places = append(g.places, int32(from)+p)
		}
		g.near = append(g.near, v.near[:n]...)
		if len(g.places) >= 2*want || len(g.places) >= want && g.bound == math.MaxFloat32 {
			v.shrink(l, want)
			v.dropped = v.drop != nil && v.drop(g)
		}
	}
}

// shrink drops points gathered for point l of the pair that cannot be among the want nearest.
func (v *visit) shrink(l, want int) {
	g := &v.seen[l]
	n := len(g.places)
	if n < want {
		return
	}
	for len(g.near)%vec.Lanes != 0 {
		g.near = append(g.near, float32(math.Inf(1)))
	}
	high := v.margin(vec.Rank(g.near, want))
	m := 0
	if v.coincident(l, n, want) {
		high = 0
	}
	for a, d := range g.near[:n] {
		if d <= high && (high > 0 || m < want && v.equal(l, g.places[a])) {
			g.places[m], g.near[m] = g.places[a], d
			m++
		}
	}
	if high == 0 {
		high = -1 // the weight is 0, and no other point changes it
	}
	g.places, g.near, g.bound = g.places[:m], g.near[:m], min(g.bound, high)
}

// coincident reports whether want of the first n points gathered for point l of the pair are
// equal to it.
func (v *visit) coincident(l, n, want int) bool {
	g := &v.seen[l]
	for a, d := range g.near[:n] {
		if d == 0 && v.equal(l, g.places[a]) {
			if want--; want == 0 {
				return true
			}
		}
	}
	return false
}

// equal reports whether the point at a position equals point l of the pair, given that their
// float32 distance is 0.
func (v *visit) equal(l int, place int32) bool {
	if v.exact {
		return true
	}
	a, b := int(v.order[place])*v.dim, int(v.order[v.at[l]])*v.dim
	if v.wide != nil {
		return slices.Equal(v.wide[a:a+v.dim], v.wide[b:b+v.dim])
	}
	for c := range v.dim {
		if v.x[a+c] != v.x[b+c] {
			return false
		}
	}
	return true
}

// margin returns the largest float32 distance of a point that may be as near as one of distance
// d, given the rounding of both, and of the four points.
func (t *Tree) margin(d float32) float32 {
	relative := float64(4*(t.dim+4)) * 0x1p-24
	absolute := float64(4*t.dim) * 0x1p-149
	if t.off > 0 {
		far := math.Sqrt(float64(d)*(1+relative)+absolute) + 4*t.off
		return float32(min(far*far*(1+relative)+absolute, math.MaxFloat32))
	}
	return float32(float64(d)*(1+relative) + absolute)
}

// far returns the squared distance of point l to the box of a node.
func (v *visit) far(l, node int) float32 {
	box := v.box[2*v.dim*node : 2*v.dim*(node+1)]
	sum := float32(0)
	for c, q := range v.pair[l].Q {
		e := max(box[2*c]-q, q-box[2*c+1], 0)
		sum += e * e
	}
	return sum
}

// away reports whether no point of a node can be a neighbour. The bounds allow for the rounding
// of two distances, one of them that to the box.
func (v *visit) away(node int) bool {
	return v.far(0, node) > v.seen[0].bound && v.far(1, node) > v.seen[1].bound
}

// squares sets v.square to the squared distances of the point at position i to the points
// gathered for it, the l-th of the pair, without itself.
func (v *visit) squares(l, i int) {
	g := &v.seen[l]
	m := 0
	for _, p := range g.places {
		if int(p) != i {
			g.places[m] = v.order[p]
			m++
		}
	}
	g.places = g.places[:m]
	at := int(v.order[i])
	for c, w := range v.x[at*v.dim : (at+1)*v.dim] {
		v.q64[c] = float64(w)
	}
	v.square = grown(v.square, m)
	if v.wide == nil {
		vec.SqDists64(v.square, v.x, g.places, v.dim, v.q64)
		return
	}
	for a, p := range g.places {
		v.square[a] = square(v.wide, v.dim, at, int(p))
	}
}

// Weights sets weights to the weights of all points among each other, rounded to float32. They
// have the bits of Scorer's.
func (t *Tree) Weights(weights []float32, k int, self bool, parallel func(n int, f func(i int))) {
	others := min(k-number(self), t.n-1)
	if others < 1 {
		for i := range weights {
			weights[i] = float32(scaleToK(0, k, number(self)))
		}
		return
	}
	const each = 32 * vec.Group // of whole leaves
	parallel((t.n+each-1)/each, func(chunk int) {
		v := t.visit()
		defer v.leave()
		for i := chunk * each; i < min((chunk+1)*each, t.n); i += 2 {
			j := min(i+1, t.n-1)
			v.search(i, j, others+1)
			for l, at := range []int{i, j}[:v.count] {
				v.squares(l, at)
				weights[t.order[at]] = v.weight(&v.seen[l], k, others, number(self))
			}
		}
	})
}

// weight returns the weight of the point that squares was called for.
func (v *visit) weight(g *gathered, k, others, self int) float32 {
	if len(v.square) > others {
		smallest(v.square, others)
	}
	sum := 0.0
	for _, s := range v.square[:others] {
		sum += math.Sqrt(s)
	}
	open := float64(4*k+16) * 0x1p-53 // roundings of this sum and of one in another order
	w := scaleToK(sum, k, others+self)
	if a := float32(w * (1 - open)); a == float32(w*(1+open)) {
		return a
	}
	// The sum in the order of points: of those equally far the first.
	vec.SqDists64(v.square, v.x, g.places, v.dim, v.q64)
	list := make([]Neighbour, len(g.places))
	for a, p := range g.places {
		list[a] = Neighbour{v.square[a], p}
	}
	slices.SortFunc(list, nearer)
	list = list[:others]
	slices.SortFunc(list, func(a, b Neighbour) int { return int(a.At) - int(b.At) })
	sum = 0
	for _, o := range list {
		sum += math.Sqrt(o.Square)
	}
	return float32(scaleToK(sum, k, others+self))
}
