package keystate

import (
	"math"
)

// A detector with a summary (detectors.Summarizer) scores among the last
// Window()-1 rows; those that have left them are folded into the key's summary
// when a task becomes due, before it is packed. The summary is state like any
// other, and as a function of rows alone it is folded in a replay without tasks.

// summary is one detector's of one key.
type summary struct {
	state []float64 // as package bins has it
	unit  uint64    // the undo unit that has a copy
}

const summaryBytes = 64 // with its place in the map

// size is about the memory of a summary.
func (m *summary) size() int64 {
	if m == nil {
		return 0
	}
	return summaryBytes + 8*int64(cap(m.state))
}

func (m *summary) empty() bool { return m == nil || len(m.state) == 0 }

// summarised reports whether there is a summary of anything.
func (k *Key) summarised() bool {
	if k.alerts != nil {
		for _, m := range k.alerts.summaries {
			if !m.empty() {
				return true
			}
		}
	}
	return false
}

// summary is that of a mark, or nil.
func (k *Key) summary(mark int) *summary {
	if k.alerts == nil {
		return nil
	}
	return k.alerts.summaries[mark]
}

// setSummary gives a mark a summary.
func (s *State) setSummary(k *Key, mark int, m *summary) {
	if k.alerts == nil {
		k.alerts = newAlerts(k.set.alerts)
		s.bytes += k.alerts.size()
	}
	if k.alerts.summaries == nil {
		k.alerts.summaries = map[int]*summary{}
	}
	k.alerts.summaries[mark] = m
	s.bytes += m.size()
}

// summarise folds the rows that have left the detector's window since its last
// task.
func (s *State) summarise(k *Key, w *win, d *keyDetector) {
	keep := int32(d.Detector.Window() - 1)
	left := min(d.stride, w.rows-keep)
	if left <= 0 {
		return
	}
	m := k.summary(d.mark)
	if m == nil {
		m = new(summary)
		s.setSummary(k, d.mark, m)
	}
	if m.unit != s.journal.unit {
		m.unit = s.journal.unit
		if !s.restore.replaying {
			s.journal.cur.saveSummary(k, d.mark, m.state)
		}
	}
	before := m.size()
	x, y := w.values(d.dim, keep+left)
	for n := int(left); n > 0; n-- {
		if len(x) == 0 {
			x = y
		}
		s.point = s.point[:0]
		for _, v := range x[:d.dim] {
			s.point = append(s.point, math.Float64frombits(v))
		}
		m.state = d.summary.Add(m.state, s.point)
		x = x[d.dim:]
	}
	s.bytes += m.size() - before
}

// saveSummary pushes a summary that is about to change.
func (u *unit) saveSummary(k *Key, mark int, state []float64) {
	for _, v := range state {
		u.words = append(u.words, math.Float64bits(v))
	}
	u.add(opSummary, k, mark, len(state))
}

func (s *State) undoSummary(m *summary, words []uint64) {
	before := m.size()
	m.state = m.state[:0]
	for _, v := range words {
		m.state = append(m.state, math.Float64frombits(v))
	}
	s.bytes += m.size() - before
}

// summaries are the end of a head of version 3: number, and for each
//
//	hash of the detector's name, its fingerprint, the window's fingerprint,
//	the numbers of the state
func (e *encoder) summaries(s *State, k *Key) {
	n := 0
	for i := range k.marks {
		if !k.summary(i).empty() {
			n++
		}
	}
	e.Uint(uint64(n))
	for i := range k.set.wins {
		for j := range k.set.wins[i].dets {
			d := &k.set.wins[i].dets[j]
			m := k.summary(d.mark)
			if m.empty() {
				continue
			}
			e.Bits(nameHash(d.Name))
			e.Bits(d.Fingerprint)
			e.Bits(s.cfg.Windows[d.Window].Fingerprint)
			e.Uint(uint64(len(m.state)))
			for _, v := range m.state {
				e.Bits(math.Float64bits(v))
			}
		}
	}
}

// loadSummaries takes those that the configuration has a use for; loadMarks has
// said which are of another one.
func (s *State) loadSummaries(d *decoder, k *Key) {
	for range d.Len(25) {
		name, fp, window := d.Bits(), d.Bits(), d.Bits()
		state := make([]float64, d.Len(8))
		for i := range state {
			state[i] = math.Float64frombits(d.Bits())
		}
		if d.Bad {
			return
		}
		for i := range k.set.wins {
			for j := range k.set.wins[i].dets {
				det := &k.set.wins[i].dets[j]
				if nameHash(det.Name) != name || det.summary == nil || det.Fingerprint != fp || s.cfg.Windows[det.Window].Fingerprint != window {
					continue
				}
				if !det.summary.Valid(state) {
					d.Fail()
					return
				}
				s.setSummary(k, det.mark, &summary{state: state})
			}
		}
	}
}
