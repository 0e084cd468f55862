package sst

import (
	"math"

	"odradek/detectors/vec"
)

// The fast form. Per score of w values, with n = w*w multiply-adds to a product
// with a w by w matrix:
//
//   - the power method takes 2p products with a Hankel matrix, straight from the
//     values, for each score after the other as the feedback demands;
//   - Lanczos takes k products with C, for eight scores side by side (run.go): C
//     of a score is a submatrix of the Gram matrix of all lagged vectors of the
//     run, and that of the next score is the same one row and column on. Scores
//     that are left over take 2k products with Hankel matrices (alone.go).
//
// Floor at w=100, p=2, k=5: 4*n + 5*n*1.14 (the lanes' overhang) = 97,000
// multiply-adds, at AVX2's 16 a cycle 6,100 cycles, 1.7 us at 3.6 GHz.

// maxRun is the number of scores that share a Gram matrix, maxGram the largest
// window for which there is one (4 MiB).
const (
	maxRun  = 2 * vec.Lanes
	maxGram = 1024
)

// Scorer holds the memory that scoring takes; the zero value is ready. It is
// used by one goroutine at a time, for any parameters.
type Scorer struct {
	w, k int // what the memory below is for

	window  []float32 // 2w-1 centred values
	half    []float32 // w: between the two products with a Hankel matrix
	mu      []float32 // maxRun vectors, w apart
	basis   []float32 // k vectors
	r       []float32
	mean    [maxRun]float64
	defined [maxRun]bool // the score needs Lanczos

	gram gram

	alpha, beta, first [MaxKrylov]float64
}

// Score sets scores to those of the last len(scores) values of x, which has at
// least p.Reads()+len(scores)-1. a is the feedback, w numbers, replaced by the
// next.
func (s *Scorer) Score(p *Params, scores, x, a []float32) {
	s.reserve(p)
	x = x[len(x)-p.Reads()-len(scores)+1:]
	for len(scores) > 0 {
		n := min(len(scores), maxRun)
		s.run(p, scores[:n], x[:p.Reads()+n-1], a)
		scores, x = scores[n:], x[n:]
	}
}

func (s *Scorer) reserve(p *Params) {
	if s.w == p.Window && s.k == p.Krylov {
		return
	}
	s.w, s.k = p.Window, p.Krylov
	// Begun at different places within 4 KiB, so that what is read does not
	// wait for what was just written to its alias.
	all := vec.Aligned(4*s.w + maxRun*s.w + s.k*s.w + s.w + 5*64)
	take := func(n int) []float32 {
		n = (n + 15) &^ 15
		part := all[:n:n]
		all = all[n:]
		return part
	}
	s.window = take(2*s.w - 1)[:2*s.w-1]
	s.half = take(s.w)[:s.w]
	s.r = take(s.w)[:s.w]
	s.mu = take(maxRun * s.w)
	s.basis = take(s.k * s.w)
	s.gram = gram{}
}

// run scores up to maxRun values, the last of x.
func (s *Scorer) run(p *Params, scores, x, a []float32) {
	w := p.Window
	for i := range scores {
		s.defined[i] = s.current(p, &scores[i], &s.mean[i], s.mu[i*w:(i+1)*w], x[i:i+p.Reads()], a)
	}
	for at := 0; at < len(scores); {
		n := min(len(scores)-at, vec.Lanes)
		if n < vec.Lanes/2 || !s.lanes(p, scores, x, at, n) {
			for i := at; i < at+n; i++ {
				if s.defined[i] {
					s.alone(p, &scores[i], s.mu[i*w:(i+1)*w], x[i:i+2*w-1], s.mean[i])
				}
			}
		}
		at += n
	}
}

// current is the part of a score before Lanczos: mean, mu and the next
// feedback. If the score is by rule it is set, and the result false.
func (s *Scorer) current(p *Params, score *float32, mean *float64, mu, x, a []float32) bool {
	w := p.Window
	past, current := x[:2*w-1], x[p.Gamma:]
	sum := vec.Sum(past) + vec.Sum(current)
	check := sum
	if p.Gamma > 2*w-1 {
		check += vec.Sum(x[2*w-1 : p.Gamma])
	}
	if !(math.Abs(check) <= math.MaxFloat64) {
		*score = float32(math.NaN())
		return false
	}
	*mean = sum / float64(2*(2*w-1))
	*score = 0
	if !centre(s.window, current, *mean) {
		return false
	}
	copy(mu, a)
	for range p.Steps {
		vec.Hankel(s.half, s.window, mu)
		vec.Hankel(mu, s.window, s.half)
		if !unit(mu) {
			return false
		}
	}
	copy(a, mu)
	vec.Axpy(float32(p.Epsilon), p.A0, a)
	unit(a)
	return true
}

// centre sets dst to x less its mean, times a power of two that keeps the
// products of it within float32: scores do not depend on the unit of x. It is
// false where nothing is left.
func centre(dst, x []float32, mean float64) bool {
	peak := vec.Centre(dst, x, mean)
	if peak == 0 {
		return false
	}
	if peak < 0x1p-3 || peak > 0x1p12 {
		scale := math.Ldexp(1, -math.Ilogb(float64(peak)))
		for i, v := range x {
			dst[i] = float32((float64(v) - mean) * scale)
		}
	}
	return true
}

// unit makes x a unit vector, or is false where it is 0.
func unit(x []float32) bool {
	square := float64(vec.Dot(x, x))
	if square == 0 {
		return false
	}
	vec.Scale(float32(1/math.Sqrt(square)), x)
	return true
}

// alone is Lanczos and the score of one value.
func (s *Scorer) alone(p *Params, score *float32, mu, past []float32, mean float64) {
	w := p.Window
	*score = 0
	if !centre(s.window, past, mean) {
		return
	}
	q := func(i int) []float32 { return s.basis[i*w : (i+1)*w] }
	copy(q(0), mu)
	limit := 0.0
	n := 0
	for {
		vec.Hankel(s.half, s.window, q(n))
		vec.Hankel(s.r, s.window, s.half)
		alpha := vec.Dot(q(n), s.r)
		vec.Axpy(-alpha, q(n), s.r)
		if n > 0 {
			vec.Axpy(-float32(s.beta[n-1]), q(n-1), s.r)
		}
		for i := range n + 1 {
			vec.Axpy(-vec.Dot(q(i), s.r), q(i), s.r)
		}
		s.alpha[n] = float64(alpha)
		limit = max(limit, breakdown*math.Abs(s.alpha[n]))
		n++
		if n == p.Krylov {
			break
		}
		beta := math.Sqrt(float64(vec.Dot(s.r, s.r)))
		if beta <= limit {
			break
		}
		s.beta[n-1] = beta
		copy(q(n), s.r)
		vec.Scale(float32(1/beta), q(n))
	}
	*score = outside(s.alpha[:n], s.beta[:n], s.first[:n], p.Rank)
}

// outside is the score: 1 less the squares of the first components of the
// eigenvectors of T that count. It uses up its arguments.
func outside(alpha, beta, first []float64, rank int) float32 {
	clear(first)
	first[0] = 1
	ritz(alpha, beta, first)
	score, floor := 1.0, math.Inf(-1)
	for range min(rank, len(alpha)) {
		top := 0
		for i, v := range alpha {
			if v > alpha[top] {
				top = i
			}
		}
		if alpha[top] <= floor {
			break
		}
		if math.IsInf(floor, -1) {
			floor = negligible * alpha[top]
		}
		score -= first[top] * first[top]
		alpha[top] = math.Inf(-1)
	}
	return float32(min(max(score, 0), 1))
}

// ritz replaces the diagonal d of a symmetric tridiagonal matrix by its
// eigenvalues, unordered, and the row z by z times the matrix of eigenvectors,
// by implicit QL (Golub and Welsch, Calculation of Gauss quadrature rules, 1969:
// of the eigenvectors it takes the first components only). e is the
// subdiagonal, its last element free; it is used up.
func ritz(d, e, z []float64) {
	n := len(d)
	e[n-1] = 0
	for l := range n {
		for range 60 {
			m := l
			for m < n-1 && math.Abs(e[m]) > 0x1p-46*(math.Abs(d[m])+math.Abs(d[m+1])) {
				m++
			}
			if m == l {
				break
			}
			g := (d[l+1] - d[l]) / (2 * e[l])
			g = d[m] - d[l] + e[l]/(g+math.Copysign(math.Sqrt(g*g+1), g))
			sin, cos, p := 1.0, 1.0, 0.0
			i := m - 1
			for ; i >= l; i-- {
				f, b := sin*e[i], cos*e[i]
				r := math.Sqrt(f*f + g*g)
				e[i+1] = r
				if r == 0 {
					d[i+1] -= p
					break
				}
				sin, cos = f/r, g/r
				g = d[i+1] - p
				r = (d[i]-g)*sin + 2*cos*b
				p = sin * r
				d[i+1] = g + p
				g = cos*r - b
				z[i], z[i+1] = cos*z[i]-sin*z[i+1], sin*z[i]+cos*z[i+1]
			}
			if i < l {
				d[l] -= p
				e[l] = g
			}
			e[m] = 0
		}
	}
}
