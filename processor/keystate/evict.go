package keystate

import (
	"fmt"

	"odradek/processor/events"
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/expiry"
	"odradek/processor/keystate/keys"
)

// evict forgets a key at offset, which is a decision: see package decisions. Its held
// samples go with it; its fresh ones that wait for their stride get no score.
func (s *State) evict(k *Key, offset int64, reason events.Reason) {
	s.endKey(k, reason, offset)
	if n := k.Held.Len(); n > 0 {
		s.Counts[Evicted] += int64(n)
		s.held.N -= n
	}
	s.EvictedKeys++
	s.remove(k)
	s.journal.Open.Push(opEvict, k, 0, 0)
	s.decisions.Add(&decisions.Decision{Kind: Eviction, Subject: k.Name(), Offset: offset, Value: k})
}

// newEvictor returns the evictor of the State's keys.
func (s *State) newEvictor() expiry.Evictor[*Key] {
	return expiry.New(s.cfg.TTL, expiry.Keys[*Key]{
		All:     s.keys.All,
		Len:     func() int { return s.keys.Len() },
		Last:    func(k *Key) expiry.Last { return expiry.Last{Offset: k.LastOffset, Time: k.Newest(), Gone: k.Dead} },
		Compare: keys.ByName,
	})
}

// evictOldest evicts the least recently used key; false where that is one of the sample
// at offset.
func (s *State) evictOldest(offset int64) bool {
	k, ok := s.evictor.LeastUsed(offset)
	if ok {
		s.evict(k, offset, events.Evicted)
	}
	return ok
}

// Trim evicts the least recently used keys, but not the last one, until Bytes is
// at most limit, and returns how many. They go before the record at offset, of which
// nothing may have been folded; Fits must have returned true.
func (s *State) Trim(limit, offset int64) (n int) {
	if s.journal.Replaying || offset < s.next {
		panic(fmt.Sprintf("keystate: Trim at %d during replay, or behind %d, which is folded", offset, s.next-1))
	}
	for s.Bytes() > limit && s.keys.Len() > 1 {
		s.evictOldest(offset)
		n++
	}
	return n
}

// planSweep sets the watermark at which the next sweep is due.
func (s *State) planSweep() {
	s.evictor.Plan(s.watermark(), !s.journal.Replaying)
	s.planQuiet()
}

// planQuiet is planSweep for silences alone.
func (s *State) planQuiet() {
	s.silences.watch.Plan(!s.journal.Replaying)
	s.sweepAt = min(s.evictor.Next(), s.silences.watch.Next())
}

// sweep does what the watermark of the sample at offset makes due.
func (s *State) sweep(offset int64) {
	wm := s.watermark()
	if wm >= s.evictor.Next() {
		s.evictor.Plan(wm, !s.journal.Replaying)
		s.expire(offset)
	}
	s.silences.open(offset)
	s.planQuiet()
}

// expire evicts the keys that are past their TTL at the sample at offset.
func (s *State) expire(offset int64) {
	gone := s.evictor.Expired(s.watermark(), offset)
	grown := s.grownAt(offset)
	for _, k := range gone {
		reason := events.Expired
		if k.LastOffset < grown {
			reason = events.Moved
		}
		s.evict(k, offset, reason)
	}
}

// grownAt is where the topic was last known to have grown, at a sample at offset.
func (s *State) grownAt(offset int64) int64 {
	d := s.decisions.InForce(Grown, nil, offset)
	if d == nil {
		return 0
	}
	return d.Offset
}
