package discord

import (
	"math"

	"odradek/detectors/vec"
)

// singleLanes is the number of diagonals that are walked together in float32.
const singleLanes = vec.JoinLanes32

// single is a series whose covariances are updated along diagonals in float32, beginning with those
// that [series] computes from the values. After the last subsequence there is room for the diagonals
// that are walked together.
type single struct {
	series      *series
	df, dg, inv []float32
}

// inSingle rounds the increments of covariances and the norms. These are differences of values and
// deviations in units of the largest, so that a level far from zero loses no digit.
func (s *series) inSingle() *single {
	n := s.starts + singleLanes
	t := &single{s, make([]float32, n), make([]float32, n), make([]float32, n)}
	for i := range n {
		t.inv[i] = float32(math.NaN())
		if i < s.starts {
			t.df[i], t.dg[i], t.inv[i] = float32(s.df[i]), float32(s.dg[i]), float32(s.inv[i])
		}
	}
	return t
}

// singleStrip is the scratch memory of a walk.
type singleStrip struct {
	cov, rho [singleLanes]float32
	half     [lanes]float64
	a        []float64
}

// walk does what [series.walk] does, with the same limits of rows and columns.
func (s *single) walk(t *singleStrip, i, j, end int, limit []float32, found func(i, j int, rho []float32)) {
	for i < end {
		s.start(t, i, j)
		hit := false
		for l, c := range t.cov {
			t.rho[l] = c * s.inv[i] * s.inv[j+l]
			hit = hit || t.rho[l] >= limit[i] || t.rho[l] >= limit[j+l]
		}
		if hit {
			found(i, j, t.rho[:])
		}
		// One of the lanes has a covariance from the values in each of singleLanes rows from
		// i+at-j-singleLanes+1 on.
		at := int(s.series.rows[j+1])
		stop := min(end, (i/drift+1)*drift, int(s.series.rows[i+1]), i+at-j-singleLanes+1)
		for i, j = i+1, j+1; i < stop; i, j = i+1, j+1 {
			at := vec.Join32(&t.cov, &t.rho, s.df, s.dg, s.inv, limit, limit, i, j, stop)
			i, j = at, j+at-i
			if i >= stop {
				break
			}
			found(i, j, t.rho[:])
		}
	}
}

// start computes the covariances of subsequence i with those from j on, in float64.
func (s *single) start(t *singleStrip, i, j int) {
	t.a = s.series.deviations(t.a, i)
	for l := 0; l < singleLanes; l += lanes {
		at := min(j+l, s.series.starts-lanes) // those after the last belong to no pair
		vec.Covariances(&t.half, t.a, s.series.x[at:], s.series.mean[at:])
		for k := j + l - at; k < lanes; k++ {
			t.cov[at+k-j] = float32(t.half[k])
		}
	}
}
