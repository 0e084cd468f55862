package keystate

import "odradek/processor/keystate/keys"

// Key is what is remembered of one series key; see keys.Key.
type Key = keys.Key

// create makes a key; nil if no detector reads it.
func (s *State) create(sm *Sample) *Key {
	set := s.sets.For(sm.Key)
	if set == nil {
		return nil
	}
	at := s.next - 1 // the turn
	if s.cfg.MaxKeys > 0 && !s.journal.Replaying {
		for s.keys.Len() >= s.cfg.MaxKeys && s.evictOldest(at) {
		}
	}
	k := keys.New(sm.Key, set)
	k.Born, k.LastOffset = at, at
	k.Unit = uint32(s.journal.Number)
	s.insert(k)
	s.folder.edits.markDirty(k)
	s.evictor.Observe(sm.Time)
	if !s.journal.Replaying {
		s.journal.Open.Push(opCreate, k, 0, 0)
	}
	s.silences.add(k, sm.Time)
	return k
}

// insert adds a key to the state.
func (s *State) insert(k *Key) {
	k.Dead = false
	s.keys.Add(k)
	s.evictor.Add(k, k.LastOffset)
}

// remove removes a key from the state. The key keeps its content for Rollback.
func (s *State) remove(k *Key) {
	k.Dead = true
	s.keys.Delete(k)
	s.dirty.Drop(k)
	s.held.Drop(k.Held)
}
