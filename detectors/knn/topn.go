package knn

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The n points of largest weight among all points, by the algorithms of Angiulli, Basta, Lodi and Sartori, Fast outlier
// detection using a GPU, 2013. All algorithms find the same points, with the same bits: by falling weight, of equal
// ones the lower index first (the paper leaves ties open), weights as Define has them. They differ in the distances
// that they compute and store.

// TopParams are the parameters of a search for the points of largest weight.
type TopParams struct {
	N    int // points asked for; all where there are fewer
	K    int // neighbours
	Self bool
	// Candidates is the number of points that an algorithm with a solving set compares with all points
	// in one step, m in the paper; 0 means 100, as in the paper.
	Candidates int
	// Workers is the number of goroutines of the algorithms that can use several; 0 means 1. The number of
	// distances depends on it, the result does not.
	Workers int
	// Stop is called before each step of an algorithm with a solving set, and before each point by the others, from several
	// goroutines; nil: never. Once it returns true the search ends, and its result is undefined.
	Stop func() bool
}

// Outlier is a point and its weight.
type Outlier struct {
	At     int
	Weight float64
}

// Top is the result of a search.
type Top struct {
	Outliers []Outlier
	// Distances is the number of distances between two points that were computed.
	Distances int64
	// SolvingSet has the points that have been compared with all others, in order of the
	// comparisons: no other point has a weight above the last outlier's, even
	// among these alone. It is nil for an algorithm without a solving set.
	SolvingSet []int
}

// Reference returns a model that judges new points as all of x, the searched points, would: the solving set, and the
// weight that an outlier's weight among it exceeds.
func (t *Top) Reference(x []float64, dim int) (points []float64, cut float64) {
	for _, i := range t.SolvingSet {
		points = append(points, x[i*dim:(i+1)*dim]...)
	}
	if n := len(t.Outliers); n > 0 {
		cut = t.Outliers[n-1].Weight
	}
	return points, cut
}

// Algorithm finds the points of largest weight.
type Algorithm struct {
	Name string // as in the paper
	find func(*mining) Top
}

// Algorithms are the algorithms of the paper, for a CPU. All return the same points. The worker uses SolvingSet alone
// (see the package comment); the others are for comparison.
//
//   - BruteForce (figure 1) computes each pair's distance once, on one core, and keeps the
//     neighbours of all points.
//   - BruteForce-SH gives each core some of the points: it computes their distances to all
//     others, and keeps only their neighbours.
//   - SolvingSet (figure 2) compares a few candidates with all points, and keeps the k
//     nearest of those that each point was compared with: their sum is an upper bound of its
//     weight. The next candidates are the points of the largest bounds. It ends when no bound
//     reaches the weight of the last of the n largest. It uses one core.
//   - SolvingSet-NDM has all cores compare one candidate after the other with their share of
//     the points, and merges the candidate's neighbours after each. It keeps no matrix of
//     distances (no distance matrix), unlike GPU-SolvingSet.
//   - SolvingSet-NDM-TP has each core compare all candidates with its share, keeps a list of
//     neighbours for each candidate and core, and merges them in a second pass.
var Algorithms = []Algorithm{
	{"BruteForce", (*mining).bruteForce},
	{"BruteForce-SH", (*mining).bruteForceSH},
	{"SolvingSet", (*mining).sequential},
	{"SolvingSet-NDM", (*mining).noMatrix},
	{"SolvingSet-NDM-TP", (*mining).twoPasses},
}

// Find returns the points of largest weight among the points x of dim values each. It returns
// an error for parameters out of range and for values that are not finite.
func (a *Algorithm) Find(x []float64, dim int, p TopParams) (Top, error) {
	s, err := newMining(x, dim, p)
	if err != nil {
		return Top{}, err
	}
	if s.others < 1 { // every weight is 0, or without a neighbour
		t := Top{}
		for i := range min(p.N, s.n) {
			t.Outliers = append(t.Outliers, Outlier{i, scaleToK(0, p.K, number(p.Self))})
		}
		return t, nil
	}
	return a.find(s), nil
}

// Fastest is the name of the search that [FindFast] prefers.
const Fastest = "kd-tree"

// FindFast returns the same points as the Algorithms by the fastest way that there is, whose name it returns, too: by a Tree, as
// far as float32s tell the points apart, else by SolvingSet-NDM-TP. It has no solving set and does not count distances. parallel
// divides the work; if it leaves out calls, as it does once a context is done, the result is undefined. See Find for the error.
func FindFast(x []float64, dim int, p TopParams, parallel func(n int, f func(i int))) (t Top, name string, err error) {
	s, err := newMining(x, dim, p)
	if err != nil {
		return Top{}, "", err
	}
	if s.others < 1 {
		t, err = Algorithms[0].Find(x, dim, p)
		return t, Fastest, err
	}
	if tree := newWideTree(x, dim, parallel); !s.stopped() && tree != nil && s.tells(tree) {
		return Top{Outliers: tree.Top(p, parallel)}, Fastest, nil
	}
	way := &Algorithms[len(Algorithms)-1]
	return Top{Outliers: way.find(s).Outliers}, way.Name, nil
}

// tells reports whether the rounding of a tree's points is small beside the weights of a few of them.
func (m *mining) tells(t *Tree) bool {
	if t.off == 0 {
		return true
	}
	q := WideScorer{}
	for _, i := range m.first()[:min(8, m.n, m.Candidates)] {
		w, _ := q.Weight(m.x, m.dim, 1, m.K, m.Self, Query{At: i, To: m.n})
		if w == 0 || 32*float64(m.others)*t.off <= w*float64(t.scale) { // a tree finds equal points by their float64s
			return true
		}
	}
	return false
}

// newMining returns a search with the defaults of p. See Find for the error.
func newMining(x []float64, dim int, p TopParams) (*mining, error) {
	if p.Candidates == 0 {
		p.Candidates = 100
	}
	p.Workers = max(p.Workers, 1)
	var faults []error
	if p.N < 1 || p.K < 1 || p.K > MaxK || p.Candidates < 1 {
		faults = append(faults, fmt.Errorf("knn: n is %d, k is %d, with %d candidates: use 1 or more, and k up to %d",
			p.N, p.K, p.Candidates, MaxK))
	}
	if dim < 1 || len(x)%max(dim, 1) != 0 {
		faults = append(faults, fmt.Errorf("knn: %d values do not make points of %d", len(x), dim))
	} else if i := slices.IndexFunc(x, isBad); i >= 0 {
		faults = append(faults, fmt.Errorf("knn: value %d of point %d is %v: leave out points with values that are missing or infinite",
			i%dim, i/dim, x[i]))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	n := len(x) / dim
	return &mining{TopParams: p, x: x, dim: dim, n: n, others: min(p.K-number(p.Self), n-1)}, nil
}

// mining is a search for the points of largest weight.
type mining struct {
	TopParams
	x      []float64
	dim    int
	n      int // points
	others int // neighbours of a point without itself
}

func (m *mining) distance(i, j int) float64 { return math.Sqrt(square(m.x, m.dim, i, j)) }

// square returns the squared distance of two of the points x of dim values each.
func square(x []float64, dim, i, j int) float64 {
	sum := 0.0
	q := x[j*dim : (j+1)*dim]
	for c, v := range x[i*dim : (i+1)*dim] {
		d := v - q[c]
		sum += float64(d * d)
	}
	return sum
}

// weight returns the weight of a point with the neighbours at distances nn, which it sorts.
func (m *mining) weight(nn []float64) float64 {
	slices.Sort(nn)
	sum := 0.0
	for _, d := range nn {
		sum += d
	}
	return scaleToK(sum, m.K, len(nn)+number(m.Self))
}

// nearest puts the distances of point i to its neighbours into nn, which is empty.
func (m *mining) nearest(i int, nn []float64) []float64 {
	most := math.Inf(1) // the largest square in nn, once it is full
	for j := range m.n {
		d := square(m.x, m.dim, i, j)
		if j == i || d >= most && len(nn) == m.others {
			continue
		}
		if nn, _ = m.push(nn, d); len(nn) == m.others {
			most = nn[0]
		}
	}
	for a, d := range nn {
		nn[a] = math.Sqrt(d)
	}
	return nn
}

// push puts d into nn, a heap of the m.others smallest distances with the largest first. It
// returns the heap and by how much the sum of its distances grew. Devices keep the same heap, because the order of
// its distances decides the last bits of a bound (cuda/kernels/solvingset_search.h).
func (m *mining) push(nn []float64, d float64) ([]float64, float64) {
	if len(nn) < m.others {
		nn = append(nn, d)
		i := len(nn) - 1
		for up := (i - 1) / 2; i > 0 && nn[up] < d; up = (i - 1) / 2 {
			nn[i], i = nn[up], up
		}
		nn[i] = d
		return nn, d
	}
	most := nn[0]
	if d >= most {
		return nn, 0
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(nn) {
			break
		}
		if down+1 < len(nn) && nn[down+1] > nn[down] {
			down++
		}
		if nn[down] <= d {
			break
		}
		nn[i], i = nn[down], down
	}
	nn[i] = d
	return nn, d - most
}

// best has the n points of largest weight so far, in order of weight and index.
type best struct {
	n    int
	list []Outlier
}

func (b *best) add(o Outlier) {
	i, _ := slices.BinarySearchFunc(b.list, o, func(a, o Outlier) int {
		return cmp.Or(cmp.Compare(o.Weight, a.Weight), cmp.Compare(a.At, o.At))
	})
	if b.list = slices.Insert(b.list, i, o); len(b.list) > b.n {
		b.list = b.list[:b.n]
	}
}

// least returns the weight that a point needs to be among the n. A point of that very weight
// needs an index below last.
func (b *best) least() (weight float64, last int) {
	if len(b.list) < b.n {
		return math.Inf(-1), 0
	}
	return b.list[b.n-1].Weight, b.list[b.n-1].At
}

// divide calls f for each worker with its part of 0 to n-1, and waits.
func (m *mining) divide(n int, f func(worker, from, to int)) {
	done := make(chan struct{}, m.Workers)
	for w := range m.Workers {
		go func() {
			f(w, n*w/m.Workers, n*(w+1)/m.Workers)
			done <- struct{}{}
		}()
	}
	for range m.Workers {
		<-done
	}
}

func (m *mining) bruteForce() Top {
	heaps := make([][]float64, m.n)
	memory := make([]float64, m.n*m.others)
	for i := range heaps {
		heaps[i] = memory[i*m.others : i*m.others : (i+1)*m.others]
	}
	top := best{n: m.N}
	for i := 0; i < m.n && !m.stopped(); i++ {
		for j := i + 1; j < m.n; j++ {
			d := m.distance(i, j)
			heaps[i], _ = m.push(heaps[i], d)
			heaps[j], _ = m.push(heaps[j], d)
		}
		top.add(Outlier{i, m.weight(heaps[i])})
	}
	return Top{Outliers: top.list, Distances: int64(m.n) * int64(m.n-1) / 2}
}

func (m *mining) bruteForceSH() Top {
	tops := make([]best, m.Workers)
	m.divide(m.n, func(w, from, to int) {
		tops[w].n = m.N
		nn := make([]float64, 0, m.others)
		for i := from; i < to && !m.stopped(); i++ {
			nn = m.nearest(i, nn[:0])
			tops[w].add(Outlier{i, m.weight(nn)})
		}
	})
	top := best{n: m.N}
	for _, t := range tops {
		for _, o := range t.list {
			top.add(o)
		}
	}
	return Top{Outliers: top.list, Distances: int64(m.n) * int64(m.n-1)}
}
