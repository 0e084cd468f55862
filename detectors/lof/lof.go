// Package lof computes the local outlier factor: Breunig, Kriegel, Ng and Sander,
// LOF: identifying density-based local outliers, SIGMOD 2000; over the points of
// a window and the virtual points of a summary of the points that have left it, after Yu,
// GPU-powered outlier detection on stream data, 2017, sections 3.1 and 3.3.
//
// # The score
//
// There are n points, oldest first, and v virtual points after them, T = n+v
// in all. Distances are Euclidean.
//
//  1. The neighbours N(p) of a point p, real or virtual, are the k others
//     nearest to it: exactly k, of those equally far the ones that come first.
//     (Breunig takes all that are equally far, and may have more than k.)
//     kdist(p) is the distance to the farthest of them.
//  2. reach(p, o) = max(kdist(o), d(p, o)), and the resolution where that is 0.
//  3. lrd(p) = 1 / (mean over o in N(p) of reach(p, o) + 1e-10).
//  4. LOF(p) = (mean over o in N(p) of lrd(o)) / lrd(p). (Yu's equation 3 has
//     lrd(p) under the sum, which would make it 1.)
//
// Only real points have a score, and only the requested ones. The 1e-10 is scikit-learn's; it has the unit
// of the values.
//
// # Resolution
//
// Readings that are rounded, to a tenth of a degree, say, coincide. Where more than k do, all of their reachability
// distances are 0, though nothing is known of distances below a tenth: with the 1e-10 alone their lrd is 1e10, and ordinary
// points next to them have a LOF of up to 1e9, so that a fault is not seen. So a reachability distance has the resolution
// of the points as its floor: the smallest difference, other than 0, of a coordinate of a real point and the same one of
// the point before. (Differences to all others would take a sort; of rounded values they are the same.) Distances are no
// smaller but for 0, so that the floor changes only what coincides. [Floor] Added leaves it out, as scikit-learn does.
//
// A virtual point's lrd is not computed but given by its count C. With Alpha it
// is Alpha log C (Yu's equation 4), at least 0. Alpha has the unit of a density,
// so that is right for one scale only. Without Alpha it is a log(1+C), where a
// makes the median of it over the virtual points the median of lrd over the
// real ones. The median of m numbers is the one of rank floor((m+1)/2).
//
// [Floor] None leaves the 1e-10 out, too, as ELKI does: k coinciding points have an
// infinite lrd, a point of infinite lrd has LOF 1, and one of finite lrd with
// such a neighbour an infinite LOF.
//
// # Degenerate input
//
//   - With k >= T, k is T-1: all others are neighbours.
//   - A point that is alone (T = 1) has LOF 1.
//   - Where all points are equal, LOF is 1, with any floor; the resolution is 0.
//   - A point that coincides with k others has kdist 0 and an lrd of 1/resolution (Added: 1e10,
//     None: infinite); a point next to such points gets a LOF of its distance in resolutions (Added: up to
//     1e10, None: infinite).
//   - A dimension that is constant adds nothing to any distance.
//   - A NaN or an infinity in any coordinate makes all scores NaN.
package lof

import (
	"errors"
	"fmt"
	"math"
)

// guard is added to a mean reachability distance.
const guard = 1e-10

// MaxK is the largest number of neighbours.
const MaxK = 1 << 10

// Params are the parameters of the local outlier factor.
type Params struct {
	K     int     // neighbours
	Floor Floor   // of a reachability distance
	Alpha float64 // lrd of a virtual point is Alpha log C; 0: scaled to the real points'
}

// Floor says what a reachability distance of 0 is.
type Floor uint8

// The floors; see the package comment.
const (
	Resolution Floor = iota // the resolution of the points; 1e-10 is added to a mean
	Added                   // 0; 1e-10 is added to a mean
	None                    // 0
)

// Check reports every fault.
func (p *Params) Check() error {
	var faults []error
	if p.K < 1 || p.K > MaxK {
		faults = append(faults, fmt.Errorf("lof: k is %d, use 1 to %d", p.K, MaxK))
	}
	if !(p.Alpha >= 0 && p.Alpha <= math.MaxFloat32) {
		faults = append(faults, fmt.Errorf("lof: alpha is %v, use 0 or a positive number", p.Alpha))
	}
	return errors.Join(faults...)
}

// Density returns the lrd of a point whose k distances to its neighbours, or their k-distances if these are larger, have the
// given sum. Where one of them is 0, all are: then the point coincides with its neighbours, and they with theirs. floor is
// [ResolutionOf] of the points, and is called only then.
func (p *Params) Density(sum float64, k int, floor func() float64) float64 {
	mean := sum / float64(k)
	if mean == 0 && p.Floor == Resolution {
		mean = floor()
	}
	if p.Floor != None {
		return 1 / (mean + guard)
	}
	return 1 / mean // +Inf for 0
}

// ResolutionOf returns the smallest difference, other than 0, of a coordinate of one of the points, dim numbers each, and of
// the point before; 0 where there is none.
func ResolutionOf[F float32 | float64](points []F, dim int) float64 {
	least := math.Inf(1)
	for i := dim; i < len(points); i++ {
		if d := math.Abs(float64(points[i]) - float64(points[i-dim])); d > 0 {
			least = min(least, d)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// factor returns the LOF of a point of density lrd whose k neighbours' densities
// have the given sum.
func (p *Params) factor(sum, lrd float64, k int) float64 {
	if math.IsInf(lrd, 1) {
		return 1
	}
	return sum / float64(k) / lrd
}

// scale returns the factor a from a virtual point's count to its density, given the median
// of the real points' densities: lrd = a log(1+C), or a log C where literal.
func (p *Params) scale(median, medianLog float64) (a float64, literal bool) {
	switch {
	case p.Alpha > 0:
		return p.Alpha, true
	case medianLog > 0:
		return median / medianLog, false
	}
	return median, false
}

// virtual returns the density of a virtual point of count c.
func virtual(a float64, literal bool, c float64) float64 {
	if literal {
		return a * max(math.Log(c), 0)
	}
	return a * math.Log1p(c)
}
