package keystate

import (
	"math"

	"odradek/detectors"
)

// mark is one detector's place in one key's window, and its carry.
type mark struct {
	carry []float32
	fresh []uint64 // offsets of the fresh rows so far, times 2, plus 1 if imputed; n of them count
	unit  uint64   // the undo unit that has a copy of carry
	n     int32
	task  uint32 // 1 + the key's last task in the batch, whose Next will be the carry; 0: none
}

// pending is a task whose scores are not there yet, or a row behind one.
type pending struct {
	key  *Key
	det  *shapeDet
	task int32 // in the batch; -1: a warming-up row of offset and time
	rows int32 // of X; the task's times and offsets begin at at
	at   int
	offset,
	time int64
}

// warm makes the row of a sample that comes too early for a score.
func (s *State) warm(k *Key, d *shapeDet, time, offset int64) {
	if s.replaying {
		return
	}
	if len(s.pend) > 0 {
		s.pend = append(s.pend, pending{key: k, det: d, task: -1, offset: offset, time: time})
		return
	}
	s.Rows = append(s.Rows, warmRow(k, d, time, offset))
}

func warmRow(k *Key, d *shapeDet, time, offset int64) Row {
	return Row{Key: k, Detector: d.index, State: RowWarmingUp, Score: float32(math.NaN()), Offset: offset, Time: time, About: time, Until: time}
}

// pack makes the task that the newest row, with offset and imputed bit in word,
// has made due.
func (s *State) pack(k *Key, sw *shapeWin, w *win, d *shapeDet, m *mark, word uint64, b *detectors.Batch) {
	rows, scores, carry := min(w.rows, d.full), d.scores, d.carry
	if rows != d.full {
		scores, carry, _ = d.Detector.Size(detectors.View{Dim: d.dim, Rows: int(rows), Fresh: int(d.stride)})
	}
	if s.replaying && d.maxCarry == 0 {
		return // nothing would remember it
	}
	t := detectors.Task{Op: d.op, Dim: uint32(d.dim), Fresh: uint32(d.stride), Params: s.params(d.detector, b)}
	x, y := w.values(d.dim, rows)
	origin := w.slab[:d.dim]
	switch d.elem {
	case detectors.F32:
		var dst []float32
		t.X, dst = b.GrowF32(len(x) + len(y))
		if d.dim == 1 {
			pack1(dst, x, origin[0])
			pack1(dst[len(x):], y, origin[0])
		} else {
			packN(dst, x, origin)
			packN(dst[len(x):], y, origin)
		}
	case detectors.F64:
		var dst []float64
		t.X, dst = b.GrowF64(len(x) + len(y))
		for i, v := range x {
			dst[i] = math.Float64frombits(v)
		}
		for i, v := range y {
			dst[len(x)+i] = math.Float64frombits(v)
		}
	case detectors.I64:
		var dst []int64
		t.X, dst = b.GrowI64(len(x) + len(y))
		for i, v := range x {
			dst[i] = count(math.Float64frombits(v))
		}
		for i, v := range y {
			dst[len(x)+i] = count(math.Float64frombits(v))
		}
	}
	if d.maxCarry > 0 {
		if m.task != 0 {
			t.After = m.task
		} else if len(m.carry) > 0 {
			var dst []float32
			t.Carry, dst = b.GrowF32(len(m.carry))
			copy(dst, m.carry)
		}
		m.task = uint32(len(b.Tasks)) + 1
	}
	t.Scores = b.GrowOut(scores)
	t.Next = b.GrowOut(carry)
	p := pending{key: k, det: d, task: int32(len(b.Tasks)), rows: rows, at: len(s.ptimes)}
	b.Tasks = append(b.Tasks, t)
	// The ring moves on before the scores are there, so times are copied now.
	x, y = w.times(d.dim, rows)
	s.ptimes = append(append(s.ptimes, x...), y...)
	s.ptimes = append(append(s.ptimes, m.fresh[:m.n]...), word)
	s.pend = append(s.pend, p)
}

func pack1(dst []float32, src []uint64, origin uint64) {
	o := math.Float64frombits(origin)
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = float32(math.Float64frombits(v) - o)
	}
}

func packN(dst []float32, src, origin []uint64) {
	for len(src) > 0 {
		for c, o := range origin {
			dst[c] = float32(math.Float64frombits(src[c]) - math.Float64frombits(o))
		}
		dst, src = dst[len(origin):], src[len(origin):]
	}
}

// count is the value of a counter: the nearest whole number.
func count(v float64) int64 {
	const most = 1 << 62
	switch v = math.RoundToEven(v); {
	case v >= most:
		return most
	case v <= -most:
		return -most
	}
	return int64(v)
}

// params is where the detector's parameters are in the batch; they are put
// there once between two Resets.
func (s *State) params(d *detector, b *detectors.Batch) detectors.Span {
	if s.batch != b || s.serial != b.Serial {
		s.batch, s.serial = b, b.Serial
		for _, o := range s.dets {
			o.placed = false
		}
	}
	if !d.placed {
		var dst []float32
		d.span, dst = b.GrowF32(len(d.params))
		copy(dst, d.params)
		d.placed = true
	}
	return d.span
}

// Apply takes what the execution of b gave: scores go to Rows, in the order of
// the samples, and carries to their keys. The caller resets b afterwards. Tasks
// of other States in b are left alone.
func (s *State) Apply(b *detectors.Batch) {
	for i := range s.pend {
		p := &s.pend[i]
		if p.task < 0 {
			s.Rows = append(s.Rows, warmRow(p.key, p.det, p.time, p.offset))
			continue
		}
		if p.det.maxCarry > 0 {
			if m := &p.key.marks[p.det.mark]; m.task == uint32(p.task)+1 {
				m.task = 0
				if !p.key.dead {
					next := b.Tasks[p.task].Next
					s.setCarry(p.key, p.det, m, b.Out[next.Off:next.Off+next.Len])
				}
			}
		}
		if !s.replaying {
			s.addRows(p, b)
		}
	}
	s.dropPending()
}

func (s *State) dropPending() { s.pend, s.ptimes = s.pend[:0], s.ptimes[:0] }

// setCarry takes over the carry that a key's last task left.
func (s *State) setCarry(k *Key, d *shapeDet, m *mark, next []float32) {
	if m.unit != s.unit {
		m.unit = s.unit
		if !s.replaying {
			s.cur.saveCarry(k, d.mark, m.carry)
		}
	}
	if len(next) > cap(m.carry) {
		s.bytes += 4 * int64(len(next)-cap(m.carry))
		m.carry = make([]float32, len(next))
	}
	m.carry = m.carry[:len(next)]
	copy(m.carry, next)
}

// addRows makes the rows of a task: one for each finding, and one without a
// score for a fresh sample that has none.
func (s *State) addRows(p *pending, b *detectors.Batch) {
	d := p.det
	s.finds = d.Detector.AppendFindings(s.finds[:0], b.Rows(int(p.task)))
	order(s.finds)
	times := s.ptimes[p.at : p.at+int(p.rows)]
	offsets := s.ptimes[p.at+int(p.rows):][:d.stride]
	f := 0
	for i, word := range offsets {
		r := Row{
			Key: p.key, Detector: d.index, State: RowScored, Score: float32(math.NaN()),
			Offset: int64(word >> 1), Time: int64(times[int(p.rows)-len(offsets)+i]),
		}
		if word&1 != 0 {
			r.State = RowImputed
		}
		r.About, r.Until = r.Time, r.Time
		if f == len(s.finds) || s.finds[f].Fresh != i {
			s.Rows = append(s.Rows, r)
			continue
		}
		for ; f < len(s.finds) && s.finds[f].Fresh == i; f++ {
			x := &s.finds[f]
			r.Score, r.About, r.Until = float32(x.Score), int64(times[x.From]), int64(times[x.To])
			s.Rows = append(s.Rows, r)
		}
	}
}

// order sorts findings by the sample they belong to, if they are not yet.
func order(f []detectors.Finding) {
	for i := 1; i < len(f); i++ {
		for j := i; j > 0 && f[j-1].Fresh > f[j].Fresh; j-- {
			f[j-1], f[j] = f[j], f[j-1]
		}
	}
}
