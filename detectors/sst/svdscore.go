package sst

import (
	"math"

	"odradek/detectors/vec"
)

// SVDScorer is the fast form of SVD-SST with its scratch memory; the zero value is
// ready. It is used by one goroutine at a time, for any parameters.
//
// mu and the past's directions come from one Krylov space each, begun with a fixed vector
// that is independent of the data (krylov). All of it is float64: the distances that
// decide which directions count are down to 1e-6 of the largest singular value.
// At w=320, r=12 white noise takes about 70 steps for the past and 25 to 50 for mu,
// a product of w*w multiply-adds and 4w a vector of the basis each; an SVD by
// Householder and QL is some 3,000 products.
type SVDScorer struct {
	past, current krylov
	window, mu    []float64
}

// Score sets scores to the scores of the last len(scores) values of x, which has at
// least p.Reads()+len(scores)-1.
func (s *SVDScorer) Score(p *SVDParams, scores, x []float32) {
	scoreSVD(s, p, scores, x, vec.Sum)
}

// ScoreWide is Score of float64.
func (s *SVDScorer) ScoreWide(p *SVDParams, scores []float32, x []float64) {
	scoreSVD(s, p, scores, x, sum)
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func scoreSVD[F float32 | float64](s *SVDScorer, p *SVDParams, scores []float32, x []F, sum func([]F) float64) {
	w := p.Window
	if cap(s.window) < 2*w-1 {
		s.window, s.mu = make([]float64, 2*w-1), make([]float64, w)
	}
	s.window, s.mu = s.window[:2*w-1], s.mu[:w]
	x = x[len(x)-p.Reads()-len(scores)+1:]
	for i := range scores {
		scores[i] = float32(scoreOneSVD(s, p, x[i:i+p.Reads()], sum))
	}
}

func scoreOneSVD[F float32 | float64](s *SVDScorer, p *SVDParams, x []F, sum func([]F) float64) float64 {
	w := p.Window
	past, current := x[:2*w-1], x[p.Gamma:]
	total := sum(past) + sum(current)
	check := total
	if p.Gamma > 2*w-1 {
		check += sum(x[2*w-1 : p.Gamma])
	}
	if !(math.Abs(check) <= math.MaxFloat64) {
		return math.NaN()
	}
	mean := total / float64(2*(2*w-1))
	if !centreF64(s.window, past, mean) || !centreF64(s.window, current, mean) {
		return 0
	}
	s.current.start(s.window)
	if math.IsInf(s.current.energy, 1) { // of float64 alone: too large to be squared
		return math.NaN()
	}
	s.current.least = 1e-3
	s.current.until(1, min(w, 16), nil)
	s.current.leading(s.mu)
	centreF64(s.window, past, mean)
	s.past.start(s.window)
	if math.IsInf(s.past.energy, 1) {
		return math.NaN()
	}
	s.past.repeats, s.past.least = repeats(past), p.Negligible
	counts := s.past.until(p.Rank, min(w, 2*p.Rank+8), s.mu)
	score := 1.0
	for _, r := range s.past.ritz[:counts] {
		score -= r.along * r.along
	}
	return min(max(score, 0), 1)
}

// centreF64 sets the window to x less its mean. It returns false where all differences are 0.
func centreF64[F float32 | float64](window []float64, x []F, mean float64) bool {
	some := false
	for i, v := range x {
		window[i] = float64(v) - mean
		some = some || math.Abs(window[i]) > still*math.Abs(mean)
	}
	return some
}

// repeats reports whether more than a third of the values are equal up to differences that are small
// beside the others: spikes on a constant ground. The antidiagonal of a spike alone has two
// eigenvalues, many times each; small differences make them not quite equal, and a Krylov space ends
// before it has found all of them.
func repeats[F float32 | float64](x []F) bool {
	low, high := x[0], x[0]
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	near := small * (float64(high) - float64(low))
	const grounds = 16 // values that are tried
	for i := range grounds {
		ground, n := float64(x[(2*i+1)*len(x)/(2*grounds)]), 0
		for _, v := range x {
			if math.Abs(float64(v)-ground) <= near {
				n++
			}
		}
		if 3*n > len(x) {
			return true
		}
	}
	return false
}

// small is the largest such difference, as a share of the span of the values.
const small = 1e-4

// until takes steps, `first` of them before it tests the pairs, until the
// rank leading pairs are exact enough to decide how many of them count.
func (k *krylov) until(rank, first int, mu []float64) int {
	for next := first; ; {
		for k.n < next && !k.complete {
			k.step(mu)
		}
		k.pairs()
		if mu == nil {
			for i := range k.ritz {
				k.ritz[i].along = 1
			}
		}
		counts, doubt := k.doubt(rank)
		if doubt <= enough && (k.complete || !k.repeats) {
			return counts
		}
		more := 4 + k.n/16
		if doubt > 1e-2 {
			more *= 2
		}
		next = min(k.n+more, k.w)
		if k.repeats {
			next = k.w
		}
	}
}
