package ar

import (
	"math"
	"math/big"
)

// Define is the definition of Step: the equations of the package comment with P as a matrix, which is
// then factored. P of a predictable series is ill-conditioned, so float64 would lose the digits to
// compare; its elements have 256 bits.
func (s *State) Define(p *Params, x []float64) Score {
	n := p.Order
	for _, v := range x[:n+1] {
		if math.IsNaN(v) || math.Abs(v) >= tooLarge {
			return Score{math.NaN(), math.NaN(), math.NaN()}
		}
	}
	lambda := 1 - 1/float64(p.Memory)
	learnt := x[n] - s.mean
	sc := Score{Off: s.mean - x[n]}
	switch {
	case s.variance > 0:
		sigma := math.Sqrt(s.variance)
		y := (x[n] - s.mean) / sigma
		v := make([]*big.Float, n)
		for i := range v {
			v[i] = number(math.Max(-clip, math.Min(clip, (x[n-1-i]-s.mean)/sigma)))
		}
		P := s.matrix()
		// k = P v, a = lambda + v'k
		k, distance, expected := make([]*big.Float, n), number(0), number(0)
		for i := range k {
			k[i] = number(0)
			for j := range v {
				addProduct(k[i], P[i][j], v[j])
			}
			addProduct(distance, v[i], k[i])
			addProduct(expected, number(s.w[i]), v[i])
		}
		a := number(lambda)
		a.Add(a, distance)
		want, _ := expected.Float64()
		novelty, _ := distance.Float64()
		unit := math.Sqrt(s.squares + quiet*quiet)
		sc = Score{math.Min(MaxInnovation, math.Abs(y-want)/unit), novelty, (want - y) * sigma}

		clippedY := math.Max(-clip, math.Min(clip, y))
		e := clippedY - want
		ratio := number(0).Quo(number(e), a)
		for i := range k {
			w := number(s.w[i])
			s.w[i], _ = addProduct(w, k[i], ratio).Float64()
			for j := range k {
				change := number(0).Mul(k[i], k[j])
				P[i][j].Sub(P[i][j], change.Quo(change, a))
				P[i][j].Quo(P[i][j], number(lambda))
			}
		}
		s.factor(P)
		before := s.n
		if s.n >= 2*n {
			before -= 2 * n
		}
		gain := math.Max(1/float64(p.Memory), 1/float64(before+1))
		s.squares += gain * (e*e - s.squares)
		learnt = clippedY * sigma
	case x[n] != s.mean:
		sc.Innovation = MaxInnovation
	}
	gain := math.Max(1/float64(p.Memory), 1/float64(s.n+n+1))
	s.mean += gain * learnt
	s.variance = (1 - gain) * (s.variance + gain*learnt*learnt)
	s.n = min(s.n+1, p.Memory)
	return sc
}

func number(v float64) *big.Float { return new(big.Float).SetPrec(256).SetFloat64(v) }

// addProduct adds x*y to sum, and returns it.
func addProduct(sum, x, y *big.Float) *big.Float { return sum.Add(sum, number(0).Mul(x, y)) }

// matrix returns P = U D U'.
func (s *State) matrix() [][]*big.Float {
	n := len(s.d)
	U := make([][]*big.Float, n) // columns
	for j, at := 0, 0; j < n; at, j = at+j, j+1 {
		for i := range n {
			switch {
			case i < j:
				U[j] = append(U[j], number(s.u[at+i]))
			case i == j:
				U[j] = append(U[j], number(1))
			default:
				U[j] = append(U[j], number(0))
			}
		}
	}
	P := make([][]*big.Float, n)
	for i := range P {
		for k := range n {
			sum := number(0)
			for j := range n {
				addProduct(sum, number(0).Mul(U[j][i], number(s.d[j])), U[j][k])
			}
			P[i] = append(P[i], sum)
		}
	}
	return P
}

// factor sets U and D to the factors of the matrix p, from the last column to the first.
func (s *State) factor(p [][]*big.Float) {
	n := len(s.d)
	for j := n - 1; j >= 0; j-- {
		d := p[j][j]
		at := j * (j - 1) / 2
		col := make([]*big.Float, j)
		for i := range j {
			col[i] = number(0).Quo(p[i][j], d)
			s.u[at+i], _ = col[i].Float64()
		}
		for i := range j {
			for k := range j {
				p[i][k].Sub(p[i][k], number(0).Mul(number(0).Mul(col[i], d), col[k]))
			}
		}
		v, _ := d.Float64()
		s.d[j] = math.Min(loose, v)
	}
}
