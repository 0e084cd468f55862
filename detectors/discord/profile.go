package discord

import (
	"math"
	"slices"
	"sync"
)

// Parallel runs f(0) to f(n-1), each once, in any order and perhaps several at a time.
type Parallel func(n int, f func(i int))

// Sequential is a Parallel on one core.
func Sequential(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

// nearest is the best neighbour of each subsequence so far.
type nearest struct {
	rho []float64 // Inf: none is looked for
	at  []int32
}

// reset looks for neighbours of the subsequences that are not flat.
func (p *nearest) reset(s *series) {
	n := s.starts + lanes
	p.rho, p.at = sized(p.rho, n), sized(p.at, n)
	for i := range n {
		p.rho[i], p.at[i] = math.Inf(1), -1
		if i < s.starts && s.usual(i) {
			p.rho[i] = math.Inf(-1)
		}
	}
}

// take takes a neighbour at j, where it is nearer, or as near and before the one there is.
func (p *nearest) take(i, j int, rho float64) {
	if rho > p.rho[i] || rho == p.rho[i] && int32(j) < p.at[i] {
		p.rho[i], p.at[i] = rho, int32(j)
	}
}

// join takes those of q.
func (p *nearest) join(q *nearest) {
	for i, at := range q.at {
		if at >= 0 && (p.at[i] < 0 || q.rho[i] > p.rho[i] || q.rho[i] == p.rho[i] && at < p.at[i]) {
			p.rho[i], p.at[i] = q.rho[i], at
		}
	}
}

// band is how many diagonals a unit of work has.
const band = 16 * lanes

// Compute returns what Define does, but for roundings: covariances are carried along the
// diagonals of the matrix of all pairs (Zimmerman et al., Matrix profile XIV, SoCC 2019). The
// distances to the neighbours found are then computed from the values. The result does not
// depend on what parallel does.
//
// A covariance is computed anew every 4096 steps, and where the norm of a subsequence is
// less than 1/64 of one before on the diagonal. So its error is some 1e-12 of the product
// of the norms, for steps of any height.
func Compute(x []float64, m int, o Options, parallel Parallel) Profile {
	if m < 1 || len(x) < m {
		return Profile{}
	}
	var s series
	s.load(x, m, o.ExcludeFlat)
	if o.k() > 1 {
		return s.several(o, parallel)
	}
	return s.profile(s.all(o.exclusion(m), parallel), o.exclusion(m), parallel)
}

// all finds the nearest neighbour of each subsequence that is not flat.
func (s *series) all(exclusion int, parallel Parallel) *nearest {
	var mu sync.Mutex
	var free []*nearest
	take := func() *nearest {
		mu.Lock()
		defer mu.Unlock()
		if n := len(free); n > 0 {
			p := free[n-1]
			free = free[:n-1]
			return p
		}
		p := new(nearest)
		p.reset(s)
		return p
	}
	from, to := lanes, s.starts-lanes // of the series
	parallel((max(0, to-from-exclusion)+band-1)/band, func(unit int) {
		p := take()
		var t strip
		found := func(i, j int, rho *[lanes]float64) {
			for l, v := range rho {
				if v >= p.rho[i] {
					p.take(i, j+l, v)
				}
				if v >= p.rho[j+l] {
					p.take(j+l, i, v)
				}
			}
		}
		// Blocks of rows stay in a core's cache while the diagonals of the band go by.
		first := exclusion + unit*band
		for i := from; i < to-first; i = (i/drift + 1) * drift {
			for k := first; k < min(first+band, to-from); k += lanes {
				s.walk(&t, i, i+k, min((i/drift+1)*drift, to-k), p.rho, p.rho, found)
			}
		}
		mu.Lock()
		free = append(free, p)
		mu.Unlock()
	})
	p := take()
	for _, q := range free {
		p.join(q)
	}
	return p
}

// profile has the distances to neighbours that were found, and of flat subsequences.
func (s *series) profile(p *nearest, exclusion int, parallel Parallel) Profile {
	n := s.n - s.m + 1
	out := Profile{make([]float64, n), make([]int, n)}
	const each = 512
	parallel((n+each-1)/each, func(unit int) {
		for i := unit * each; i < min(n, (unit+1)*each); i++ {
			out.Distance[i], out.Nearest[i] = math.NaN(), -1
			j := int(p.at[i+lanes])
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

// flatNeighbour is the first flat subsequence that a flat one is compared with, or else
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
func (s *series) several(o Options, parallel Parallel) Profile {
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
		found := func(i, j int, v *[lanes]float64) { copy(rho[i-from][j:], v[:]) }
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

// summed is the summed distance of a subsequence by its correlations with all others.
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
	return whole(sum, k, found), nearest
}
