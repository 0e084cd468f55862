package state

import (
	"odradek/detectors"
	"odradek/processor/anomaly"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// undoOwner returns the functions with which the journal undoes the State's operations.
func (s *State) undoOwner() undoOwner {
	return undoOwner{Save: s.saveUndo, Restore: s.undoRestore, Revert: s.revert, Release: s.undoRelease, Renew: s.undoRenew}
}

// saveUndo returns what restore needs.
func (s *State) saveUndo() atMark {
	return atMark{s.maxTime, s.held.N, s.Tally.Copy(), s.Suspects.votes.List(), s.Suspects.Counts}
}

// undoRestore restores what save has returned.
func (s *State) undoRestore(u atMark) {
	s.maxTime, s.held.N, s.Tally, s.Suspects.Counts = u.maxTime, u.heldN, u.tally.Copy(), u.suspected
	s.Suspects.votes.Restore(u.suspects)
}

// revert undoes an operation.
func (s *State) revert(o *undoOp, with *undoOperands) {
	k, w := o.Key, with.Words
	switch o.Kind {
	case opHead:
		k.RestorePlaces(w)
	case opRow:
		k.Windows[o.What].RestoreRow(w)
	case opCell:
		k.Windows[o.What].Tables().RestoreCell(w)
	case opTable:
		k.Windows[o.What].Tables().Restore(w)
	case opCarry:
		m := &k.Progress[o.What]
		m.Carry = append(m.Carry[:0], detectors.WordsOf(with.Floats)...)
	case opSummary:
		s.Keys.Bytes += k.Summary(int(o.What)).Restore(w)
	case opScoreState:
		copy(k.Alerts.ScoreStates[o.What].State, w)
	case opJudged:
		a := &k.Alerts.Detectors[o.What]
		a.Threshold.Undo(a.History, with.Floats)
	case opThreshold:
		s.undoThreshold(k, &k.Alerts.Detectors[o.What], with.Values[0].(*formerThreshold))
	case opAlert:
		k.Alerts.Detectors[o.What].Events = with.Values[0].(anomaly.State)
	case opSilent:
		k.Alerts.Silent = with.Values[0].(*anomaly.Anomaly)
	case opOrphans:
		k.Alerts.Orphans = with.Values[0].([]series.Orphan)
	case opHeldIn:
		s.undoHold(k, int64(w[0]), int64(w[1]), int64(w[2]))
	case opHeldOut:
		s.undoPop(k, w[:len(w)-1], int64(w[len(w)-1]))
	case opCreate:
		s.removeKey(k)
		s.records.Uncreate(k)
		k.Release()
	case opEvict:
		s.Keys.insert(k)
		s.records.Inherit(k)
	case opSnapshot:
		s.records.Undo(k, w, with.Values[0].([]checkpoint.Record), with.Values[1].([]checkpoint.HeldSegment))
	case opDecision:
		s.decisions.Undo(rules.DecisionStep(o.What), with.Values[0].(*rules.Decision))
	}
}

// undoRelease releases what only an undo of the operation would need.
func (s *State) undoRelease(o *undoOp, values []any) {
	switch o.Kind {
	case opEvict:
		o.Key.Release()
	case opDecision:
		if step := rules.DecisionStep(o.What); step != rules.Logged && step != rules.LeftOver {
			break
		}
		d := values[0].(*rules.Decision)
		if k, ok := d.Value.(*Key); ok { // an eviction
			s.records.Forget(k)
			d.Value = nil
		}
	}
}

// undoRenew makes the numbers of units that keys have belong to no unit.
func (s *State) undoRenew() {
	for k := range s.Keys.All {
		k.Unit = 0
		for i := range k.Progress {
			k.Progress[i].Unit = 0
		}
	}
}
