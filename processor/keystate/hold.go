package keystate

import (
	"math"

	"odradek/detectors"
	"odradek/processor/keystate/reorder"
)

// hold adds a sample to its key's held ones.
func (s *State) hold(k *Key, sm *Sample) {
	if sm.Offset < s.next-1 { // an accepted suspect
		s.records.Unblock(k, sm.Offset)
	}
	if k.Held == nil {
		k.Held = reorder.NewList(k, s.cfg.Dim, 0)
	}
	s.keys.Bytes -= k.Held.Bytes()
	s.held.Add(k.Held, sm.Time, sm.Offset, sm.Values)
	s.keys.Bytes += k.Held.Bytes()
	if !s.journal.Replaying {
		saveHeldIn(s.journal.Open, k, sm.Time, sm.Offset)
	}
}

// releaseFirst folds a key's earliest held sample. due says that s.held.Due has returned the key last.
func (s *State) releaseFirst(k *Key, b *detectors.Batch, due bool) {
	if k.Unit != uint32(s.journal.Number) {
		s.folder.edits.touch(k)
	}
	w := k.Held.At(0)
	if !s.journal.Replaying {
		saveHeldOut(s.journal.Open, k, w)
	}
	time, offset := int64(w[0]), int64(w[1])
	for j := range s.scratch {
		s.scratch[j] = math.Float64frombits(w[2+j])
	}
	var empty bool
	if due {
		empty = s.held.ReleaseDue(k.Held)
	} else {
		empty = s.held.Release(k.Held)
	}
	if empty {
		s.keys.Bytes -= k.Held.Bytes()
		k.Held = nil
	}
	out := s.folder.fold(k, time, offset, s.scratch, b)
	if !s.journal.Replaying {
		s.Counts[out]++
	}
}

// releaseOverdue releases the samples whose offset is overdue. It returns false if b has
// no room for more.
func (s *State) releaseOverdue(b *detectors.Batch, limited bool) bool {
	for {
		k, time, ok := s.held.Overdue()
		if !ok {
			return true
		}
		for !k.Dead && k.Held.Len() > 0 && k.Held.First() <= time {
			if limited && !s.folder.tasks.Fits(b) {
				return false
			}
			s.releaseFirst(k, b, false)
			if !s.journal.Replaying {
				s.Early++
			}
		}
		s.held.PopOverdue()
	}
}
