package processor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/limits"
	"odradek/processor/quarantine"
)

// Config.StopAbove bounds the dead letters of a partition. The partition is paused in quarantine before the record that
// would be one too many: everything before it is committed, and nothing of it is written. So a restart, which takes the
// window's counts from the metadata of the committed offset, pauses the partition at the same record again, unless the
// record can be read by then.
//
// An operator's feedback.Resume names the record at which the partition is paused. A new window begins with it. Its
// record stays in the compacted topic, so that whoever processes the record again, after a rollback or a restart, is
// allowed the same.

// resumeEvery is the time between two looks for an operator's resume.
const resumeEvery = 200 * time.Millisecond

// stopper counts the dead letters of a partition against Config.StopAbove. One goroutine uses it.
type stopper struct {
	limit  limits.DeadLetters
	window limits.LetterWindow
	resume func(kafka.TP) (feedback.Resume, bool) // nil: none
	tp     kafka.TP
	marks  []letterMark // of what has joined a cycle, from the committed offset on
	full   error        // a *quarantine.Error: the record at which the partition has to be paused
}

// letterMark is the window before the record at offset next.
type letterMark struct {
	next   int64
	window limits.LetterWindow
}

// on reports whether there is a bound.
func (s *stopper) on() bool { return s.limit.Of > 0 }

// pass counts a record that is no dead letter.
func (s *stopper) pass() {
	if s.on() {
		s.limit.Pass(&s.window)
	}
}

// admit counts n records from offset on that become dead letters, or sets full.
func (s *stopper) admit(offset, n int64) bool {
	if !s.on() || s.limit.Admit(&s.window, n) {
		return true
	}
	if s.resumed(offset) {
		s.window = limits.LetterWindow{Dead: n, Records: n}
		return true
	}
	w := s.window
	s.full = &quarantine.Error{Reason: quarantine.DeadLetters, Err: fmt.Errorf(
		"processor: %s: the record at offset %d would be one dead letter more than %v (ODRADEK_STOP_ABOVE); the window has %d among %d records",
		s.tp, offset, s.limit, w.Dead, w.Records)}
	return false
}

// late counts a record that became a dead letter behind its turn: it is written in any case.
func (s *stopper) late() {
	if s.on() {
		s.window.Dead++
	}
}

// refuses reports whether a dead letter at offset is one too many.
func (s *stopper) refuses(offset int64) bool { return s.limit.Full(s.window) && !s.resumed(offset) }

// resumed reports whether an operator allows the dead letters at offset.
func (s *stopper) resumed(offset int64) bool {
	if s.resume == nil {
		return false
	}
	r, ok := s.resume(s.tp)
	return ok && (offset == r.Offset || offset > r.Offset && offset < r.Until)
}

// begin begins at an offset with the window that its commit has in the metadata.
func (s *stopper) begin(offset int64, metadata string) {
	if !s.on() {
		return
	}
	s.window, s.full = limits.LetterWindowOf(metadata), nil
	s.marks = append(s.marks[:0], letterMark{offset, s.window})
}

// join notes that everything before offset next has joined a cycle.
func (s *stopper) join(next, committed int64) {
	if !s.on() {
		return
	}
	n := 0
	for n+1 < len(s.marks) && s.marks[n+1].next <= committed {
		n++
	}
	s.marks = append(slices.Delete(s.marks, 0, n), letterMark{next, s.window})
}

// rollback goes back to the window before the record at offset to, a mark.
func (s *stopper) rollback(to int64) {
	s.full = nil
	for i := len(s.marks) - 1; i >= 0; i-- {
		if s.marks[i].next <= to {
			s.window, s.marks = s.marks[i].window, s.marks[:i+1]
			return
		}
	}
}

// stopped reports whether the partition is paused for its dead letters.
func (pt *partition) stopped() bool {
	q := pt.confined.Load()
	return q != nil && q.Reason == quarantine.DeadLetters
}

// resumeTick returns when to look for an operator's resume; nil where none is awaited.
func (pt *partition) resumeTick() <-chan time.Time {
	if !pt.stopped() {
		return nil
	}
	return time.After(resumeEvery)
}

// lookForResume goes on where an operator has allowed the record at which the partition is paused.
func (pt *partition) lookForResume() {
	at := pt.position.Load()
	if !pt.stopped() || pt.entry.stale() || !pt.side.stop.resumed(at) {
		return
	}
	pt.log.Info("partition resumes, as worker state resume says", "offset", at)
	pt.endStop()
	pt.seek(at)
}

// endStop ends a pause for dead letters: the record that is one too many may be another one now, or none.
func (pt *partition) endStop() {
	if pt.stopped() {
		pt.confined.Store(nil)
		pt.side.stop.full = nil
		pt.status.BehindNow()
	}
}

// tooMany returns the error of a chunk that ends before a dead letter too many; nil for others.
func tooMany(retry error) error {
	var stuck *quarantine.Error
	if errors.As(retry, &stuck) && stuck.Reason == quarantine.DeadLetters {
		return retry
	}
	return nil
}
