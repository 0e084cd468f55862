package state

import (
	"odradek/processor/anomaly"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// Key is the state of one series key; see keys.Key.
type Key = series.Key

// Keys are the keys of a State. A key is created with its first sample and removed when it is
// evicted; an eviction is a decision (package decisions).
type Keys struct {
	series.KeyTable
	most      int // Config.MaxKeys
	sets      *series.Sets
	at        *position
	tally     *Tally
	journal   *journal
	edits     edits
	held      *held
	silences  *silences
	decisions *rules.DecisionLog
	records   *checkpoint.Writer
	judge     *judge
	orphans   *orphans
	evictor   evictor[*Key]
	refusing  refusing
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
func (s *Keys) newEvictor(ttl int64) evictor[*Key] {
	return newExpiry(ttl, evictable[*Key]{
		All:     s.All,
		Len:     s.Len,
		Last:    func(k *Key) lastUse { return lastUse{Offset: k.LastOffset, Time: k.Newest(), Gone: k.Dead} },
		Stays:   s.refusing.has,
		Compare: series.ByName,
	})
}

// Dirty returns the number of keys with changes that no snapshot has.
func (s *Keys) Dirty() int { return s.edits.dirty.Len() }

// size estimates the memory of the keys and of what they hold.
func (s *Keys) size() int64 { return s.Bytes + s.held.Bytes() }

// create makes a key; nil if no detector reads it.
func (s *Keys) create(sm *Sample) *Key {
	set := s.sets.For(sm.Key)
	if set == nil {
		return nil
	}
	at := s.at.turn()
	if s.most > 0 && !s.at.replaying {
		for s.Len() >= s.most && s.evictOldest(at) {
		}
	}
	k := series.NewKey(sm.Key, set)
	k.Born, k.LastOffset = at, at
	k.Unit = uint32(s.journal.Number)
	s.insert(k)
	s.records.Inherit(k)
	s.edits.markDirty(k)
	s.evictor.Observe(sm.Time)
	s.journal.Open.Push(opCreate, k, 0, 0)
	s.silences.add(k, sm.Time)
	return k
}

// insert adds a key to the state.
func (s *Keys) insert(k *Key) {
	k.Dead = false
	s.Add(k)
	s.evictor.Add(k, k.LastOffset)
}

// remove removes a key from the state. The key keeps its content for Rollback.
func (s *Keys) remove(k *Key) {
	k.Dead = true
	s.Delete(k)
	s.edits.dirty.Drop(k)
	s.held.Drop(k.Held)
}

// evict forgets a key at offset, which is a decision: see package decisions. Its held
// samples go with it; its fresh ones that wait for their stride get no score.
func (s *Keys) evict(k *Key, offset int64, reason anomaly.Reason) {
	s.end(k, reason, offset)
	if n := k.Held.Len(); n > 0 {
		s.tally.Counts[Evicted] += int64(n)
		s.held.N -= n
	}
	s.tally.EvictedKeys++
	s.remove(k)
	s.journal.Open.Push(opEvict, k, 0, 0)
	s.decisions.Add(&rules.Decision{Kind: Eviction, Subject: k.Name(), Offset: offset, Value: k})
}

// end closes the open anomalies and the silence of a key that is evicted at offset.
func (s *Keys) end(k *Key, reason anomaly.Reason, offset int64) {
	a := k.Alerts
	if a == nil {
		return
	}
	wm := s.at.watermark()
	s.orphans.close(k, wm, offset)
	if len(a.Detectors) > 0 {
		s.judge.out.inTurn(func() { s.judge.endAlerts(k, reason, wm, offset) })
	}
	if a.Silent != nil {
		s.silences.close(k, reason, wm, offset)
	}
	if groups := s.judge.out.groups; groups != nil {
		s.judge.out.inTurn(func() { groups.forget(k) })
	}
}

// evictOldest evicts the least recently used key; false where that is one of the sample
// at offset.
func (s *Keys) evictOldest(offset int64) bool {
	k, ok := s.evictor.LeastUsed(offset)
	if ok {
		s.evict(k, offset, anomaly.Evicted)
	}
	return ok
}

// Trim evicts the least recently used keys, but not the last one, until State.Bytes is
// at most limit, and returns how many. They go before the record at offset, of which
// nothing may have been folded; Fits must have returned true.
func (s *Keys) Trim(limit, offset int64) (n int) {
	offset = s.at.first(offset)
	s.at.mustDecide("Trim", offset)
	for s.size() > limit && s.Len() > 1 {
		s.evictOldest(offset)
		n++
	}
	return n
}
