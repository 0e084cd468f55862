package keystate

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"odradek/processor/events"
	"odradek/processor/keystate/heap"
)

// evict forgets a key at offset, which is a decision: see decisions.go. Its held
// samples go with it; its fresh ones that wait for their stride get no score.
func (s *State) evict(k *Key, offset int64, reason events.Reason) {
	s.endKey(k, reason, offset)
	if n := k.held.Len(); n > 0 {
		s.Counts[Evicted] += int64(n)
		s.held.N -= n
	}
	s.EvictedKeys++
	s.remove(k)
	s.journal.cur.add(opEvict, k, 0, 0)
	s.decide(&decision{kind: Eviction, subject: k.name, offset: offset, key: k})
}

// evictor finds the least recently used key, and the keys past their TTL.
type evictor struct {
	ttl int64 // microseconds; 0: keys do not expire
	// used orders the keys by their last offset as of when they were ordered: never too
	// late, so the first entry that is up to date is the least recently used key.
	used   heap.Heap[*Key]
	built  bool  // used is valid: a partition below its limit never builds it
	next   int64 // the watermark at which keys past their TTL are looked for
	oldest int64 // no key's last sample is older
}

func newEvictor(ttl int64) evictor {
	return evictor{
		ttl: ttl, next: math.MaxInt64, oldest: math.MaxInt64,
		used: heap.Heap[*Key]{Compare: func(a, b *Key) int { return bytes.Compare(a.name, b.name) }}, // several may have had a sample in one turn
	}
}

// add adds a new key.
func (e *evictor) add(k *Key) {
	if e.built {
		e.used.Push(k.lastOffset, 0, k)
	}
}

// reset discards the order of the keys after they have been replaced.
func (e *evictor) reset() {
	e.used.Reset()
	e.built, e.oldest = false, NoTime
}

// leastUsed removes and returns the least recently used key; nil where that is a key of
// the sample at offset or of another whose turn came with it.
func (e *evictor) leastUsed(keys *table, offset int64) *Key {
	if !e.built || e.used.Len() > 2*keys.n+64 {
		e.used.Reset()
		for k := range keys.all {
			e.used.Append(k.lastOffset, 0, k)
		}
		e.used.Order()
		e.built = true
	}
	for {
		first := e.used.First()
		switch k := first.Value; {
		case k.dead:
			e.used.Pop()
		case first.At != k.lastOffset:
			e.used.SetFirst(k.lastOffset, 0)
		case k.lastOffset == offset:
			return nil
		default:
			e.used.Pop()
			return k
		}
	}
}

// plan sets the watermark at which keys past their TTL are looked for next: a multiple
// of an eighth of the TTL, which follows from the watermark alone.
func (e *evictor) plan(watermark int64, replaying bool) {
	e.next = math.MaxInt64
	if e.ttl == 0 || replaying {
		return
	}
	if watermark == NoTime {
		e.next = NoTime // the first sample only plans
		return
	}
	step := max(1, e.ttl/8)
	q := watermark / step
	if watermark%step < 0 {
		q--
	}
	if next := (q + 1) * step; next > watermark { // no overflow
		e.next = next
	}
}

// expired returns the keys whose last sample is more than the TTL behind the watermark, but
// not those of the sample at offset, in order of their last sample.
func (e *evictor) expired(keys *table, watermark, offset int64) []*Key {
	limit := minus(watermark, e.ttl)
	if e.oldest >= limit {
		return nil
	}
	var gone []*Key
	e.oldest = math.MaxInt64
	for k := range keys.all {
		last := k.newest()
		if last < limit && k.lastOffset < offset {
			gone = append(gone, k)
		} else {
			e.oldest = min(e.oldest, last)
		}
	}
	slices.SortFunc(gone, byLastOffset)
	return gone
}

// byLastOffset compares keys by their last sample.
func byLastOffset(a, b *Key) int {
	return cmp.Or(cmp.Compare(a.lastOffset, b.lastOffset), bytes.Compare(a.name, b.name))
}

// evictOldest evicts the least recently used key; false where that is one of the sample
// at offset.
func (s *State) evictOldest(offset int64) bool {
	k := s.evictor.leastUsed(&s.keys, offset)
	if k != nil {
		s.evict(k, offset, events.Evicted)
	}
	return k != nil
}

// Trim evicts the least recently used keys, but not the last one, until Bytes is
// at most limit, and returns how many. They go before the record at offset, of which
// nothing may have been folded; Fits must have returned true.
func (s *State) Trim(limit, offset int64) (n int) {
	if s.restore.replaying || offset < s.next {
		panic(fmt.Sprintf("keystate: Trim at %d during replay, or behind %d, which is folded", offset, s.next-1))
	}
	for s.Bytes() > limit && s.keys.n > 1 {
		s.evictOldest(offset)
		n++
	}
	return n
}

// planSweep sets the watermark at which the next sweep is due.
func (s *State) planSweep() {
	s.evictor.plan(s.watermark(), s.restore.replaying)
	s.planQuiet()
}

// planQuiet is planSweep for silences alone.
func (s *State) planQuiet() {
	s.silence.plan(s.restore.replaying)
	s.nextSweep = min(s.evictor.next, s.silence.next)
}

// sweep does what the watermark of the sample at offset makes due.
func (s *State) sweep(offset int64) {
	wm := s.watermark()
	if wm >= s.evictor.next {
		s.evictor.plan(wm, s.restore.replaying)
		s.expire(offset)
	}
	if s.cfg.Silence > 0 {
		for _, k := range s.silence.due(&s.keys, wm) {
			s.openSilence(k, wm, offset)
		}
	}
	s.planQuiet()
}

// expire evicts the keys that are past their TTL at the sample at offset.
func (s *State) expire(offset int64) {
	gone := s.evictor.expired(&s.keys, s.watermark(), offset)
	grown := s.grownAt(offset)
	for _, k := range gone {
		reason := events.Expired
		if k.lastOffset < grown {
			reason = events.Moved
		}
		s.evict(k, offset, reason)
	}
}

// grownAt is where the topic was last known to have grown, at a sample at offset.
func (s *State) grownAt(offset int64) int64 {
	d := s.decisions.inForce(Grown, nil, offset)
	if d == nil {
		return 0
	}
	return d.offset
}
