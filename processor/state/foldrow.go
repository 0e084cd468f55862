package state

import (
	"odradek/detectors"
	"odradek/processor/state/series"
)

// foldRow folds a sample in its turn: into the key's windows, and from there
// into tasks.
func (s *State) foldRow(k *Key, time, offset int64, values []float64, b *detectors.Batch) Outcome {
	k.LastTime = time
	out := Missing
	set := k.Set
	if set.Simple {
		sw := &set.Windows[0]
		d := &sw.Detectors[0]
		if v := values[sw.Columns[0]]; v-v == 0 && !d.Absent && d.Unread == nil {
			return s.foldOne(k, sw, time, offset, v, b)
		}
	}
	for i := range set.Windows {
		sw, w := &set.Windows[i], &k.Windows[i]
		if d := &sw.Detectors[0]; d.WindowAbsent || d.WindowUnread != nil && d.WindowUnread(k.Name()) {
			continue
		}
		if sw.Grid != nil {
			if o := s.foldCell(k, i, time, offset, values, b); out == Missing || o == Scored {
				out = o
			}
			continue
		}
		word := uint64(offset) << 1 // with the lowest bit for imputed
		if missing := sw.Missing(values); missing > 0 {
			switch {
			case s.order.Hold && w.Rows > 0:
				word |= 1
			case s.order.Hold || !sw.Incomplete || missing == len(sw.Columns):
				continue
			}
		}
		if w.Rows == sw.Need {
			saveRow(s.journal.Open, k, i, sw, w)
		}
		s.Keys.Bytes += w.Reserve(sw)
		w.PushRow(sw, time, values, word&1 != 0)
		if out == Missing {
			out = WarmingUp
		}
		for j := range sw.Detectors {
			d := &sw.Detectors[j]
			if d.Skips(k.Name()) {
				continue
			}
			if w.Rows < d.MinRows {
				s.warm(k, d, time, offset, k.Remaining(d, w.Rows))
				continue
			}
			if w.Count >= d.Learnt {
				out = Scored
			}
			m := &k.Progress[d.Place]
			if m.Fresh+1 < d.Fresh {
				w.Fresh(sw, d)[m.Fresh] = word
				m.Fresh++
				continue
			}
			s.summarise(k, w, d)
			if s.packs(d) {
				s.tasks.Pack(k, &k.Series, i, d, word, b)
			}
			m.Fresh = 0
		}
	}
	return out
}

// foldOne is fold for the usual key of one window with one column and one
// detector, where the value is not missing: the same without the loops.
func (s *State) foldOne(k *Key, sw *series.SetWindow, time, offset int64, v float64, b *detectors.Batch) Outcome {
	w := &k.Windows[0]
	if w.Rows == sw.Need {
		saveValue(s.journal.Open, k, w)
	} else {
		s.Keys.Bytes += w.Reserve(sw)
	}
	w.PushValue(sw, time, v)
	d := &sw.Detectors[0]
	if w.Rows < d.MinRows {
		s.warm(k, d, time, offset, k.Remaining(d, w.Rows))
		return WarmingUp
	}
	m := &k.Progress[0]
	if word := uint64(offset) << 1; m.Fresh+1 < d.Fresh {
		w.Fresh(sw, d)[m.Fresh] = word
		m.Fresh++
	} else {
		s.summarise(k, w, d)
		if s.packs(d) {
			s.tasks.Pack(k, &k.Series, 0, d, word, b)
		}
		m.Fresh = 0
	}
	if w.Count < d.Learnt {
		return WarmingUp
	}
	return Scored
}

// packs reports whether a task of a detector that has become due is packed: where its results are withheld, only if something
// remembers it.
func (s *State) packs(d *series.SetDetector) bool { return d.Replays || s.publishes() }

// setCarry sets a key's carry to its last task's.
func (s *State) setCarry(k *Key, d *series.SetDetector, m *series.Progress, next detectors.Words) {
	if m.Unit != uint32(s.journal.Number) {
		m.Unit = uint32(s.journal.Number)
		saveCarry(s.journal.Open, k, d.Place, m.Carry)
	}
	if len(next) > cap(m.Carry) {
		s.Keys.Bytes += 4 * int64(len(next)-cap(m.Carry))
		m.Carry = make(detectors.Words, len(next))
	}
	m.Carry = m.Carry[:len(next)]
	copy(m.Carry, next)
}
