package state

import "odradek/detectors"

// scoring passes tasks to an executor and takes their results.
type scoring struct {
	blocks bool // Config.Blocks
	tasks  *taskQueue[*Key]
	folder *folder
	judge  *judge
	out    *Output
}

// Need returns how much of a batch the tasks of one sample take at most. A batch with smaller limits cannot be used.
func (s *scoring) Need() detectors.Need { return s.tasks.Need() }

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
		} else {
			s.judge.addRows(p, b)
		}
		if s.blocks && d.Blocker != nil {
			s.out.addBlock(p, b)
		}
	}
	s.out.applied = nil
	s.tasks.Drop()
}
