package series

import (
	"slices"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
)

// Alerts is the state of a series' thresholds, anomalies and silence, with the summaries
// of rows that have left its windows and the states of scores. nil: there is none.
type Alerts struct {
	Detectors []Alert          // one for each of the set's judged detectors
	Silent    *anomaly.Anomaly // while the key is silent; replaced, never changed
	Orphans   []Orphan         // open anomalies to be closed with the next live sample; replaced

	Summaries   map[int]*Summary // by SetDetector.Place; see summary.go
	ScoreStates []ScoreState     // one for each of the set's detectors with one; nil before the first score
}

// Alert is the state of one judged detector for a series.
type Alert struct {
	History   []float32         // of the threshold; nil before the first score
	Threshold *threshold.Params // that the history was made by; nil without a history
	Events    anomaly.State
	Unit      uint64 // the undo unit that has a copy of events
}

// Orphan is an open anomaly that no detector continues.
type Orphan struct {
	Name    string // of the detector
	Silence bool   // it is no detector's
	Reason  anomaly.Reason
	Anomaly anomaly.Anomaly
}

// NewAlerts returns the alerts of a series with that number of judged detectors.
func NewAlerts(dets int) *Alerts {
	if dets == 1 {
		one := &struct {
			Alerts
			a [1]Alert
		}{}
		one.Detectors = one.a[:]
		return &one.Alerts
	}
	return &Alerts{Detectors: make([]Alert, dets)}
}

// Sizes of the types in memory; TestSizes compares them.
const (
	alertsBytes = 88
	alertBytes  = 72
)

// Size estimates the memory.
func (a *Alerts) Size() int64 {
	n := int64(alertsBytes + alertBytes*len(a.Detectors))
	for i := range a.Detectors {
		n += 4 * int64(cap(a.Detectors[i].History))
	}
	for _, m := range a.Summaries {
		n += m.size()
	}
	for i := range a.ScoreStates {
		n += ScoreStateBytes + 8*int64(len(a.ScoreStates[i].State))
	}
	return n
}

// Clear forgets everything; nil is empty already.
func (a *Alerts) Clear() {
	if a != nil {
		clear(a.Detectors)
		a.Silent, a.Orphans, a.Summaries, a.ScoreStates = nil, nil, nil, nil
	}
}

// Empty reports whether no part has any state.
func (a *Alerts) Empty() bool {
	if a == nil {
		return true
	}
	for i := range a.Detectors {
		if a.Detectors[i].used() {
			return false
		}
	}
	return a.Silent == nil && len(a.Orphans) == 0
}

// used reports whether there is any state: a threshold's state begins with the
// number of its scores.
func (a *Alert) used() bool {
	if !a.Events.Idle() || a.Events.Group() != nil || a.Events.Waiting() || a.Events.Remembers() {
		return true
	}
	return a.judged()
}

// judged reports whether there is anything in the history.
func (a *Alert) judged() bool {
	return a.History != nil && slices.ContainsFunc(a.History[:a.Threshold.Stored()], func(v float32) bool { return v != 0 })
}
