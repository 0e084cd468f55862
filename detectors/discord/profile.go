package discord

import (
	"math"
	"slices"
	"sync"

	"odradek/detectors"
	"odradek/detectors/vec"
)

// nearest is the best neighbour of each subsequence so far, by correlations in float32 or
// float64.
type nearest[T float32 | float64] struct {
	rho []T // Inf: none is searched
	at  []int32
}

// reset clears the neighbours of the subsequences that are not flat. The slices have room
// after the last for the diagonals that are walked together.
func (nr *nearest[T]) reset(s *series, together int) {
	n := s.starts + together
	nr.rho, nr.at = sized(nr.rho, n), sized(nr.at, n)
	for i := range n {
		nr.rho[i], nr.at[i] = T(math.Inf(1)), -1
		if i < s.starts && s.usual(i) {
			nr.rho[i] = T(math.Inf(-1))
		}
	}
}

// offer makes j the neighbour if it is nearer than the present one, or as near and earlier.
func (nr *nearest[T]) offer(i, j int, rho T) {
	if rho > nr.rho[i] || rho == nr.rho[i] && int32(j) < nr.at[i] {
		nr.rho[i], nr.at[i] = rho, int32(j)
	}
}

// join takes the neighbours of q.
func (nr *nearest[T]) join(q *nearest[T]) {
	for i, at := range q.at {
		if at >= 0 && (nr.at[i] < 0 || q.rho[i] > nr.rho[i] || q.rho[i] == nr.rho[i] && at < nr.at[i]) {
			nr.rho[i], nr.at[i] = q.rho[i], at
		}
	}
}

// band is the number of diagonals of a unit of work.
const band = 16 * lanes

// Compute returns the result of Define up to rounding: it updates covariances along the diagonals of
// the matrix of all pairs (Zimmerman et al., Matrix profile XIV, SoCC 2019). The distances to the
// neighbours found are then computed from the values. The result does not depend on the order in which
// parallel runs its calls.
//
// A covariance is computed from the values every 4096 steps, and where the norm of a subsequence is
// less than 1/64 of one before on the diagonal. So its error is about 1e-12 of the product of the
// norms, for steps of any height. In single precision its error is float32's, and a neighbour may
// not be the nearest: no distance is less than the definition's beyond rounding, and distances to other
// neighbours are larger.
func Compute(x []float64, m int, o Options, parallel detectors.Parallel) Profile {
	if m < 1 || len(x) < m {
		return Profile{}
	}
	var s series
	s.load(x, m, o.ExcludeFlat)
	if o.k() > 1 {
		return s.several(o, parallel)
	}
	return s.profile(s.all(o.exclusion(m), o.Single, parallel), o.exclusion(m), parallel)
}

// all returns the place of the nearest neighbour of each subsequence that is not flat, -1
// without one. In single precision it is the nearest up to float32 rounding.
func (s *series) all(exclusion int, inSingle bool, parallel detectors.Parallel) []int32 {
	if inSingle && vec.FastJoin32() {
		t := s.inSingle()
		return join(s, exclusion, singleLanes, parallel, func() walk[float32] {
			var memory singleStrip
			return func(i, j, end int, rho []float32, found func(i, j int, rho []float32)) {
				t.walk(&memory, i, j, end, rho, found)
			}
		})
	}
	return join(s, exclusion, lanes, parallel, func() walk[float64] {
		var memory strip
		return func(i, j, end int, rho []float64, found func(i, j int, rho []float64)) {
			s.walk(&memory, i, j, end, rho, rho, found)
		}
	})
}

// walk walks along diagonals, as [series.walk] does.
type walk[T float32 | float64] func(i, j, end int, rho []T, found func(i, j int, rho []T))

// join compares all pairs. Each unit of work has its own walk, of `lanes` diagonals together.
func join[T float32 | float64](s *series, exclusion, together int, parallel detectors.Parallel, newWalk func() walk[T]) []int32 {
	var mu sync.Mutex
	var free []*nearest[T]
	acquire := func() *nearest[T] {
		mu.Lock()
		defer mu.Unlock()
		if n := len(free); n > 0 {
			p := free[n-1]
			free = free[:n-1]
			return p
		}
		p := new(nearest[T])
		p.reset(s, together)
		return p
	}
	from, to := lanes, s.starts-lanes // of the series
	parallel((max(0, to-from-exclusion)+band-1)/band, func(unit int) {
		p := acquire()
		down := newWalk()
		found := func(i, j int, rho []T) {
			for l, v := range rho {
				if v >= p.rho[i] {
					p.offer(i, j+l, v)
				}
				if v >= p.rho[j+l] {
					p.offer(j+l, i, v)
				}
			}
		}
		// A block of rows stays in a core's cache for all diagonals of the band.
		first := exclusion + unit*band
		for i := from; i < to-first; i = (i/drift + 1) * drift {
			for k := first; k < min(first+band, to-from); k += together {
				down(i, i+k, min((i/drift+1)*drift, to-k), p.rho, found)
			}
		}
		mu.Lock()
		free = append(free, p)
		mu.Unlock()
	})
	p := acquire()
	for _, q := range free {
		p.join(q)
	}
	return p.at
}

// profile returns the distances to the neighbours found, and the distances of flat subsequences.
func (s *series) profile(near []int32, exclusion int, parallel detectors.Parallel) Profile {
	n := s.n - s.m + 1
	out := Profile{make([]float64, n), make([]int, n)}
	const each = 512
	parallel((n+each-1)/each, func(unit int) {
		for i := unit * each; i < min(n, (unit+1)*each); i++ {
			out.Distance[i], out.Nearest[i] = math.NaN(), -1
			j := int(near[i+lanes])
			if s.flat(i + lanes) {
				j = s.flatNeighbour(i+lanes, exclusion)
			}
			if j >= 0 {
				out.Distance[i], out.Nearest[i] = s.distance(i+lanes, j), j-lanes
			}
		}
	})
	return out
}

// flatNeighbour returns the first flat subsequence that a flat one is compared with, or else
// the first of all; -1 for none.
func (s *series) flatNeighbour(i, exclusion int) int {
	if len(s.flats) > 0 && int(s.flats[0]) <= i-exclusion {
		return int(s.flats[0])
	}
	if at, _ := slices.BinarySearch(s.flats, int32(i+exclusion)); at < len(s.flats) {
		return int(s.flats[at])
	}
	if s.excludeFlat {
		return -1
	}
	for j := lanes; j < s.starts-lanes; j++ {
		if (j <= i-exclusion || j >= i+exclusion) && s.usual(j) {
			return j
		}
	}
	return -1
}

// several sums up the distances to K neighbours: of all correlations of a subsequence the
// largest, then of those that do not overlap it, and so on.
func (s *series) several(o Options, parallel detectors.Parallel) Profile {
	n, exclusion, k := s.n-s.m+1, o.exclusion(s.m), o.k()
	out := Profile{make([]float64, n), make([]int, n)}
	every, never := make([]float64, s.starts+lanes), make([]float64, s.starts+lanes)
	for i := range never {
		every[i], never[i] = math.Inf(-1), math.Inf(1)
	}
	const each = 32
	parallel((n+each-1)/each, func(unit int) {
		from, to := unit*each+lanes, min((unit+1)*each, n)+lanes
		rho := make([][]float64, to-from)
		for i := range rho {
			rho[i] = make([]float64, s.starts+lanes)
			for j := range rho[i] {
				rho[i][j] = math.NaN()
			}
		}
		var t strip
		found := func(i, j int, v []float64) { copy(rho[i-from][j:], v) }
		for j := lanes; j < s.starts-lanes+to-from; j += lanes {
			// The diagonals that are in column j to j+lanes-1 at the last row.
			i, at := from, j-(to-1-from)
			if at < 0 {
				i, at = i-at, 0
			}
			s.walk(&t, i, at, min(to, i+s.starts-lanes-at+1), every, never, found)
		}
		for i := from; i < to; i++ {
			out.Distance[i-lanes], out.Nearest[i-lanes] = s.summed(i, rho[i-from][:s.starts], exclusion, k)
		}
	})
	return out
}

// summed returns the summed distance of a subsequence, from its correlations with all others.
func (s *series) summed(i int, rho []float64, exclusion, k int) (sum float64, nearest int) {
	flat := s.flat(i)
	for j := range rho {
		switch {
		case j < lanes || j >= s.starts-lanes || j > i-exclusion && j < i+exclusion:
			rho[j] = math.NaN()
		case flat && s.flat(j):
			rho[j] = 1
		}
	}
	nearest = -1
	found := 0
	for found < k {
		best := -1
		for j, v := range rho {
			if v == v && (best < 0 || float32(v) > float32(rho[best])) {
				best = j
			}
		}
		if best < 0 {
			break
		}
		if found == 0 {
			nearest = best - lanes
		}
		found++
		sum += s.distance(i, best)
		for j := max(0, best-exclusion+1); j < min(len(rho), best+exclusion); j++ {
			rho[j] = math.NaN()
		}
	}
	return scaleToK(sum, k, found), nearest
}
