package knn

import (
	"cmp"
	"math"
	"slices"

	"odradek/detectors/vec"
)

// The fast form. Neighbours are searched in float32, of two points at a time, and
// decided in float64, as in package lof:
//
//   - squared distances of a few thousand points, with the minima of groups of them
//     (vec.SqDists); from the minima of the first a bound within which lie a few
//     more than the wanted number (vec.Bound);
//   - the points within the bound and its rounding errors (vec.AtMost), gathered
//     over all points; where they become many, a closer bound (vec.Rank);
//   - of these the nearest and those that float32 cannot tell from the last of them,
//     mostly none, with distances as the definition has them.
//
// So neighbours are the definition's, ties included. Their distances are added
// in the order of the points, so a weight is the same to the bit regardless of the other
// queries are.
//
// Floor at n=1024, d=8: 2n*d operations a point, at AVX2's 32 a cycle 512 cycles.

// chunk is the number of points whose distances are computed at a time.
const chunk = 4096

// Scorer has the points of a task and the memory to search them. The zero value is
// ready; it is for one goroutine at a time.
type Scorer struct {
	set

	pair   [2]vec.Distances
	places []int32
	near   []float32
	seen   [2]gathered
	square []float64
	q64    []float64
	top    [2][]Neighbour
	shared bool // set's slices belong to another Scorer
}

// set has the points to search. Searches only read it.
type set struct {
	x      []float32 // rows as they came
	dim, m int
	points int
	width  int       // numbers a point
	next   []int32   // by row: the first row from it on that is not finite; nil: all are
	column []float32 // coordinates by row, scaled, what is not finite 0; infinite behind
	stride int       // from one coordinate of a point to the next
	padded int       // points, with the padding
	exact  bool      // a float32 distance is 0 only between equal points
}

// Neighbour is a point and its squared distance.
type Neighbour struct {
	Square float64
	At     int32
}

// gathered are the candidates for a point's neighbours.
type gathered struct {
	places []int32
	near   []float32
	bound  float32 // no neighbour's float32 distance is above
	done   bool    // no later point is a neighbour
}

// Load takes the rows of a task, dim values each; a point is m of them. They must
// not change until the last search.
func (s *Scorer) Load(x []float32, dim, m int) {
	if s.shared {
		s.set, s.shared = set{}, false
	}
	s.x, s.dim, s.m, s.width = x, dim, m, dim*m
	rows := len(x) / dim
	s.points = max(rows-m+1, 0)
	peak, least := vec.Extent(x)
	s.next = s.next[:0]
	if !(peak <= math.MaxFloat32) {
		x = s.clean(rows)
		peak, least = vec.Extent(x)
	}
	// Squares must not overflow, and should not be 0.
	scale := float32(1)
	if peak > 0x1p40 || peak < 0x1p-20 && peak > 0 {
		scale = float32(math.Ldexp(1, min(20-math.Ilogb(float64(peak)), 120)))
	}
	// Differences of floats are whole multiples of the lesser's last place.
	s.exact = least == 0 || float64(least)*float64(scale) >= 0x1p-50
	s.padded = (s.points + vec.Group - 1) / vec.Group * vec.Group
	if dim == 1 {
		// The coordinates of all points are the rows, one later each.
		s.stride = 1
		s.column = grown(s.column, s.padded+m)
		vec.Column(s.column[:rows], scale, x, 1)
		infinite(s.column[rows:])
		return
	}
	s.stride = s.padded
	s.column = grown(s.column, s.width*s.padded)
	for c := range s.width {
		column := s.column[c*s.padded : (c+1)*s.padded]
		if s.points > 0 {
			vec.Column(column[:s.points], scale, x[c:], dim)
		}
		infinite(column[s.points:])
	}
}

// Share makes s search the points that other has loaded, until the next Load of either:
// Scorers that share may search at the same time.
func (s *Scorer) Share(other *Scorer) { s.set, s.shared = other.set, true }

func infinite(x []float32) {
	for i := range x {
		x[i] = float32(math.Inf(1))
	}
}

// clean returns x with 0 for numbers that are not finite; it fills next.
func (s *Scorer) clean(rows int) []float32 {
	x := slices.Clone(s.x)
	s.next = grown(s.next, rows+1)
	s.next[rows] = int32(rows)
	for i := rows - 1; i >= 0; i-- {
		s.next[i] = s.next[i+1]
		for c, v := range x[i*s.dim : (i+1)*s.dim] {
			if v-v != 0 {
				x[i*s.dim+c] = 0
				s.next[i] = int32(i)
			}
		}
	}
	return x
}

// hasNonFinite reports whether a point of the query is not finite.
func (s *Scorer) hasNonFinite(q Query) bool {
	if len(s.next) == 0 {
		return false
	}
	return int(s.next[q.At]) < q.At+s.m || q.From < q.To && int(s.next[q.From]) < q.To+s.m-1
}

// Weights sets weights to the queries' weights, which should overlap, two by two, and
// calls found, if it is not nil, with each one's neighbours, nearest first, without
// self.
func (s *Scorer) Weights(weights []float64, k int, self bool, query func(i int) Query, found func(i int, n []Neighbour)) {
	for i := 0; i < len(weights); i += 2 {
		n := min(2, len(weights)-i)
		q := [2]Query{query(i), query(i + n - 1)}
		s.search(q[:n], k-number(self))
		for l := range n {
			top := s.top[l]
			w := 0.0
			for _, o := range top {
				w += math.Sqrt(o.Square)
			}
			if weights[i+l] = scaleToK(w, k, len(top)+number(self)); s.hasNonFinite(q[l]) {
				weights[i+l], top = math.NaN(), nil
			}
			if found != nil {
				slices.SortFunc(top, nearer)
				found(i+l, top)
			}
		}
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func nearer(a, b Neighbour) int {
	if c := cmp.Compare(a.Square, b.Square); c != 0 {
		return c
	}
	return int(a.At) - int(b.At)
}

// search sets top to the n nearest of one or two queries, in the order of points.
func (s *Scorer) search(q []Query, n int) {
	for l := range s.seen {
		g := &s.seen[l]
		g.places, g.near, g.bound, g.done = g.places[:0], g.near[:0], math.MaxFloat32, false
		s.top[l] = s.top[l][:0]
	}
	// Points that both queries are compared with are measured by vectors, points of one
	// query, before and after them, singly.
	lo, hi := max(q[0].From, q[len(q)-1].From), min(q[0].To, q[len(q)-1].To)
	end := lo + max(hi-lo, 0)/vec.Group*vec.Group
	if hi == s.points && lo%vec.Group == 0 {
		end = s.padded
	}
	if n < 1 {
		return
	}
	s.reserve(n)
	for l := range 2 {
		for c := range s.width {
			s.pair[l].Q[c] = s.column[c*s.stride+q[min(l, len(q)-1)].At]
		}
	}
	for from := lo; from < end && !(s.seen[0].done && s.seen[len(q)-1].done); from += chunk {
		length := min(chunk, end-from)
		for l := range 2 {
			s.pair[l].D = s.pair[l].D[:length]
		}
		second := &s.pair[1]
		if len(q) == 1 {
			second = nil
		}
		vec.SqDists(&s.pair[0], second, s.column[from:], s.stride)
		for l := range q {
			want := n
			if q[l].At >= lo && q[l].At < end {
				want++ // itself
			}
			s.gather(l, from, min(length, s.points-from), want)
		}
	}
	for l := range q {
		s.decide(l, q[l], n, lo, min(end, s.points))
	}
}

func (s *Scorer) reserve(n int) {
	groups := (2*(n+1) + vec.Group - 1) / vec.Group * vec.Group
	length := min(chunk, s.padded)
	for l := range s.pair {
		s.pair[l].Q = grown(s.pair[l].Q, s.width)
		s.pair[l].D = grown(s.pair[l].D, length)
		s.pair[l].Low = grown(s.pair[l].Low, groups)
	}
	s.places = grown(s.places, length+vec.Lanes)
	s.near = grown(s.near, length+vec.Lanes)
	s.q64 = grown(s.q64, s.width)
}

func grown[T any](a []T, n int) []T {
	if cap(a) < n {
		return make([]T, n, n+n/4)
	}
	return a[:n]
}

// gather adds the candidates of query l among the points from from on, whose distances
// are computed; count of them are points, want is the number of nearest.
func (s *Scorer) gather(l, from, count, want int) {
	g, d := &s.seen[l], &s.pair[l]
	if g.done {
		return
	}
	if from == 0 || len(g.places) < want {
		// Minima of groups: as many are finite as there are points or groups.
		if min(count, len(d.Low)) >= want {
			high := s.margin(vec.Bound(d.Low, want))
			g.bound = min(g.bound, high)
		}
	}
	m := vec.AtMost(s.places, s.near, d.D, g.bound)
	for a, p := range s.places[:m] {
		if int(p) < count {
			g.places, g.near = append(g.places, int32(from)+p), append(g.near, s.near[a])
		}
	}
	if len(g.places) > 2*want+64 {
		s.shrink(g, want)
	}
}

// shrink keeps the gathered points that may be among the want nearest.
func (s *Scorer) shrink(g *gathered, want int) {
	n := len(g.places)
	if n < want {
		return
	}
	for len(g.near)%vec.Lanes != 0 {
		g.near = append(g.near, float32(math.Inf(1)))
	}
	high := s.margin(vec.Rank(g.near, want))
	if s.exact && g.bound > 0 {
		equal := 0
		for _, v := range g.near[:n] {
			if v == 0 {
				equal++
			}
		}
		if equal >= want {
			high = 0
		}
	}
	m := 0
	for a, v := range g.near[:n] {
		if v <= high {
			g.places[m], g.near[m] = g.places[a], v
			m++
		}
	}
	if high == 0 {
		m, g.done = min(m, want), true // all coincide, and are the first of them
	}
	g.places, g.near, g.bound = g.places[:m], g.near[:m], min(g.bound, high)
}

// margin returns the largest float32 distance of a point that may be as near as d, given
// the rounding of both.
func (s *Scorer) margin(d float32) float32 {
	relative := float64(4*(s.width+4)) * 0x1p-24
	absolute := float64(4*s.width) * 0x1p-149 // of squares too small for float32
	return float32(float64(d)*(1+relative) + absolute)
}

// decide sets the top of query l: the n nearest of the gathered points [lo, hi) and of the
// other points that it is compared with.
func (s *Scorer) decide(l int, q Query, n, lo, hi int) {
	g := &s.seen[l]
	want := n
	if q.At >= lo && q.At < hi {
		want++
	}
	s.shrink(g, want)
	hi = max(hi, lo)
	s.places = s.places[:0]
	for i := q.From; i < min(lo, q.To); i++ {
		s.places = append(s.places, int32(i))
	}
	s.places = append(s.places, g.places...)
	for i := max(hi, q.From); i < q.To; i++ {
		s.places = append(s.places, int32(i))
	}
	s.squares(q.At, s.places)
	top := s.top[l][:0]
	for a, p := range s.places {
		if int(p) != q.At {
			top = append(top, Neighbour{s.square[a], p})
		}
	}
	if len(top) > n {
		top = s.cut(top, n)
	}
	s.top[l] = top
	s.places = s.places[:cap(s.places)]
}

// cut keeps the n nearest of top, in order, of those equally far the first.
func (s *Scorer) cut(top []Neighbour, n int) []Neighbour {
	s.square = s.square[:0]
	for _, o := range top {
		s.square = append(s.square, o.Square)
	}
	far := smallest(s.square, n)
	last := n // of those at the largest distance
	for _, o := range top {
		if o.Square < far {
			last--
		}
	}
	m := 0
	for _, o := range top {
		if o.Square > far || o.Square == far && last == 0 {
			continue
		}
		if o.Square == far {
			last--
		}
		top[m] = o
		m++
	}
	return top[:m]
}

// smallest returns the n-th smallest of d, which it reorders (Hoare's FIND,
// 1961). There must be no NaN.
func smallest(d []float64, n int) float64 {
	for lo, hi := 0, len(d)-1; lo < hi; {
		// The median of three keeps sorted and equal distances from being the worst case.
		a, b, c := d[lo], d[(lo+hi)/2], d[hi]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := lo, hi
		for i <= j {
			for d[i] < pivot {
				i++
			}
			for d[j] > pivot {
				j--
			}
			if i <= j {
				d[i], d[j] = d[j], d[i]
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
			return d[n-1]
		}
	}
	return d[n-1]
}

// squares sets s.square to the distances of a point to places, as the definition
// has them.
func (s *Scorer) squares(at int, places []int32) {
	s.square = grown(s.square, len(places))
	for c, v := range s.x[at*s.dim : at*s.dim+s.width] {
		s.q64[c] = float64(v)
	}
	vec.SqDists64(s.square, s.x, places, s.dim, s.q64)
}
