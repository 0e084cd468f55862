package sst

import (
	"math"
	"math/rand/v2"
)

// Spectrum is the basis of a score: mu's coordinates along the Ritz vectors of the past.
type Spectrum struct {
	Ritz   []float64 // Ritz values, largest first
	Weight []float64 // the squares of mu's coordinates; their sum is almost 1
	Count  int       // number of values that count as the past's directions
	// Least is the smallest beta as a share of T's largest element, 0 where
	// Lanczos ended early. Errors grow by its inverse; in a degenerate
	// spectrum they cause spurious Ritz values.
	Least float64
}

// Define is the definition of the scores of the last fresh values of x, which
// has at least p.Reads()+fresh-1: as in the papers, on explicit matrices,
// in float64. a is the feedback, replaced by the next. A score that is NaN or 0
// by rule has no spectrum.
func Define(p *Params, x []float64, fresh int, a []float64) (scores []float64, spectra []Spectrum) {
	for newest := len(x) - fresh; newest < len(x); newest++ {
		score, spectrum := read(p, x[newest+1-p.Reads():newest+1]).score(p, a, times)
		scores, spectra = append(scores, score), append(spectra, spectrum)
	}
	return scores, spectra
}

// The numbers of errors that Spread draws: few for most scores, and many before a score is called
// wrong, because only some of the few reach the largest possible error.
const (
	FewErrors  = 32
	ManyErrors = 1024
)

// Spread returns how far the definition's scores and its last feedback move when its
// products with a matrix are as inexact as a simple float32 implementation's:
// the largest deviations of each that n random errors and coarse roundings cause.
// Where Ritz values lie close together, one is close to the limit that counts it, or a
// beta to the one that ends Lanczos, they are far larger than a rounding.
func Spread(p *Params, x []float64, fresh int, a []float64, n int, rng *rand.Rand) (scores, next []float64) {
	// Errors of the vector lean to the directions of large eigenvalues, errors of the product to none.
	size, random := 0.0, true
	rough := func(m [][]float64, v []float64) []float64 {
		if !random {
			// As rounding does, the same each time: it keeps an exact symmetry of
			// the series, and finds the other of two equal eigenvalues.
			y := times(m, v)
			if unit := size * math.Sqrt(dot(y, y)); unit > 0 {
				for i := range y {
					y[i] = math.Round(y[i]/unit) * unit
				}
			}
			return y
		}
		in, out := size*float64(rng.IntN(2)), size*float64(rng.IntN(2))
		v = append([]float64(nil), v...)
		length := math.Sqrt(dot(v, v))
		for i := range v {
			v[i] += in * rng.NormFloat64() * length
		}
		y := times(m, v)
		for i := range y {
			y[i] += out * rng.NormFloat64() * length * math.Sqrt(dot(m[i], m[i]))
		}
		return y
	}
	scores, next = make([]float64, fresh), make([]float64, len(a))
	exact := append([]float64(nil), a...)
	rounded := make([][]float64, n)
	for i := range rounded {
		rounded[i] = append([]float64(nil), a...)
	}
	for i := range fresh {
		newest := len(x) - fresh + i
		m := read(p, x[newest+1-p.Reads():newest+1])
		want, spectrum := m.score(p, exact, times)
		for k, a := range rounded {
			size = 0x1p-22 // two units in the last place
			if spectrum.Least < 1e-2 {
				size *= math.Exp2(float64(k % 8))
			}
			if random = k/8%2 == 0; !random {
				size *= 1 + float64(k)/float64(n)
			}
			got, _ := m.score(p, a, rough)
			scores[i] = max(scores[i], math.Abs(got-want))
		}
	}
	for _, a := range rounded {
		for i := range a {
			next[i] = max(next[i], math.Abs(a[i]-exact[i]))
		}
	}
	return scores, next
}

// matrices are H1 H1' and H2 H2' of a score's values.
type matrices struct {
	past, current          [][]float64
	floor                  float64 // Ritz values up to it do not count
	noPast, noCurrent, bad bool    // H1 or H2 is 0; a value is not finite
}

func read(p *Params, x []float64) (m matrices) {
	past, current := x[:2*p.Window-1], x[p.Gamma:]
	mean := 0.0
	for i := range past {
		mean += past[i] + current[i]
	}
	mean /= float64(2 * len(past))
	for _, v := range x {
		m.bad = m.bad || math.IsNaN(v) || math.IsInf(v, 0)
	}
	h1, h2 := trajectory(past, mean), trajectory(current, mean)
	m.noPast, m.noCurrent = isStill(h1, mean), isStill(h2, mean)
	m.past, m.current = square(h1), square(h2)
	for i, row := range m.past {
		m.floor += negligible * row[i]
	}
	return m
}

func (m matrices) score(p *Params, a []float64, times func(m [][]float64, v []float64) []float64) (float64, Spectrum) {
	if m.bad {
		return math.NaN(), Spectrum{}
	}
	if m.noCurrent {
		return 0, Spectrum{}
	}

	// The power method.
	mu := append([]float64(nil), a...)
	for range p.Steps {
		mu = times(m.current, mu)
		if !normalise(mu) {
			return 0, Spectrum{}
		}
	}

	// The feedback.
	for i := range a {
		a[i] = mu[i] + p.Epsilon*float64(p.A0[i])
	}
	normalise(a)
	if m.noPast {
		return 0, Spectrum{}
	}

	// Lanczos.
	q := [][]float64{mu}
	var alpha, beta []float64
	for {
		s := len(q) - 1
		r := times(m.past, q[s])
		alpha = append(alpha, dot(q[s], r))
		subtract(r, alpha[s], q[s])
		if s > 0 {
			subtract(r, beta[s-1], q[s-1])
		}
		for i := range q { // against rounding: r is orthogonal to all q already
			subtract(r, dot(q[i], r), q[i])
		}
		if len(q) == p.Krylov {
			break
		}
		b := math.Sqrt(dot(r, r))
		if b <= breakdown*max(largest(alpha), largest(beta)) {
			break
		}
		for i := range r {
			r[i] /= b
		}
		beta, q = append(beta, b), append(q, r)
	}

	// The share of mu outside of the leading directions.
	least := 0.0
	if len(q) == p.Krylov && len(beta) > 0 {
		least = beta[0]
		for _, b := range beta {
			least = min(least, b)
		}
		least /= max(largest(alpha), largest(beta))
	}
	values, vectors := jacobi(alpha, beta)
	s := Spectrum{Least: least}
	score := 1.0
	for range values {
		top := 0
		for i := range values {
			if values[i] > values[top] {
				top = i
			}
		}
		if weight := vectors[0][top] * vectors[0][top]; weight > 0 {
			s.Ritz, s.Weight = append(s.Ritz, values[top]), append(s.Weight, weight)
		}
		values[top] = math.Inf(-1)
	}
	places, last := float64(p.Rank), math.Inf(1)
	for i, v := range s.Ritz {
		if places <= 0 || v <= m.floor {
			break
		}
		takes := min(1, (last-v)/(apart*v)) * min(1, s.Weight[i]/faint)
		score -= min(1, places/takes) * s.Weight[i]
		places, last = places-takes, v
		s.Count++
	}
	return min(max(score, 0), 1), s
}

// trajectory returns the Hankel matrix of x less the mean.
func trajectory(x []float64, mean float64) [][]float64 {
	w := (len(x) + 1) / 2
	h := make([][]float64, w)
	for i := range h {
		h[i] = make([]float64, w)
		for j := range h[i] {
			h[i][j] = x[i+j] - mean
		}
	}
	return h
}

// square returns h h'.
func square(h [][]float64) [][]float64 {
	c := make([][]float64, len(h))
	for i := range c {
		c[i] = make([]float64, len(h))
		for j := range i + 1 {
			c[i][j] = dot(h[i], h[j])
			c[j][i] = c[i][j]
		}
	}
	return c
}

// isStill reports whether the series that made h is constantly the mean.
func isStill(h [][]float64, mean float64) bool {
	for _, row := range h {
		for _, v := range row {
			if math.Abs(v) > still*math.Abs(mean) {
				return false
			}
		}
	}
	return true
}

func times(m [][]float64, v []float64) []float64 {
	y := make([]float64, len(m))
	for i := range y {
		y[i] = dot(m[i], v)
	}
	return y
}

func dot(x, y []float64) float64 {
	s := 0.0
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}

func subtract(y []float64, a float64, x []float64) {
	for i := range y {
		y[i] -= a * x[i]
	}
}

// normalise makes x a unit vector, or reports that it is 0.
func normalise(x []float64) bool {
	size := math.Sqrt(dot(x, x))
	if size == 0 {
		return false
	}
	for i := range x {
		x[i] /= size
	}
	return true
}

func largest(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

// jacobi returns the eigenvalues of the symmetric tridiagonal matrix of the
// diagonal alpha and the subdiagonal beta, unordered, and its eigenvectors as
// columns, by Jacobi's rotations (Golub and Van Loan, Matrix Computations, 4th
// edition, section 8.5).
func jacobi(alpha, beta []float64) (values []float64, vectors [][]float64) {
	n := len(alpha)
	t, v := make([][]float64, n), make([][]float64, n)
	for i := range t {
		t[i], v[i] = make([]float64, n), make([]float64, n)
		v[i][i] = 1
	}
	for i := range alpha {
		t[i][i] = alpha[i]
		if i > 0 {
			t[i][i-1], t[i-1][i] = beta[i-1], beta[i-1]
		}
	}
	for range 60 {
		rotated := false
		for p := range n {
			for q := p + 1; q < n; q++ {
				if math.Abs(t[p][q]) <= 1e-17*math.Sqrt(math.Abs(t[p][p]*t[q][q])) || t[p][q] == 0 {
					continue
				}
				rotated = true
				tau := (t[q][q] - t[p][p]) / (2 * t[p][q])
				tan := 1 / (math.Abs(tau) + math.Hypot(1, tau))
				if tau < 0 {
					tan = -tan
				}
				cos := 1 / math.Hypot(1, tan)
				sin := tan * cos
				for i := range n {
					t[i][p], t[i][q] = cos*t[i][p]-sin*t[i][q], sin*t[i][p]+cos*t[i][q]
				}
				for i := range n {
					t[p][i], t[q][i] = cos*t[p][i]-sin*t[q][i], sin*t[p][i]+cos*t[q][i]
				}
				for i := range n {
					v[i][p], v[i][q] = cos*v[i][p]-sin*v[i][q], sin*v[i][p]+cos*v[i][q]
				}
				t[p][q], t[q][p] = 0, 0
			}
		}
		if !rotated {
			break
		}
	}
	for i := range n {
		values = append(values, t[i][i])
	}
	return values, v
}
