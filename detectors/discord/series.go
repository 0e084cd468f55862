package discord

import (
	"math"
	"slices"

	"odradek/detectors/vec"
)

// lanes is the number of diagonals that are walked together.
const lanes = vec.JoinLanes

// series has the values that the fast forms precompute for the subsequences of one length. Places count
// from the first of `lanes` copies of the first value before the series; copies of the last follow it,
// so that neighbouring diagonals need not end together.
type series struct {
	n, m        int // values, without the copies; length
	starts      int // subsequences, the copies' included
	excludeFlat bool
	x           []float64 // scaled; the value before replaces a value that is not finite
	equal       []int32   // how many equal values begin here
	bad         []int32   // the next value from here on that is not finite

	// Arrays by subsequence:
	sum, square []float64 // sum of x-x[i], and of squared deviations
	mean        []float64
	inv         []float64 // 1/sqrt(square); 0: flat, NaN: not compared
	df, dg      []float64 // what a covariance gains from the subsequences before
	rows        []int32   // the next row whose covariance is computed from the values, see derive
	flats       []int32   // flat ones, in order
}

// load copies a series and computes the moments of its subsequences of length m, at most its own.
func (s *series) load(x []float64, m int, excludeFlat bool) {
	s.n, s.m, s.excludeFlat = len(x), m, excludeFlat
	all := len(x) + 2*lanes
	s.x, s.equal, s.bad = sized(s.x, all), sized(s.equal, all), sized(s.bad, all)
	peak, last := 0.0, 0.0
	i := slices.IndexFunc(x, func(v float64) bool { return !isBad(v) })
	if i >= 0 {
		last = x[i]
	}
	for k := range all {
		if i := k - lanes; i >= 0 && i < len(x) && !isBad(x[i]) {
			last = x[i]
		}
		s.x[k] = last
	}
	for _, v := range s.x {
		if d := math.Abs(v - s.x[0]); !isBad(d) {
			peak = max(peak, d)
		}
	}
	// Scaling by a power of two loses no digit and keeps squares in range.
	_, exponent := math.Frexp(peak)
	for k, v := range s.x {
		s.x[k] = math.Ldexp(v, -exponent)
	}
	run, bad := int32(0), int32(all)
	for k := all - 1; k >= 0; k-- {
		if i := k - lanes; i < 0 || i >= len(x) || isBad(x[i]) {
			bad = int32(k)
		}
		if k+1 < all && s.x[k] == s.x[k+1] {
			run++
		} else {
			run = 1
		}
		s.equal[k], s.bad[k] = run, bad
	}
	s.starts = all - m + 1
	s.sum, s.square = sized(s.sum, s.starts), sized(s.square, s.starts)
	for i := range s.sum {
		w, first := s.x[i:i+m], s.x[i]
		sum := 0.0
		for _, v := range w {
			sum += v - first
		}
		mean, square := sum/float64(m), 0.0
		for _, v := range w {
			d := v - first - mean
			square += d * d
		}
		s.sum[i], s.square[i] = sum, square
	}
	s.derive()
}

// lengthen proceeds to subsequences one value longer, by equations (7) and (8) of Zymbler and
// Kraeva 2023.
func (s *series) lengthen() {
	m := float64(s.m)
	s.starts--
	for i := range s.starts {
		d := s.x[i+s.m] - s.x[i]
		e := d - s.sum[i]/m
		s.sum[i] += d
		s.square[i] += e * e * m / (m + 1)
	}
	s.m++
}

// steepest is the largest ratio of the norms of an earlier subsequence on a diagonal and of a later one
// for which the covariance is updated: its roundings remain as large as the earlier ones.
const steepest = 64

// derive computes the other fields from the moments.
func (s *series) derive() {
	n, m := s.starts, s.m
	s.mean, s.inv, s.df, s.dg = sized(s.mean, n), sized(s.inv, n), sized(s.df, n), sized(s.dg, n)
	s.rows, s.flats = sized(s.rows, n+lanes), s.flats[:0]
	largest := 0.0
	for i := range n {
		e := s.sum[i] / float64(m)
		s.mean[i] = s.x[i] + e
		if i > 0 {
			s.df[i] = (s.x[i+m-1] - s.x[i-1]) / 2
			s.dg[i] = s.x[i+m-1] - s.x[i] - e - s.sum[i-1]/float64(m)
		}
		s.rows[i] = 0
		switch {
		case int(s.bad[i]) < i+m:
			s.inv[i] = math.NaN()
		case int(s.equal[i]) >= m:
			s.inv[i] = 0
			if s.excludeFlat {
				s.inv[i] = math.NaN()
			}
			s.flats = append(s.flats, int32(i))
		default:
			s.inv[i] = 1 / math.Sqrt(s.square[i])
			if isBad(s.inv[i]) {
				s.inv[i] = math.NaN()
			}
		}
		norm := math.Sqrt(s.square[i])
		if s.inv[i] > 0 && largest > steepest*norm {
			s.rows[i], largest = 1, 0
		}
		largest = max(largest, norm)
	}
	next := int32(n + lanes)
	for i := n + lanes - 1; i >= 0; i-- {
		if i < n && s.rows[i] != 0 {
			next = int32(i)
		}
		s.rows[i] = next
	}
}

// usual reports whether a subsequence is compared and not flat.
func (s *series) usual(i int) bool { return s.inv[i] > 0 }

func (s *series) flat(i int) bool {
	return int(s.equal[i]) >= s.m && int(s.bad[i]) >= i+s.m
}

// drift is the largest number of rows between covariances computed from the values.
const drift = 4096

// strip is the scratch memory of a walk.
type strip struct {
	cov, rho [lanes]float64
	a        []float64
}

// walk walks along the diagonals from the one of subsequences i and j on, to row end-1, and calls
// found for each row in which a correlation is at least row[i] or at least column[j]. A
// pair's correlation depends on the pair and on the diagonal of the first lane alone.
func (s *series) walk(t *strip, i, j, end int, row, column []float64, found func(i, j int, rho []float64)) {
	for i < end {
		s.start(t, i, j)
		hit := false
		for l, c := range t.cov {
			t.rho[l] = c * s.inv[i] * s.inv[j+l]
			hit = hit || t.rho[l] >= row[i] || t.rho[l] >= column[j+l]
		}
		if hit {
			found(i, j, t.rho[:])
		}
		// One of the lanes has a covariance from the values in each of lanes rows from i+at-j-lanes+1
		// on.
		at := int(s.rows[j+1])
		stop := min(end, (i/drift+1)*drift, int(s.rows[i+1]), i+at-j-lanes+1)
		for i, j = i+1, j+1; i < stop; i, j = i+1, j+1 {
			at := vec.Join(&t.cov, &t.rho, s.df, s.dg, s.inv, row, column, i, j, stop)
			i, j = at, j+at-i
			if i >= stop {
				break
			}
			found(i, j, t.rho[:])
		}
	}
}

// start computes the covariances of subsequence i with those from j on.
func (s *series) start(t *strip, i, j int) {
	t.a = s.deviations(t.a, i)
	vec.Covariances(&t.cov, t.a, s.x[j:], s.mean[j:])
}

// deviations returns the deviations of a subsequence's values from its mean, in the memory of a.
func (s *series) deviations(a []float64, i int) []float64 {
	a = sized(a, s.m)
	e := s.sum[i] / float64(s.m)
	for k, v := range s.x[i : i+s.m] {
		a[k] = v - s.x[i] - e
	}
	return a
}

// distance returns the distance of two subsequences, from their values.
func (s *series) distance(i, j int) float64 {
	switch {
	case s.flat(i) && s.flat(j):
		return 0
	case s.flat(i) || s.flat(j):
		return math.Sqrt(2 * float64(s.m))
	}
	a, b := s.x[i:i+s.m], s.x[j:j+s.m]
	ea, eb := s.sum[i]/float64(s.m), s.sum[j]/float64(s.m)
	sum := 0.0
	for k, v := range a {
		d := (v-a[0]-ea)*s.inv[i] - (b[k]-b[0]-eb)*s.inv[j]
		sum += d * d
	}
	return math.Sqrt(sum * float64(s.m))
}
