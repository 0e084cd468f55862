package state

import (
	"math"
	"slices"

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
// copies.words has from at on: times, the words of the fresh rows and, for a detector that
// explains or has a guard, the columns' centers, and values and times of the fresh rows and of rows before that a score covers; of a
// warming-up row what WarmedUp returns. The first times are the times of X, or of a steady task only the ones that its scores are
// about (rowTimes).
type pendingTask struct {
	Key      *Key
	Detector *series.SetDetector
	Turn     int64 // the offset in whose turn it was added
	Index    int32 // in the batch, or one of the below
	times    int32 // number of times in words
	copied   int32 // number of rows whose values are in words, if it is Valued
	at       uint32
	Steady   bool   // it has a score for each fresh row, or for those that Setup.Scored names, in order
	Valued   bool   // it has the values: of a detector that explains, or has a guard
	Direct   bool   // it is in the queue's own batch, and has its scores
	InSeason bool   // of a task in place, of a detectors.Seasonal: it has left a season in use
	left     int32  // of a task in place, of a detectors.Learner: what Left says of the carry that it has left
	room     uint16 // number of tasks whose rows still fit behind X
	spans    uint32 // see spans.mark
}

// Values of pendingTask.Index that are no task of the batch.
const (
	taskWarmingUp = -1 - iota // a row without a score
	taskDeferred              // a function to be called
)

// maxPending bounds the memory of tasks that wait for their scores, in words.
const maxPending = 1 << 18

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
		len(q.pending) < maxPending/8 && len(q.copies.words) < maxPending && len(q.direct.In) < mostDirect && len(q.direct.Out) < mostDirect &&
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
	q.pending = append(q.pending, pendingTask{Index: taskDeferred, Turn: *q.turn, at: uint32(len(q.deferred))})
	q.deferred = append(q.deferred, do)
}

// Do calls the function of a taskDeferred entry.
func (q *taskQueue) Do(t *pendingTask) { q.deferred[t.at]() }

// WarmUp adds a sample that comes too early for a score; the first one with a score comes remaining samples later.
func (q *taskQueue) WarmUp(k *Key, d *series.SetDetector, time, offset int64, remaining int32) {
	q.pending = append(q.pending, pendingTask{Key: k, Detector: d, Turn: *q.turn, Index: taskWarmingUp, at: uint32(len(q.copies.words))})
	q.copies.words = append(q.copies.words, uint64(time), uint64(offset), uint64(remaining))
}

// Pack packs the task that the newest row of the i-th window, with offset and imputed bit in
// word, has made due for the detector d of that window.
func (q *taskQueue) Pack(
	k *Key, i int, d *series.SetDetector, word uint64, b *detectors.Batch,
) {
	w, m, p := &k.Windows[i], &k.Progress[d.Place], &q.packer.detectors[d.Index]
	rows, size := min(w.Rows, d.Full), d.Size
	if rows != d.Full {
		size, _ = d.Detector.Size(detectors.View{Dim: d.Width, Rows: int(rows), Fresh: int(d.Fresh)})
	}
	var before *pendingTask
	room := uint16(0)
	if p.linked {
		before = q.last(k, d, m)
		m.Packed.Last = q.numbered + uint32(len(q.pending)) + 1
		if before == nil {
			m.Packed.Before, m.Packed.Tasks = m.Packed.Tasks, 1
		} else if m.Packed.Tasks < math.MaxUint16 {
			m.Packed.Tasks++
		}
	}
	if p.sparing != nil {
		turn := detectors.Position{Count: w.Count, Fresh: int(d.Fresh), Carried: before != nil || len(m.Carry) > 0}
		if d.Width > d.Dim {
			turn.Before, turn.Newest = int64(w.Time(d.Fresh)), int64(w.Time(0))
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
	q.packer.centers = q.packer.centers[:0]
	windowStart := int64(0) // of a grid's window
	switch d.Elem {
	case detectors.F32:
		if p.model != nil {
			t.Model = b.Model(p.model)
		}
		if p.model == nil && !p.shares && d.Dim == 1 && d.Wide == detectors.NotWide {
			q.packer.packOne(t, w, p, rows, b)
			break
		}
		room = q.packer.packX(t, w, p, m, before, rows, b)
	case detectors.F64:
		if d.Width > d.Dim {
			packTimed(t, w, p, rows, b)
			break
		}
		room = q.packer.packWide(t, w, p, m, before, rows, b)
	case detectors.I64:
		if d.Grid == nil {
			packCounts(t, w, p, rows, b)
		} else {
			windowStart = q.packer.packGrid(t, w, d.Grid, b)
		}
	}
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
	e.Steady, e.at, e.room = d.Steady && size.Scores == d.Scores(), uint32(len(q.copies.words)), room
	switch {
	case d.Grid != nil:
		q.copies.words = append(q.copies.words, slices.Repeat([]uint64{uint64(windowStart)}, int(rows))...)
	case !e.Steady:
		q.copies.addTimes(w, rows, 0)
	case d.Fresh == 1 && d.From == 0:
		q.copies.words = append(q.copies.words, uint64(k.LastTime))
	case d.Fresh == 1:
		q.copies.words = append(q.copies.words, uint64(k.LastTime), w.Time(int32(d.From)), w.Time(int32(d.To)))
	default:
		q.copies.addTimes(w, d.Fresh, 0)
		if d.From > 0 {
			q.copies.addTimes(w, d.Fresh, int32(d.From))
			q.copies.addTimes(w, d.Fresh, int32(d.To))
		}
	}
	e.times = int32(len(q.copies.words)) - int32(e.at)
	if e.Steady {
		e.spans = q.gaps.mark(w, d)
	}
	if m.Fresh > 0 {
		q.copies.words = append(q.copies.words, w.Fresh(&k.Set.Windows[i], d)[:m.Fresh]...)
	}
	q.copies.words = append(q.copies.words, word)
	if e.Valued = d.Valued; d.Valued {
		switch e.copied = d.Fresh; {
		case d.Explain == nil && d.Locate == nil:
		case e.Steady:
			e.copied = min(w.Rows, d.Fresh+int32(d.From))
		default:
			e.copied = min(w.Rows, d.Full)
		}
		q.copies.addValues(w, d, e.copied, q.packer.centers, q.packer.scales)
	}
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
	q.pending, q.copies.words, q.gaps.left = q.pending[:0], q.copies.words[:0], q.gaps.left[:0]
	clear(q.deferred)
	q.deferred = q.deferred[:0]
	q.packer.batch = nil
	q.direct.Reset()
}

// copies holds the rows that are copied from windows when tasks are packed, because the rings are
// overwritten before the scores come.
type copies struct {
	words []uint64 // see pendingTask
}

// addTimes copies the times of the given number of rows, the last of which is skip rows
// before the newest.
func (c *copies) addTimes(w *series.Window, rows, skip int32) {
	x, y := w.Times(rows, skip)
	c.words = append(append(c.words, x...), y...)
}

// addValues copies what explains a finding: the centers of X's columns, 0 where they have
// none, the values of the newest rows, of a detector with Scale the columns' scales, and the rows' times.
func (c *copies) addValues(w *series.Window, d *series.SetDetector, rows int32, centers, scales []float64) {
	for i := range d.Dim {
		center := 0.0
		if len(centers) > 0 {
			center = centers[i]
		}
		c.words = append(c.words, math.Float64bits(center))
	}
	x, y := w.Values(d.Dim, rows)
	c.words = append(append(c.words, x...), y...)
	if d.Scale {
		for _, s := range scales {
			c.words = append(c.words, math.Float64bits(s))
		}
	}
	if d.Grid == nil {
		c.addTimes(w, rows, 0)
	}
}

// Times returns the times of a task, and the words of its fresh rows: twice the offset,
// plus 1 if a value was imputed.
func (c *copies) Times(t *pendingTask) (times, words []uint64) {
	end := int(t.at) + int(t.times)
	return c.words[t.at:end], c.words[end:][:t.Detector.Fresh]
}

// Values returns the bits of the centers of X's columns, and of the values of the i-th fresh
// row, of a task that is Valued.
func (c *copies) Values(t *pendingTask, i int) (centers, row []uint64) {
	d := t.Detector
	values := c.values(t)
	return values[:d.Dim], values[(1+int(t.copied-d.Fresh)+i)*d.Dim:][:d.Dim]
}

// Row returns the time and the bits of the values of the row of such a task that is the given number of rows before the newest,
// or of the oldest that the queue has; not of a grid's.
func (c *copies) Row(t *pendingTask, back int) (time int64, row []uint64) {
	d := t.Detector
	values, i := c.values(t), int(t.copied)-1-min(back, int(t.copied)-1)
	times := values[(1+int(t.copied))*d.Dim:]
	if d.Scale {
		times = times[d.Dim:]
	}
	return int64(times[i]), values[(1+i)*d.Dim:][:d.Dim]
}

// Since returns how many rows before the newest the first of them is that is not before a time.
func (c *copies) Since(t *pendingTask, time int64) (back int) {
	for back = int(t.copied) - 1; back > 0; back-- {
		if at, _ := c.Row(t, back); at >= time {
			break
		}
	}
	return back
}

func (c *copies) values(t *pendingTask) []uint64 {
	return c.words[int(t.at)+int(t.times)+int(t.Detector.Fresh):]
}

// Scale returns the scale of a column of X of such a task; 1 without Scale.
func (c *copies) Scale(t *pendingTask, column int) float64 {
	d := t.Detector
	if !d.Scale {
		return 1
	}
	return math.Float64frombits(c.values(t)[(1+int(t.copied))*d.Dim+column])
}

// WarmedUp returns time and offset of a WarmingUp entry, and how many samples remain until the first with a score.
func (c *copies) WarmedUp(t *pendingTask) (time, offset int64, remaining int32) {
	return int64(c.words[t.at]), int64(c.words[t.at+1]), int32(c.words[t.at+2])
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

// rowTimes splits the times that copies has of a steady task (detectors.Steady: one score for each fresh row) into the
// times of its fresh rows, and of the first and the last sample that each row's score is about.
func rowTimes(d *series.SetDetector, times []uint64) (fresh, about, until []uint64) {
	n := d.Fresh
	if d.From == 0 {
		return times, times, times
	}
	return times[:n], times[n : 2*n], times[2*n:]
}
