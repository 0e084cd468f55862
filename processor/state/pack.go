package state

import (
	"odradek/detectors"
	"odradek/processor/state/series"
)

// scoring passes tasks to an executor and takes their results.
type scoring struct {
	blocks  bool // Config.Blocks
	tasks   *taskQueue[*Key]
	folder  *folder
	judge   *judge
	out     *Output
	journal *journal
}

// Need returns how much of a batch the tasks of one sample take at most. A batch with smaller limits cannot be used.
func (s *scoring) Need() detectors.Need { return s.tasks.Need() }

// SetWindowCache gives the State the executor's window cache; nil: there is none. A task then brings only the rows that
// the executor does not have. The caller closes the cache after the State's last use.
func (s *scoring) SetWindowCache(c *detectors.WindowCache) { s.tasks.SetWindowCache(c) }

// Repack packs windows that the executor has cached, and lost (detectors.ErrCacheLost), into b as they were when their
// tasks became due: Execute of b may then be tried again. Rows that were overwritten since are in the undo journal.
func (s *scoring) Repack(b *detectors.Batch) {
	b.Invalidate()
	cached := s.tasks.Cached()
	if len(cached) == 0 {
		return
	}
	overwritten := make(map[*series.Window][][]uint64, len(cached))
	for _, w := range cached {
		overwritten[w] = nil
	}
	s.journal.Open.Each(func(o *undoOp[*Key], row []uint64) {
		if o.Kind == opRow {
			w := &o.Key.Windows[o.What]
			if rows, ok := overwritten[w]; ok {
				overwritten[w] = append(rows, row[1:])
			}
		}
	})
	s.tasks.Repack(b, overwritten)
}

// Apply takes the results of b after its execution: scores go to Rows, in the order of the samples, and carries to
// their keys. The caller resets b afterwards. Apply ignores tasks of other States in b.
func (s *scoring) Apply(b *detectors.Batch) {
	list := s.tasks.Pending()
	for i := range list {
		p := &list[i]
		s.out.applied = &p.scoringTask
		switch p.Index {
		case taskWarmingUp:
			time, offset, remaining := s.tasks.WarmedUp(&p.scoringTask)
			s.judge.addWarmRow(p.Key, p.Detector, time, offset, remaining)
			continue
		case Deferred:
			s.tasks.Do(&p.scoringTask)
			continue
		}
		d := p.Detector
		if d.Most.Carry > 0 && !p.Key.Dead {
			if m := &p.Key.Progress[d.Place]; s.tasks.Last(i, m) {
				next := b.Tasks[p.Index].Next
				s.folder.setCarry(p.Key, d, m, b.Out[next.Off:next.Off+next.Len])
			}
		}
		if d.Followed {
			s.judge.judgeRows(p, b)
		} else if !s.journal.Replaying {
			s.judge.addRows(p, b)
		}
		if s.blocks && d.Blocker != nil && !s.journal.Replaying {
			s.out.addBlock(p, b)
		}
	}
	s.out.applied = nil
	s.tasks.Drop()
}
