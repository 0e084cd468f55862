package state

import (
	"odradek/detectors"
	"odradek/processor/state/series"
)

// Need returns how much of a batch the tasks of one sample take at most. A batch with smaller limits cannot be used.
func (s *State) Need() detectors.Need { return s.tasks.Need() }

// Apply takes the results of b after its execution: scores go to Rows, in the order of the samples, and carries to
// their keys. The caller resets b afterwards. Apply ignores tasks of other States in b.
// Tasks of detectors.Direct have their results.
func (s *State) Apply(b *detectors.Batch) {
	list := s.tasks.Pending()
	for i := range list {
		p := &list[i]
		s.applied = p
		switch p.Index {
		case taskWarmingUp:
			r := &s.tasks.copies.warm[p.place]
			s.addWarmRow(p.Key, p.Detector, r.Time, r.Offset, r.Remaining)
			continue
		case taskDeferred:
			s.tasks.Do(p)
			continue
		}
		d, b := p.Detector, b
		if p.Direct {
			b = &s.tasks.direct
		}
		if d.Most.Carry > 0 && !p.Key.Dead {
			if m := &p.Key.Progress[d.Place]; s.tasks.Last(i, m) {
				next := b.Tasks[p.Index].Next
				s.setCarry(p.Key, d, m, b.Out[next.Off:next.Off+next.Len])
			}
		}
		if d.Followed {
			s.judgeRows(p, b)
		} else {
			s.addRows(p, b)
		}
		if s.cfg.Blocks && d.Blocker != nil {
			s.addBlock(p, b)
		}
	}
	s.applied = nil
	s.tasks.Drop()
}

// setCarry sets a key's carry to its last task's.
func (s *State) setCarry(k *Key, d *series.SetDetector, m *series.Progress, next detectors.Words) {
	s.changeCarry(k, d, m, len(next))
	copy(m.Carry, next)
}

// changeCarry gives a key's carry a length. What it was before the open unit is saved.
func (s *State) changeCarry(k *Key, d *series.SetDetector, m *series.Progress, n int) {
	if m.Unit != uint32(s.journal.Number) {
		m.Unit = uint32(s.journal.Number)
		saveCarry(s.journal.Open, k, d.Place, m.Carry)
	}
	if n > cap(m.Carry) {
		s.Keys.Bytes += 4 * int64(n-cap(m.Carry))
		m.Carry = make(detectors.Words, n)
	}
	m.Carry = m.Carry[:n]
}
