package state

import (
	"math"

	"odradek/detectors"
	"odradek/processor/state/series"
)

// This file queues the tasks of a partition's series until they have scores.
//
// The ring of a window is overwritten before the scores come. So the queue has the times of
// a task's rows and, for a detector that may explain its scores, their values.

// taskQueue holds the tasks that are packed but not scored, and rows and calls that wait behind them.
type taskQueue struct {
	packer   packer
	copies   copies
	gaps     spans
	most     detectors.Need // of the tasks of one sample
	turn     *int64
	pending  []pendingTask
	numbered uint32 // the number of entries that were in it before, modulo 2^32
	deferred []func()
	direct   detectors.Batch // of the tasks that no executor scores; see direct.go
	rows     detectors.Rows  // of the last one of these
	narrowed []float32       // the rows of a plain one
}

// pendingTask is an entry of the queue: a task without scores yet, or something that waits behind one.
type pendingTask struct {
	Key      *Key
	Detector *series.SetDetector
	Turn     int64 // the offset in whose turn it was added
	Index    int32 // in the batch, or one of the below

	// Places in the queue's copies. What is no task has one, place: of a row in copies.warm, of a function in taskQueue.deferred.
	place, covered, times, columns, values uint32
	timed                                  int32 // number of times
	copied                                 int32 // number of rows whose values are copied, if it is Valued

	left     int32  // of a task in place, of a detectors.Learner: what Left says of the carry that it has left
	spans    uint32 // see spans.mark
	room     uint16 // number of tasks whose rows still fit behind X
	Steady   bool   // it has a score for each fresh row, or for those that Setup.Scored names, in order
	Valued   bool   // it has the values: of a detector that explains, or has a guard
	Direct   bool   // it is in the queue's own batch, and has its scores
	InSeason bool   // of a task in place, of a detectors.Seasonal: it has left a season in use
}

// Values of pendingTask.Index that are no task of the batch.
const (
	taskWarmingUp = -1 - iota // a row without a score
	taskDeferred              // a function to be called
)

// mostPending is the most tasks that wait for their scores, and mostCopied the most rows, times and values that are copied for them.
const (
	mostPending = 1 << 15
	mostCopied  = 1 << 17
)

// mostDirect bounds the memory of tasks that have their scores and wait behind others, in words of each arena.
const mostDirect = 1 << 22

// newTaskQueue returns an empty queue for tasks of these detectors, whose Index counts them. turn is where the
// offset is in whose turn tasks are added. watched says that each score is handed out with its task.
func newTaskQueue(dets []*series.Setup, turn *int64, watched bool) taskQueue {
	q := taskQueue{turn: turn, packer: packer{detectors: make([]packing, len(dets))}}
	for i, d := range dets {
		if d.Ensemble != nil {
			continue // it has no tasks
		}
		q.packer.detectors[i] = newPacking(d, watched)
	}
	q.most = q.packer.need()
	return q
}

// Need returns how much of a batch the tasks of one sample take at most.
func (q *taskQueue) Need() detectors.Need { return q.most }

// Fits reports whether b and the queue have room for the tasks of a sample.
func (q *taskQueue) Fits(b *detectors.Batch) bool {
	return len(b.Tasks) == 0 && q.Empty() ||
		len(q.pending) < mostPending && q.copies.len() < mostCopied && len(q.direct.In) < mostDirect && len(q.direct.Out) < mostDirect &&
			b.Fits(q.most)
}

// Pending returns the entries in the order in which they were added.
func (q *taskQueue) Pending() []pendingTask { return q.pending }

// Empty reports whether nothing waits.
func (q *taskQueue) Empty() bool { return len(q.pending) == 0 }

// After calls a function after the results of the tasks that wait; at once where nothing waits.
func (q *taskQueue) After(do func()) {
	if q.Empty() {
		do()
	} else {
		q.Defer(do)
	}
}

// Defer adds a function, to be called in its turn.
func (q *taskQueue) Defer(do func()) {
	q.pending = append(q.pending, pendingTask{Index: taskDeferred, Turn: *q.turn, place: uint32(len(q.deferred))})
	q.deferred = append(q.deferred, do)
}

// Do calls the function of a taskDeferred entry.
func (q *taskQueue) Do(t *pendingTask) { q.deferred[t.place]() }

// WarmUp adds a sample that comes too early for a score; the first one with a score comes remaining samples later.
func (q *taskQueue) WarmUp(k *Key, d *series.SetDetector, time, offset int64, remaining int32) {
	q.pending = append(q.pending, pendingTask{Key: k, Detector: d, Turn: *q.turn, Index: taskWarmingUp, place: uint32(len(q.copies.warm))})
	q.copies.warm = append(q.copies.warm, warmRow{time, offset, remaining})
}

// Pack packs the task that the newest row of the i-th window, with offset and imputed bit in
// word, has made due for the detector d of that window.
func (q *taskQueue) Pack(k *Key, i int, d *series.SetDetector, word uint64, b *detectors.Batch) {
	w, m, p := &k.Windows[i], &k.Progress[d.Place], &q.packer.detectors[d.Index]
	rows, size := min(w.Rows, d.Full), d.Size
	if rows != d.Full {
		size, _ = d.Detector.Size(detectors.View{Dim: d.Width, Rows: int(rows), Fresh: int(d.Fresh)})
	}
	var before *pendingTask
	if p.linked {
		before = q.link(k, d, m)
	}
	if p.sparing != nil {
		turn := detectors.Position{Count: w.Count, Fresh: int(d.Fresh), Carried: before != nil || len(m.Carry) > 0}
		if d.Width > d.Dim {
			turn.Before, turn.Newest = w.Time(d.Fresh), w.Time(0)
		}
		rows = min(rows, int32(p.sparing.Reads(turn)))
	}
	var params detectors.Span
	if p.direct == nil {
		params = q.packer.params(p, b)
	} else {
		params = b.Put(p.Params)
	}
	b.Tasks = append(b.Tasks, detectors.Task{})
	t := &b.Tasks[len(b.Tasks)-1]
	t.Op, t.Dim, t.Fresh, t.Params = d.Op, uint32(d.Width), uint32(d.Fresh), params
	room := q.packer.packRows(t, w, p, m, before, rows, b)
	if d.Summary != nil {
		q.packer.packSummary(t, p, k.Summary(d.Place), b)
	}
	if p.inPlace {
		size.Carry = 0
	} else if d.Most.Carry > 0 {
		if before != nil {
			t.After = uint32(before.Index) + 1
		} else if len(m.Carry) > 0 {
			t.Carry = b.Put(m.Carry)
		}
	}
	if t.Scores = b.GrowOut(size.Scores); size.Carry|size.Detail != 0 {
		b.GrowMore(t, size)
	}
	q.pending = append(q.pending, pendingTask{})
	e := &q.pending[len(q.pending)-1]
	e.Key, e.Detector, e.Turn, e.Index = k, d, *q.turn, int32(len(b.Tasks))-1
	e.Steady, e.Valued, e.room = d.Steady && size.Scores == d.Scores(), d.Valued, room
	if e.Steady {
		e.spans = q.gaps.mark(w, d)
	}
	q.copies.add(e, i, word, rows, &q.packer)
}

// link notes the task that is packed next as the series' last one of the detector, and returns the one before it, if that waits for its
// scores.
func (q *taskQueue) link(k *Key, d *series.SetDetector, m *series.Progress) (before *pendingTask) {
	before = q.last(k, d, m)
	m.Packed.Last = q.numbered + uint32(len(q.pending)) + 1
	if before == nil {
		m.Packed.Before, m.Packed.Tasks = m.Packed.Tasks, 1
	} else if m.Packed.Tasks < math.MaxUint16 {
		m.Packed.Tasks++
	}
	return before
}

// last returns the series' last task of the detector that waits for its scores, nil without
// one. Task numbers go on from batch to batch, so that a series' progress need not change
// when its task is applied or dropped.
func (q *taskQueue) last(k *Key, d *series.SetDetector, m *series.Progress) *pendingTask {
	if i := m.Packed.Last - q.numbered - 1; i < uint32(len(q.pending)) {
		if p := &q.pending[i]; p.Key == k && p.Detector == d {
			return p
		}
	}
	return nil
}

// Last reports whether the i-th entry is the last task of its series and detector; m is
// that progress. The detector must have a carry.
func (q *taskQueue) Last(i int, m *series.Progress) bool {
	return m.Packed.Last == q.numbered+uint32(i)+1
}

// Drop empties the queue.
func (q *taskQueue) Drop() {
	q.numbered += uint32(len(q.pending))
	q.pending, q.gaps.left = q.pending[:0], q.gaps.left[:0]
	q.copies.reset()
	clear(q.deferred)
	q.deferred = q.deferred[:0]
	q.packer.batch = nil
	q.direct.Reset()
}

// Remaining returns how many samples, at the least, come after the i-th fresh row of a steady task of a Learner, which has no
// score, until the first that has one.
func (t *pendingTask) Remaining(b *detectors.Batch, scores []float32, i int) int32 {
	for j, s := range scores[i+1:] {
		if s == s {
			return int32(j) + 1
		}
	}
	left := t.left
	if next := b.Tasks[t.Index].Next; next.Len > 0 {
		left = int32(t.Detector.Learner.Left(b.Out[next.Off:][:next.Len]))
	}
	return left + int32(len(scores)-i)
}
