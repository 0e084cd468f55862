package keystate

import "odradek/processor/keystate/series"

// create makes a key; nil if no detector reads it.
func (s *State) create(sm *Sample) *Key {
	set := s.sets.For(sm.Key)
	if set == nil {
		return nil
	}
	at := s.next - 1 // the turn
	if s.cfg.MaxKeys > 0 && !s.restore.replaying {
		for s.keys.n >= s.cfg.MaxKeys && s.evictOldest(at) {
		}
	}
	k := newKey(sm.Key, set)
	k.Born, k.LastOffset = at, at
	k.unit = uint32(s.journal.Number)
	s.insert(k)
	s.markDirty(k)
	s.evictor.Observe(sm.Time)
	if !s.restore.replaying {
		s.journal.Open.Push(opCreate, k, 0, 0)
	}
	s.watch(k, sm.Time)
	return k
}

// newKey makes a key that is not part of a state yet.
func newKey(name []byte, set *series.Set) *Key {
	// One allocation for the usual key of one window and one detector.
	one := &struct {
		Key
		w [1]series.Window
		m [1]series.Progress
	}{}
	if len(set.Windows) == 1 && set.Detectors == 1 {
		one.Init(name, set, one.w[:], one.m[:])
		return &one.Key
	}
	k := new(Key)
	k.Init(name, set, make([]series.Window, len(set.Windows)), make([]series.Progress, set.Detectors))
	return k
}

// insert adds a key to the state.
func (s *State) insert(k *Key) {
	k.dead = false
	s.keys.add(k)
	s.bytes += k.size()
	s.evictor.Add(k, k.LastOffset)
}

// remove removes a key from the state. The key keeps its content for Rollback.
func (s *State) remove(k *Key) {
	k.dead = true
	s.keys.del(k)
	s.bytes -= k.size()
	s.dirty.drop(k)
	s.held.Drop(k.held)
}

// size estimates the memory of the key.
func (k *Key) size() int64 { return keyBytes + k.Series.Size() + k.held.Bytes() }

// keyBytes is the size of a Key, with its slot in the table; TestSizes compares it.
const keyBytes = 176 + 32 + 8
