package state

import (
	"odradek/detectors"
	"odradek/processor/anomaly"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// reverter undoes the operations of the journal.
type reverter struct {
	at        *position
	tally     *Tally
	keys      *Keys
	held      *held
	suspects  *Suspects
	alerts    alerts
	records   *checkpoint.Writer
	decisions *rules.DecisionLog
}

// journal returns a journal without a mark whose operations r undoes.
func (r *reverter) journal() journal {
	return newUndoLog(undoOwner[*Key, atMark]{Save: r.save, Restore: r.restore, Revert: r.revert, Release: r.release, Renew: r.renew})
}

// atMark is what is restored with a whole unit: values as of the mark where it begins.
type atMark struct {
	maxTime   int64
	heldN     int
	tally     Tally
	suspects  []suspect
	suspected SuspectCounts
}

// save returns what restore needs.
func (r *reverter) save() atMark {
	return atMark{r.at.maxTime, r.held.N, *r.tally, r.suspects.votes.List(), r.suspects.SuspectCounts}
}

// restore restores what save has returned.
func (r *reverter) restore(u atMark) {
	r.at.maxTime, r.held.N, *r.tally, r.suspects.SuspectCounts = u.maxTime, u.heldN, u.tally, u.suspected
	r.suspects.votes.Restore(u.suspects)
}

// revert undoes an operation.
func (r *reverter) revert(o *undoOp[*Key], with *undoOperands) {
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
		r.keys.Bytes += k.Summary(int(o.What)).Restore(w)
	case opTrace:
		copy(k.Alerts.Traces[o.What].State, w)
	case opJudged:
		a := &k.Alerts.Detectors[o.What]
		a.Rule.Undo(a.History, with.Floats)
	case opRule:
		r.alerts.undoRule(k, &k.Alerts.Detectors[o.What], with.Values[0].(*formerRule))
	case opAlert:
		k.Alerts.Detectors[o.What].Events = with.Values[0].(anomaly.State)
	case opSilent:
		k.Alerts.Silent = with.Values[0].(*anomaly.Anomaly)
	case opOrphans:
		k.Alerts.Orphans = with.Values[0].([]series.Orphan)
	case opHeldIn:
		r.held.undoHold(k, int64(w[0]), int64(w[1]))
	case opHeldOut:
		r.held.undoTake(k, w)
	case opCreate:
		r.keys.remove(k)
		r.records.Uncreate(k)
		k.Release()
	case opEvict:
		r.keys.insert(k)
		r.records.Inherit(k)
	case opSnapshot:
		r.records.Undo(k, w, with.Values[0].([]checkpoint.Record), with.Values[1].([]checkpoint.HeldBlock))
	case opDecision:
		r.decisions.Undo(rules.DecisionStep(o.What), with.Values[0].(*rules.Decision))
	}
}

// release releases what only an undo of the operation would need.
func (r *reverter) release(o *undoOp[*Key], values []any) {
	switch o.Kind {
	case opEvict:
		o.Key.Release()
	case opDecision:
		if step := rules.DecisionStep(o.What); step != rules.Logged && step != rules.LeftOver {
			break
		}
		d := values[0].(*rules.Decision)
		if k, ok := d.Value.(*Key); ok { // an eviction
			r.records.Forget(k)
			d.Value = nil
		}
	}
}

// renew makes the numbers of units that keys have those of no unit.
func (r *reverter) renew() {
	for k := range r.keys.All {
		k.Unit = 0
		for i := range k.Progress {
			k.Progress[i].Unit = 0
		}
	}
}
