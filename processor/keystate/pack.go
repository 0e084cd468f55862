package keystate

import (
	"odradek/detectors"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/tasks"
	"odradek/processor/keystate/undo"
)

// due prepares for the task that the newest row has made due, and reports whether it is to be
// packed: in a replay, only if something remembers it.
func (s *State) due(k *Key, w *series.Window, d *series.SetDetector) bool {
	if d.Summary != nil {
		s.summarise(k, w, d)
	}
	return !s.journal.Replaying || d.Replays
}

// SetWindowCache gives the State the executor's window cache; nil: there is none. A task
// then brings only the rows that the executor does not have. The caller closes the cache
// after the State's last use.
func (s *State) SetWindowCache(c *detectors.WindowCache) { s.tasks.SetWindowCache(c) }

// Repack packs windows that the executor has cached, and lost (detectors.ErrCacheLost),
// into b as they were when their tasks became due: Execute of b may then be tried again.
// Rows that were overwritten since are in the undo journal.
func (s *State) Repack(b *detectors.Batch) {
	b.Invalidate()
	cached := s.tasks.Cached()
	if len(cached) == 0 {
		return
	}
	overwritten := make(map[*series.Window][][]uint64, len(cached))
	for _, w := range cached {
		overwritten[w] = nil
	}
	s.journal.Open.Each(func(o *undo.Op[*Key], row []uint64) {
		if o.Kind == opRow {
			w := &o.Key.Windows[o.What]
			if rows, ok := overwritten[w]; ok {
				overwritten[w] = append(rows, row[1:])
			}
		}
	})
	s.tasks.Repack(b, overwritten)
}

// Apply takes the results of b after its execution: scores go to Rows, in the order of
// the samples, and carries to their keys. The caller resets b afterwards. Apply ignores
// tasks of other States in b.
func (s *State) Apply(b *detectors.Batch) {
	list := s.tasks.Pending()
	for i := range list {
		p := &list[i]
		switch p.Index {
		case tasks.WarmingUp:
			time, offset := s.tasks.WarmedUp(&p.Task)
			s.judge.addWarmRow(p.Key, p.Detector, time, offset)
			continue
		case tasks.Deferred:
			s.tasks.Do(&p.Task)
			continue
		}
		d := p.Detector
		if d.Most.Carry > 0 && !p.Key.Dead {
			if m := &p.Key.Progress[d.Place]; s.tasks.Last(i, m) {
				next := b.Tasks[p.Index].Next
				s.setCarry(p.Key, d, m, b.Out[next.Off:next.Off+next.Len])
			}
		}
		if d.Followed {
			s.judge.judgeRows(p, b)
		} else if !s.journal.Replaying {
			s.judge.addRows(p, b)
		}
		if s.cfg.Blocks && d.Blocker != nil && !s.journal.Replaying {
			s.addBlock(p, b)
		}
	}
	s.tasks.Drop()
}

// setCarry sets a key's carry to that of its last task.
func (s *State) setCarry(k *Key, d *series.SetDetector, m *series.Progress, next detectors.Words) {
	if m.Unit != uint32(s.journal.Number) {
		m.Unit = uint32(s.journal.Number)
		if !s.journal.Replaying {
			saveCarry(s.journal.Open, k, d.Place, m.Carry)
		}
	}
	if len(next) > cap(m.Carry) {
		s.keys.Bytes += 4 * int64(len(next)-cap(m.Carry))
		m.Carry = make(detectors.Words, len(next))
	}
	m.Carry = m.Carry[:len(next)]
	copy(m.Carry, next)
}
