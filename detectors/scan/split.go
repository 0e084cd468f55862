package scan

import (
	"math"
	"math/bits"
)

// split describes how n counts fall into two groups of cells, of the baselines left and right: the number
// k of those on the left is binomial, or, with no more counts than the baseline in a cell,
// hypergeometric. Both are the distribution of Poisson counts given their sums: those on the left and on
// the right and, if limited, of the trials on each side that were not drawn. So with Poisson
// probabilities about an expected count e as e h(d/e), as in Loader, Fast and accurate
// computation of binomial probabilities, 2000, nothing cancels, regardless of the size of n.
type split struct {
	n, left, right int64
	limited        bool
	mean           int64      // of k, rounded down,
	fraction       float64    // and what is left of it
	expected       [4]float64 // counts on the left and on the right, trials not drawn on the left and on the right
}

func newSplit(n, left, right int64, limited bool) split {
	s := split{n: n, left: left, right: right, limited: limited}
	all := uint64(left + right)
	high, low := bits.Mul64(uint64(n), uint64(left))
	mean, rest := bits.Div64(high, low, all)
	s.mean, s.fraction = int64(mean), float64(rest)/float64(all)
	s.expected[0] = float64(mean) + s.fraction
	s.expected[1] = float64(n) / float64(all) * float64(right)
	if limited {
		out := float64(int64(all)-n) / float64(all)
		s.expected[2], s.expected[3] = out*float64(left), out*float64(right)
	}
	return s
}

// bounds returns the least and the largest k.
func (s *split) bounds() (least, most int64) {
	if s.limited {
		return max(0, s.n-s.right), min(s.n, s.left)
	}
	return 0, s.n
}

// ratio returns the probability of k+1 over the probability of k, as a fraction.
func (s *split) ratio(k int64) (above, below float64) {
	above, below = float64(s.n-k), float64(k+1)
	if s.limited {
		return above * float64(s.left-k), below * float64(s.right-s.n+k+1)
	}
	return above * float64(s.left), below * float64(s.right)
}

// weight returns the probability of k, up to a factor that does not depend on k, as exp(exponent) /
// sqrt(size).
func (s *split) weight(k int64) (exponent, size float64) {
	d := float64(k-s.mean) - s.fraction
	e0, s0 := poisson(k, s.expected[0], d)
	e1, s1 := poisson(s.n-k, s.expected[1], -d)
	if !s.limited {
		return e0 + e1, s0 * s1
	}
	e2, s2 := poisson(s.left-k, s.expected[2], -d)
	e3, s3 := poisson(s.right-s.n+k, s.expected[3], d)
	return e0 + e1 + e2 + e3, s0 * s1 * (s2 * s3)
}

// probability returns the probability of k.
func (s *split) probability(k int64) float64 {
	exponent, size := s.weight(k)
	known := func(x, sign int64) float64 {
		if x == 0 {
			return 1
		}
		exponent += float64(sign) * stirling(x)
		return 2 * math.Pi * float64(x)
	}
	factor := known(s.n, 1)
	if s.limited {
		all := s.left + s.right
		factor = factor * known(s.left, 1) * (known(s.right, 1) * known(all-s.n, 1)) / known(all, -1)
	}
	return math.Exp(exponent) * math.Sqrt(factor/size)
}

// poisson returns the probability of x where e are expected, x = e+d, as exp(exponent) / sqrt(size).
func poisson(x int64, e, d float64) (exponent, size float64) {
	if x == 0 {
		return -e, 1
	}
	return -float64(e*bennett(d/e)) - stirling(x), 2 * math.Pi * float64(x)
}

// stirling returns the error of Stirling's formula: ln x! - ln(sqrt(2 pi x) (x/e)^x), for x > 0.
func stirling(x int64) float64 {
	if x < int64(len(stirlingOf)) {
		return stirlingOf[x]
	}
	f := 1 / float64(x)
	return f * (1./12 - f*f*(1./360-f*f*(1./1260-f*f*(1./1680))))
}

var stirlingOf = func() (terms [16]float64) {
	factorial := 1.0
	for i := 1; i < len(terms); i++ {
		x := float64(i)
		factorial *= x
		terms[i] = math.Log(factorial/math.Sqrt(2*math.Pi*x)) - x*math.Log(x) + x
	}
	return terms
}()

// inverted is the largest variance of a split that is drawn by inversion.
const inverted = 100

// draw returns a random k, a function of the random numbers at the place.
func (s *split) draw(random random, place uint32) int64 {
	least, most := s.bounds()
	if least == most {
		return least
	}
	variance := s.expected[0] * (float64(s.right) / float64(s.left+s.right))
	if s.limited {
		all := float64(s.left + s.right)
		variance *= (all - float64(s.n)) / (all - 1)
	}
	if variance <= inverted {
		x, _ := random.draw(uint64(place) << 32)
		return s.invert(uniform(x))
	}
	return s.reject(random, place, math.Sqrt(variance+0.5))
}

// uniform returns a number between 0 and 1, both excluded.
func uniform(x uint64) float64 { return (float64(x>>12) + 0.5) * 0x1p-52 }

// invert returns the k at which u is used up by the probabilities of the mean and then of its
// neighbours, above and below by turns.
func (s *split) invert(u float64) int64 {
	least, most := s.bounds()
	low, high := s.mean, s.mean
	p := s.probability(low)
	if u -= p; u < 0 {
		return low
	}
	for above, below := p, p; above+below > 0x1p-64; {
		if high < most {
			up, down := s.ratio(high)
			above = float64(above * up / down)
			high++
			if u -= above; u < 0 {
				return high
			}
		} else {
			above = 0
		}
		if low > least {
			low--
			up, down := s.ratio(low)
			below = float64(below * down / up)
			if u -= below; u < 0 {
				return low
			}
		} else {
			below = 0
		}
	}
	return s.mean // the probabilities sum up to 1 less roundings
}

// reject draws by the ratio of uniforms with the table mountain hat (Stadlober, The ratio of
// uniforms approach for generating discrete random variates, Journal of Computational and
// Applied Mathematics 31, 1990). The deviation is the root of the variance and a half.
func (s *split) reject(random random, place uint32, deviation float64) int64 {
	mode := s.mean
	if up, down := s.ratio(mode); up > down {
		mode++
	}
	exponent, size := s.weight(mode)
	least, most := s.bounds()
	width := 2 * hat(deviation)
	for attempt := uint64(place) << 32; ; attempt++ {
		x, y := random.draw(attempt)
		u := uniform(x)
		off := math.Floor(s.fraction + 0.5 + width*(uniform(y)-0.5)/u)
		if !(math.Abs(off) < MaxTotal) {
			continue
		}
		k := s.mean + int64(off)
		if k < least || k > most {
			continue
		}
		if e, v := s.weight(k); u*u <= math.Exp(e-exponent)*math.Sqrt(size/v) {
			return k
		}
	}
}

// hat returns half of the width of the hat's table.
func hat(deviation float64) float64 {
	return math.Sqrt(2/math.E)*deviation + (1.5 - math.Sqrt(3/math.E))
}
