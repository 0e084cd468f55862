package state

import (
	"errors"
	"fmt"
	"math"
)

// firstMark makes the first mark. A rollback to before it undoes an implicit one.
func (s *State) firstMark(f Floor, implicit bool) {
	s.next, s.maxTime = f.Offset, f.MaxTime
	s.Suspects.initVotes(f)
	s.journal.Init(f, implicit)
	s.rebuildStanding()
	s.planSweep()
}

// Mark ends an undo unit: all samples below offset next, folded since the last mark, are one step that is committed or
// rolled back as a whole. Their tasks must have been applied. The first Mark of a new State says where it begins.
func (s *State) Mark(next int64) {
	next = s.first(next)
	if !s.journal.Started() {
		s.firstMark(Floor{Offset: next, MaxTime: NoTime}, false)
		s.route()
		return
	}
	unlogged := s.decisions.Unlogged()
	switch {
	case s.replaying:
		panic("state: Mark during replay")
	case !s.tasks.Empty() || !s.gate.idle():
		panic("state: Mark with tasks that are not applied, or before Fits was true")
	case len(unlogged) > 0 && unlogged[0].Offset < s.journal.Open.Start():
		panic("state: Mark before Snapshot has emitted the decisions of the last mark")
	case s.changed.Before(s.journal.Open.Start()):
		panic("state: Mark before Snapshot has emitted the keys whose anomalies have changed")
	case next < s.next:
		panic(fmt.Sprintf("state: mark at %d, but %d is folded", next, s.next-1))
	case next == s.journal.Open.Start():
		return
	case len(unlogged) > 0 && unlogged[len(unlogged)-1].Offset >= next && !unlogged[len(unlogged)-1].Kind.BetweenRecords():
		panic(fmt.Sprintf("state: mark at %d, not above the decision at %d", next, unlogged[len(unlogged)-1].Offset))
	}
	s.pass(next)
	s.journal.Mark(s.suspectsFloor(next))
	s.journal.SetFloor(s.floorAt())
	s.route()
}

// Committed notes that everything up to the mark at next is committed, with what
// Snapshot has emitted for it, and discards what would undo it.
func (s *State) Committed(next int64) {
	next = s.first(next)
	if unlogged := s.decisions.Unlogged(); len(unlogged) > 0 && unlogged[0].Offset < next {
		panic("state: decisions were committed that Snapshot has not emitted")
	}
	if s.changed.Before(next) {
		panic("state: changes of anomalies were committed whose keys Snapshot has not emitted")
	}
	s.journal.Commit(next)
	if r := &s.Restore; r.shedAt < next { // the eviction of dropped keys is committed
		r.dropped, r.shedAt = nil, math.MaxInt64
	}
}

// Rollback undoes everything after the mark at to, which is the last one committed, or the first one of the state. It
// drops tasks that are not applied; the caller resets their batch. It empties Rows.
func (s *State) Rollback(to int64) error {
	if !s.journal.Started() {
		return nil
	}
	if s.replaying {
		return errors.New("state: rollback during replay, restore again")
	}
	to = s.first(to)
	if err := s.journal.Check(to); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	s.tasks.Drop()
	s.Output.reset()
	s.changed.Reset()
	s.Suspects.Refused = s.Suspects.Refused[:0]
	s.Keys.evictor.Reset()
	s.gate.reset()
	if s.next = s.journal.Rollback(to); !s.journal.Started() {
		s.next = math.MinInt64
	}
	s.newest = math.MinInt64
	s.rebuild()
	s.route()
	return nil
}

// rebuild derives from the keys the queue of dirty ones, the heap of those with
// held samples and the queues of decisions.
func (s *State) rebuild() {
	s.dirty.Rebuild(&s.Keys.KeyTable)
	s.rebuildGrids()
	s.rebuildIntervals()
	s.rebuildHeld()
	s.rebuildSilences()
	s.Keys.evictor.Reset()
	s.rebuildOrphans()
	s.groups.rebuild()
	s.decisions.Rebuild(s.next)
	s.rebuildStanding()
	s.planSweep()
}

// rebuildStanding derives from the decisions what is in force for the next sample: how records are read, and what scores
// are judged by.
func (s *State) rebuildStanding() {
	s.rebuildReading(s.next)
	s.Rulings.Rebuild(s.next)
	s.mutes.Rebuild(s.next)
	s.learned.Rebuild(s.next)
}
