package keystate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"odradek/detectors"
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

// warm makes the row of a sample that comes too early for a score.
func (s *State) warm(k *Key, d *keyDetector, time, offset int64) {
	if s.restore.replaying {
		return
	}
	if len(s.tasks.pend) > 0 {
		s.tasks.pend = append(s.tasks.pend, pending{key: k, det: d, task: pendingRow, at: uint32(len(s.tasks.ptimes))})
		s.tasks.ptimes = append(s.tasks.ptimes, uint64(time), uint64(offset)<<1)
		return
	}
	s.Rows = append(s.Rows, warmRow(k, d, time, offset))
}

func warmRow(k *Key, d *keyDetector, time, offset int64) Row {
	return Row{Key: k, Detector: d.index, State: RowWarmingUp, Score: nan, Threshold: nan, Offset: offset, Time: time,
		About: time, Until: time}
}

var nan = float32(math.NaN())

// pack makes the task that the newest row, with offset and imputed bit in word,
// has made due.
func (s *State) pack(k *Key, sw *keyWindow, w *win, d *keyDetector, m *mark, word uint64, b *detectors.Batch) {
	rows, size := min(w.rows, d.full), d.size
	if rows != d.full {
		size, _ = d.Detector.Size(detectors.View{Dim: d.dim, Rows: int(rows), Fresh: int(d.stride)})
	}
	if d.summary != nil {
		s.summarise(k, w, d)
	}
	if s.restore.replaying && !d.replays {
		return // nothing would remember it
	}
	var before *pending
	room := uint16(0)
	if d.linked {
		before = s.tasks.last(k, d, m)
		m.last = s.tasks.numbered + uint32(len(s.tasks.pend)) + 1
		if before == nil {
			m.before, m.now = m.now, 1
		} else if m.now < math.MaxUint16 {
			m.now++
		}
	}
	params := s.tasks.params(d.detector, b)
	b.Tasks = append(b.Tasks, detectors.Task{})
	t := &b.Tasks[len(b.Tasks)-1]
	t.Op, t.Dim, t.Fresh, t.Params = d.op, uint32(d.dim), uint32(d.stride), params
	s.tasks.centers = s.tasks.centers[:0]
	switch d.elem {
	case detectors.F32:
		if d.pool != nil && s.packCached(t, w, d, m, b) {
			break
		}
		if !d.shares && d.dim == 1 {
			s.tasks.packOne(t, w, d, rows, b)
			break
		}
		room = s.tasks.packX(t, w, d, m, before, rows, b)
	case detectors.F64:
		room = s.tasks.packWide(t, w, d, m, before, rows, b)
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
		s.tasks.packSummary(t, d, k.summary(d.mark), b)
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
	s.tasks.pend = append(s.tasks.pend, pending{})
	p := &s.tasks.pend[len(s.tasks.pend)-1]
	p.key, p.det, p.task, p.steady, p.at = k, d, int32(len(b.Tasks))-1, d.steady && size.Scores == int(d.stride), uint32(len(s.tasks.ptimes))
	p.room = room
	switch {
	case !p.steady:
		s.tasks.copyTimes(w, rows, 0)
	case d.stride == 1 && d.from == 0:
		s.tasks.ptimes = append(s.tasks.ptimes, uint64(k.lastTime))
	default:
		s.tasks.copyTimes(w, d.stride, 0)
		if d.from > 0 {
			s.tasks.copyTimes(w, d.stride, int32(d.from))
			s.tasks.copyTimes(w, d.stride, int32(d.to))
		}
	}
	p.times = int32(len(s.tasks.ptimes)) - int32(p.at)
	if m.n > 0 {
		s.tasks.ptimes = append(s.tasks.ptimes, w.fresh(sw, d)[:m.n]...)
	}
	s.tasks.ptimes = append(s.tasks.ptimes, word)
	if d.valued {
		s.tasks.copyValues(w, d)
	}
}

// rowTimes splits the times that pack has kept of a steady detector's task into those of
// its fresh rows, and of the first and the last sample that each row's score is about.
func (d *keyDetector) rowTimes(times []uint64) (fresh, about, until []uint64) {
	n := d.stride
	if d.from == 0 {
		return times, times, times
	}
	return times[:n], times[n : 2*n], times[2*n:]
}

// Apply takes the results of b after its execution: scores go to Rows, in the order of
// the samples, and carries to their keys. The caller resets b afterwards. Apply ignores
// tasks of other States in b.
func (s *State) Apply(b *detectors.Batch) {
	for i := range s.tasks.pend {
		p := &s.tasks.pend[i]
		if p.task < 0 {
			s.applyOther(p)
			continue
		}
		if p.det.most.Carry > 0 {
			if m := &p.key.marks[p.det.mark]; m.last == s.tasks.numbered+uint32(i)+1 {
				if !p.key.dead {
					next := b.Tasks[p.task].Next
					s.setCarry(p.key, p.det, m, b.Out[next.Off:next.Off+next.Len])
				}
			}
		}
		if p.det.judged {
			s.judgeRows(p, b)
		} else if !s.restore.replaying {
			s.addRows(p, b)
		}
		if s.cfg.Blocks && p.det.blocker != nil && !s.restore.replaying {
			s.addBlock(p, b)
		}
	}
	s.tasks.drop()
}

// applyOther does what had to wait for the tasks before it.
func (s *State) applyOther(p *pending) {
	switch p.task {
	case pendingRow:
		s.Rows = append(s.Rows, warmRow(p.key, p.det, int64(s.tasks.ptimes[p.at]), int64(s.tasks.ptimes[p.at+1]>>1)))
	case pendingEnd:
		s.endAlerts(p.key, p.reason, int64(s.tasks.ptimes[p.at]), int64(s.tasks.ptimes[p.at+1]))
	case pendingEvent:
		s.addEvent(&s.tasks.later[p.at])
	case pendingRule:
		r := &s.tasks.rulings[p.at]
		r.det.rule = r.rule
	}
}

// setCarry sets a key's carry to that of its last task.
func (s *State) setCarry(k *Key, d *keyDetector, m *mark, next detectors.Words) {
	if m.unit != uint32(s.journal.unit) {
		m.unit = uint32(s.journal.unit)
		if !s.restore.replaying {
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
	times, words := s.tasks.ptimes[p.at:end], s.tasks.ptimes[end:][:d.stride]
	if p.steady {
		fresh, about, until := d.rowTimes(times)
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
	s.tasks.finds = d.Detector.AppendFindings(s.tasks.finds[:0], b.Rows(int(p.task)))
	finds := highest(s.tasks.finds)
	for i, word := range words {
		r := Row{
			Key: p.key, Detector: d.index, State: RowState(word&1) * RowImputed, Score: nan, Threshold: nan,
			Offset: int64(word >> 1), Time: int64(fresh[i]), About: int64(fresh[i]), Until: int64(fresh[i]),
		}
		if len(finds) > 0 && finds[0].Fresh == i {
			r.setFinding(&finds[0], times)
			finds = finds[1:]
		}
		s.Rows = append(s.Rows, r)
	}
}

// setFinding sets the score of a finding and the times that it is about.
func (r *Row) setFinding(f *detectors.Finding, times []uint64) {
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
	times, words := s.tasks.ptimes[p.at:end], s.tasks.ptimes[end:][:p.det.stride]
	s.Blocks = append(s.Blocks, BlockRow{
		Key: p.key, Detector: p.det.index, Offset: int64(words[len(words)-1] >> 1),
		About: int64(times[0]), Until: int64(times[len(times)-1]), MediaType: media, Data: data,
	})
}

// Steady is implemented by detectors with one finding for each fresh row, in order,
// with the row's score, about the rows from `from` to `to` before it, counted within
// the task's X. AppendFindings is then not called, and the times of older rows are
// not kept.
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
