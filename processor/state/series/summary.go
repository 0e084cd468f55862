package series

import "math"

// Summary is what one detector has in place of the rows of a key that have left its window.
type Summary struct {
	State []float64 // as detectors.BinParams has it
	Unit  uint64    // the undo unit that has a copy
}

const summaryBytes = 64 // with its place in the map

// size estimates the memory of a summary.
func (s *Summary) size() int64 {
	if s == nil {
		return 0
	}
	return summaryBytes + 8*int64(cap(s.State))
}

// Empty reports whether nothing has left the window.
func (s *Summary) Empty() bool { return s == nil || len(s.State) == 0 }

// Fold adds the newest left rows that have left the detector's window. point is scratch. It
// returns the bytes that this added.
func (s *Summary) Fold(w *Window, d *SetDetector, left int32, point []float64) (scratch []float64, added int64) {
	before := s.size()
	x, y := w.Values(d.Dim, int32(d.Detector.Window()-1)+left)
	for n := int(left); n > 0; n-- {
		if len(x) == 0 {
			x = y
		}
		point = point[:0]
		for _, v := range x[:d.Dim] {
			point = append(point, math.Float64frombits(v))
		}
		s.State = d.Summary.Add(s.State, point)
		x = x[d.Dim:]
	}
	return point, s.size() - before
}

// AppendBits appends the numbers of the summary.
func (s *Summary) AppendBits(dst []uint64) []uint64 {
	for _, v := range s.State {
		dst = append(dst, math.Float64bits(v))
	}
	return dst
}

// Restore sets the summary to what AppendBits has appended, and returns the bytes that this
// added.
func (s *Summary) Restore(words []uint64) (added int64) {
	before := s.size()
	s.State = s.State[:0]
	for _, v := range words {
		s.State = append(s.State, math.Float64frombits(v))
	}
	return s.size() - before
}

// Summarised reports whether there is a summary of anything.
func (a *Alerts) Summarised() bool {
	if a != nil {
		for _, m := range a.Summaries {
			if !m.Empty() {
				return true
			}
		}
	}
	return false
}

// Summary returns the summary of a detector, by its place; nil without one.
func (s *Series) Summary(place int) *Summary {
	if s.Alerts == nil {
		return nil
	}
	return s.Alerts.Summaries[place]
}

// SetSummary gives a detector a summary, by its place, and returns the bytes that this added.
func (s *Series) SetSummary(place int, m *Summary) (added int64) {
	if s.Alerts == nil {
		s.Alerts = NewAlerts(s.Set.Judged)
		added = s.Alerts.Size()
	}
	if s.Alerts.Summaries == nil {
		s.Alerts.Summaries = map[int]*Summary{}
	}
	s.Alerts.Summaries[place] = m
	return added + m.size()
}

// Gone returns the number of rows that have left the detector's window w since its last task.
func (d *SetDetector) Gone(w *Window) int32 {
	return min(d.Fresh, w.Rows-int32(d.Detector.Window()-1))
}
