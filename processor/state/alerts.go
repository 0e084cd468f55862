package state

import (
	"slices"

	"odradek/detectors/threshold"
	"odradek/processor/state/series"
)

// alerts reads and changes what thresholds, anomalies and smoothing store for a key, and saves it for an undo
// before each change.
type alerts struct {
	journal *journal
	keys    *series.KeyTable
}

// alert returns the alert state of a detector for a key, with a history of the rule in force.
// It is nil without a threshold. A key that was evicted after the sample is judged like any other.
func (l alerts) alert(k *Key, d *series.SetDetector) *series.Alert {
	if !d.Judged {
		return nil
	}
	a := &k.Alerts.Detectors[d.Alert]
	switch {
	case a.History == nil:
		a.Rule = d.Rule
		l.setHistory(k, a, make([]float32, d.Rule.Size()))
	case a.Rule != d.Rule:
		l.follow(k, d, a)
	}
	return a
}

// save saves the state of events before its first change in the open unit. Of the history
// of scores, which is large, only the elements that change are saved, one for each judgement.
func (l alerts) save(k *Key, i int, a *series.Alert) {
	if a.Unit == l.journal.Number {
		return
	}
	a.Unit = l.journal.Number
	l.journal.Open.PushValues(opAlert, k, i, 0, a.Events.Clone())
}

// trace returns a detector's trace, which is saved before its first change in the open unit.
func (l alerts) trace(k *Key, d *series.SetDetector) *series.Trace {
	t, added := k.Trace(d)
	if !k.Dead {
		l.keys.Bytes += added
	}
	if t.Unit != l.journal.Number {
		t.Unit = l.journal.Number
		u := l.journal.Open
		u.Words = append(u.Words, t.State...)
		u.Push(opTrace, k, d.Trace, len(t.State))
	}
	return t
}

// follow converts a key's history to the rule in force.
func (l alerts) follow(k *Key, d *series.SetDetector, a *series.Alert) {
	old := a.Rule
	if a.Rule = d.Rule; old.Like(d.Rule) {
		return
	}
	same := old.SameSize(d.Rule)
	was := &formerRule{old, a.History}
	if same {
		was.history = slices.Clone(a.History[:threshold.Head])
	}
	l.journal.Open.PushValues(opRule, k, d.Alert, 0, was)
	if same {
		d.Rule.Adopt(a.History)
		return
	}
	l.setHistory(k, a, make([]float32, d.Rule.Size()))
}

// formerRule is what undoes the conversion of a history to another rule.
type formerRule struct {
	rule    *threshold.Rule
	history []float32 // its head alone, if its length is the same
}

// undoRule undoes the conversion of a history to another rule.
func (l alerts) undoRule(k *Key, a *series.Alert, was *formerRule) {
	if a.Rule = was.rule; len(was.history) == threshold.Head {
		copy(a.History, was.history)
		return
	}
	l.setHistory(k, a, was.history)
}

func (l alerts) setHistory(k *Key, a *series.Alert, history []float32) {
	if !k.Dead {
		l.keys.Bytes += 4 * int64(cap(history)-cap(a.History))
	}
	a.History = history
}
