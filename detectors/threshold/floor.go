package threshold

// A series that repeats itself, such as a door that is open or closed, has scores that are 0 but for rounding, and a few others. A
// multiple of their quantile is next to 0, and each sample that is no exact repetition exceeds it by a million spreads. So a multiple
// of a quantile has a floor, a grain of the scores' scale. The scale is 1 where scores are bounded, otherwise the quantile half way
// between the threshold's and 1, which a few faults do not move. If the quantile is not above the floor, only the scores above the
// floor count. The severity does the same with the 0.9-quantile. While the scores above the floor are too few for a spread, the floor
// is the bound, and a score that exceeds it is minor.

// floor returns the score up to which scores are next to 0.
func (p *Params) floor(s *scores) float32 {
	if p.Bounded {
		return grain
	}
	return grain * s.at(quantileIndex((1+p.Value)/2, s.n))
}

// aboveFloor returns the scores of a history that are above the floor, or all of them where their q-quantile is.
func (p *Params) aboveFloor(s *scores, q float64) scores {
	if p.Kind != Quantile || p.Margin == 0 || s.n == 0 {
		return *s
	}
	floor := p.floor(s)
	if s.at(quantileIndex(q, s.n)) > floor || s.hasNegative() {
		return *s
	}
	return s.above(floor)
}
