package series

import (
	"cmp"
	"math"
	"slices"
)

// Overdue samples: a held sample waits for the watermark, or until the partition's
// log is a number of offsets past it, whichever comes first. As every sample has its
// own offset, this number also bounds the held samples. An overdue sample is released
// with all that its key holds of the same time and before, in their order; after it,
// older samples of that key are late, while samples of other keys are not.
//
// The distance of offsets counts and not the number of held samples, because that number
// depends on the held samples of all keys at one offset. A replay does not know these:
// the snapshots of the keys are of different offsets. By offsets, the samples of each
// key are released independently of other keys, in a replay as when live.
//
// At marks, the held samples of a key are those that arrived with a later time than
// the last one folded; release and judge maintain this.

// DefaultMaxHeld returns the number of samples of dim values that fit into about 16 MiB.
func DefaultMaxHeld(dim int) int {
	return (16 << 20) / (8*(2+dim) + arrivalBytes)
}

const arrivalBytes = 24

// arrival is a held sample, or one that was held.
type arrival[K any] struct {
	time, offset int64
	key          K
}

// arrivals lists held samples in order of offset; those before at are finished. Samples
// that the watermark releases stay until they are overdue or room is needed.
type arrivals[K any] struct {
	list []arrival[K]
	at   int
}

// next returns the first offset; without one, an offset that is never overdue.
func (ar *arrivals[K]) next() int64 {
	if ar.at == len(ar.list) {
		return math.MaxInt64
	}
	return ar.list[ar.at].offset
}

func (ar *arrivals[K]) order() {
	slices.SortFunc(ar.list, func(a, b arrival[K]) int { return cmp.Compare(a.offset, b.offset) })
}

// pop removes the first.
func (ar *arrivals[K]) pop() {
	ar.list[ar.at] = arrival[K]{}
	if ar.at++; ar.at == len(ar.list) {
		ar.list, ar.at = ar.list[:0], 0
	}
}

// waits tracks how long the held samples of all keys have waited.
type waits[K any] struct {
	most     int                          // the most offsets that a sample waits; 0: no limit
	released func(key K, time int64) bool // see NewBuffer
	arrived  arrivals[K]                  // samples added since the last Rebuild
	loaded   arrivals[K]                  // samples held at the last Rebuild
	overdue  int64                        // samples of offsets up to here have waited long enough
}

// SetMost sets the most offsets that a sample waits (0: no limit). It reports whether that is another number than before;
// then Rebuild has to follow.
func (w *waits[K]) SetMost(most int) (changed bool) {
	changed = w.most != most
	w.most = most
	return changed
}

// add adds a sample that is held from now on; held is the number of samples that are.
func (w *waits[K]) add(a arrival[K], held int) {
	q := &w.arrived
	if len(q.list) == cap(q.list) && len(q.list) > 2*held {
		n := 0
		for i := q.at; i < len(q.list); i++ {
			if r := &q.list[i]; !w.released(r.key, r.time) {
				q.list[n] = *r
				n++
			}
		}
		clear(q.list[n:])
		q.list, q.at = q.list[:n], 0
	}
	q.list = append(q.list, a)
	for i := len(q.list) - 1; i > q.at && q.list[i-1].offset > a.offset; i-- { // an accepted suspect
		q.list[i-1], q.list[i] = q.list[i], q.list[i-1]
	}
}

// Pass sets the present offset of the log.
func (w *waits[K]) Pass(offset int64) { w.overdue = offset - int64(w.most) }

// Overdue returns the sample that has waited longest of the overdue ones, which may have
// been released, and its key. PopOverdue removes it.
func (w *waits[K]) Overdue() (key K, time int64, ok bool) {
	q := w.oldest()
	if q.next() > w.overdue {
		return key, 0, false
	}
	a := &q.list[q.at]
	return a.key, a.time, true
}

// PopOverdue removes the sample that Overdue returned.
func (w *waits[K]) PopOverdue() { w.oldest().pop() }

// oldest returns the list of arrivals that begins with the lower offset.
func (w *waits[K]) oldest() *arrivals[K] {
	if w.loaded.next() < w.arrived.next() {
		return &w.loaded
	}
	return &w.arrived
}

// reset removes all arrivals. Those that are loaded next may be later than the next
// sample: a key's snapshot is of a later offset than where a replay begins.
func (w *waits[K]) reset() {
	clear(w.loaded.list)
	clear(w.arrived.list)
	w.arrived.list, w.arrived.at = w.arrived.list[:0], 0
	w.loaded.list, w.loaded.at = w.loaded.list[:0], 0
	w.overdue = math.MinInt64
}
