package keystate

import (
	"math"

	"odradek/detectors"
	"odradek/processor/events"
)

// taskQueue holds the tasks that are packed but not scored, and what waits behind them.
type taskQueue struct {
	packer
	pend     []pending
	numbered uint32 // the number of tasks that were in it before, modulo 2^32
	ptimes   []uint64
	finds    []detectors.Finding
	later    []EventRow             // wait for tasks before them
	rulings  []ruling               // wait for tasks before them
	cache    *detectors.WindowCache // nil: windows travel with their tasks
	cached   []cachedTask
}

// pending is a task without scores yet, or something that has to wait behind one.
// taskQueue.ptimes has from at on: times, the words of the fresh rows and, for a detector
// that explains, the columns' centers and the fresh rows' values; or time and offset of
// the end. The times are those of X, or of a steady detector only those that its rows are
// about (rowTimes).
type pending struct {
	key    *Key
	det    *keyDetector
	task   int32 // in the batch, or one of the below
	times  int32 // number of times in ptimes
	at     uint32
	reason events.Reason // of an end
	steady bool
	room   uint16 // number of tasks whose rows still fit behind X
}

const (
	pendingRow   = -1 - iota // a warming-up row
	pendingEnd               // the key's anomalies are closed
	pendingEvent             // taskQueue.later[at]
	pendingRule              // taskQueue.rulings[at] takes effect
)

// maxPending bounds the memory of tasks that wait for their scores, in words.
const maxPending = 1 << 18

// room reports whether b and the queue have room for the tasks of a sample.
func (q *taskQueue) room(b *detectors.Batch, need detectors.Need) bool {
	return len(b.Tasks) == 0 || len(q.pend) < maxPending/8 && len(q.ptimes) < maxPending && b.Fits(need)
}

// last returns the key's last task of the detector that waits for its scores, nil without
// one. Task numbers go on from batch to batch, so that a mark need not change when its
// task is applied or dropped.
func (q *taskQueue) last(k *Key, d *keyDetector, m *mark) *pending {
	if i := m.last - q.numbered - 1; i < uint32(len(q.pend)) {
		if p := &q.pend[i]; p.key == k && p.det == d {
			return p
		}
	}
	return nil
}

// copyTimes copies the times of the given number of rows, the last of which is skip rows
// before the newest, into ptimes.
func (q *taskQueue) copyTimes(w *win, rows, skip int32) {
	x, y := w.times(rows, skip)
	q.ptimes = append(append(q.ptimes, x...), y...)
}

// copyValues appends what Apply needs to explain a finding to the times: the centers of X's
// columns, 0 where they have none, and the fresh rows.
func (q *taskQueue) copyValues(w *win, d *keyDetector) {
	for c := range d.dim {
		center := 0.0
		if len(q.centers) > 0 {
			center = q.centers[c]
		}
		q.ptimes = append(q.ptimes, math.Float64bits(center))
	}
	x, y := w.values(d.dim, d.stride)
	q.ptimes = append(append(q.ptimes, x...), y...)
}

// drop discards the tasks, with what waits behind them.
func (q *taskQueue) drop() {
	q.numbered += uint32(len(q.pend))
	q.pend, q.ptimes, q.cached = q.pend[:0], q.ptimes[:0], q.cached[:0]
	clear(q.later)
	q.later, q.rulings = q.later[:0], q.rulings[:0]
	q.batch = nil
}
