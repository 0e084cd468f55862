package keystate

import (
	"cmp"
	"math"
	"slices"

	"odradek/detectors"
)

// Overdue samples: a held sample waits for the watermark, or until the partition's
// log is Config.MaxHeld offsets past it, whichever comes first. As a sample has an
// offset of its own, no more than MaxHeld are held. One that is overdue is released
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

// DefaultMaxHeld is the number of samples of dim values that about 16 MiB hold.
func DefaultMaxHeld(dim int) int {
	return (16 << 20) / (8*(2+dim) + arrivalBytes)
}

const arrivalBytes = 24

// arrival is a held sample, or one that was held.
type arrival struct {
	time, offset int64
	key          *Key
}

// released reports whether the sample is not held any more.
func (a *arrival) released() bool { return a.key.dead || a.time <= a.key.lastTime }

// arrivals are held samples in order of offset, those before at done with. Samples
// that the watermark releases stay until they are overdue or room is needed.
type arrivals struct {
	list []arrival
	at   int
}

// next is the first offset; where there is none, one that is never overdue.
func (q *arrivals) next() int64 {
	if q.at == len(q.list) {
		return math.MaxInt64
	}
	return q.list[q.at].offset
}

// add appends a held sample, one of held.
func (q *arrivals) add(a arrival, held int) {
	if len(q.list) == cap(q.list) && len(q.list) > 2*held {
		n := 0
		for i := q.at; i < len(q.list); i++ {
			if !q.list[i].released() {
				q.list[n] = q.list[i]
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

// arrived notes a held sample.
func (s *State) arrived(k *Key, time, offset int64) {
	if s.cfg.MaxHeld > 0 {
		s.arrivals.add(arrival{time, offset, k}, s.heldN)
	}
}

// releaseOverdue releases the samples whose offset is overdue. False: b has no room
// for more.
func (s *State) releaseOverdue(b *detectors.Batch, limited bool) bool {
	for {
		q := &s.arrivals
		if s.loaded.next() < q.next() {
			q = &s.loaded
		}
		if q.next() > s.overdue {
			return true
		}
		a := q.list[q.at]
		for !a.key.dead && a.key.held.len() > 0 && int64(a.key.held.at(0)[0]) <= a.time {
			if limited && !s.room(b) {
				return false
			}
			s.releaseFirst(a.key, b)
			if !s.replaying {
				s.Early++
			}
		}
		q.list[q.at] = arrival{}
		if q.at++; q.at == len(q.list) {
			q.list, q.at = q.list[:0], 0
		}
	}
}

// rebuildArrivals lists what the keys hold. Of these there may be later ones than
// the next sample: a key's snapshot is of a later offset than where a replay begins.
func (s *State) rebuildArrivals() {
	clear(s.loaded.list)
	clear(s.arrivals.list)
	s.arrivals.list, s.arrivals.at = s.arrivals.list[:0], 0
	list := s.loaded.list[:0]
	s.overdue = minTime
	if s.cfg.MaxHeld > 0 {
		for k := range s.keys.all {
			for i := range k.held.len() {
				w := k.held.at(i)
				list = append(list, arrival{int64(w[0]), int64(w[1]), k})
			}
		}
		slices.SortFunc(list, func(a, b arrival) int { return cmp.Compare(a.offset, b.offset) })
	}
	s.loaded = arrivals{list: list}
}
