package state

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// Watched is a judged score with what it was computed from.
type Watched struct {
	Row
	Rank float32 // upper-tail rank of the score in the history, as in anomaly.Input; 0: none
	// Task is the finished task, valid until Watch returns, and Fresh the number, from 0, of the scored row among its fresh rows.
	// A score of an ensemble has no task.
	Task  detectors.Rows
	Fresh int
	// Scales are the numbers by which the columns of Task.X were divided; nil: they were not.
	Scales []float64
	// Expected, Actual and Contribution are as in anomaly.Anomaly; nil: not known.
	Expected, Actual, Contribution []float64
	Deviation                      *anomaly.Deviation // of the score, likewise
	// Terms and Shares are the terms and shares of an ensemble's members, in their order: the score is the sum of the terms.
	Terms, Shares []float64
	TurnedAway    uint64 // members of an ensemble of any, by their bits, whose scores over their thresholds a gate has turned away
	Open          bool   // an anomaly of the detector was open before the score
}

// watched passes a judged score to Config.Watch.
func (s *State) watched(d *series.SetDetector, a *series.Alert, r *Row, why *reasons, rank float32) {
	w := Watched{Row: *r, Rank: rank, Open: a.Events.Open()}
	if p := why.p; p == nil {
		w.Terms, w.Shares = slices.Clone(s.judge.terms[:d.Dim]), slices.Clone(why.shares)
		w.TurnedAway = why.turnedAway
	} else {
		w.Task, w.Fresh = why.b.Rows(int(p.Index)), why.i
		if p.Valued {
			in := anomaly.Input{}
			s.explain(why, &a.Events, &in)
			w.Expected, w.Actual, w.Contribution, w.Deviation = in.Expected, in.Actual, in.Contribution, in.Deviation
			if d.Scale {
				for _, c := range s.tasks.copies.Columns(p) {
					w.Scales = append(w.Scales, c.Scale)
				}
			}
		}
	}
	if !math.IsNaN(float64(r.Score)) {
		s.judge.watch(&w)
	}
}
