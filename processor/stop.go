package processor

import (
	"errors"
	"time"
)

// A partition with as many dead letters as Config.StopAbove allows is paused; see deadLetterStop.

// resumeEvery is the time between two checks for an operator's resume.
const resumeEvery = 200 * time.Millisecond

// stopped reports whether the partition is paused for its dead letters.
func (pt *partition) stopped() bool {
	q := pt.confined.Load()
	return q != nil && q.Reason == DeadLetters
}

// resumeTick returns when to check for an operator's resume; nil where none is awaited.
func (pt *partition) resumeTick() <-chan time.Time {
	if !pt.stopped() {
		return nil
	}
	return time.After(resumeEvery)
}

// resumeIfAllowed goes on where an operator has allowed the record at which the partition is paused.
func (pt *partition) resumeIfAllowed() {
	at := pt.position.Load()
	if !pt.stopped() || pt.handle.Stale() || !pt.side.stop.Resumed(at) {
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
		pt.side.stop.Retry()
		pt.status.BehindNow()
	}
}

// tooMany returns the error of a chunk that ends before a dead letter too many; nil for others.
func tooMany(retry error) error {
	var stuck *QuarantineError
	if errors.As(retry, &stuck) && stuck.Reason == DeadLetters {
		return retry
	}
	return nil
}
