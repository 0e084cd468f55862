// Package ar implements online autoregression: it predicts each sample of a series from those just before it, and
// measures the error of the prediction (the innovation), or how much the samples before differ from all learnt ones
// (the novelty).
//
// # The method
//
// Recursive least squares with exponential forgetting (Haykin, Adaptive Filter Theory,
// table 10.1; Ljung, System Identification, 11.2). With the vector v of the p samples
// before x, normalised as below, weights w and the matrix P:
//
//	a = lambda + v'Pv        e = y - w'v
//	w += e*Pv/a              P = (P - Pv(Pv)'/a)/lambda
//
// so that w minimises the sum of lambda^age * e^2 over all samples so far, plus a term
// that holds w at 0 and is forgotten likewise. A memory of m samples is lambda = 1-1/m.
//
// A sample is normalised by the series' decayed mean and deviation before it,
// y = (x-mean)/deviation. What is learnt is clipped to +-10: one gross fault would
// otherwise outweigh the whole memory. The innovation is measured unclipped, in units of
// its own decayed root mean square, of at least 1e-4 of the series' deviation.
//
// # Arithmetic
//
// P is kept as U D U', U unit upper triangular and D diagonal, and updated in that form
// (Bierman, Factorization Methods for Discrete Sequential Estimation, 1977, V.3): P stays
// positive definite although U, D and w are rounded to float32 from call to call.
// Directions without excitation, of a constant or of a few pure tones, would grow without
// end as they are forgotten, so D is limited to 1e6.
//
// # Degenerate input
//
//   - As long as all samples were equal, the next one scores 0 if it is equal and 1e6 if
//     it is not.
//   - A NaN, an infinity or a value of 1e150 and more among a sample and the p before it
//     makes both scores NaN, and nothing is learnt.
package ar

import "math"

// MaxOrder is the largest order.
const MaxOrder = 64

// MaxInnovation is the largest innovation.
const MaxInnovation = 1e6

const (
	clip     = 10    // deviations from the mean
	quiet    = 1e-4  // deviations: the least unit of an innovation
	start    = 1     // of D
	loose    = 1e6   // largest element of D
	tooLarge = 1e150 // squares of such values overflow
)

// Params are the method's parameters.
type Params struct {
	Order  int // p, 1 to MaxOrder
	Memory int // samples, at least 2
}

// Words returns the number of words of a series' state: count, one unused, mean, variance,
// mean square of innovations (two words each), then weights, D, and U above its diagonal,
// column by column.
func (p *Params) Words() int { return Header + 2*p.Order + p.Order*(p.Order-1)/2 }

// Header is the number of words before the weights.
const Header = 8

// State is what has been learnt of one series. Begin or Load makes it ready for use.
type State struct {
	n              int // samples learnt, at most Memory
	mean, variance float64
	squares        float64   // decayed mean square of innovations, in squared deviations
	w, d, u        []float64 // weights; P
	v, b           []float64 // the samples before; P v
}

// Score has the measures of a sample.
type Score struct {
	Innovation float64 // see the package comment; 0 to MaxInnovation
	Novelty    float64 // v'Pv
	Off        float64 // the expected sample minus the sample, in the series' unit
}

func (s *State) size(p *Params) {
	if n := p.Order; cap(s.u) < MaxOrder*(MaxOrder-1)/2 {
		m := make([]float64, 4*MaxOrder+MaxOrder*(MaxOrder-1)/2)
		s.w, s.d, s.v, s.b, s.u = m[:n], m[MaxOrder:][:n], m[2*MaxOrder:][:n], m[3*MaxOrder:][:n], m[4*MaxOrder:]
	}
	n := p.Order
	s.w, s.d, s.v, s.b, s.u = s.w[:n], s.d[:n], s.v[:n], s.b[:n], s.u[:n*(n-1)/2]
}

// Init makes the state of a series from its first Order samples.
func (s *State) Init(p *Params, x []float64) {
	s.size(p)
	s.n, s.mean, s.variance, s.squares = 0, 0, 0, 0
	clear(s.w)
	clear(s.u)
	for i := range s.d {
		s.d[i] = start
	}
	if !finite(x) {
		return
	}
	for _, v := range x {
		s.mean += v / float64(len(x))
	}
	for _, v := range x {
		s.variance += (v - s.mean) * (v - s.mean) / float64(len(x))
	}
	if constant(x) {
		s.mean, s.variance = x[0], 0
	}
}

// Load takes the state from words.
func (s *State) Load(p *Params, words []uint32) {
	s.size(p)
	s.n = int(words[0])
	s.mean, s.variance, s.squares = float64Of(words[2:]), float64Of(words[4:]), float64Of(words[6:])
	words = words[Header:]
	for _, to := range [][]float64{s.w, s.d, s.u} {
		for i := range to {
			to[i] = float64(math.Float32frombits(words[i]))
		}
		words = words[len(to):]
	}
}

// Store puts the state into words.
func (s *State) Store(words []uint32) {
	words[0], words[1] = uint32(s.n), 0
	putFloat64(words[2:], s.mean)
	putFloat64(words[4:], s.variance)
	putFloat64(words[6:], s.squares)
	words = words[Header:]
	for _, from := range [][]float64{s.w, s.d, s.u} {
		for i, v := range from {
			words[i] = math.Float32bits(float32(v))
		}
		words = words[len(from):]
	}
}

// Learnt returns the number of samples that the state has learnt from, at most Memory.
func (s *State) Learnt() int { return s.n }

// Learnt returns the number that State.Learnt returns of the state that words have.
func Learnt(words []uint32) int { return int(words[0]) }

// Step scores the sample x[p], whose predecessors are x[:p], and learns it.
func (s *State) Step(p *Params, x []float64) Score {
	n := p.Order
	if !finite(x[:n+1]) {
		return Score{math.NaN(), math.NaN(), math.NaN()}
	}
	gain := p.gain(s.n + n)
	away := x[n] - s.mean
	sc := Score{Off: -away}
	if s.variance == 0 {
		if away != 0 {
			sc.Innovation = MaxInnovation
		}
	} else {
		sigma := math.Sqrt(s.variance)
		y := away / sigma
		expected := 0.0
		for i := range s.v {
			s.v[i] = clipped((x[n-1-i] - s.mean) / sigma)
			expected += s.w[i] * s.v[i]
		}
		a, novelty := s.update(1 - 1/float64(p.Memory))
		sc.Innovation = min(MaxInnovation, math.Abs(y-expected)/math.Sqrt(s.squares+quiet*quiet))
		sc.Novelty = novelty
		sc.Off = (expected - y) * sigma
		e := clipped(y) - expected
		s.squares += p.gain(p.averaged(s.n)) * (e*e - s.squares)
		for i, b := range s.b {
			s.w[i] += b / a * e
		}
		away = clipped(y) * sigma
	}
	s.mean += gain * away
	s.variance = (1 - gain) * (s.variance + gain*away*away)
	s.n = min(s.n+1, p.Memory)
	return sc
}

// update replaces P by its successor. It sets b to P v and returns a = lambda + v'Pv and v'Pv, all with
// the previous P.
func (s *State) update(lambda float64) (a, novelty float64) {
	a = lambda
	at := 0
	for j, f := range s.v {
		col, b := s.u[at:at+j], s.b[:j]
		at += j
		v := s.v[:j]
		for i, u := range col {
			f += u * v[i]
		}
		g := s.d[j] * f
		next := a + f*g
		s.d[j] = min(loose, s.d[j]*(a/(next*lambda)))
		mu := -f / a
		for i, u := range col {
			col[i] = u + b[i]*mu
			b[i] += u * g
		}
		s.b[j] = g
		a = next
		novelty += f * g
	}
	return a, novelty
}

// gain returns the weight of the newest of n+1 samples in a mean that is decayed once the
// memory is full.
func (p *Params) gain(n int) float64 { return max(1/float64(p.Memory), 1/float64(n+1)) }

// averaged returns the number of innovations before sample n that are in their mean square.
// The first of a series, with weights learnt from very few samples, are dropped as soon as
// there are others.
func (p *Params) averaged(n int) int {
	if n >= 2*p.Order {
		n -= 2 * p.Order
	}
	return n
}

func clipped(y float64) float64 { return max(-clip, min(clip, y)) }

func finite(x []float64) bool {
	for _, v := range x {
		if !(math.Abs(v) < tooLarge) {
			return false
		}
	}
	return true
}

func constant(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}

func float64Of(w []uint32) float64 { return math.Float64frombits(uint64(w[0]) | uint64(w[1])<<32) }

func putFloat64(w []uint32, v float64) {
	b := math.Float64bits(v)
	w[0], w[1] = uint32(b), uint32(b>>32)
}
