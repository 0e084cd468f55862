package rules

import "slices"

// schedule holds the decisions that a replay may need, and the ones that are in the changelog in
// the order in which they are to be deleted from it.
type schedule struct {
	subjects
	kinds KindTable
	queue []*Decision // those in the log, in the order of due
}

// link inserts a decision among the decisions on its subject, and updates the one before it.
func (s *schedule) link(d *Decision) {
	if former := s.subjects.link(d); former != nil {
		s.requeue(former)
	}
}

// end returns the floor from which no replay needs the decision.
func (s *schedule) end(d *Decision) int64 {
	switch row := &s.kinds[d.Kind]; {
	case !row.Standing || row.Lapses && d.asked <= d.Offset:
		return d.Offset + 1
	case row.Lapses:
		// Never later than the next one: a withdrawn decision must not come back
		// because its withdrawal is forgotten first.
		return min(d.asked, s.superseded(d))
	}
	return s.superseded(d)
}

// enqueue inserts a decision into the queue, where Forget finds it.
func (s *schedule) enqueue(d *Decision) {
	d.due = s.end(d)
	i := len(s.queue)
	for i > 0 && byDue(d, s.queue[i-1]) < 0 { // most come last
		i--
	}
	s.queue = slices.Insert(s.queue, i, d)
}

// requeue moves a decision forward in the queue if the one that now follows it ends it earlier.
func (s *schedule) requeue(d *Decision) {
	if s.end(d) >= d.due {
		return // Forget computes the end again
	}
	if i := slices.Index(s.queue, d); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		s.enqueue(d)
	}
}
