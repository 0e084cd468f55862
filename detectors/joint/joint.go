// Package joint scores how unusual the values of a sample are together: how far the sample, and the means of the last few
// samples, are from what the series was before, by the fields' variances and correlations.
//
// # The method
//
// For each of three widths w (1, a quarter of Params.Window, and Params.Window) y is the mean of the last w samples of d fields. The mean
// m and the covariance C of y are learnt from samples that are at least Params.Guard samples old, or a quarter of a series that is
// shorter than four guards, with the weight g = max(1/n, 1/Memory) for the n-th:
//
//	z = y-m        m += g*z        C = (1-g)*(C + g*z*z')
//
// A field's deviation is s = sqrt(C_jj + (0.02*r)²), r the range of the y_j learnt, and R are the correlations C_ij/(s_i*s_j), times
// 0.99 beside the diagonal. With u = z/s the distance of a width is
//
//	t = sqrt(u' inv(R) u / d) * sqrt(max(0.02, (n-d-2)/(n+1)))
//
// a Mahalanobis distance (On the generalised distance in statistics, 1936), whose square is Hotelling's T² of one sample (The
// generalization of Student's ratio, 1931); its second factor is for a covariance that is known of few samples. The score is the
// geometric mean of t/T, at least 0.01 each, over the widths that have learnt enough. T is the slow mean of t, which takes at most
// 3*T of one.
//
// What is learnt lags behind by the guard, so that a fault that lasts does not become usual while it is scored. Deviations and
// correlations are computed anew each 8 samples. No field needs a scale: fields in other units have the same scores.
//
// # Which field
//
// The distance of a field from what the others lead to expect of it is e_j = w_j/p_j with w = inv(R) u and p the diagonal of inv(R): its
// expected value is y_j - e_j*s_j. The squares of the standardised ones, e_j²*p_j, are the fields' shares (the conditional terms of Mason,
// Tracy and Young, Decomposition of T² for multivariate control chart interpretation, 1995): their mean over the widths, by which the
// differences are weighted.
//
// # Degenerate input
//
//   - A value that is NaN, infinite or of 1e150 and more is missing. The mean of a width is of the others; a field without one is as
//     expected, and then nothing is learnt of the sample at this width.
//   - A field that was constant as long as it was learnt is left out of the distance.
//   - Without a width that has learnt max(64, 4w, 2d) samples and has 16 distances in T, a sample scores NaN.
package joint

import (
	"math"

	"odradek/detectors"
)

const (
	every  = 8    // samples after which deviations and correlations are computed anew
	floor  = 0.02 // of a field's range: the least deviation
	shrink = 0.01 // of correlations
	most   = 3    // times the slow mean: the most that it takes of a distance
	least  = 16   // distances in the slow mean before a width takes part
	lowest = 0.01 // times the slow mean: a width that happens to be nearer says no more
	firsts = 30   // distances that the slow mean takes whole

	tooLarge = 1e150 // squares of such values could overflow
	scales   = 3     // widths

	// Largest is the largest score.
	Largest = 1e6
)

// Params are the method's parameters.
type Params struct {
	Window int // samples of the longest mean, at least 4
	Guard  int // samples before one is learnt, at least 1
	Memory int // samples after which one has lost all but a third of its weight
}

// widths returns the samples of the means.
func (p *Params) widths() [scales]int { return [scales]int{1, p.Window / 4, p.Window} }

// Rows returns how many successive rows Step reads at most, the scored one included.
func (p *Params) Rows() int { return p.Guard + p.Window }

// needed returns how many samples a width has learnt before it takes part.
func needed(width, dim int) int { return max(64, 4*width, 2*dim) }

// The state's header: words for all widths.
const (
	wordSeen  = iota // samples, up to 4*Guard+1
	wordLag          // samples that are not learnt yet
	wordPlace        // of the next distance in the rings
	headerWords
)

// The words of a width, before those for each field and pair of fields.
const (
	wordLearnt   = iota // samples, up to Memory
	wordSince           // samples since the factor was computed
	wordReady           // 1: there is a factor
	wordDistance        // distances in the slow mean, up to Memory
	wordUsual           // the slow mean, float32
	scaleWords
)

// Words returns the number of words of the state of a series of dim fields, all of them 0 at first.
func (p *Params) Words(dim int) int { return headerWords + scales*p.scaleWords(dim) }

func (p *Params) scaleWords(dim int) int {
	pairs := dim * (dim + 1) / 2
	return scaleWords + 4*dim + 3*dim + 2*pairs + p.Guard + 1
}

// scale is the state of a width. Fields have the unit of their range: 0 is the least value learnt, and 1 the largest.
type scale struct {
	words  detectors.Words
	bounds detectors.Words // least and largest value of each field, two words each
	mean   []float32
	weight []float32 // 1/s of each field; 0: it is left out
	inner  []float32 // 1/p: the conditional variance of a field whose variance is 1
	c      []float32 // covariance, and below its factor: lower triangles, row by row
	factor []float32 // L of R = LL', with the reciprocal diagonal
	past   []float32 // ring of the distances that are not learnt; NaN: none
}

// at returns the state of a width.
func (p *Params) at(state detectors.Words, i, dim int) scale {
	n, pairs := p.scaleWords(dim), dim*(dim+1)/2
	w := state[headerWords+i*n:][:n]
	f := w[scaleWords+4*dim:].F32()
	return scale{words: w[:scaleWords], bounds: w[scaleWords:][:4*dim], mean: f[:dim], weight: f[dim:][:dim], inner: f[2*dim:][:dim],
		c: f[3*dim:][:pairs], factor: f[3*dim+pairs:][:pairs], past: f[3*dim+2*pairs:]}
}

func (sc *scale) low(j int) float64  { return sc.bounds.Float64(4 * j) }
func (sc *scale) high(j int) float64 { return sc.bounds.Float64(4*j + 2) }

// Left returns how many samples still have no score, at the least: the first width has learnt enough before the others. Each sample with
// a distance has to be learnt, and at most one is at each new sample.
func (p *Params) Left(state detectors.Words, dim int) int {
	c := p.at(state, 0, dim)
	seen, lag, place := state.Int(wordSeen), state.Int(wordLag), state.Int(wordPlace)
	left := least - c.words.Int(wordDistance)
	if left <= 0 {
		return 0
	}
	learnt := 0
	for ; lag > 0; lag-- { // the oldest first
		learnt++
		if d := c.past[(place+p.Guard+1-lag)%(p.Guard+1)]; d == d {
			if left--; left == 0 {
				return learnt
			}
		}
	}
	if !c.words.Bool(wordReady) {
		left += max(1, needed(1, dim)-c.words.Int(wordLearnt))
	}
	return left + p.lag(seen+left)
}

// lag returns how many samples are not learnt once so many are seen.
func (p *Params) lag(seen int) int { return min(p.Guard, (seen-1)/4) }

// field has what is known of a field of a scored sample.
type field struct {
	Off   float64 // expected less actual
	Score float64 // of the field given the others, in deviations; 0: unknown
}

// scratch has the memory of a step.
type scratch struct {
	y, z, u, w []float64
	fields     []field
}

func (sc *scratch) grow(dim int) {
	if cap(sc.y) < dim {
		sc.y, sc.z, sc.u, sc.w = make([]float64, dim), make([]float64, dim), make([]float64, dim), make([]float64, dim)
		sc.fields = make([]field, dim)
	}
	sc.y, sc.z, sc.u, sc.w, sc.fields = sc.y[:dim], sc.z[:dim], sc.u[:dim], sc.w[:dim], sc.fields[:dim]
}

// Step scores the row at a place of rows, each of dim values, and learns one that is old enough. The rows before have to be there, as far
// as the state has seen them, Rows()-1 of them at most.
func (sc *scratch) Step(p *Params, state detectors.Words, rows []float64, dim, at int) float64 {
	sc.grow(dim)
	clear(sc.fields)
	seen, lag, place := state.Int(wordSeen), state.Int(wordLag), state.Int(wordPlace)
	d := float64(dim)
	sum, k := 0.0, 0
	for i, width := range p.widths() {
		c := p.at(state, i, dim)
		c.past[place] = float32(math.NaN())
		if !c.words.Bool(wordReady) {
			continue
		}
		sc.average(rows, dim, at, min(width, seen+1))
		q, known := sc.distance(&c)
		if known == 0 {
			continue
		}
		n := float64(c.words.Int(wordLearnt))
		t := math.Sqrt(q/float64(known)) * math.Sqrt(max(0.02, (n-d-2)/(n+1)))
		c.past[place] = float32(t)
		if usual := float64(c.words.Float32(wordUsual)); c.words.Int(wordDistance) >= least && usual > 0 {
			sum += math.Log(max(t/usual, lowest))
			k++
			sc.explain(&c)
		}
	}
	for j, f := range sc.fields {
		if f.Score > 0 {
			sc.fields[j] = field{f.Off / f.Score, math.Sqrt(f.Score / float64(k))}
		}
	}
	lag++
	seen = min(seen+1, 4*p.Guard+1)
	for keep := p.lag(seen); lag > keep; lag-- {
		back := lag - 1 // rows before the newest one
		for i, width := range p.widths() {
			c := p.at(state, i, dim)
			c.settle(c.past[(place+p.Guard+1-back)%(p.Guard+1)], p.Memory)
			sc.average(rows, dim, at-back, min(width, seen-back))
			if c.learn(sc.y, sc.z, p.Memory) && c.words.Int(wordLearnt) >= needed(width, dim) {
				if since := c.words.Int(wordSince) + 1; since >= every || !c.words.Bool(wordReady) {
					c.decompose(sc.u)
					c.words.SetInt(wordSince, 0)
					c.words.SetBool(wordReady, true)
				} else {
					c.words.SetInt(wordSince, since)
				}
			}
		}
	}
	state.SetInt(wordSeen, seen)
	state.SetInt(wordLag, lag)
	state.SetInt(wordPlace, (place+1)%(p.Guard+1))
	if k == 0 {
		return math.NaN()
	}
	return min(Largest, math.Exp(sum/float64(k)))
}

// average sets y to the mean of the n rows up to a place, without what is missing; NaN where all of it is.
func (sc *scratch) average(rows []float64, dim, at, n int) {
	if n == 1 {
		for j, v := range rows[at*dim:][:dim] {
			if !(math.Abs(v) < tooLarge) {
				v = math.NaN()
			}
			sc.y[j] = v
		}
		return
	}
	for j := range sc.y {
		s, k := 0.0, 0
		for i := (at-n+1)*dim + j; i <= at*dim+j; i += dim {
			if v := rows[i]; math.Abs(v) < tooLarge {
				s += v
				k++
			}
		}
		sc.y[j] = s / float64(k) // NaN of none
	}
}

// settle takes a distance, whose sample is learnt now, into the slow mean.
func (sc *scale) settle(distance float32, memory int) {
	t := float64(distance)
	if t != t {
		return
	}
	n, usual := sc.words.Int(wordDistance)+1, float64(sc.words.Float32(wordUsual))
	if n > firsts {
		t = min(t, most*usual)
	}
	n = min(n, memory)
	sc.words.SetInt(wordDistance, n)
	sc.words.SetFloat32(wordUsual, float32(usual+(t-usual)/float64(n)))
}

// learn learns the mean y of a width, unless something of it is missing. z is overwritten.
func (sc *scale) learn(y, z []float64, memory int) bool {
	for _, v := range y {
		if v != v {
			return false
		}
	}
	n := min(sc.words.Int(wordLearnt)+1, memory)
	first := sc.words.Int(wordLearnt) == 0
	sc.words.SetInt(wordLearnt, n)
	for j, v := range y {
		if first {
			sc.setBounds(j, v, v)
		}
		low, high := sc.low(j), sc.high(j)
		if v < low || v > high {
			sc.widen(j, min(low, v), max(high, v))
		}
	}
	g := 1 / float64(n)
	for j, v := range y {
		z[j] = 0
		if low, high := sc.low(j), sc.high(j); high > low {
			z[j] = (v-low)/(high-low) - float64(sc.mean[j])
			sc.mean[j] = float32(float64(sc.mean[j]) + g*z[j])
		}
	}
	at := 0
	for j, zj := range z {
		f := g * zj
		for k, v := range sc.c[at : at+j+1] {
			sc.c[at+k] = float32((1 - g) * (float64(v) + f*z[k]))
		}
		at += j + 1
	}
	return true
}

func (sc *scale) setBounds(j int, low, high float64) {
	sc.bounds.SetFloat64(4*j, low)
	sc.bounds.SetFloat64(4*j+2, high)
}

// widen sets the bounds of a field, and converts its mean and its covariances to the new unit.
func (sc *scale) widen(j int, low, high float64) {
	l, h := sc.low(j), sc.high(j)
	ratio := (h - l) / (high - low)
	sc.mean[j] = float32((l-low)/(high-low) + ratio*float64(sc.mean[j]))
	sc.setBounds(j, low, high)
	dim := len(sc.mean)
	for k := range dim {
		at, times := max(j, k)*(max(j, k)+1)/2+min(j, k), ratio
		if k == j {
			times *= ratio
		}
		sc.c[at] = float32(times * float64(sc.c[at]))
	}
}

// decompose computes the weights, the factor of the correlations, and the diagonal of their inverse. x is overwritten.
func (sc *scale) decompose(x []float64) {
	at := 0
	for j := range sc.weight {
		sc.weight[j] = 0
		if low, high := sc.low(j), sc.high(j); high-low > 1e-12*max(math.Abs(low), math.Abs(high)) {
			sc.weight[j] = float32(1 / math.Sqrt(max(float64(sc.c[at+j]), 0)+floor*floor))
		}
		at += j + 1
	}
	at = 0
	for j := range sc.weight {
		row := sc.factor[at : at+j+1]
		for k := range row[:j] {
			row[k] = float32(float64(sc.c[at+k]) * float64(sc.weight[j]) * float64(sc.weight[k]) * (1 - shrink))
		}
		diagonal := 1.0
		b := 0
		for k := range j {
			t := float64(row[k])
			for q, v := range sc.factor[b : b+k] {
				t -= float64(row[q]) * float64(v)
			}
			t *= float64(sc.factor[b+k])
			row[k] = float32(t)
			diagonal -= t * t
			b += k + 1
		}
		row[j] = float32(1 / math.Sqrt(max(diagonal, 1e-9)))
		at += j + 1
	}
	// Column j of inv(L), whose squares sum up to p.
	for j := range sc.inner {
		p := 0.0
		for i := j; i < len(x); i++ {
			row := sc.factor[i*(i+1)/2:][:i+1]
			t := 0.0
			if i == j {
				t = 1
			}
			for k := j; k < i; k++ {
				t -= float64(row[k]) * x[k]
			}
			x[i] = t * float64(row[i])
			p += x[i] * x[i]
		}
		sc.inner[j] = float32(1 / p)
	}
}

// distance returns u' inv(R) u of the mean y, and the number of fields that are known. z is inv(L) u.
func (sc *scratch) distance(c *scale) (q float64, known int) {
	at := 0
	for j, y := range sc.y {
		row := c.factor[at : at+j+1]
		at += j + 1
		if sc.u[j], sc.z[j] = 0, 0; y != y {
			continue
		}
		known++
		if low, high := c.low(j), c.high(j); high > low {
			sc.u[j] = ((y-low)/(high-low) - float64(c.mean[j])) * float64(c.weight[j])
		}
		t := sc.u[j]
		for k, v := range row[:j] {
			t -= float64(v) * sc.z[k]
		}
		t *= float64(row[j])
		sc.z[j] = t
		q += t * t
	}
	return q, known
}

// explain adds to fields what the last distance is made of: the square of each standardised distance, and that times the difference.
func (sc *scratch) explain(c *scale) {
	for j := len(sc.w) - 1; j >= 0; j-- { // L' w = z
		t := sc.z[j]
		for i := j + 1; i < len(sc.w); i++ {
			t -= float64(c.factor[i*(i+1)/2+j]) * sc.w[i]
		}
		sc.w[j] = t * float64(c.factor[j*(j+1)/2+j])
	}
	for j, w := range sc.w {
		if weight := float64(c.weight[j]); weight > 0 && sc.y[j] == sc.y[j] {
			e := w * float64(c.inner[j])
			square := w * e
			sc.fields[j].Off -= square * e / weight * (c.high(j) - c.low(j))
			sc.fields[j].Score += square
		}
	}
}
