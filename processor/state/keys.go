package state

import (
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// Key is the state of one series key; see series.Key.
type Key = series.Key

// Keys are the keys of a State. A key is created with its first sample and removed when it is
// evicted; an eviction is a decision (package rules).
type Keys struct {
	series.KeyTable
	evictor  evictor[*Key]
	refusing refusing
}

// refusing are the keys that have refused a sample in a turn of several, which does not evict them (suspects.go).
type refusing struct {
	turn int64 // the offset of the turn
	keys map[*Key]struct{}
}

// add adds a key; nil is none.
func (r *refusing) add(k *Key) {
	if k == nil {
		return
	}
	if r.keys == nil {
		r.keys = map[*Key]struct{}{}
	}
	r.keys[k] = struct{}{}
}

// has reports whether a key has refused a sample in the turn of an offset.
func (r *refusing) has(k *Key, offset int64) bool {
	if r.turn != offset {
		return false
	}
	_, is := r.keys[k]
	return is
}

// newEvictor returns the evictor of keys that expire after ttl microseconds (0: never).
func (ky *Keys) newEvictor(ttl int64) evictor[*Key] {
	return newExpiry(ttl, evictable[*Key]{
		All:     ky.All,
		Len:     ky.Len,
		Last:    func(k *Key) lastUse { return lastUse{Offset: k.LastOffset, Time: k.Newest(), Gone: k.Dead} },
		Stays:   ky.refusing.has,
		Compare: series.ByName,
	})
}

// DirtyKeys returns the number of keys with changes that no snapshot has.
func (s *State) DirtyKeys() int { return s.dirty.Len() }

// createKey makes a key; nil if no detector reads it.
func (s *State) createKey(sm *Sample) *Key {
	set := s.sets.For(sm.Key)
	if set == nil {
		return nil
	}
	at := s.turn()
	if s.cfg.MaxKeys > 0 && !s.replaying {
		for s.Keys.Len() >= s.cfg.MaxKeys && s.evictOldest(at) {
		}
	}
	k := series.NewKey(sm.Key, set)
	k.Born, k.LastOffset = at, at
	k.Unit = uint32(s.journal.Number)
	s.Keys.insert(k)
	s.records.Inherit(k)
	s.dirty.Add(k, s.journal.Last().Offset)
	s.Keys.evictor.Observe(sm.Time)
	s.journal.Open.Push(opCreate, k, 0, 0)
	s.watchSilence(k, sm.Time)
	return k
}

// insert adds a key to the state.
func (ky *Keys) insert(k *Key) {
	k.Dead = false
	ky.Add(k)
	ky.evictor.Add(k, k.LastOffset)
}

// removeKey removes a key from the state. The key keeps its content for Rollback.
func (s *State) removeKey(k *Key) {
	k.Dead = true
	s.Keys.Delete(k)
	s.dirty.Drop(k)
	s.held.Drop(k.Held)
}

// evict forgets a key at offset, which is a decision: see package rules. Its held
// samples go with it; its fresh ones that wait for their stride get no score.
func (s *State) evict(k *Key, offset int64, reason anomaly.Reason) {
	s.endKey(k, reason, offset)
	if n := k.Held.Len(); n > 0 {
		s.Tally.Counts[Evicted] += int64(n)
		s.held.N -= n
	}
	s.Tally.EvictedKeys++
	s.removeKey(k)
	s.journal.Open.Push(opEvict, k, 0, 0)
	s.decisions.Add(&rules.Decision{Kind: Eviction, Subject: k.Name(), Offset: offset, Value: k})
}

// endKey closes the open anomalies and the silence of a key that is evicted at offset.
func (s *State) endKey(k *Key, reason anomaly.Reason, offset int64) {
	a := k.Alerts
	if a == nil {
		return
	}
	wm := s.watermark()
	s.closeOrphansOf(k, wm, offset)
	if len(a.Detectors) > 0 {
		s.tasks.After(func() { s.endAlerts(k, reason, wm, offset) })
	}
	if a.Silent != nil {
		s.closeSilence(k, reason, wm, offset)
	}
	if groups := s.groups; groups != nil {
		s.tasks.After(func() { groups.forget(k) })
	}
}

// evictOldest evicts the least recently used key; false where that is one of the sample
// at offset.
func (s *State) evictOldest(offset int64) bool {
	k, ok := s.Keys.evictor.LeastUsed(offset)
	if ok {
		s.evict(k, offset, anomaly.Evicted)
	}
	return ok
}

// Trim evicts the least recently used keys, but not the last one, until State.Bytes is
// at most limit, and returns how many. They go before the record at offset, of which
// nothing may have been folded; Fits must have returned true.
func (s *State) Trim(limit, offset int64) (n int) {
	offset = s.first(offset)
	s.mustDecide("Trim", offset)
	for s.Bytes() > limit && s.Keys.Len() > 1 {
		s.evictOldest(offset)
		n++
	}
	return n
}
