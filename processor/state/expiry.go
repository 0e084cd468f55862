package state

import (
	"cmp"
	"math"
	"slices"

	"odradek/processor/state/series"
)

// This file finds the series of a partition to evict: the least
// recently used one where memory is short, and those past their TTL.

// evictable is what an Evictor knows of the keys of a partition.
type evictable[K any] struct {
	All     func(yield func(K) bool) // visits the keys, in any order
	Len     func() int               // the number of keys
	Last    func(K) lastUse
	Stays   func(k K, offset int64) bool // the key is not evicted at the sample at offset, whenever it was used
	Compare func(a, b K) int             // orders keys of which several had a sample at one offset
}

// lastUse is when a key was last used.
type lastUse struct {
	Offset int64 // of its last sample
	Time   int64 // of its newest sample
	Gone   bool  // the key is not one of the partition any more
}

// evictor finds the least recently used key, and the keys past their TTL.
type evictor[K any] struct {
	keys evictable[K]
	ttl  int64 // microseconds; 0: keys do not expire
	// used orders the keys by their last offset as of when they were ordered: never too
	// late, so the first entry that is up to date is the least recently used key.
	used   series.Heap[K]
	built  bool  // used is valid: a partition below its limit never builds it
	next   int64 // see Next
	oldest int64 // no key's newest sample is older
}

// newExpiry returns an Evictor of keys that expire after ttl microseconds (0: never).
func newExpiry[K any](ttl int64, keys evictable[K]) evictor[K] {
	return evictor[K]{
		keys: keys, ttl: ttl, next: math.MaxInt64, oldest: math.MaxInt64,
		used: series.Heap[K]{Compare: keys.Compare},
	}
}

// Add adds a key whose last sample is at offset.
func (e *evictor[K]) Add(k K, offset int64) {
	if e.built {
		e.used.Push(offset, 0, k)
	}
}

// Observe notes that a key has a newest sample of that time.
func (e *evictor[K]) Observe(time int64) { e.oldest = min(e.oldest, time) }

// Reset discards the order of the keys after they have been replaced.
func (e *evictor[K]) Reset() {
	e.used.Reset()
	e.built, e.oldest = false, noTime
}

// LeastUsed returns the least recently used key and removes it from the Evictor; false where
// that is a key of the sample at offset or of another whose turn came with it. Keys that stay are passed over.
func (e *evictor[K]) LeastUsed(offset int64) (key K, ok bool) {
	if !e.built || e.used.Len() > 2*e.keys.Len()+64 {
		e.used.Reset()
		for k := range e.keys.All {
			e.used.Append(e.keys.Last(k).Offset, 0, k)
		}
		e.used.Order()
		e.built = true
	}
	var stay []K
	defer func() {
		for _, k := range stay {
			e.used.Push(e.keys.Last(k).Offset, 0, k)
		}
	}()
	for e.used.Len() > 0 {
		first := e.used.First()
		k := first.Value
		switch last := e.keys.Last(k); {
		case last.Gone:
			e.used.Pop()
		case first.At != last.Offset:
			e.used.SetFirst(last.Offset, 0)
		case last.Offset == offset:
			return key, false
		case e.keys.Stays(k, offset):
			e.used.Pop()
			stay = append(stay, k)
		default:
			e.used.Pop()
			return k, true
		}
	}
	return key, false
}

// Next returns the watermark at which Expired has to be called.
func (e *evictor[K]) Next() int64 { return e.next }

// Plan sets Next: to a multiple of an eighth of the TTL, which follows from the watermark
// alone, or, where keys do not expire now, to no time.
func (e *evictor[K]) Plan(watermark int64, expire bool) {
	e.next = math.MaxInt64
	if e.ttl == 0 || !expire {
		return
	}
	if watermark == noTime {
		e.next = noTime // the first sample only plans
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

// Expired returns the keys whose newest sample is more than the TTL behind the watermark, but
// not the key of the sample at offset, nor keys that stay, in order of their last sample.
func (e *evictor[K]) Expired(watermark, offset int64) []K {
	limit := timeBefore(watermark, e.ttl)
	if e.oldest >= limit {
		return nil
	}
	var gone []K
	e.oldest = math.MaxInt64
	for k := range e.keys.All {
		last := e.keys.Last(k)
		if last.Time < limit && last.Offset < offset && !e.keys.Stays(k, offset) {
			gone = append(gone, k)
		} else {
			e.oldest = min(e.oldest, last.Time)
		}
	}
	slices.SortFunc(gone, func(a, b K) int {
		return cmp.Or(cmp.Compare(e.keys.Last(a).Offset, e.keys.Last(b).Offset), e.keys.Compare(a, b))
	})
	return gone
}
