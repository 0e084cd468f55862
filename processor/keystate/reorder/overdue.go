package reorder

import (
	"cmp"
	"math"
	"slices"
)

// Overdue samples: a held sample waits for the watermark, or until the partition's
// log is a number of offsets past it, whichever comes first. As a sample has an
// offset of its own, no more than that number are held. One that is overdue is released
// with all that its key holds of the same time and before, in their order; after it,
// samples of that key that are older are late, while those of other keys are not.
//
// What counts is the distance of offsets and not the number of held samples, because
// that number, at some offset, takes the held samples of all keys at that offset. A
// replay has them of no offset: each key's snapshot is of another one. By its
// offsets, each key's samples are released by themselves, in a replay as when live.
//
// At marks, the held samples of a key are those that arrived with a time after that
// of its last one folded: release keeps that up, and so does judge.

// DefaultMost is the number of samples of dim values that about 16 MiB hold.
func DefaultMost(dim int) int {
	return (16 << 20) / (8*(2+dim) + arrivalBytes)
}

const arrivalBytes = 24

// arrival is a held sample, or one that was held.
type arrival[K any] struct {
	time, offset int64
	key          K
}

// arrivals are held samples in order of offset, those before at done with. Samples
// that the watermark releases stay until they are overdue or room is needed.
type arrivals[K any] struct {
	list []arrival[K]
	at   int
}

// next is the first offset; where there is none, one that is never overdue.
func (q *arrivals[K]) next() int64 {
	if q.at == len(q.list) {
		return math.MaxInt64
	}
	return q.list[q.at].offset
}

func (q *arrivals[K]) order() {
	slices.SortFunc(q.list, func(a, b arrival[K]) int { return cmp.Compare(a.offset, b.offset) })
}

// pop removes the first.
func (q *arrivals[K]) pop() {
	q.list[q.at] = arrival[K]{}
	if q.at++; q.at == len(q.list) {
		q.list, q.at = q.list[:0], 0
	}
}

// add notes a sample that is held from now on.
func (b *Buffer[K]) add(a arrival[K]) {
	q := &b.arrived
	if len(q.list) == cap(q.list) && len(q.list) > 2*b.N {
		n := 0
		for i := q.at; i < len(q.list); i++ {
			if r := &q.list[i]; !b.released(r.key, r.time) {
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

// Pass sets the offset that the log is at.
func (b *Buffer[K]) Pass(offset int64) { b.overdue = offset - int64(b.most) }

// Overdue is the sample that has waited longest among those that have waited for too
// long, and its key; released samples are among them. PopOverdue takes it away.
func (b *Buffer[K]) Overdue() (key K, time int64, ok bool) {
	q := b.oldest()
	if q.next() > b.overdue {
		return key, 0, false
	}
	a := &q.list[q.at]
	return a.key, a.time, true
}

// PopOverdue forgets what Overdue returned.
func (b *Buffer[K]) PopOverdue() { b.oldest().pop() }

// oldest is the list with the first offset.
func (b *Buffer[K]) oldest() *arrivals[K] {
	if b.loaded.next() < b.arrived.next() {
		return &b.loaded
	}
	return &b.arrived
}

// reset forgets all arrivals. Of those that are loaded next there may be later ones than
// the next sample: a key's snapshot is of a later offset than where a replay begins.
func (b *Buffer[K]) reset() {
	clear(b.loaded.list)
	clear(b.arrived.list)
	b.arrived.list, b.arrived.at = b.arrived.list[:0], 0
	b.loaded.list, b.loaded.at = b.loaded.list[:0], 0
	b.overdue = math.MinInt64
}
