package sst

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// SVD-SST is the transformation without an approximation: Idé and Inoue,
// Knowledge discovery from heterogeneous dynamic systems using change-point
// correlations, SDM 2005; Ueno and Suzumura, section 2.1. It reads the values
// that IKA-SST reads, centred as there. Then
//
//   - mu is the left singular vector of the largest singular value of H2,
//   - u_1 to u_r are the left singular vectors of the r largest singular values of H1,
//   - the score is 1 minus the sum of the squares of mu'u_i, in [0, 1].
//
// No score depends on another. Where IKA-SST has rules for degenerate input they
// are the same: a NaN or an infinity among the values read makes a score NaN, a
// current or a past that is constantly the mean makes it 0. A direction of the past
// does not count whose singular value is not above Negligible of the largest, by
// default the size that float32 rounding gives one that is 0: a past of lower rank than r,
// such as a sinusoid, spans less, and rounding errors must not explain the current.
//
// A trajectory matrix is symmetric, so that its singular vectors are its
// eigenvectors and its singular values the absolute eigenvalues: two eigenvalues
// l and -l are two directions of one singular value. Where the r-th and the
// next singular value are equal, or the two largest of H2, the method does not determine
// the score; the one here is one of those possible, the same each time. See SVDRange.

// MaxSVDWindow is the largest w of SVD-SST.
const MaxSVDWindow = 1024

// SVDParams are the parameters of SVD-SST. The zero value of a field after Window means its default.
type SVDParams struct {
	Window int // w: rows and columns of the trajectory matrices
	Rank   int // r: directions of the past; default 3
	Gamma  int // lag from the past to the current; default 2w-1+8
	// Negligible is a share of the past's largest singular value: directions with
	// singular values up to it do not count. At least LeastNegligible; default
	// DefaultNegligible.
	Negligible float64
}

// The least share, and the default: values rounded to float32 leave 1e-8 to 1e-7 of a missing
// direction.
const (
	LeastNegligible   = 1e-7
	DefaultNegligible = 1e-6
)

// Defaults sets the fields that are 0 and reports every fault.
func (p *SVDParams) Defaults() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("sst: "+format, args...)) }
	if p.Rank == 0 {
		p.Rank = 3
	}
	if p.Gamma == 0 && p.Window > 0 {
		p.Gamma = 2*p.Window - 1 + 8
	}
	if p.Negligible == 0 {
		p.Negligible = DefaultNegligible
	}
	if p.Window < 2 || p.Window > MaxSVDWindow {
		fault("window is %d, use 2 to %d", p.Window, MaxSVDWindow)
	}
	if p.Rank < 1 || p.Rank >= max(p.Window, 2) {
		fault("rank is %d, use 1 to window-1", p.Rank)
	}
	if p.Gamma < 1 || p.Gamma > 1<<16 {
		fault("gamma is %d, use 1 to %d", p.Gamma, 1<<16)
	}
	if !(p.Negligible >= LeastNegligible && p.Negligible < 1) {
		fault("negligible is %v, use %v up to less than 1", p.Negligible, LeastNegligible)
	}
	return errors.Join(faults...)
}

// Reads returns the number of values that one score reads.
func (p *SVDParams) Reads() int { return 2*p.Window - 1 + p.Gamma }

// About is Params.About.
func (p *SVDParams) About(newest int) (from, to int) {
	return (&Params{Window: p.Window, Gamma: p.Gamma}).About(newest)
}

// SVD is the basis of a score of SVD-SST: singular values, largest first,
// and singular vectors of H1 and H2. It is empty for a score by rule.
type SVD struct {
	Past, Current          []float64
	PastLeft, CurrentLeft  [][]float64 // a vector each
	Weight                 []float64   // squares of mu's coordinates along PastLeft
	Count                  int         // number of values that count as the past's directions
	pastSigned, currSigned []float64   // eigenvalues
}

// DefineSVD is the definition of the scores of the last fresh values of x, which
// has at least p.Reads()+fresh-1: singular value decompositions of explicit
// matrices, in float64.
func DefineSVD(p *SVDParams, x []float64, fresh int) (scores []float64, decompositions []SVD) {
	for newest := len(x) - fresh; newest < len(x); newest++ {
		score, d := defineSVD(p, x[newest+1-p.Reads():newest+1])
		scores, decompositions = append(scores, score), append(decompositions, d)
	}
	return scores, decompositions
}

func defineSVD(p *SVDParams, x []float64) (float64, SVD) {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return math.NaN(), SVD{}
		}
	}
	past, current := x[:2*p.Window-1], x[p.Gamma:]
	mean := 0.0
	for i := range past {
		mean += past[i] + current[i]
	}
	mean /= float64(2 * len(past))
	h1, h2 := trajectory(past, mean), trajectory(current, mean)
	if isStill(h1, mean) || isStill(h2, mean) {
		return 0, SVD{}
	}
	var d SVD
	d.Past, d.pastSigned, d.PastLeft = singular(h1)
	d.Current, d.currSigned, d.CurrentLeft = singular(h2)
	score := 1.0
	for i, u := range d.PastLeft {
		c := dot(d.CurrentLeft[0], u)
		d.Weight = append(d.Weight, c*c)
		if i < p.Rank && d.Past[i] > p.Negligible*d.Past[0] {
			score -= c * c
			d.Count++
		}
	}
	return min(max(score, 0), 1), d
}

// singular returns the singular values of a symmetric matrix, largest first, the
// eigenvalues whose absolute values they are, and the left singular vectors. Of
// equal ones a positive eigenvalue comes first.
func singular(h [][]float64) (values, signed []float64, vectors [][]float64) {
	signed, vectors = symmetric(h)
	order(signed, vectors)
	for _, v := range signed {
		values = append(values, math.Abs(v))
	}
	return values, signed, vectors
}

// order sorts eigenvalues by falling absolute value, and paired with them.
func order[T any](values []float64, paired []T) {
	for i := range values {
		top := i
		for k := i + 1; k < len(values); k++ {
			if a, b := math.Abs(values[k]), math.Abs(values[top]); a > b || a == b && values[k] > values[top] {
				top = k
			}
		}
		values[i], values[top] = values[top], values[i]
		paired[i], paired[top] = paired[top], paired[i]
	}
}

// symmetric returns the eigenvalues of the symmetric matrix h, unordered, and its eigenvectors:
// Householder's reduction to a tridiagonal matrix, then implicit QL (Golub and Van Loan, Matrix
// Computations, 4th edition, section 8.3). It overwrites h.
func symmetric(h [][]float64) (values []float64, vectors [][]float64) {
	n := len(h)
	d, e := make([]float64, n), make([]float64, n)
	reflectors := make([][]float64, n) // v of 1 - 2vv', from row k+1 on
	p := make([]float64, n)
	for k := range n - 1 {
		d[k] = h[k][k]
		v := make([]float64, n)
		for i := k + 1; i < n; i++ {
			v[i] = h[i][k]
		}
		size := math.Sqrt(dot(v, v))
		e[k] = size
		if v[k+1] > 0 {
			e[k] = -size
		}
		v[k+1] -= e[k]
		if !normalise(v) {
			continue
		}
		reflectors[k] = v
		// The rest becomes itself less 2(vw' + wv'), w = p - (v'p)v, p = hv.
		for i := k + 1; i < n; i++ {
			p[i] = dot(h[i][k+1:], v[k+1:])
		}
		subtract(p[k+1:], dot(v[k+1:], p[k+1:]), v[k+1:])
		for i := k + 1; i < n; i++ {
			subtract(h[i][k+1:], 2*v[i], p[k+1:])
			subtract(h[i][k+1:], 2*p[i], v[k+1:])
		}
	}
	d[n-1] = h[n-1][n-1]
	// Columns of the product of the reflections.
	vectors = make([][]float64, n)
	for i := range vectors {
		z := make([]float64, n)
		z[i] = 1
		for k := i - 1; k >= 0; k-- {
			if v := reflectors[k]; v != nil {
				subtract(z, 2*dot(v, z), v)
			}
		}
		vectors[i] = z
	}
	implicitQL(d, e, vectors)
	return d, vectors
}

// implicitQL replaces the diagonal d of a tridiagonal matrix by its eigenvalues, and overwrites e, its
// subdiagonal and one more element. Row i of z becomes row i of S'z, where the columns of S are the
// eigenvectors.
func implicitQL(d, e []float64, z [][]float64) {
	n := len(d)
	e[n-1] = 0
	for l := range n {
		for range 80 {
			m := l
			for m < n-1 && math.Abs(e[m]) > 0x1p-53*(math.Abs(d[m])+math.Abs(d[m+1])) {
				m++
			}
			if m == l {
				break
			}
			h := (d[l+1] - d[l]) / (2 * e[l])
			g := d[m] - d[l] + e[l]/(h+math.Copysign(math.Hypot(h, 1), h))
			sin, cos, p := 1.0, 1.0, 0.0
			for i := m - 1; i >= l; i-- {
				f, b := sin*e[i], cos*e[i]
				r := math.Sqrt(f*f + g*g)
				if r < 1e-150 || r > 1e150 {
					r = math.Hypot(f, g)
				}
				e[i+1] = r
				sin, cos = 0, 1
				if r != 0 {
					sin, cos = f/r, g/r
				}
				x := d[i+1] - p
				r = (d[i]-x)*sin + 2*cos*b
				p = sin * r
				d[i+1] = x + p
				g = cos*r - b
				low, high := z[i], z[i+1]
				high = high[:len(low)]
				for k, v := range low {
					low[k], high[k] = cos*v-sin*high[k], sin*v+cos*high[k]
				}
			}
			d[l] -= p
			e[l] = g
			e[m] = 0
		}
	}
}

// Shares of the largest singular value: within them SVDRange treats two values as
// possibly equal. Nearer than even, any mixture of the two vectors may be mu.
const (
	openPast    = 1e-6
	openCurrent = 1e-3
	even        = 1e-7
)

// SVDRange returns the least and the greatest score that the method allows, of which score is
// the definition's; both are score where the method determines it. It is undetermined by the
// past's directions whose singular values are within 1e-6 of the largest from the r-th's
// or from the bound below which they do not count, because any of them, or mixtures,
// may be the ones that count. It is also undetermined by mu, where singular values of H2
// follow the first: within 1e-7 any unit vector among theirs may be mu, and the scores lie between
// the extreme eigenvalues of the share outside the past's directions; within 1e-3 mu may turn
// towards their vectors by 1e-8 of the largest over their distance, which makes 1e-5 at 1e-3.
func SVDRange(p *SVDParams, d *SVD, score float64) (low, high float64) {
	if len(d.Past) == 0 {
		return score, score
	}
	first, last := d.Past[0], d.Past[p.Rank-1]
	threshold := p.Negligible * first
	tied, faint := last-d.Past[p.Rank] <= openPast*first, last <= (1+openPast)*threshold
	var certain, possible [][]float64 // directions that count, and that may count
	for i, s := range d.Past {
		open := tied && math.Abs(s-last) <= openPast*first || faint && math.Abs(s-threshold) <= openPast*first
		if i < d.Count && !open {
			certain = append(certain, d.PastLeft[i])
		}
		if i < d.Count || open {
			possible = append(possible, d.PastLeft[i])
		}
	}
	outside := func(u, v []float64, basis [][]float64) float64 {
		s := dot(u, v)
		for _, b := range basis {
			s -= dot(u, b) * dot(v, b)
		}
		return s
	}
	gap := func(j int) float64 { return (d.Current[0] - d.Current[j]) / d.Current[0] }
	alike := 1
	for alike < len(d.Current) && gap(alike) <= even {
		alike++
	}
	extremes := func(basis [][]float64) (low, high float64) {
		h := make([][]float64, alike)
		for j := range h {
			h[j] = make([]float64, alike)
			for k := range h[j] {
				h[j][k] = outside(d.CurrentLeft[j], d.CurrentLeft[k], basis)
			}
		}
		values, _ := symmetric(h)
		return slices.Min(values), slices.Max(values)
	}
	low, _ = extremes(possible)
	_, high = extremes(certain)
	low, high = min(low, score), max(high, score)
	if low == high || alike == 1 && len(certain) == len(possible) {
		low, high = score, score
	}
	mu := d.CurrentLeft[0]
	for j := alike; j < len(d.Current) && gap(j) <= openCurrent; j++ {
		turn, by := 1e-8/gap(j), 1.0
		if alike == 1 {
			u := d.CurrentLeft[j]
			by = math.Abs(outside(mu, u, d.PastLeft[:d.Count])) +
				turn*math.Abs(outside(u, u, d.PastLeft[:d.Count])-outside(mu, mu, d.PastLeft[:d.Count]))/2
		}
		low, high = low-2*turn*by, high+2*turn*by
	}
	return low, high
}
