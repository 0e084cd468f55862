package keystate

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"odradek/processor/events"
)

// evict forgets a key at offset, which is a decision: see decisions.go. Its held
// samples go with it; its fresh ones that wait for their stride get no score.
func (s *State) evict(k *Key, offset int64, reason events.Reason) {
	s.endKey(k, reason, offset)
	if n := k.held.len(); n > 0 {
		s.Counts[Evicted] += int64(n)
		s.heldN -= n
	}
	s.EvictedKeys++
	s.remove(k)
	s.cur.add(opEvict, k, 0, 0)
	s.decide(&decision{kind: Eviction, subject: k.name, offset: offset, key: k})
}

// lruEntry is a key's last offset as it was when the entry was made: never too
// late, so the heap's first entry that is up to date is the least recently used.
type lruEntry struct {
	offset int64
	key    *Key
}

// compare is by offset; several keys may have had a sample in one turn.
func (a *lruEntry) compare(b *lruEntry) int {
	if a.offset != b.offset {
		return cmp.Compare(a.offset, b.offset)
	}
	return bytes.Compare(a.key.name, b.key.name)
}

// byLastOffset compares keys by their last sample.
func byLastOffset(a, b *Key) int {
	return cmp.Or(cmp.Compare(a.lastOffset, b.lastOffset), bytes.Compare(a.name, b.name))
}

// evictOldest evicts the key whose last sample came first. The heap is built
// when it is first needed, so that a partition below its limit pays nothing.
//
// It returns false where that is a key of the sample at offset or of another whose
// turn came with it.
func (s *State) evictOldest(offset int64) bool {
	if !s.lruBuilt || len(s.lru) > 2*s.keys.n+64 {
		s.lru = s.lru[:0]
		for k := range s.keys.all {
			s.lru = append(s.lru, lruEntry{k.lastOffset, k})
		}
		slices.SortFunc(s.lru, func(a, b lruEntry) int { return a.compare(&b) })
		s.lruBuilt = true
	}
	for {
		e := &s.lru[0]
		if e.key.dead || e.offset == e.key.lastOffset {
			k := e.key
			if !k.dead && k.lastOffset == offset {
				return false
			}
			last := len(s.lru) - 1
			s.lru[0] = s.lru[last]
			s.lru[last] = lruEntry{}
			s.lru = s.lru[:last]
			s.lruDown()
			if k.dead {
				continue
			}
			s.evict(k, offset, events.Evicted)
			return true
		}
		e.offset = e.key.lastOffset
		s.lruDown()
	}
}

// Trim evicts the least recently used keys, but not the last one, until Bytes is
// at most limit, and returns how many. They go before the record at offset, of which
// nothing may have been folded; Fits must have returned true.
func (s *State) Trim(limit, offset int64) (n int) {
	if s.replaying || offset < s.next {
		panic(fmt.Sprintf("keystate: Trim at %d during replay, or behind %d, which is folded", offset, s.next-1))
	}
	for s.Bytes() > limit && s.keys.n > 1 {
		s.evictOldest(offset)
		n++
	}
	return n
}

func (s *State) lruPush(k *Key) {
	s.lru = append(s.lru, lruEntry{k.lastOffset, k})
	for i := len(s.lru) - 1; i > 0; {
		p := (i - 1) / 2
		if s.lru[p].compare(&s.lru[i]) <= 0 {
			return
		}
		s.lru[i], s.lru[p] = s.lru[p], s.lru[i]
		i = p
	}
}

func (s *State) lruDown() {
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(s.lru) {
			return
		}
		if c+1 < len(s.lru) && s.lru[c+1].compare(&s.lru[c]) < 0 {
			c++
		}
		if s.lru[i].compare(&s.lru[c]) <= 0 {
			return
		}
		s.lru[i], s.lru[c] = s.lru[c], s.lru[i]
		i = c
	}
}

// sweepStep is how far the watermark moves between two looks for keys past
// their TTL.
func (s *State) sweepStep() int64 { return max(1, s.cfg.TTL/8) }

// planSweep sets the watermark at which the next sweep is due: for the TTL the
// next multiple of the step, which follows from the watermark alone.
func (s *State) planSweep() {
	s.planTTL()
	s.planQuiet()
}

func (s *State) planTTL() {
	s.nextTTL = math.MaxInt64
	wm := s.watermark()
	if s.cfg.TTL == 0 || wm == NoTime || s.replaying {
		if s.cfg.TTL > 0 && !s.replaying {
			s.nextTTL = NoTime // the first sample only plans
		}
		return
	}
	step := s.sweepStep()
	q := wm / step
	if wm%step < 0 {
		q--
	}
	if next := (q + 1) * step; next > wm { // no overflow
		s.nextTTL = next
	}
}

// sweep does what the watermark of the sample at offset makes due.
func (s *State) sweep(offset int64) {
	if s.watermark() >= s.nextTTL {
		s.planTTL()
		s.expire(offset)
	}
	if s.cfg.Silence > 0 {
		s.findSilent(offset)
	}
	s.planQuiet()
}

// expire evicts the keys whose last sample is more than TTL behind the watermark.
func (s *State) expire(offset int64) {
	limit := minus(s.watermark(), s.cfg.TTL)
	if s.oldest >= limit {
		return
	}
	var gone []*Key
	s.oldest = math.MaxInt64
	for k := range s.keys.all {
		last := k.newest()
		if last < limit && k.lastOffset < offset {
			gone = append(gone, k)
		} else {
			s.oldest = min(s.oldest, last)
		}
	}
	slices.SortFunc(gone, byLastOffset)
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
	d := s.decided[Grown][""]
	for d != nil && d.offset > offset {
		d = d.before
	}
	if d == nil {
		return 0
	}
	return d.offset
}
