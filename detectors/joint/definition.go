package joint

import (
	"math"

	"odradek/detectors"
)

// This file is the definition: Step in the units of the fields, with whole matrices, without what makes it fast.

// defineStep is Step; it returns the fields, too.
func defineStep(p *Params, state detectors.Words, rows []float64, dim, at int) (float64, []field) {
	seen, lag, place := state.Int(wordSeen), state.Int(wordLag), state.Int(wordPlace)
	mean := func(at, n int) []float64 {
		y := make([]float64, dim)
		for j := range y {
			n, k := n, 0
			for i := at - n + 1; i <= at; i++ {
				if v := rows[i*dim+j]; math.Abs(v) < tooLarge {
					y[j] += v
					k++
				}
			}
			y[j] /= float64(k)
		}
		return y
	}
	score, widths := 1.0, 0.0
	fields := make([]field, dim)
	for i, width := range p.widths() {
		c := p.at(state, i, dim)
		c.past[place] = float32(math.NaN())
		if !c.words.Bool(wordReady) {
			continue
		}
		t, own := c.defined(mean(at, min(width, seen+1)), dim)
		if t != t {
			continue
		}
		c.past[place] = float32(t)
		if usual := float64(c.words.Float32(wordUsual)); c.words.Int(wordDistance) >= least && usual > 0 {
			score *= max(t/usual, lowest)
			widths++
			for j, f := range own {
				fields[j].Off += f.Score * f.Score * f.Off
				fields[j].Score += f.Score * f.Score
			}
		}
	}
	for j, f := range fields {
		if f.Score > 0 {
			fields[j] = field{f.Off / f.Score, math.Sqrt(f.Score / widths)}
		}
	}
	lag++
	seen = min(seen+1, 4*p.Guard+1)
	for ; lag > p.lag(seen); lag-- {
		back := lag - 1
		for i, width := range p.widths() {
			c := p.at(state, i, dim)
			if t := float64(c.past[(place+p.Guard+1-back)%(p.Guard+1)]); t == t {
				n, usual := c.words.Int(wordDistance), float64(c.words.Float32(wordUsual))
				if n >= firsts && t > most*usual {
					t = most * usual
				}
				g := max(1/float64(n+1), 1/float64(p.Memory))
				c.words.SetFloat32(wordUsual, float32((1-g)*usual+g*t))
				c.words.SetInt(wordDistance, min(n+1, p.Memory))
			}
			if !c.learnDefined(mean(at-back, min(width, seen-back)), p.Memory) || c.words.Int(wordLearnt) < needed(width, dim) {
				continue
			}
			c.words.SetInt(wordSince, c.words.Int(wordSince)+1)
			if c.words.Int(wordSince) >= every || !c.words.Bool(wordReady) {
				c.decomposeDefined(dim)
				c.words.SetInt(wordSince, 0)
				c.words.SetBool(wordReady, true)
			}
		}
	}
	state.SetInt(wordSeen, seen)
	state.SetInt(wordLag, lag)
	state.SetInt(wordPlace, (place+1)%(p.Guard+1))
	if widths == 0 {
		return math.NaN(), fields
	}
	return min(Largest, math.Pow(score, 1/widths)), fields
}

// defined returns the distance of a mean, and its fields.
func (sc *scale) defined(y []float64, dim int) (float64, []field) {
	// The factor is of a sample before: R is the product of it.
	l := square(dim)
	for i := range dim {
		for j := range i + 1 {
			l[i][j] = float64(sc.factor[i*(i+1)/2+j])
		}
		l[i][i] = 1 / l[i][i]
	}
	u, known := make([]float64, dim), 0
	inverse := lowerInverse(l)
	z := make([]float64, dim)
	q := 0.0
	for j, v := range y {
		if v != v { // as expected of those before it
			continue
		}
		known++
		if sc.weight[j] > 0 {
			u[j] = (v - sc.level(j)) / sc.deviation(j)
		}
		// z = inv(L) u, where the z of a missing field is 0.
		z[j] = u[j]
		for k := range j {
			z[j] -= l[j][k] * z[k]
		}
		z[j] /= l[j][j]
		q += z[j] * z[j]
	}
	if known == 0 {
		return math.NaN(), nil
	}
	fields := make([]field, dim)
	for j := range fields {
		w, p := 0.0, 0.0
		for i := j; i < dim; i++ {
			w += inverse[i][j] * z[i]
			p += inverse[i][j] * inverse[i][j]
		}
		if sc.weight[j] > 0 && y[j] == y[j] {
			fields[j] = field{Off: -w / p * sc.deviation(j), Score: math.Abs(w) / math.Sqrt(p)}
		}
	}
	n, d := float64(sc.words.Int(wordLearnt)), float64(dim)
	return math.Sqrt(q/float64(known)) * math.Sqrt(max(0.02, (n-d-2)/(n+1))), fields
}

// level and deviation are a field's mean and deviation in its own unit.
func (sc *scale) level(j int) float64 {
	return sc.low(j) + float64(sc.mean[j])*(sc.high(j)-sc.low(j))
}

func (sc *scale) deviation(j int) float64 { return (sc.high(j) - sc.low(j)) / float64(sc.weight[j]) }

// learnDefined learns a mean by the covariance in the fields' units.
func (sc *scale) learnDefined(y []float64, memory int) bool {
	dim := len(y)
	for _, v := range y {
		if v != v {
			return false
		}
	}
	n := sc.words.Int(wordLearnt)
	m, cov := make([]float64, dim), square(dim)
	for i := range dim {
		m[i] = sc.level(i)
		for j := range i + 1 {
			cov[i][j] = float64(sc.c[i*(i+1)/2+j]) * (sc.high(i) - sc.low(i)) * (sc.high(j) - sc.low(j))
		}
	}
	for j, v := range y {
		if n == 0 {
			sc.setBounds(j, v, v)
			m[j] = v
		}
		sc.setBounds(j, min(sc.low(j), v), max(sc.high(j), v))
	}
	n = min(n+1, memory)
	sc.words.SetInt(wordLearnt, n)
	g, z := 1/float64(n), make([]float64, dim)
	for j, v := range y {
		z[j] = v - m[j]
		m[j] += g * z[j]
	}
	unit := func(j int) float64 {
		if sc.high(j) > sc.low(j) {
			return sc.high(j) - sc.low(j)
		}
		return math.Inf(1) // a constant has the mean and the covariance 0 in its unit
	}
	for i := range dim {
		sc.mean[i] = float32((m[i] - sc.low(i)) / unit(i))
		for j := range i + 1 {
			sc.c[i*(i+1)/2+j] = float32((1 - g) * (cov[i][j] + g*z[i]*z[j]) / unit(i) / unit(j))
		}
	}
	return true
}

// decomposeDefined computes the weights, and the factor of the correlations by Cholesky's method.
func (sc *scale) decomposeDefined(dim int) {
	r, l := square(dim), square(dim)
	for j := range dim {
		sc.weight[j] = 0
		if low, high := sc.low(j), sc.high(j); high-low > 1e-12*max(math.Abs(low), math.Abs(high)) {
			sc.weight[j] = float32(1 / math.Sqrt(float64(sc.c[j*(j+1)/2+j])+floor*floor))
		}
	}
	for i := range dim {
		for j := range i {
			r[i][j] = (1 - shrink) * float64(sc.c[i*(i+1)/2+j]) * float64(sc.weight[i]) * float64(sc.weight[j])
		}
		r[i][i] = 1
		for j := range i + 1 {
			s := r[i][j]
			for k := range j {
				s -= l[i][k] * l[j][k]
			}
			if i == j {
				l[i][i] = math.Sqrt(max(s, 1e-9))
				sc.factor[i*(i+1)/2+i] = float32(1 / l[i][i])
			} else {
				l[i][j] = s / l[j][j]
				sc.factor[i*(i+1)/2+j] = float32(l[i][j])
			}
		}
	}
	inverse := lowerInverse(l)
	for j := range dim {
		p := 0.0
		for i := j; i < dim; i++ {
			p += inverse[i][j] * inverse[i][j]
		}
		sc.inner[j] = float32(1 / p)
	}
}

func square(dim int) [][]float64 {
	m := make([][]float64, dim)
	for i := range m {
		m[i] = make([]float64, dim)
	}
	return m
}

// lowerInverse returns the inverse of a lower triangular matrix.
func lowerInverse(l [][]float64) [][]float64 {
	dim := len(l)
	inverse := square(dim)
	for j := range dim {
		inverse[j][j] = 1 / l[j][j]
		for i := j + 1; i < dim; i++ {
			for k := j; k < i; k++ {
				inverse[i][j] -= l[i][k] * inverse[k][j]
			}
			inverse[i][j] /= l[i][i]
		}
	}
	return inverse
}
