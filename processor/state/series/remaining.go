package series

import (
	"math"

	"odradek/detectors"
)

// Remaining returns how many samples, at the least, come after the newest row of a detector's window until the first
// with a score, where the window has too few rows for a task.
func (s *Series) Remaining(d *SetDetector, rows int32) int32 {
	n := int(d.MinRows-rows) + (int(d.Fresh)-1)%d.Every
	if _, whole := d.Detector.(detectors.Whole); whole {
		n += int(d.Fresh) - 1
	}
	if d.Learner != nil {
		n += d.Learner.Left(s.Progress[d.Place].Carry)
	}
	return int32(n)
}

// Awaited returns how many samples, at the least, come after one without a score for the detector's threshold until the next one
// with such a score or, with bound, until the next one that is judged by a bound. remaining is the number until the
// detector's first score; 0: it has had one.
func (s *Series) Awaited(d *SetDetector, remaining int32, bound bool) int32 {
	scores := 0 // after the next one
	if d.Smooth > 1 {
		_, smooth := d.Split(s.Alerts.ScoreStates[d.ScoreState].State)
		scores = max(0, d.Smooth.Left(smooth)-1)
	}
	if bound && d.Judged {
		scores += d.ThresholdInForce.Left(s.Alerts.Detectors[d.Alert].History)
	}
	next := int64(d.Every)
	if remaining > 0 {
		next = int64(remaining)
	}
	return int32(min(math.MaxInt32, next+int64(scores)*int64(d.Every)))
}
