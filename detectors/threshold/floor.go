package threshold

import "math"

// A series that repeats itself, such as a door that is open or closed, has scores that are 0 but for rounding, and a few others. A
// multiple of their quantile is next to 0, and each sample that is no exact repetition exceeds it by a million spreads. So a multiple
// of a quantile has a floor, a grain of the scores' scale. The scale is 1 where scores are bounded, otherwise the quantile half way
// between the threshold's and 1, which a few faults do not move. If the quantile is not above the floor, only the scores above the
// floor count. The severity does the same with the 0.9-quantile. While the scores above the floor are too few for a spread, the floor
// is the bound, and a score that exceeds it is minor.

// floor returns the score up to which scores are next to 0.
func (p *Params) floor(sorted []float32) float32 {
	if p.Bounded {
		return grain
	}
	return grain * sorted[quantileIndex((1+p.Value)/2, len(sorted))]
}

// aboveFloor returns the scores of a history that are above the floor, or all of them where their q-quantile is.
func (p *Params) aboveFloor(sorted []float32, q float64) []float32 {
	n := len(sorted)
	if p.Kind != Quantile || p.Margin == 0 || n == 0 || sorted[0] < 0 {
		return sorted
	}
	floor := p.floor(sorted)
	if sorted[quantileIndex(q, n)] > floor {
		return sorted
	}
	return sorted[lower(sorted, math.Nextafter32(floor, math.MaxFloat32)):]
}
