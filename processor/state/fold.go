package state

import (
	"fmt"

	"odradek/detectors"
)

// Fold takes the next sample. Tasks that become due are packed into b; rows of samples without a score go to Rows. It
// returns what became of the record: where samples are held for order, that is Held, and the sample is counted as
// something else when it is released. Fits must have returned true before.
//
// In a replay Fold takes only offsets below the committed one, makes no rows and counts nothing, and its result has no
// meaning.
func (s *State) Fold(sm *Sample, b *detectors.Batch) Outcome {
	if sm.Offset < s.next {
		panic(fmt.Sprintf("state: offset %d is folded after %d", sm.Offset, s.next-1))
	}
	s.newest = sm.Offset
	if s.slow || !s.publishes() && sm.Offset >= s.backfill {
		return s.foldSlow(sm, b)
	}
	s.next = sm.Offset + 1
	if latest := sm.Time + sm.Ahead; latest > s.maxTime {
		if s.Suspects.votes.Far(latest, s.maxTime) {
			return s.foldSlow(sm, b) // a suspect
		}
		if sm.Time > s.maxTime {
			s.maxTime = sm.Time
			if sm.Time >= s.sweepAt {
				s.sweep(sm.Offset)
			}
		}
	}
	k := s.Keys.Get(sm.Key)
	if k == nil {
		if k = s.createKey(sm); k == nil {
			s.Counts[s.counted(Filtered, sm.Offset)]++
			return Filtered
		}
	} else if sm.Time <= k.LastTime {
		if sm.Time < k.LastTime {
			s.Counts[s.counted(Late, sm.Offset)]++
			return Late
		}
		if s.order.DropDuplicates {
			s.Counts[s.counted(Duplicate, sm.Offset)]++
			return Duplicate
		}
	}
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	k.LastOffset = sm.Offset
	if s.silences.n > 0 {
		s.endSilence(k, sm)
	}
	out := s.foldRow(k, sm.Time, sm.Offset, sm.Values, b)
	s.Counts[s.counted(out, sm.Offset)]++
	return out
}

// foldSlow is Fold where something is held, replayed or ahead, or may be, and at the end of a backfill.
func (s *State) foldSlow(sm *Sample, b *detectors.Batch) Outcome {
	if !s.journal.Started() {
		s.firstMark(Floor{Offset: sm.Offset, MaxTime: NoTime}, true)
	}
	s.release(b, false) // nothing is left to do where Fits was asked
	if s.replaying {
		s.replayAdvances(sm.Offset-1, b) // a mark before the sample includes them
		s.stepReplay(sm)
	}
	s.replayAdvances(sm.Offset, b)
	s.newest = sm.Offset
	if s.readings.missing && !s.replaying {
		s.decideReading()
		s.release(b, false)
	}
	sm = s.readings.without(sm, s.readings.lost)
	if s.Rules.Missing && !s.replaying {
		s.Rules.Decide(sm.Offset)
	}
	s.pass(sm.Offset + 1)
	out := s.enter(sm, b)
	s.route()
	return out
}

// Fits reports whether b has room for all that the next Fold packs. While it returns false, execute b, Apply and Reset,
// and call it again: it releases held samples that the last Fold had no room to release. It must have returned true
// before Mark, too. One sample's tasks always fit an empty batch; where they are more than its limits (see Need) its
// arenas grow past them.
func (s *State) Fits(b *detectors.Batch) bool {
	if s.slow {
		done := s.release(b, true)
		s.route()
		if !done {
			return false
		}
	}
	return s.tasks.Fits(b)
}
