package threshold

import "math"

// Scores of some methods lie in [0, 1]. Distances near 1 then mean little: a median plus some
// deviations, a multiple or an extrapolated tail soon exceeds 1, where no score can exceed it. Such
// scores are judged opened, as -log(1-z), which has no upper end and keeps their order, so that ranks
// and states do not change; a bound is closed again and stays below 1.

// open returns a score in the form in which it is judged.
func (p *Params) open(z float32) float64 {
	if !p.Bounded {
		return float64(z)
	}
	if z >= 1 {
		return openOne
	}
	return -math.Log1p(-float64(z))
}

// openOne is 1 opened: half way in 1-z from the last number below it.
const openOne = 25 * math.Ln2

// close converts a bound back to the scale of published scores.
func (p *Params) close(b float64) float32 {
	if !p.Bounded {
		return float32(max(-math.MaxFloat32, min(math.MaxFloat32, b)))
	}
	return min(belowOne, float32(-math.Expm1(-b)))
}

// belowOne is the largest bound of bounded scores: the score 1 exceeds it.
const belowOne = 1 - 1.0/(1<<24)
