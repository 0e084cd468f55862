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
	mining *mining
	near   [][]float64 // by point: a heap of the least distances so far; nil once it is inactive
	sum    []float64   // by point: of its distances
	state  []uint8
	cand   []int // candidates
	set    []int // of all steps
	top    best
	least  float64 // weight that a point needs; one of that very weight
	last   int     // needs an index below last
	count  int64
}

// The states of a point.
const (
	active   uint8 = iota // its weight may be among the n largest
	inactive              // it is not
	compared              // it is or was a candidate, so its weight is known
)

// solve searches to the end. compare compares the candidates with all other points.
func (m *mining) solve(compare func(*solving)) Top {
	v := m.solving()
	v.run(m.n, compare)
	return Top{Outliers: v.top.list, Distances: v.count, SolvingSet: v.set}
}

func (m *mining) solving() *solving {
	v := &solving{mining: m, near: make([][]float64, m.n), sum: make([]float64, m.n), state: make([]uint8, m.n),
		top: best{n: m.N}, least: math.Inf(-1), cand: m.first()}
	memory := make([]float64, m.n*m.others)
	for i := range v.near {
		v.near[i] = memory[i*m.others : i*m.others : (i+1)*m.others]
	}
	return v
}

func (m *mining) stopped() bool { return m.Stop != nil && m.Stop() }

// run is the main loop, figure 3. It ends once the solving set has most points, and returns false if it needs more.
func (s *solving) run(most int, compare func(*solving)) bool {
	for len(s.cand) > 0 && !s.mining.stopped() {
		all := len(s.cand)
		s.cand = s.cand[:min(all, most-len(s.set))]
		s.set = append(s.set, s.cand...)
		for _, c := range s.cand {
			s.state[c] = compared
		}
		for a, p := range s.cand {
			for _, q := range s.cand[:a] {
				d := s.mining.distance(p, q)
				s.addNeighbour(p, d)
				s.addNeighbour(q, d)
				s.count++
			}
		}
		compare(s)
		for _, c := range s.cand {
			s.top.add(Outlier{c, s.mining.weight(s.near[c])})
		}
		if len(s.cand) < all {
			return false
		}
		s.least, s.last = s.top.least()
		s.next()
	}
	return true
}

// first returns the first candidates, the same at each call: points by the hash of their index
// (Steele et al., SplittableRandom, 2014).
func (m *mining) first() []int {
	hash := func(i int) uint64 {
		z := uint64(i+1) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	taken, cand := map[int]bool{}, []int{}
	for i := 0; len(cand) < min(m.Candidates, m.n); i++ {
		at := int(hash(i) % uint64(m.n))
		for taken[at] {
			at = (at + 1) % m.n
		}
		taken[at] = true
		cand = append(cand, at)
	}
	return cand
}

// addNeighbour adds a point at distance d to the neighbours of point p.
func (s *solving) addNeighbour(p int, d float64) {
	var by float64
	s.near[p], by = s.mining.push(s.near[p], d)
	s.sum[p] += by
}

// mayReach reports whether the weight of point p may still be among the n largest, by the
// distances to its nearest so far and their approximate sum.
func (s *solving) mayReach(p int, near []float64, sum float64) bool {
	if len(near) < s.mining.others || sum > s.least {
		return true
	}
	// The running sum has accumulated roundings: sum up again. The weight is a sum in another
	// order, hence the factor.
	sum = 0
	for _, d := range near {
		sum += d
	}
	bound := scaleToK(sum, s.mining.K, s.mining.others+number(s.mining.Self)) * (1 + float64(s.mining.others)*0x1p-51)
	return bound > s.least || bound == s.least && p < s.last
}

// reaches reports whether point p is active and may still be among the n largest. It makes a
// point that cannot be inactive.
func (s *solving) reaches(p int) bool {
	if s.state[p] != active {
		return false
	}
	if !s.mayReach(p, s.near[p], s.sum[p]) {
		s.state[p], s.near[p] = inactive, nil
		return false
	}
	return true
}

// next chooses the candidates: the active points of the largest bounds.
func (s *solving) next() {
	s.cand = s.cand[:0]
	order := func(a, b int) int { return cmp.Or(cmp.Compare(s.bound(b), s.bound(a)), cmp.Compare(a, b)) }
	for p := range s.mining.n {
		if !s.reaches(p) {
			continue
		}
		if len(s.cand) == s.mining.Candidates && order(p, s.cand[len(s.cand)-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(s.cand, p, order)
		if s.cand = slices.Insert(s.cand, at, p); len(s.cand) > s.mining.Candidates {
			s.cand = s.cand[:s.mining.Candidates]
		}
	}
}

// bound returns an approximate upper bound of the weight of a point.
func (s *solving) bound(p int) float64 {
	if len(s.near[p]) < s.mining.others {
		return math.Inf(1)
	}
	return s.sum[p]
}

// sequential is SolvingSet, figure 2.
func (m *mining) sequential() Top { return m.solve((*solving).compareInOrder) }

func (s *solving) compareInOrder() {
	hot := slices.Clone(s.cand) // those that may still be among the n largest
	for p := range s.mining.n {
		if s.state[p] == compared {
			continue
		}
		list := hot
		if s.reaches(p) {
			list = s.cand
		}
		for _, q := range list {
			d := s.mining.distance(p, q)
			s.count++
			if s.state[p] == active {
				s.addNeighbour(p, d)
			}
			s.addNeighbour(q, d)
		}
		hot = slices.DeleteFunc(hot, func(q int) bool { return !s.mayReach(q, s.near[q], s.sum[q]) })
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
func (s *solving) scan(q, from, to int, t *partial) {
	hot := s.mayReach(q, s.near[q], s.sum[q])
	for p := from; p < to; p++ {
		if s.state[p] == compared {
			continue
		}
		reaches := s.reaches(p)
		if !hot && !reaches {
			continue
		}
		d := s.mining.distance(p, q)
		t.count++
		if reaches {
			s.addNeighbour(p, d)
		}
		var by float64
		if t.near, by = s.mining.push(t.near, d); by != 0 {
			t.sum += by
			hot = hot && s.mayReach(q, t.near, t.sum)
		}
	}
}

// merge gives candidate q the neighbours of a partial result.
func (s *solving) merge(q int, t *partial) {
	for _, d := range t.near {
		s.addNeighbour(q, d)
	}
}

// noMatrix is SolvingSet-NDM.
func (m *mining) noMatrix() Top {
	partials := make([]partial, m.Workers)
	return m.solve(func(v *solving) {
		for _, q := range v.cand {
			m.divide(m.n, func(w, from, to int) {
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
func (m *mining) twoPasses() Top {
	partials := make([][]partial, m.Workers)
	return m.solve(func(v *solving) {
		m.divide(m.n, func(w, from, to int) {
			partials[w] = make([]partial, len(v.cand))
			for a, q := range v.cand {
				v.scan(q, from, to, &partials[w][a])
			}
		})
		m.divide(len(v.cand), func(_, from, to int) {
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
