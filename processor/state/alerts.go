package state

import (
	"slices"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// saveAlerts saves the state of events before its first change in the open unit. Of the history
// of scores, which is large, only the elements that change are saved, one for each judgement.
func (s *State) saveAlerts(k *Key, i int, a *series.Alert) {
	if a.Unit == s.journal.Number {
		return
	}
	a.Unit = s.journal.Number
	s.journal.Open.PushValues(opAlert, k, i, 0, a.Events.Clone())
}

// scoreState returns the state of a detector's scores, which is saved before its first change in the open unit.
func (s *State) scoreState(k *Key, d *series.SetDetector) *series.ScoreState {
	t, added := k.ScoreState(d)
	if !k.Dead {
		s.Keys.Bytes += added
	}
	if t.Unit != s.journal.Number {
		t.Unit = s.journal.Number
		u := s.journal.Open
		u.Words = append(u.Words, t.State...)
		u.Push(opScoreState, k, d.ScoreState, len(t.State))
	}
	return t
}

// followHistory converts a key's history to the threshold in force.
func (s *State) followHistory(k *Key, d *series.SetDetector, a *series.Alert) {
	old := a.Threshold
	if a.Threshold = d.ThresholdInForce; old.Like(d.ThresholdInForce) {
		return
	}
	was := &formerThreshold{old, a.History}
	s.journal.Open.PushValues(opThreshold, k, d.Alert, 0, was)
	if !old.SameSize(d.ThresholdInForce) {
		s.setHistory(k, a, make([]float32, d.ThresholdInForce.Size()))
		return
	}
	head := slices.Clone(a.History[:threshold.Head])
	adopted := d.ThresholdInForce.Adopt(old, a.History)
	if &adopted[0] == &a.History[0] { // the same memory
		was.history = head
	}
	s.setHistory(k, a, adopted)
}

// endDetector closes what a detector has open of a key, and forgets its history: the sample at offset was the last that it scores
// (DetectorConfig.Until). In a replay nothing is closed, and an open anomaly keeps its history.
func (s *State) endDetector(k *Key, d *series.SetDetector, time, offset int64) {
	if !d.Judged || k.Alerts == nil {
		return
	}
	a := &k.Alerts.Detectors[d.Alert]
	if s.withholds(offset) && a.Events.Open() {
		return
	}
	if !a.Events.Idle() {
		s.saveAlerts(k, d.Alert, a)
		if c, ok := a.Events.End(anomaly.DetectorRemoved, time, offset); ok {
			s.addEvent(&EventRow{Key: k, Detector: d.Index, Name: d.Name, Change: c})
		}
	}
	if a.History != nil {
		s.journal.Open.PushValues(opThreshold, k, d.Alert, 0, &formerThreshold{a.Threshold, a.History})
		s.setHistory(k, a, nil)
		a.Threshold = nil
	}
}

// formerThreshold is what undoes the conversion of a history to another threshold.
type formerThreshold struct {
	params  *threshold.Params
	history []float32 // its head alone, if only that has changed
}

// undoThreshold undoes the conversion of a history to another threshold.
func (s *State) undoThreshold(k *Key, a *series.Alert, was *formerThreshold) {
	if a.Threshold = was.params; len(was.history) == threshold.Head {
		copy(a.History, was.history)
		return
	}
	s.setHistory(k, a, was.history)
}

func (s *State) setHistory(k *Key, a *series.Alert, history []float32) {
	if !k.Dead {
		s.Keys.Bytes += 4 * int64(cap(history)-cap(a.History))
	}
	a.History = history
}
