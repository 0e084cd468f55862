package keystate

import (
	"errors"
	"fmt"
	"math"

	"odradek/processor/keystate/mismatch"
)

// Errors of a restore.
var (
	// ErrAhead: the changelog holds state of offsets that are not committed. Another
	// member has committed since the offset was read, or offset and changelog do
	// not belong together. Read the committed offset again.
	ErrAhead = errors.New("the changelog is ahead of the committed offset")
)

// BeginReplay ends loading. f is the floor in the metadata of the committed
// offset. The input from f.From to f.Offset follows through Recall, that to
// committed through Fold, then EndReplay. With ahead (at least once) the changelog may be ahead of the
// offset: what a key's state has already is then not folded again, and counted
// as Duplicate. The state cannot be used after an error.
func (s *State) BeginReplay(f Floor, committed int64, ahead bool) error {
	if s.journal.Started() {
		return errors.New("keystate: replay into a state that has begun")
	}
	if f.Offset > committed {
		return fmt.Errorf("keystate: the replay floor %d is above the committed offset %d: %w", f.Offset, committed, ErrAhead)
	}
	loader := s.loader()
	if err := loader.Finish(); err != nil {
		return err
	}
	var drop []*Key
	var differ mismatch.List
	top := int64(math.MinInt64)
	for k := range s.Keys.All {
		if d := s.Decisions.log.Latest(Eviction, k.Name()); !k.InLog || d != nil && k.AsOf <= d.Offset {
			if drop = append(drop, k); k.InLog {
				// An eviction that was cut off before it had deleted the key.
				d.Value = k
				s.Decisions.log.Resume(d)
			}
			continue
		}
		if top = max(top, k.AsOf); k.AsOf > committed && !ahead {
			return fmt.Errorf("keystate: key %s is at offset %d, the committed offset is %d: %w", Digest(k.Name()), k.AsOf, committed, ErrAhead)
		}
		if err := loader.Incomplete(k); err != nil {
			return fmt.Errorf("keystate: key %s: %w", Digest(k.Name()), err)
		}
		differ.Add(k.Name(), loader.Mismatches(k))
	}
	if err := differ.Err(); err != nil && !s.cfg.KeepMismatched {
		return err
	}
	s.Mismatched = differ.Sorted()
	if d := s.Decisions.log.Begin(f.Offset); d != nil {
		if top = max(top, d.Offset); d.Offset >= committed && !ahead {
			return fmt.Errorf("keystate: %s at offset %d, the committed offset is %d: %w", kinds[d.Kind].Name, d.Offset, committed, ErrAhead)
		}
	}
	for _, k := range drop {
		if stale := loader.Unload(k); k.InLog {
			s.records.AddStale(k, stale...)
		}
	}
	s.journal.Replaying, s.restore.replayEnd = true, committed
	if top > committed {
		s.ahead = top
	}
	s.begin(f, false)
	for k := range loader.Rewritten {
		s.folder.edits.markDirty(k)
	}
	s.restore.load, s.restore.drops = nil, nil
	s.findDropped()
	s.rebuild() // finds what is silent or orphaned, too
	s.held.recount()
	s.route()
	return nil
}

// Replaying reports whether BeginReplay has been called and EndReplay not.
func (s *State) Replaying() bool { return s.journal.Replaying }

// replayStride is the number of samples between two marks of a replay. They let
// the floor rise as soon as the keys that were dirty first are snapshotted.
var replayStride = 4096 // changed by tests

// replayStep sees each sample of a replay before it is folded.
func (s *State) replayStep(sm *Sample) {
	if sm.Offset >= s.restore.replayEnd {
		panic(fmt.Sprintf("keystate: replay of offset %d, the committed offset is %d", sm.Offset, s.restore.replayEnd))
	}
	s.Suspects.replay(sm.Offset)
	if s.restore.replayed++; s.restore.replayed%replayStride == 0 {
		s.journal.Pass(s.Suspects.floor(sm.Offset))
	}
}

// EndInput says that a replay has folded all of the input: it applies the decisions
// behind the last sample. Fits has to be asked once more after it.
func (s *State) EndInput() { s.Decisions.apply(s.restore.replayEnd - 1) }

// EndReplay ends the replay; the state is that of the committed offset, which
// is the first mark. EndInput comes before it. All tasks must have been applied, and Fits been true.
func (s *State) EndReplay() {
	if !s.journal.Replaying || !s.folder.tasks.Empty() || !s.gate.idle() {
		panic("keystate: EndReplay before BeginReplay, with tasks that are not applied, or before Fits was true")
	}
	s.EndInput()
	s.Suspects.endReplay(s.restore.replayEnd)
	s.next = s.restore.replayEnd
	s.journal.EndReplay(s.Suspects.floor(s.restore.replayEnd))
	s.rules.rebuild(s.next)
	s.Keys.evictor.Reset()
	s.silences.watch.Reset()
	s.sweeps.plan()
	s.route()
}
