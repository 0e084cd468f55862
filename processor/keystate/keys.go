package keystate

// create makes a key; nil if no detector reads it.
func (s *State) create(sm *Sample) *Key {
	set := s.setFor(sm.Key)
	if set == nil {
		return nil
	}
	at := s.next - 1 // the turn
	if s.cfg.MaxKeys > 0 && !s.restore.replaying {
		for s.keys.n >= s.cfg.MaxKeys && s.evictOldest(at) {
		}
	}
	k := newKey(sm.Key, set)
	k.born, k.lastOffset = at, at
	k.unit = uint32(s.journal.unit)
	s.insert(k)
	s.markDirty(k)
	s.evictor.oldest = min(s.evictor.oldest, sm.Time)
	if !s.restore.replaying {
		s.journal.cur.add(opCreate, k, 0, 0)
	}
	if s.silence.built {
		s.watch(k, sm.Time)
	}
	return k
}

// newKey makes a key that is not part of a state yet.
func newKey(name []byte, set *detectorSet) *Key {
	// One allocation for the usual key of one window and one detector.
	one := &struct {
		Key
		w [1]win
		m [1]mark
	}{}
	k := &one.Key
	if len(set.wins) == 1 && set.marks == 1 {
		k.wins, k.marks = one.w[:], one.m[:]
	} else {
		k = &Key{wins: make([]win, len(set.wins)), marks: make([]mark, set.marks)}
	}
	if len(name) <= len(k.short) {
		k.name = append(k.short[:0], name...)
	} else {
		k.name = append(make([]byte, 0, len(name)), name...)
	}
	k.set, k.lastTime = set, minTime
	if set.alerts > 0 {
		k.alerts = newAlerts(set.alerts)
	}
	return k
}

// insert adds a key to the state.
func (s *State) insert(k *Key) {
	k.dead = false
	s.keys.add(k)
	s.bytes += k.size()
	s.evictor.add(k)
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
func (k *Key) size() int64 {
	n := int64(k.set.fixed)
	if len(k.name) > len(k.short) {
		n += int64(len(k.name))
	}
	for i := range k.wins {
		n += 8 * int64(len(k.wins[i].slab))
	}
	for i := range k.marks {
		n += 4 * int64(cap(k.marks[i].carry))
		if k.marks[i].slot != nil {
			n += slotBytes
		}
	}
	n += k.held.Bytes()
	if k.alerts != nil {
		n += k.alerts.size()
	}
	return n
}
