package processor

import (
	"fmt"
	"slices"

	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
)

// This file bounds the dead letters of a partition.

// deadLetterStop counts the dead letters of a partition against a limit. The partition is paused in quarantine before the record
// that would be one too many: everything before it is committed, and nothing of it is written. So a restart, which takes
// the window's counts from the metadata of the committed offset, pauses the partition at the same record again, unless
// the record can be read by then.
//
// An operator's feedback.Resume names the record at which the partition is paused. A new window begins with it. Its
// record stays in the compacted topic, so that whoever processes the record again, after a rollback or a restart, is
// allowed the same.
//
// One goroutine uses a Stopper. The zero value has no limit.
type deadLetterStop struct {
	limit  cycle.DeadLetterLimit
	window cycle.LetterWindow
	resume func(kafka.TP) (feedback.Resume, bool) // nil: none
	tp     kafka.TP
	marks  []mark // of what has joined a cycle, from the committed offset on
	full   error  // a *QuarantineError: the record at which the partition has to be paused
}

// mark is the window before the record at offset next.
type mark struct {
	next   int64
	window cycle.LetterWindow
}

// newDeadLetterStop returns the Stopper of a partition. resume returns what an operator allows in it; nil: nothing.
func newDeadLetterStop(tp kafka.TP, limit cycle.DeadLetterLimit, resume func(kafka.TP) (feedback.Resume, bool)) deadLetterStop {
	return deadLetterStop{limit: limit, resume: resume, tp: tp}
}

// On reports whether there is a limit.
func (s *deadLetterStop) On() bool { return s.limit.Of > 0 }

// Window returns the counts of the present window, for the metadata of the offset commit.
func (s *deadLetterStop) Window() cycle.LetterWindow { return s.window }

// Full returns the *QuarantineError with which the partition has to be paused: Admit has refused a record. nil: none.
func (s *deadLetterStop) Full() error { return s.full }

// Retry forgets that a record was refused: the one too many may be another one now, or none.
func (s *deadLetterStop) Retry() { s.full = nil }

// Pass counts a record that is no dead letter.
func (s *deadLetterStop) Pass() {
	if s.On() {
		s.limit.Pass(&s.window)
	}
}

// Admit counts n records from offset on that become dead letters. It returns false where they would be too many; then
// it counts none of them, and Full returns why.
func (s *deadLetterStop) Admit(offset, n int64) bool {
	if !s.On() || s.limit.Admit(&s.window, n) {
		return true
	}
	if s.Resumed(offset) {
		s.window = cycle.LetterWindow{Dead: n, Records: n}
		return true
	}
	w := s.window
	s.full = &QuarantineError{Reason: DeadLetters, Err: fmt.Errorf(
		"processor: %s: the record at offset %d would be one dead letter more than %v (stop_above); the window has %d among %d records",
		s.tp, offset, s.limit, w.Dead, w.Records)}
	return false
}

// Late counts a record that became a dead letter behind its turn: it is written in any case.
func (s *deadLetterStop) Late() {
	if s.On() {
		s.window.Dead++
	}
}

// Refuses reports whether a dead letter at offset is one too many.
func (s *deadLetterStop) Refuses(offset int64) bool {
	return s.limit.Full(s.window) && !s.Resumed(offset)
}

// Resumed reports whether an operator allows the dead letters at offset.
func (s *deadLetterStop) Resumed(offset int64) bool {
	if s.resume == nil {
		return false
	}
	r, ok := s.resume(s.tp)
	return ok && (offset == r.Offset || offset > r.Offset && offset < r.Until)
}

// Start begins at an offset with the window that its commit has in the metadata.
func (s *deadLetterStop) Start(offset int64, metadata string) {
	if !s.On() {
		return
	}
	s.window, s.full = cycle.LetterWindowOf(metadata), nil
	s.marks = append(s.marks[:0], mark{offset, s.window})
}

// Join notes that everything before offset next has joined a cycle, and forgets what a rollback to the committed offset
// or a later one does not need.
func (s *deadLetterStop) Join(next, committed int64) {
	if !s.On() {
		return
	}
	n := 0
	for n+1 < len(s.marks) && s.marks[n+1].next <= committed {
		n++
	}
	s.marks = append(slices.Delete(s.marks, 0, n), mark{next, s.window})
}

// Rollback goes back to the window before the record at offset to, a mark.
func (s *deadLetterStop) Rollback(to int64) {
	s.full = nil
	for i := len(s.marks) - 1; i >= 0; i-- {
		if s.marks[i].next <= to {
			s.window, s.marks = s.marks[i].window, s.marks[:i+1]
			return
		}
	}
}
