package sst

import (
	"math"

	"odradek/detectors/vec"
)

// The fast form. Per score of w values, with n = w*w multiply-adds to a product
// with a w by w matrix:
//
//   - the power method takes 2p products with a Hankel matrix, straight from the
//     values, for one score after the other as the feedback demands;
//   - Lanczos takes k products with C, for eight scores side by side (run.go): C
//     of a score is a submatrix of the Gram matrix of all lagged vectors of the
//     run, and the next score's is the same one row and column on. Scores
//     that are left over take 2k products with Hankel matrices (alone).
//
// Floor at w=100, p=2, k=5: 4n + 5*1.15n (the lanes' overhang) = 97,000
// multiply-adds, at AVX2's 16 a cycle 6,100 cycles, 1.7 us at 3.6 GHz. Measured
// on one EPYC 9004 core at that clock: 3.2 us with 16 fresh, of which power
// method 0.9, products of Lanczos 1.1, tridiagonal problem 0.4, Gram matrix
// 0.2; 4.3 us for one alone. Tried: eight shifted copies of the values, so that
// all loads are aligned (no gain over reading v in pairs, see vec/gen.go).

// maxRun is the number of scores that share a Gram matrix, maxGram the largest
// window for which there is one (4 MiB).
const (
	maxRun  = 2 * vec.Lanes
	maxGram = 1024
)

// Scorer is the scratch memory of scoring; the zero value is ready. It is used by one
// goroutine at a time, for any parameters.
type Scorer struct {
	floats []float32 // all of the arrays below
	w, k   int       // sizes of the present layout
	window []float32 // 2w-1 centred values
	half   []float32 // w: between the two products with a Hankel matrix
	r      []float32 // w
	mu     []float32 // maxRun vectors, w apart
	basis  []float32 // k vectors, w apart

	mean    [maxRun]float64
	defined [maxRun]bool // the score needs Lanczos
	gram    gram
	t       tridiagonals
}

// Score sets scores to the scores of the last len(scores) values of x, which has at
// least p.Reads()+len(scores)-1. a is the feedback, w numbers, replaced by the
// next.
func (s *Scorer) Score(p *Params, scores, x, a []float32) {
	s.reserve(p.Window, p.Krylov)
	x = x[len(x)-p.Reads()-len(scores)+1:]
	for len(scores) > 0 {
		n := min(len(scores), maxRun)
		s.run(p, scores[:n], x[:p.Reads()+n-1], a)
		scores, x = scores[n:], x[n:]
	}
}

func (s *Scorer) reserve(w, k int) {
	if s.w == w && s.k == k {
		return
	}
	s.w, s.k = w, k
	var l layout
	l.add(&s.window, 2*w-1)
	l.add(&s.half, w)
	l.add(&s.r, w)
	l.add(&s.mu, maxRun*w)
	l.add(&s.basis, k*w)
	l.cut(&s.floats)
	s.gram.w = 0
}

// layout cuts memory into arrays, each at the start of a cache line.
type layout struct {
	arrays   [5]*[]float32
	lengths  [5]int
	n, total int
}

func (l *layout) add(array *[]float32, length int) {
	l.arrays[l.n], l.lengths[l.n] = array, length
	l.n++
	l.total += (length + 15) &^ 15
}

// cut takes the arrays from memory, which grows if it is too small. Their
// content is undefined.
func (l *layout) cut(memory *[]float32) {
	if len(*memory) < l.total {
		*memory = vec.Aligned(l.total)
	}
	rest := *memory
	for i, array := range l.arrays[:l.n] {
		n := l.lengths[i]
		*array, rest = rest[:n:n], rest[(n+15)&^15:]
	}
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
// feedback. A score by rule is set at once, and the result is false.
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
// products of it within float32: scores do not depend on the unit of x. It
// returns false where all differences are 0.
func centre(dst, x []float32, mean float64) bool {
	peak := float64(vec.Centre(dst, x, mean))
	if peak <= still*math.Abs(mean) {
		return false
	}
	if peak < 0x1p-3 || peak > 0x1p12 {
		exponent := 128 // of a difference that is beyond float32
		if !math.IsInf(peak, 0) {
			exponent = math.Ilogb(peak)
		}
		scale := math.Ldexp(1, -exponent)
		for i, v := range x {
			dst[i] = float32((float64(v) - mean) * scale)
		}
	}
	return true
}

// trace returns the trace of C = H H', where H is the Hankel matrix of window: the sum of the squares
// of its elements. A value occurs as often as its antidiagonal is long.
func trace(window []float32) float64 {
	w, sum := (len(window)+1)/2, 0.0
	for i, v := range window[:w] {
		sum += float64(i+1) * float64(v) * float64(v)
	}
	for i, v := range window[w:] {
		sum += float64(w-1-i) * float64(v) * float64(v)
	}
	return sum
}

// unit makes x a unit vector, or returns false where it is 0.
func unit(x []float32) bool {
	square := float64(vec.Dot(x, x))
	if square == 0 {
		return false
	}
	vec.Scale(float32(1/math.Sqrt(square)), x)
	return true
}

// alone computes Lanczos and the score of one value.
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
			vec.Axpy(-float32(s.t.e[n-1][0]), q(n-1), s.r)
		}
		for i := range n + 1 {
			vec.Axpy(-vec.Dot(q(i), s.r), q(i), s.r)
		}
		s.t.d[n][0] = float64(alpha)
		limit = max(limit, breakdown*math.Abs(s.t.d[n][0]))
		n++
		if n == p.Krylov {
			break
		}
		beta := math.Sqrt(float64(vec.Dot(s.r, s.r)))
		if beta <= limit {
			break
		}
		s.t.e[n-1][0] = beta
		limit = max(limit, breakdown*beta)
		copy(q(n), s.r)
		vec.Scale(float32(1/beta), q(n))
	}
	s.t.n = n
	s.t.solve(1)
	*score = s.t.outside(0, p.Rank, negligible*trace(s.window))
}
