package keystate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/events"
)

// mark is one detector's place in one key's window, and its carry.
type mark struct {
	carry detectors.Words
	unit  uint32 // the lower half of the undo unit that has a copy of carry
	n     int32  // fresh rows so far
	last  uint32 // number of the key's last task, see lastTask
	// Tasks in the last batch that had any, so far, and in the one before: what room is
	// left behind X goes by, and no bit of a result.
	now, before uint16
	slot        *detectors.SlotRef // of the window in the executor's cache; nil: none
}

// pending is a task whose scores are not there yet, or what has to wait behind
// one. What it says of samples is in State.ptimes from at on: times, the words of the
// fresh rows and, for a detector that explains, the columns' centers and the fresh
// rows' values; or time and offset of the end. The times are those of X, or of a steady detector only those
// that its rows speak of (spoken).
type pending struct {
	key    *Key
	det    *shapeDet
	task   int32 // in the batch, or one of the below
	times  int32 // how many times are kept
	at     uint32
	reason events.Reason // of an end
	steady bool
	room   uint16 // how many more tasks' rows fit behind X
}

const (
	pendingRow   = -1 - iota // a warming-up row
	pendingEnd               // the key's anomalies are closed
	pendingEvent             // State.later[at]
	pendingRule              // State.rulings[at] takes effect
)

// warm makes the row of a sample that comes too early for a score.
func (s *State) warm(k *Key, d *shapeDet, time, offset int64) {
	if s.replaying {
		return
	}
	if len(s.pend) > 0 {
		s.pend = append(s.pend, pending{key: k, det: d, task: pendingRow, at: uint32(len(s.ptimes))})
		s.ptimes = append(s.ptimes, uint64(time), uint64(offset)<<1)
		return
	}
	s.Rows = append(s.Rows, warmRow(k, d, time, offset))
}

func warmRow(k *Key, d *shapeDet, time, offset int64) Row {
	return Row{Key: k, Detector: d.index, State: RowWarmingUp, Score: nan, Threshold: nan, Offset: offset, Time: time,
		About: time, Until: time}
}

var nan = float32(math.NaN())

// pack makes the task that the newest row, with offset and imputed bit in word,
// has made due.
func (s *State) pack(k *Key, sw *shapeWin, w *win, d *shapeDet, m *mark, word uint64, b *detectors.Batch) {
	rows, size := min(w.rows, d.full), d.size
	if rows != d.full {
		size, _ = d.Detector.Size(detectors.View{Dim: d.dim, Rows: int(rows), Fresh: int(d.stride)})
	}
	if d.summary != nil {
		s.summarise(k, w, d)
	}
	if s.replaying && !d.replays {
		return // nothing would remember it
	}
	var before *pending
	room := uint16(0)
	if d.linked {
		before = s.lastTask(k, d, m)
		m.last = s.numbered + uint32(len(s.pend)) + 1
		if before == nil {
			m.before, m.now = m.now, 1
		} else if m.now < math.MaxUint16 {
			m.now++
		}
	}
	params := s.params(d.detector, b)
	b.Tasks = append(b.Tasks, detectors.Task{})
	t := &b.Tasks[len(b.Tasks)-1]
	t.Op, t.Dim, t.Fresh, t.Params = d.op, uint32(d.dim), uint32(d.stride), params
	s.centers = s.centers[:0]
	switch d.elem {
	case detectors.F32:
		if d.pool != nil && s.packCached(t, w, d, m, b) {
			break
		}
		if !d.shares && d.dim == 1 {
			s.packOne(t, w, d, rows, b)
			break
		}
		room = s.packX(t, w, d, m, before, rows, b)
	case detectors.F64:
		room = s.packWide(t, w, d, m, before, rows, b)
	case detectors.I64:
		var dst []int64
		x, y := w.values(d.dim, rows)
		t.X, dst = b.GrowI64(len(x) + len(y))
		for i, v := range x {
			dst[i] = detectors.Count(math.Float64frombits(v))
		}
		for i, v := range y {
			dst[len(x)+i] = detectors.Count(math.Float64frombits(v))
		}
	}
	if d.summary != nil {
		s.packSummary(t, d, k.summary(d.mark), b)
	}
	if d.most.Carry > 0 {
		if before != nil {
			t.After = uint32(before.task) + 1
		} else if len(m.carry) > 0 {
			t.Carry = b.Put(m.carry)
		}
	}
	if t.Scores = b.GrowOut(size.Scores); size.Carry|size.Detail != 0 {
		b.GrowMore(t, size)
	}
	// The ring moves on before the scores are there, so times are copied now.
	s.pend = append(s.pend, pending{})
	p := &s.pend[len(s.pend)-1]
	p.key, p.det, p.task, p.steady, p.at = k, d, int32(len(b.Tasks))-1, d.steady && size.Scores == int(d.stride), uint32(len(s.ptimes))
	p.room = room
	switch {
	case !p.steady:
		s.keepTimes(w, rows, 0)
	case d.stride == 1 && d.from == 0:
		s.ptimes = append(s.ptimes, uint64(k.lastTime))
	default:
		s.keepTimes(w, d.stride, 0)
		if d.from > 0 {
			s.keepTimes(w, d.stride, int32(d.from))
			s.keepTimes(w, d.stride, int32(d.to))
		}
	}
	p.times = int32(len(s.ptimes)) - int32(p.at)
	if m.n > 0 {
		s.ptimes = append(s.ptimes, w.fresh(sw, d)[:m.n]...)
	}
	s.ptimes = append(s.ptimes, word)
	if d.valued {
		s.keepValues(w, d)
	}
}

// lastTask is the key's last task of the detector that waits for its scores, nil for
// none. Those that wait are numbered on from batch to batch, so that a mark need not be
// told when its task has been applied or dropped.
func (s *State) lastTask(k *Key, d *shapeDet, m *mark) *pending {
	if i := m.last - s.numbered - 1; i < uint32(len(s.pend)) {
		if p := &s.pend[i]; p.key == k && p.det == d {
			return p
		}
	}
	return nil
}

// packX packs the rows of a task. Consecutive tasks of full windows that have the same
// centers share them if the windows are long (shares): the first leaves room for the rows of those that are likely to
// come in this batch; each of these puts its newest rows there, and its X begins and
// ends as many rows later. Its bits are those that it has alone. room is how many more
// may follow.
func (s *State) packX(t *detectors.Task, w *win, d *shapeDet, m *mark, before *pending, rows int32, b *detectors.Batch) (room uint16) {
	x, y := w.values(d.dim, rows)
	common := s.center(x, y, d, rows, w.count)
	if before != nil && before.room > 0 {
		shared, more := b.Tasks[before.task].X, uint32(d.stride)*uint32(d.dim)
		t.X = detectors.Span{Off: shared.Off + more, Len: shared.Len}
		x, y = w.values(d.dim, d.stride)
		detectors.Pack(b.In[shared.Off+shared.Len:][:more].F32(), x, y, s.centers)
		return before.room - 1
	}
	if common && d.shares {
		room = d.followers(m, w.count)
	}
	var dst []float32
	n := len(x) + len(y)
	spare := int(room) * int(d.stride) * d.dim
	if o := len(b.In); o+n+spare <= cap(b.In) { // GrowF32 as far as it can be inlined
		b.In = b.In[:o+n+spare]
		t.X, dst = detectors.Span{Off: uint32(o)}, b.In[o:].F32()
	} else {
		t.X, dst = b.GrowF32(n + spare)
	}
	t.X.Len = uint32(n)
	detectors.Pack(dst, x, y, s.centers)
	return room
}

// packWide is packX for rows of float64, which are as they came: all tasks of full
// windows could share them, and as many do as share a center elsewhere.
func (s *State) packWide(t *detectors.Task, w *win, d *shapeDet, m *mark, before *pending, rows int32, b *detectors.Batch) (room uint16) {
	if before != nil && before.room > 0 {
		shared, more := b.Tasks[before.task].X, uint32(d.stride)*uint32(d.dim)
		t.X = detectors.Span{Off: shared.Off + more, Len: shared.Len}
		x, y := w.values(d.dim, d.stride)
		floats(b.In[2*(shared.Off+shared.Len):][:2*more].F64(), x, y)
		return before.room - 1
	}
	if rows == d.full && d.shares {
		room = d.followers(m, w.count)
	}
	x, y := w.values(d.dim, rows)
	n := len(x) + len(y)
	var dst []float64
	t.X, dst = b.GrowF64(n + int(room)*int(d.stride)*d.dim)
	t.X.Len = uint32(n)
	floats(dst, x, y)
	return room
}

// floats sets dst to x and then y, floats by their bits.
func floats(dst []float64, x, y []uint64) {
	for i, v := range x {
		dst[i] = math.Float64frombits(v)
	}
	for i, v := range y {
		dst[len(x)+i] = math.Float64frombits(v)
	}
}

// packOne is packX for rows of one value that tasks do not share.
func (s *State) packOne(t *detectors.Task, w *win, d *shapeDet, rows int32, b *detectors.Batch) {
	x, y := w.values(1, rows)
	n := len(x) + len(y)
	var dst []float32
	if o := len(b.In); o+n <= cap(b.In) { // GrowF32 as far as it can be inlined
		b.In = b.In[:o+n]
		t.X, dst = detectors.Span{Off: uint32(o), Len: uint32(n)}, b.In[o:].F32()
	} else {
		t.X, dst = b.GrowF32(n)
	}
	var center float64
	ok := false
	if rows == d.full {
		from, of := detectors.CenterRowsIn(int(d.block), n, w.count)
		center, ok = detectors.PackOne(dst, x, y, from, of)
	}
	if !ok {
		center, _ = detectors.PackOne(dst, x, y, 0, n)
	}
	s.centers = append(s.centers, center)
}

// followers is for how many tasks to leave room behind one whose newest row is the
// count-th of the key: as many as are missing to those that the batch before had, or
// once more as many as there are; no more than have the same centers.
func (d *shapeDet) followers(m *mark, count int64) uint16 {
	more := m.now
	if m.before > m.now {
		more = m.before - m.now
	} else if m.now == 1 {
		return 0
	}
	block := int64(d.block)
	return min(more, uint16((block-1-count&(block-1))/int64(d.stride)))
}

// center makes s.centers those of a task's columns: of a full window, those of its block
// of rows (detectors.CenterRows), whose newest is the count-th of the key; of another,
// or where a column has no value in the block, those of all its rows. It reports whether
// they are the block's.
func (s *State) center(x, y []uint64, d *shapeDet, rows int32, count int64) bool {
	if rows == d.full {
		var ok bool
		from, n := detectors.CenterRowsIn(int(d.block), int(rows), count)
		if s.centers, ok = detectors.Centers(s.centers[:0], x, y, d.dim, from, n); ok {
			return true
		}
	}
	s.centers, _ = detectors.Centers(s.centers[:0], x, y, d.dim, 0, int(rows))
	return false
}

// keepTimes keeps the times of so many rows, the last of which is skip rows before
// the newest.
func (s *State) keepTimes(w *win, rows, skip int32) {
	x, y := w.times(rows, skip)
	s.ptimes = append(append(s.ptimes, x...), y...)
}

// spoken are the times that the rows of a steady detector's task are of, begin at
// and end at, of those that pack has kept.
func (d *shapeDet) spoken(times []uint64) (fresh, about, until []uint64) {
	n := d.stride
	if d.from == 0 {
		return times, times, times
	}
	return times[:n], times[n : 2*n], times[2*n:]
}

// keepValues puts what Apply needs to say what was expected and what was measured
// behind the times: the centers of X's columns, 0 where they have none, and the fresh
// rows.
func (s *State) keepValues(w *win, d *shapeDet) {
	for c := range d.dim {
		center := 0.0
		if len(s.centers) > 0 {
			center = s.centers[c]
		}
		s.ptimes = append(s.ptimes, math.Float64bits(center))
	}
	x, y := w.values(d.dim, d.stride)
	s.ptimes = append(append(s.ptimes, x...), y...)
}

// params is where the detector's parameters are in the batch; they are put
// there once between two Resets.
func (s *State) params(d *detector, b *detectors.Batch) detectors.Span {
	if s.batch != b || s.serial != b.Serial() {
		s.unplace(b)
	}
	if d.placed {
		return d.span
	}
	return s.place(d, b)
}

func (s *State) unplace(b *detectors.Batch) {
	s.batch, s.serial = b, b.Serial()
	for _, d := range s.dets {
		d.placed = false
	}
}

func (s *State) place(d *detector, b *detectors.Batch) detectors.Span {
	d.span = b.Put(d.params)
	d.placed = true
	return d.span
}

// Apply takes what the execution of b gave: scores go to Rows, in the order of
// the samples, and carries to their keys. The caller resets b afterwards. Tasks
// of other States in b are left alone.
func (s *State) Apply(b *detectors.Batch) {
	for i := range s.pend {
		p := &s.pend[i]
		if p.task < 0 {
			s.applyOther(p)
			continue
		}
		if p.det.most.Carry > 0 {
			if m := &p.key.marks[p.det.mark]; m.last == s.numbered+uint32(i)+1 {
				if !p.key.dead {
					next := b.Tasks[p.task].Next
					s.setCarry(p.key, p.det, m, b.Out[next.Off:next.Off+next.Len])
				}
			}
		}
		if p.det.judged {
			s.judgeRows(p, b)
		} else if !s.replaying {
			s.addRows(p, b)
		}
		if s.cfg.Blocks && p.det.blocker != nil && !s.replaying {
			s.addBlock(p, b)
		}
	}
	s.dropPending()
}

// applyOther does what had to wait for the tasks before it.
func (s *State) applyOther(p *pending) {
	switch p.task {
	case pendingRow:
		s.Rows = append(s.Rows, warmRow(p.key, p.det, int64(s.ptimes[p.at]), int64(s.ptimes[p.at+1]>>1)))
	case pendingEnd:
		s.endAlerts(p.key, p.reason, int64(s.ptimes[p.at]), int64(s.ptimes[p.at+1]))
	case pendingEvent:
		s.addEvent(&s.later[p.at])
	case pendingRule:
		r := &s.rulings[p.at]
		r.det.rule = r.rule
	}
}

func (s *State) dropPending() {
	s.numbered += uint32(len(s.pend))
	s.pend, s.ptimes, s.cached = s.pend[:0], s.ptimes[:0], s.cached[:0]
	clear(s.later)
	s.later, s.rulings = s.later[:0], s.rulings[:0]
	s.batch = nil
}

// setCarry takes over the carry that a key's last task left.
func (s *State) setCarry(k *Key, d *shapeDet, m *mark, next detectors.Words) {
	if m.unit != uint32(s.journal.unit) {
		m.unit = uint32(s.journal.unit)
		if !s.replaying {
			s.journal.cur.saveCarry(k, d.mark, m.carry)
		}
	}
	if len(next) > cap(m.carry) {
		s.bytes += 4 * int64(len(next)-cap(m.carry))
		m.carry = make(detectors.Words, len(next))
	}
	m.carry = m.carry[:len(next)]
	copy(m.carry, next)
}

// addRows makes the rows of a task: one for each fresh sample, without a score where
// nothing was found.
func (s *State) addRows(p *pending, b *detectors.Batch) {
	d := p.det
	t := &b.Tasks[p.task]
	end := int(p.at) + int(p.times)
	times, words := s.ptimes[p.at:end], s.ptimes[end:][:d.stride]
	if p.steady {
		fresh, about, until := d.spoken(times)
		scores := b.Out[t.Scores.Off:][:len(words)].F32()
		for i, word := range words {
			s.Rows = append(s.Rows, Row{})
			r := &s.Rows[len(s.Rows)-1]
			r.Key, r.Detector, r.State = p.key, d.index, RowState(word&1)*RowImputed
			r.Score, r.Threshold = scores[i], nan
			r.Offset, r.Time = int64(word>>1), int64(fresh[i])
			r.About, r.Until = int64(about[i]), int64(until[i])
		}
		return
	}
	fresh := times[len(times)-len(words):]
	s.finds = d.Detector.AppendFindings(s.finds[:0], b.Rows(int(p.task)))
	finds := highest(s.finds)
	for i, word := range words {
		r := Row{
			Key: p.key, Detector: d.index, State: RowState(word&1) * RowImputed, Score: nan, Threshold: nan,
			Offset: int64(word >> 1), Time: int64(fresh[i]), About: int64(fresh[i]), Until: int64(fresh[i]),
		}
		if len(finds) > 0 && finds[0].Fresh == i {
			r.speak(&finds[0], times)
			finds = finds[1:]
		}
		s.Rows = append(s.Rows, r)
	}
}

// speak takes the score of a finding and the times it speaks of.
func (r *Row) speak(f *detectors.Finding, times []uint64) {
	r.Score, r.About, r.Until = float32(f.Score), int64(times[f.From]), int64(times[f.To])
}

// addBlock hands out the block of a task, if its detector made one.
func (s *State) addBlock(p *pending, b *detectors.Batch) {
	media, data := p.det.blocker.Block(b.Rows(int(p.task)))
	if data == nil {
		return
	}
	if len(data) > detectors.MaxBlock {
		panic(fmt.Sprintf("keystate: detector %s made a block of %d bytes, more than %d", p.det.Name, len(data), detectors.MaxBlock))
	}
	end := int(p.at) + int(p.times)
	times, words := s.ptimes[p.at:end], s.ptimes[end:][:p.det.stride]
	s.Blocks = append(s.Blocks, BlockRow{
		Key: p.key, Detector: p.det.index, Offset: int64(words[len(words)-1] >> 1),
		About: int64(times[0]), Until: int64(times[len(times)-1]), MediaType: media, Data: data,
	})
}

// Steady is what a detector may say about its findings: there is one for each
// fresh row, in order, with the row's score, about the rows from `from` to `to`
// before it, counted within the task's X. AppendFindings is then not called,
// and the times of older rows are not kept for it.
type Steady interface {
	Reach() (from, to int)
}

// highest keeps one finding of each fresh row, in their order: that with the highest
// score, the first of equal ones. Consumers know a score by its sample and its detector,
// so a sample has one score of a detector, however many lengths or ranks the method has.
func highest(f []detectors.Finding) []detectors.Finding {
	slices.SortStableFunc(f, func(a, b detectors.Finding) int {
		return cmp.Or(cmp.Compare(a.Fresh, b.Fresh), cmp.Compare(b.Score, a.Score))
	})
	return slices.CompactFunc(f, func(a, b detectors.Finding) bool { return a.Fresh == b.Fresh })
}
