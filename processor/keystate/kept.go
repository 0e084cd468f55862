package keystate

import (
	"math"

	"odradek/detectors"
)

// SetKeep says that the executor can keep windows, and where; nil: it does not. A
// task then brings only the rows that the executor does not have. Whoever calls it
// closes the Keep after the State's last use.
func (s *State) SetKeep(k *detectors.Keep) {
	s.keep = k
	s.need = detectors.Need{}
	for _, d := range s.dets {
		d.shelf = nil
		// What looks at a finished task's X needs it here.
		if d.steady && d.explain == nil && d.summary == nil && d.elem == detectors.F32 {
			d.shelf = k.Shelf(d.Detector, d.dim, int(d.stride))
		}
		d.addNeed(&s.need)
	}
}

// awayTask is a pending task whose window is with the executor.
type awayTask struct {
	pend  int32 // index into State.pend
	count int64 // of the window, when it was packed
}

// packKept packs the rows that the executor lacks; false: it does not keep this
// window. Replay overwrites rows that nothing remembers, so its windows travel.
func (s *State) packKept(t *detectors.Task, w *win, d *shapeDet, m *mark, b *detectors.Batch) bool {
	if s.replaying || int(t.Fresh) != int(d.stride) || w.rows < d.full {
		return false
	}
	if m.place == nil {
		m.place = new(detectors.Place)
		s.bytes += placeBytes
	}
	n, ok := d.shelf.Bring(b, m.place, w.count)
	if !ok {
		return false
	}
	span, dst := b.GrowF64(n * d.dim)
	if n > 0 {
		x, y := w.values(d.dim, int32(n))
		for i, v := range x {
			dst[i] = math.Float64frombits(v)
		}
		for i, v := range y {
			dst[len(x)+i] = math.Float64frombits(v)
		}
	}
	t.X = d.shelf.Add(b, m.place, w.count, span, len(b.Tasks)-1)
	s.away = append(s.away, awayTask{int32(len(s.pend)), w.count})
	return true
}

// Repack packs windows that were with the executor into b as they were when their
// tasks became due, for the executor has lost them (detectors.ErrForgotten): Execute
// of b may then be tried again. Rows that were overwritten since are in the undo
// journal.
func (s *State) Repack(b *detectors.Batch) {
	b.Forgotten()
	if len(s.away) == 0 {
		return
	}
	lost := map[*win][][]uint64{} // values of overwritten rows, oldest first
	for _, a := range s.away {
		p := &s.pend[a.pend]
		lost[p.key.winOf(p.det)] = nil
	}
	at := 0
	for i := range s.cur.ops {
		o := &s.cur.ops[i]
		if o.kind == opCarry || o.kind == opJudged {
			continue
		}
		row := s.cur.words[at : at+int(o.n)]
		at += int(o.n)
		if o.kind == opRow {
			w := &o.key.wins[o.what]
			if rows, asked := lost[w]; asked {
				lost[w] = append(rows, row[1:])
			}
		}
	}
	for _, a := range s.away {
		p := &s.pend[a.pend]
		d, w := p.det, p.key.winOf(p.det)
		var rows []uint64
		// The ring has rows count-w.rows to count-1 now, the task's were those
		// from first on.
		first, oldest := a.count-int64(d.full), w.count-int64(w.rows)
		if missing := oldest - first; missing > 0 {
			for _, row := range lost[w][len(lost[w])-int(missing):] {
				rows = append(rows, row...)
			}
			first = oldest
		}
		x, y := w.values(d.dim, int32(w.count-first))
		rows = append(append(rows, x...), y...)[:int(d.full)*d.dim]
		t := &b.Tasks[p.task]
		var dst []float32
		t.X, dst = b.GrowF32(len(rows))
		detectors.Pack(dst, rows, nil, d.dim)
	}
	s.away = s.away[:0]
}

// winOf is the window that a detector looks at.
func (k *Key) winOf(d *shapeDet) *win {
	for i := range k.shape.wins {
		if k.shape.wins[i].index == d.Window {
			return &k.wins[i]
		}
	}
	panic("keystate: a detector without its window")
}
