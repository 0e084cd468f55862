package state

import "odradek/processor/state/series"

// A detector with a summary (detectors.Summarizer) scores among the last
// Window()-1 rows; those that have left them are folded into the key's summary
// when a task becomes due, before it is packed. The summary is state like any
// other, and as a function of rows alone it is folded in a replay without tasks.

// foldSummary prepares for the task that the newest row has made due: it folds the rows that have left
// the window of a detector with a summary since its last task into the key's.
func (s *State) foldSummary(k *Key, w *series.Window, d *series.SetDetector) {
	left := d.Gone(w)
	if left <= 0 {
		return
	}
	m := k.Summary(d.Place)
	if m == nil {
		m = new(series.Summary)
		s.Keys.Bytes += k.SetSummary(d.Place, m)
	}
	if m.Unit != s.journal.Number {
		m.Unit = s.journal.Number
		saveSummary(s.journal.Open, k, d.Place, m)
	}
	var added int64
	s.point, added = m.Fold(w, d, left, s.point)
	s.Keys.Bytes += added
}

// saveSummary pushes a summary that is about to change.
func saveSummary(u *unit, k *Key, place int, m *series.Summary) {
	from := len(u.Words)
	u.Words = m.AppendBits(u.Words)
	u.Push(opSummary, k, place, len(u.Words)-from)
}
