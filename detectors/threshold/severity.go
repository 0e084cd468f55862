package threshold

import "math"

// A score's severity is its distance above the threshold, in units of the spread of the series'
// ordinary scores. It is not the score's rank: the second of two equal faults would rank lower than the
// first. For the same reason the reference must not move when faults have entered the history. The
// spread is the distance between the history's median and its 0.9 quantile, which faults in less than a
// tenth of the history cannot raise much; a few faults do raise a threshold that is itself a quantile,
// see usual.
//
// Where all scores of a history are 0, as a constant series' scores are, there is no spread, and the
// smallest step exceeds as far as the largest. Such a score is taken to be one spread over the threshold.

// severity is 50 for one spread over the threshold and 100/3 for each decade: 67 for
// 3.2 spreads, 83 for 10, 100 for 32.
func severity(spreads float64) uint8 {
	if !(spreads > 0) {
		return 0
	}
	return uint8(max(0, min(100, 50.5+math.Log10(spreads)*(100.0/3))))
}

// severity returns the severity of a score above the bound, both opened, at a conformal rate; 0 where
// the history is too short for a spread.
func (p *Params) severity(s *scores, score, bound float32, rate float64) uint8 {
	if s.n < fitLeast {
		return 0
	}
	others := p.aboveFloor(s, min(p.Value, 0.9))
	if others.n < fitLeast {
		return minor
	}
	m, spread := p.spread(&others)
	if spread == 0 {
		return minor
	}
	return severity((p.open(score) - p.usual(m, spread, p.open(bound), rate)) / spread)
}

// usual returns the bound without faults in the history. For a quantile, and a
// conformal bound is one, that is the quantile of an exponential tail through
// the median m and the 0.9 quantile, whose spread is s, if it is lower than the bound:
// faults raise the bound up to their own height. Faults move a multiple of the mean, or of
// median deviations, little.
func (p *Params) usual(m, s, bound, rate float64) float64 {
	tail := rate
	switch p.Kind {
	case Conformal, PerDay:
	case Quantile:
		tail = 1 - p.Value
	default:
		return bound
	}
	const perSpread = 1 / 0.7803041  // the 0.9 quantile lies 0.78 spreads above the median
	const decay = 1.6094379124341003 // ln(0.5/0.1)
	u := m + s*perSpread*math.Log(0.5/tail)/decay
	if p.Kind == Quantile && p.Margin != 0 {
		u *= p.Margin
	}
	return min(u, bound)
}

// The lower ends of the bands: 1, 3.2 and 10 spreads over the threshold.
const (
	minor    = 50
	major    = 67
	critical = 83
)

// Highest returns the highest severity of a band; 0: there is no such band.
func Highest(band string) uint8 {
	for severity := uint8(100); severity > 0; severity-- {
		if Band(severity) == band {
			return severity
		}
	}
	return 0
}

// Escalates reports whether a severity is below major, and the next one critical.
func Escalates(severity, next uint8) bool { return severity < major && next >= critical }

// Band returns the name of a severity: info, minor (one spread over the threshold), major
// (3.2), critical (10).
func Band(severity uint8) string {
	switch {
	case severity >= critical:
		return "critical"
	case severity >= major:
		return "major"
	case severity >= minor:
		return "minor"
	}
	return "info"
}
