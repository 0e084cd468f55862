package keystate

import (
	"errors"
	"fmt"
	"math"

	"odradek/detectors"
	"odradek/processor/events"
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/heldblock"
	"odradek/processor/keystate/keys"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/snapshot"
	"odradek/processor/keystate/undo"
)

// unit is an undo unit of a State.
type unit = undo.Unit[*Key, atMark]

// atMark is what is restored with a whole unit: values as of the mark where it begins.
type atMark struct {
	maxTime   int64
	heldN     int
	tally     Tally
	suspects  []suspect
	suspected SuspectCounts
}

// newJournal returns the journal of a new State.
func (s *State) newJournal() journal {
	return undo.New(undo.Owner[*Key, atMark]{
		Save: func() atMark {
			return atMark{
				maxTime: s.maxTime, heldN: s.held.N, tally: s.Tally,
				suspects: s.Suspects.jury.List(), suspected: s.Suspects.SuspectCounts,
			}
		},
		Restore: func(u atMark) {
			s.maxTime, s.held.N, s.Tally = u.maxTime, u.heldN, u.tally
			s.Suspects.jury.Restore(u.suspects)
			s.Suspects.SuspectCounts = u.suspected
		},
		Revert:  s.revert,
		Release: s.releaseOp,
		Renew: func() {
			for k := range s.Keys.All {
				k.Unit = 0
				for i := range k.Progress {
					k.Progress[i].Unit = 0
				}
			}
		},
	})
}

// The operations. What each needs to be undone is said where it is pushed.
const (
	opHead     undo.Kind = iota // the key's head as of the unit's first change
	opRow                       // a row of a window was overwritten
	opHeldIn                    // a sample was held
	opHeldOut                   // a sample was released
	opCreate                    // a key was created
	opSnapshot                  // the key was snapshotted
	opAlert                     // what events remember of a detector was changed
	opSilent                    // a silence was opened or closed
	opOrphans                   // anomalies that nothing continued were closed
	opSummary                   // a summary was changed
	opRule                      // a history was made one of another threshold
	opTrace                     // a trace was changed
	opCell                      // a cell of a grid was changed
	opTable                     // a grid began its next window

	opEvict    = undo.Released | iota // a key was evicted
	opDecision                        // a step of a decision, which is What

	opCarry  = undo.Floats | iota // a carry was replaced
	opJudged                      // a score was added to a threshold's history
)

// edits begins changes of keys: it saves what is undone, and makes the keys dirty.
type edits struct {
	journal *journal
	dirty   *keys.DirtyQueue
}

// touch records a key's first change in the open unit.
func (e edits) touch(k *Key) {
	k.Unit = uint32(e.journal.Number)
	if !e.journal.Replaying {
		saveHead(e.journal.Open, k)
	}
	e.markDirty(k)
}

// markDirty makes a key dirty since the last mark.
func (e edits) markDirty(k *Key) { e.dirty.Add(k, e.journal.Last().Offset) }

// saveHead pushes everything of a key but rows, carries and held samples.
func saveHead(u *unit, k *Key) {
	from := len(u.Words)
	u.Words = k.AppendPlaces(u.Words)
	u.Push(opHead, k, 0, len(u.Words)-from)
}

// saveRow pushes the oldest row of a full window, which is overwritten next.
func saveRow(u *unit, k *Key, i int, sw *series.SetWindow, w *series.Window) {
	u.Words = w.AppendOldest(u.Words, len(sw.Columns))
	u.Push(opRow, k, i, 1+len(sw.Columns))
}

func saveCarry(u *unit, k *Key, place int, carry detectors.Words) {
	u.Floats = append(u.Floats, carry.F32()...)
	u.Push(opCarry, k, place, len(carry))
}

func saveHeldIn(u *unit, k *Key, time, offset int64) {
	u.Words = append(u.Words, uint64(time), uint64(offset))
	u.Push(opHeldIn, k, 0, 2)
}

func saveHeldOut(u *unit, k *Key, sample []uint64) {
	u.Words = append(u.Words, sample...)
	u.Push(opHeldOut, k, 0, len(sample))
}

// revert undoes an operation.
func (s *State) revert(o *undo.Op[*Key], with *undo.Operands) {
	k, w := o.Key, with.Words
	switch o.Kind {
	case opHead:
		k.RestorePlaces(w)
	case opRow:
		k.Windows[o.What].RestoreRow(w)
	case opCell:
		k.Windows[o.What].RestoreCell(w)
	case opTable:
		k.Windows[o.What].RestoreTable(w)
	case opCarry:
		m := &k.Progress[o.What]
		m.Carry = append(m.Carry[:0], detectors.WordsOf(with.Floats)...)
	case opSummary:
		s.Keys.Bytes += k.Summary(int(o.What)).Restore(w)
	case opTrace:
		copy(k.Alerts.Traces[o.What].State, w)
	case opJudged:
		a := &k.Alerts.Detectors[o.What]
		a.Rule.Undo(a.History, with.Floats)
	case opRule:
		s.judge.alerts.undoRule(k, &k.Alerts.Detectors[o.What], with.Values[0].(*formerRule))
	case opAlert:
		k.Alerts.Detectors[o.What].Events = with.Values[0].(events.State)
	case opSilent:
		k.Alerts.Silent = with.Values[0].(*events.Anomaly)
	case opOrphans:
		k.Alerts.Orphans = with.Values[0].([]series.Orphan)
	case opHeldIn:
		s.held.undoHold(k, int64(w[0]), int64(w[1]))
	case opHeldOut:
		s.held.undoTake(k, w)
	case opCreate:
		s.Keys.remove(k)
		k.Release()
	case opEvict:
		s.Keys.insert(k)
	case opSnapshot:
		s.records.Undo(k, w, with.Values[0].([]snapshot.Record), with.Values[1].([]heldblock.Block))
	case opDecision:
		s.decisions.Undo(decisions.Step(o.What), with.Values[0].(*decisions.Decision))
	}
}

// releaseOp releases what only an undo of the operation would need.
func (s *State) releaseOp(o *undo.Op[*Key], values []any) {
	switch o.Kind {
	case opEvict:
		o.Key.Release()
	case opDecision:
		if step := decisions.Step(o.What); step != decisions.Logged && step != decisions.LeftOver {
			break
		}
		d := values[0].(*decisions.Decision)
		if k, ok := d.Value.(*Key); ok { // an eviction
			s.records.Forget(k)
			d.Value = nil
		}
	}
}

// begin makes the first mark; an implicit one is undone by a rollback to before it.
func (s *State) begin(f Floor, implicit bool) {
	s.next, s.maxTime = f.Offset, f.MaxTime
	s.Suspects.begin(f)
	s.journal.Begin(f, implicit)
	s.rules.rebuild(s.next)
	s.sweeps.plan()
}

// Mark ends an undo unit: all samples below offset next, folded since the last
// mark, are one step that is committed or rolled back as a whole. Their tasks
// must have been applied. The first Mark of a new State says where it begins.
func (s *State) Mark(next int64) {
	if !s.journal.Started() {
		s.begin(Floor{Offset: next, MaxTime: NoTime}, false)
		s.route()
		return
	}
	unlogged := s.decisions.Unlogged()
	switch {
	case s.journal.Replaying:
		panic("keystate: Mark during replay")
	case !s.folder.tasks.Empty() || !s.gate.idle():
		panic("keystate: Mark with tasks that are not applied, or before Fits was true")
	case len(unlogged) > 0 && unlogged[0].Offset < s.journal.Open.Start():
		panic("keystate: Mark before Snapshot has emitted the decisions of the last mark")
	case s.changed.Before(s.journal.Open.Start()):
		panic("keystate: Mark before Snapshot has emitted the keys whose anomalies have changed")
	case next < s.next:
		panic(fmt.Sprintf("keystate: mark at %d, but %d is folded", next, s.next-1))
	case next == s.journal.Open.Start():
		return
	case len(unlogged) > 0 && unlogged[len(unlogged)-1].Offset >= next:
		panic(fmt.Sprintf("keystate: mark at %d, not above the decision at %d", next, unlogged[len(unlogged)-1].Offset))
	}
	s.next = next
	s.journal.Mark(s.Suspects.floor(next))
	s.journal.SetFloor(s.Floor())
	s.route()
}

// Committed notes that everything up to the mark at next is committed, with what
// Snapshot has emitted for it, and discards what would undo it.
func (s *State) Committed(next int64) {
	if unlogged := s.decisions.Unlogged(); len(unlogged) > 0 && unlogged[0].Offset < next {
		panic("keystate: decisions were committed that Snapshot has not emitted")
	}
	if s.changed.Before(next) {
		panic("keystate: changes of anomalies were committed whose keys Snapshot has not emitted")
	}
	s.journal.Commit(next)
	if s.restore.shedAt < next {
		s.restore.dropped, s.restore.shedAt = nil, math.MaxInt64
	}
}

// Rollback undoes everything after the mark at to: the last one committed, or
// where the state began. Tasks that are not applied are dropped; the caller
// resets their batch. Rows is emptied.
func (s *State) Rollback(to int64) error {
	if !s.journal.Started() {
		return nil
	}
	if s.journal.Replaying {
		return errors.New("keystate: rollback during replay, restore again")
	}
	if err := s.journal.Check(to); err != nil {
		return fmt.Errorf("keystate: %w", err)
	}
	s.folder.tasks.Drop()
	s.folder.tasks.Invalidate()
	s.Output.reset()
	s.Suspects.Refused = s.Suspects.Refused[:0]
	s.Keys.evictor.Reset()
	s.gate.reset()
	if s.next = s.journal.Rollback(to); !s.journal.Started() {
		s.next = math.MinInt64
	}
	s.rebuild()
	s.route()
	return nil
}

// rebuild derives from the keys the queue of dirty ones, the heap of those with
// held samples and the queues of decisions.
func (s *State) rebuild() {
	s.dirty.Rebuild(&s.Keys.Table)
	s.Grids.rebuild()
	s.held.rebuild()
	s.silences.rebuild()
	s.Keys.evictor.Reset()
	s.orphans.rebuild()
	s.decisions.Rebuild(s.next)
	s.rules.rebuild(s.next)
	s.sweeps.plan()
}
