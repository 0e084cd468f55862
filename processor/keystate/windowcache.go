package keystate

import (
	"odradek/detectors"
)

// SetWindowCache gives the State the executor's window cache; nil: there is none. A task
// then brings only the rows that the executor does not have. Whoever calls it closes the
// cache after the State's last use.
func (s *State) SetWindowCache(c *detectors.WindowCache) {
	s.tasks.cache = c
	s.need = detectors.Need{}
	for _, d := range s.dets {
		d.pool = nil
		// Code that reads a finished task's X needs it here.
		if d.steady && d.explain == nil && d.summary == nil && d.elem == detectors.F32 {
			d.pool = c.Pool(d.Detector, d.dim, int(d.stride))
		}
		d.addNeed(&s.need)
	}
}

// cachedTask is a pending task whose window the executor has cached.
type cachedTask struct {
	pend  int32 // index into State.pend
	count int64 // of the window, when it was packed
}

// packCached packs the rows that the executor lacks; false: it does not cache this
// window. Replay overwrites rows that nothing remembers, so its windows travel.
func (s *State) packCached(t *detectors.Task, w *win, d *keyDetector, m *mark, b *detectors.Batch) bool {
	if s.restore.replaying || int(t.Fresh) != int(d.stride) || w.rows < d.full {
		return false
	}
	if m.slot == nil {
		m.slot = new(detectors.SlotRef)
		s.bytes += slotBytes
	}
	n, ok := d.pool.Missing(b, m.slot, w.count)
	if !ok {
		return false
	}
	span, dst := b.GrowF64(n * d.dim)
	if n > 0 {
		x, y := w.values(d.dim, int32(n))
		floats(dst, x, y)
	}
	t.X = d.pool.Update(b, m.slot, w.count, span, len(b.Tasks)-1)
	s.tasks.cached = append(s.tasks.cached, cachedTask{int32(len(s.tasks.pend)), w.count})
	return true
}

// Repack packs windows that the executor has cached, and lost (detectors.ErrCacheLost),
// into b as they were when their tasks became due: Execute of b may then be tried again. Rows that were overwritten since are in the undo
// journal.
func (s *State) Repack(b *detectors.Batch) {
	b.Invalidate()
	if len(s.tasks.cached) == 0 {
		return
	}
	lost := map[*win][][]uint64{} // values of overwritten rows, oldest first
	for _, a := range s.tasks.cached {
		p := &s.tasks.pend[a.pend]
		lost[p.key.winOf(p.det)] = nil
	}
	at := 0
	for i := range s.journal.cur.ops {
		o := &s.journal.cur.ops[i]
		if o.kind == opCarry || o.kind == opJudged {
			continue
		}
		row := s.journal.cur.words[at : at+int(o.n)]
		at += int(o.n)
		if o.kind == opRow {
			w := &o.key.wins[o.what]
			if rows, asked := lost[w]; asked {
				lost[w] = append(rows, row[1:])
			}
		}
	}
	for _, a := range s.tasks.cached {
		p := &s.tasks.pend[a.pend]
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
		s.tasks.center(rows, nil, d, d.full, a.count)
		detectors.Pack(dst, rows, nil, s.tasks.centers)
	}
	s.tasks.cached = s.tasks.cached[:0]
}

// winOf returns the window that a detector reads.
func (k *Key) winOf(d *keyDetector) *win {
	for i := range k.set.wins {
		if k.set.wins[i].index == d.Window {
			return &k.wins[i]
		}
	}
	panic("keystate: a detector without its window")
}
