package state

import "math"

// BeginReplay ends loading. f is the floor in the metadata of the committed
// offset. The caller then passes the input from f.From to f.Offset to Recall, and that up to
// committed to Fold, and calls EndInput and EndReplay. With ahead (at least once) the changelog may be ahead of the
// offset: samples that a key's state already contains are then not folded again, and count
// as Duplicate. The state cannot be used after an error.
func (s *State) BeginReplay(f Floor, committed int64, ahead bool) error {
	f, committed = f.Samples(s.bits), s.first(committed)
	if err := s.finishRestore(f, committed, ahead); err != nil {
		return err
	}
	s.firstMark(f, false)
	for k := range s.Restore.loader.Rewritten {
		s.dirty.Add(k, s.journal.Last().Offset)
	}
	s.forget()
	s.rebuild() // finds what is silent or orphaned, too
	s.recountHeld()
	s.route()
	return nil
}

// EndReplay ends the replay; the state is the one of the committed offset, which
// is the first mark. EndInput comes before it. All tasks must have been applied, and Fits been true.
func (s *State) EndReplay() {
	if !s.replaying || !s.tasks.Empty() || !s.gate.idle() {
		panic("state: EndReplay before BeginReplay, with tasks that are not applied, or before Fits was true")
	}
	s.replaying = false
	s.Tally, s.Suspects.Counts = Tally{}, SuspectCounts{} // what was folded again was counted when it was live
	s.Suspects.endReplay()
	s.dropHeld()
	s.limitRows(s.Restore.end)
	s.next, s.newest = s.Restore.end, math.MinInt64
	s.journal.EndReplay(s.suspectsFloor(s.next))
	s.rebuildStanding()
	s.Keys.evictor.Reset()
	s.silences.watch.Reset()
	s.planSweep()
	s.route()
}
