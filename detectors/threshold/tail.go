package threshold

import "math"

// fitLeast is the least history that a tail is fitted to.
const fitLeast = 32

// supported is the smallest rate, in units of 1/(n+1), that a history of n scores supports: one decade
// below its smallest rank. At lower rates the tail is too uncertain, and no score exceeds the bound.
const supported = 0.1

// leastTail is the smallest published rank; the extrapolation is meaningless below.
const leastTail = 1e-12

// tail is a generalised Pareto distribution of the scores above u, the (k+1)-th
// highest of a history, where k is a sixteenth of it but at least 8:
// P(score > u + x) = share * (1 + shape*x/scale)^(-1/shape).
type tail struct {
	u, share, shape, scale float64
}

// fitted returns how many of n scores are above u.
func fitted(n int) int { return max(8, n/16) }

// fit estimates the tail of a history, of opened scores, by probability-weighted moments (Hosking &
// Wallis 1987). The shape is kept at 1/k or above: with scale known only from k
// excesses, the predictive tail of even an exponential distribution is the Pareto
// one with shape 1/k, and a bounded tail would call every new maximum impossible.
//
// The shape itself is estimated from k excesses, too, and the extrapolated tail depends on
// it exponentially: too low a shape costs many more false alarms than too high a one
// saves. So the tail is the one with the shape a standard error higher, (1+shape)/sqrt(k)
// (Smith 1987): wide while the history is short, and closer as it grows.
func (p *Params) fit(s *scores) tail {
	n := s.n
	k := fitted(n)
	top := s.top(k + 1)
	u := p.open(top[0])
	top = top[1:]
	var sum, weighted float64
	for i, x := range top {
		e := p.open(x) - u
		sum += e
		weighted += e * float64(k-1-i)
	}
	kf := float64(k)
	a0 := sum / kf
	a1 := (weighted + 0.35*sum) / (kf * kf) // 1 - (i+1-0.35)/k = (k-1-i+0.35)/k
	shape := 1 / kf
	if d := a0 - 2*a1; d > 0 {
		shape = max(shape, min(maxShape, 2-a0/d))
	}
	scale := a0 * (1 - shape)
	shape += (1 + shape) / math.Sqrt(kf)
	scale = max(scale, grain*math.Abs(p.open(top[k-1])), math.SmallestNonzeroFloat32)
	return tail{u: u, share: float64(k+1) / float64(n+1), shape: shape, scale: scale}
}

// maxShape keeps the mean of the estimated distribution finite.
const maxShape = 0.9

// rank returns P(score >= s) for an opened score s >= u.
func (t *tail) rank(s float64) float64 {
	return t.share * math.Exp(-math.Log(1+t.shape*(s-t.u)/t.scale)/t.shape)
}

// bound returns the opened score whose rank is p.
func (t *tail) bound(p float64) float64 {
	return t.u + t.scale/t.shape*(math.Exp(t.shape*math.Log(t.share/p))-1)
}
