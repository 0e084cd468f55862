package knn

import (
	"cmp"
	"math"
	"slices"
)

// Figure 2 of the paper has errors, which are corrected here: the weights of all candidates
// enter the n largest, not only the last one's; they do so before the next candidates are
// chosen; and only points that are still active are chosen, or every point would become a
// candidate. A point that was compared with fewer than k others has no bound yet.

// solving is a search by a solving set.
type solving struct {
	*mining
	near  [][]float64 // by point: a heap of the least distances so far; nil once it is inactive
	sum   []float64   // by point: of its distances
	state []uint8
	cand  []int // candidates
	set   []int // of all steps
	top   best
	least float64 // weight that a point needs; one of that very weight
	last  int     // needs an index below last
	count int64
}

// The states of a point.
const (
	active   uint8 = iota // its weight may be among the n largest
	inactive              // it is not
	compared              // it is or was a candidate, so its weight is known
)

// solve searches to the end. compare compares the candidates with all other points.
func (s *mining) solve(compare func(*solving)) Top {
	v := s.solving()
	v.run(s.n, compare)
	return Top{Outliers: v.top.list, Distances: v.count, SolvingSet: v.set}
}

func (s *mining) solving() *solving {
	v := &solving{mining: s, near: make([][]float64, s.n), sum: make([]float64, s.n), state: make([]uint8, s.n),
		top: best{n: s.N}, least: math.Inf(-1), cand: s.first()}
	memory := make([]float64, s.n*s.others)
	for i := range v.near {
		v.near[i] = memory[i*s.others : i*s.others : (i+1)*s.others]
	}
	return v
}

func (s *mining) stopped() bool { return s.Stop != nil && s.Stop() }

// run is the main loop, figure 3. It ends once the solving set has most points, and returns false if it needs more.
func (v *solving) run(most int, compare func(*solving)) bool {
	for len(v.cand) > 0 && !v.stopped() {
		all := len(v.cand)
		v.cand = v.cand[:min(all, most-len(v.set))]
		v.set = append(v.set, v.cand...)
		for _, c := range v.cand {
			v.state[c] = compared
		}
		for a, p := range v.cand {
			for _, q := range v.cand[:a] {
				d := v.distance(p, q)
				v.addNeighbour(p, d)
				v.addNeighbour(q, d)
				v.count++
			}
		}
		compare(v)
		for _, c := range v.cand {
			v.top.add(Outlier{c, v.weight(v.near[c])})
		}
		if len(v.cand) < all {
			return false
		}
		v.least, v.last = v.top.least()
		v.next()
	}
	return true
}

// first returns the first candidates, the same at each call: points by the hash of their index
// (Steele et al., SplittableRandom, 2014).
func (s *mining) first() []int {
	hash := func(i int) uint64 {
		z := uint64(i+1) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	taken, cand := map[int]bool{}, []int{}
	for i := 0; len(cand) < min(s.Candidates, s.n); i++ {
		at := int(hash(i) % uint64(s.n))
		for taken[at] {
			at = (at + 1) % s.n
		}
		taken[at] = true
		cand = append(cand, at)
	}
	return cand
}

// addNeighbour adds a point at distance d to the neighbours of point p.
func (v *solving) addNeighbour(p int, d float64) {
	var by float64
	v.near[p], by = v.push(v.near[p], d)
	v.sum[p] += by
}

// mayReach reports whether the weight of point p may still be among the n largest, by the
// distances to its nearest so far and their approximate sum.
func (v *solving) mayReach(p int, near []float64, sum float64) bool {
	if len(near) < v.others || sum > v.least {
		return true
	}
	// The running sum has accumulated roundings: sum up again. The weight is a sum in another
	// order, hence the factor.
	sum = 0
	for _, d := range near {
		sum += d
	}
	bound := scaleToK(sum, v.K, v.others+number(v.Self)) * (1 + float64(v.others)*0x1p-51)
	return bound > v.least || bound == v.least && p < v.last
}

// reaches reports whether point p is active and may still be among the n largest. It makes a
// point that cannot be inactive.
func (v *solving) reaches(p int) bool {
	if v.state[p] != active {
		return false
	}
	if !v.mayReach(p, v.near[p], v.sum[p]) {
		v.state[p], v.near[p] = inactive, nil
		return false
	}
	return true
}

// next chooses the candidates: the active points of the largest bounds.
func (v *solving) next() {
	v.cand = v.cand[:0]
	order := func(a, b int) int { return cmp.Or(cmp.Compare(v.bound(b), v.bound(a)), cmp.Compare(a, b)) }
	for p := range v.n {
		if !v.reaches(p) {
			continue
		}
		if len(v.cand) == v.Candidates && order(p, v.cand[len(v.cand)-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(v.cand, p, order)
		if v.cand = slices.Insert(v.cand, at, p); len(v.cand) > v.Candidates {
			v.cand = v.cand[:v.Candidates]
		}
	}
}

// bound returns an approximate upper bound of the weight of a point.
func (v *solving) bound(p int) float64 {
	if len(v.near[p]) < v.others {
		return math.Inf(1)
	}
	return v.sum[p]
}

// sequential is SolvingSet, figure 2.
func (s *mining) sequential() Top { return s.solve((*solving).compareInOrder) }

func (v *solving) compareInOrder() {
	hot := slices.Clone(v.cand) // those that may still be among the n largest
	for p := range v.n {
		if v.state[p] == compared {
			continue
		}
		list := hot
		if v.reaches(p) {
			list = v.cand
		}
		for _, q := range list {
			d := v.distance(p, q)
			v.count++
			if v.state[p] == active {
				v.addNeighbour(p, d)
			}
			v.addNeighbour(q, d)
		}
		hot = slices.DeleteFunc(hot, func(q int) bool { return !v.mayReach(q, v.near[q], v.sum[q]) })
	}
}

// partial is the result of a worker for a candidate: the nearest among the worker's points.
type partial struct {
	near  []float64
	sum   float64
	count int64
}

// scan compares candidate q with the points from from to to-1, with inactive ones only while
// q may be among the n largest. It leaves q's neighbours in the partial result.
func (v *solving) scan(q, from, to int, t *partial) {
	hot := v.mayReach(q, v.near[q], v.sum[q])
	for p := from; p < to; p++ {
		if v.state[p] == compared {
			continue
		}
		reaches := v.reaches(p)
		if !hot && !reaches {
			continue
		}
		d := v.distance(p, q)
		t.count++
		if reaches {
			v.addNeighbour(p, d)
		}
		var by float64
		if t.near, by = v.push(t.near, d); by != 0 {
			t.sum += by
			hot = hot && v.mayReach(q, t.near, t.sum)
		}
	}
}

// merge gives candidate q the neighbours of a partial result.
func (v *solving) merge(q int, t *partial) {
	for _, d := range t.near {
		v.addNeighbour(q, d)
	}
}

// noMatrix is SolvingSet-NDM.
func (s *mining) noMatrix() Top {
	partials := make([]partial, s.Workers)
	return s.solve(func(v *solving) {
		for _, q := range v.cand {
			s.divide(s.n, func(w, from, to int) {
				partials[w] = partial{near: partials[w].near[:0]}
				v.scan(q, from, to, &partials[w])
			})
			for w := range partials {
				v.merge(q, &partials[w])
				v.count += partials[w].count
			}
		}
	})
}

// twoPasses is SolvingSet-NDM-TP.
func (s *mining) twoPasses() Top {
	partials := make([][]partial, s.Workers)
	return s.solve(func(v *solving) {
		s.divide(s.n, func(w, from, to int) {
			partials[w] = make([]partial, len(v.cand))
			for a, q := range v.cand {
				v.scan(q, from, to, &partials[w][a])
			}
		})
		s.divide(len(v.cand), func(_, from, to int) {
			for a := from; a < to; a++ {
				for w := range partials {
					v.merge(v.cand[a], &partials[w][a])
				}
			}
		})
		for w := range partials {
			for a := range partials[w] {
				v.count += partials[w][a].count
			}
		}
	})
}
