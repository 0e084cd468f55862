package threshold

import "math"

// A conformal bound is one of the highest scores of a history, or above them. A few faults in the history raise it to their own
// height, and the next equal fault would not exceed. The usual bound of severity.go hardly moves with them. A score more than
// clearSpreads spreads above the usual bound is a clear fault. While clear faults are rare, the bound is not higher than that, so
// that each of them exceeds. They enter the history like other scores.
//
// What is not rare is how the series is now, as after a change of its noise. Then there is no ceiling, and the history alone
// decides. Clear faults are counted over about the last History scores, by exponential means: the rows of such scores, and the
// scores. They are rare while there are at most rareTimes times as many rows as the rate lets scores exceed, or rareLeast, and
// while at most a share of rareShare of the scores is in them. Nothing is counted without a ceiling, so that it comes back.
//
// The scores of ordinary samples may have a heavy tail, like a Pareto distribution's of shape 3. At a rate below 1/(n+1), which the n
// scores of a history do not show, clearSpreads is larger by the cube root of the ratio, as the quantiles of such a tail are, so that
// the rate holds.
//
// Margin is a ceiling of another kind, for a detector that judges while its history is short: the bound is at most that many
// spreads above the usual one, from fitLeast scores on. Nothing is counted, and the history need not support the rate. The spread of
// few scores is uncertain: of n scores, the margin is shortMargin/n times larger.

const (
	clearSpreads = 20
	rareLeast    = 3
	rareTimes    = 2
	rareShare    = 0.1
	shortMargin  = 128
)

// ceiled reports whether clear faults have a ceiling, and are counted.
func (p *Params) ceiled() bool { return p.Margin == 0 && (p.Kind == Conformal || p.Kind == PerDay) }

// rare reports whether clear faults are rare.
func (p *Params) rare(state []float32, n int, rate float64) bool {
	h, scores := float64(p.History), float64(state[atFaultScores])
	return float64(state[atFaults]) <= max(rareLeast, rareTimes*rate*h) && scores <= rareShare*min(h, float64(n)+scores)
}

// ceiling returns the highest number that the bound may be, infinite for none.
func (p *Params) ceiling(state []float32, s *scores, rate float64) float32 {
	none, n, above := float32(math.Inf(1)), s.n, 0.0
	switch {
	case n < fitLeast || rate == 0:
	case p.Kind == Conformal && p.Margin != 0:
		above = p.Margin * (1 + shortMargin/float64(n))
	case p.ceiled() && supports(n, rate) && p.rare(state, n, rate):
		above = clearSpreads
		if shown := rate * float64(n+1); shown < 1 {
			above /= math.Cbrt(shown)
		}
	}
	if above == 0 {
		return none
	}
	m, spread := p.spread(s)
	top := p.usual(m, spread, math.Inf(1), rate) + above*spread
	if spread == 0 || p.Bounded && top >= openOne { // closed, top would be below 1, which may be an ordinary score
		return none
	}
	return p.close(top)
}

// countFaults counts a score, a clear fault or not. Clear faults with no more than Decluster other scores between them, and at least
// 2, are one row.
func (p *Params) countFaults(state []float32, isClear bool) {
	keep := float32(1 - 1/float64(p.History))
	state[atFaults] *= keep
	state[atFaultScores] *= keep
	switch {
	case !isClear:
		state[atFaultRow] = max(0, state[atFaultRow]-1)
		return
	case state[atFaultRow] == 0:
		state[atFaults]++
	}
	state[atFaultScores]++
	state[atFaultRow] = float32(max(2, p.Decluster) + 1)
}
