package series

import (
	"odradek/detectors/threshold"
	"odradek/processor/events"
)

// Alerts is what thresholds, anomalies and silence remember of a series, and the
// summaries of what has left its windows. nil: nothing.
type Alerts struct {
	Detectors []Alert         // one for each of the set's judged detectors
	Silent    *events.Anomaly // while the key is silent; replaced, never changed
	Orphans   []Orphan        // open anomalies to be closed with the next live sample; replaced

	Summaries map[int]*Summary // by SetDetector.Place; see summary.go
	Traces    []Trace          // one for each of the set's traced detectors; nil before the first score; see trace.go
}

// Alert is what one judged detector remembers of a series.
type Alert struct {
	History []float32       // of the threshold; nil before the first score
	Rule    *threshold.Rule // that has left the history; nil as long as there is none
	Events  events.State
	Unit    uint64 // the undo unit that has a copy of events
}

// Orphan is an open anomaly of a detector that cannot go on with it.
type Orphan struct {
	Name    string // of the detector
	Silence bool   // it is no detector's
	Reason  events.Reason
	events.Anomaly
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
	alertBytes  = 56
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
	for i := range a.Traces {
		n += TraceBytes + 8*int64(len(a.Traces[i].State))
	}
	return n
}

// Clear forgets everything; nil is empty already.
func (a *Alerts) Clear() {
	if a != nil {
		clear(a.Detectors)
		a.Silent, a.Orphans, a.Summaries, a.Traces = nil, nil, nil, nil
	}
}

// Empty reports whether there is nothing to remember.
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

// used reports whether there is anything to remember: a threshold begins with the
// number of its scores.
func (a *Alert) used() bool {
	if !a.Events.Idle() || a.Events.Group() != nil {
		return true
	}
	for _, v := range a.History {
		if v != 0 {
			return true
		}
	}
	return false
}
