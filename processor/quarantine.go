package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/metrics"
)

// Quarantine pauses a partition that fails by itself, while the others continue. Its
// goroutine stays: it fetches nothing, and obeys the commands of a rollback and of a
// rebalance as always, so that its finished results are committed and the group is not
// affected. A new assignment or a restart tries the partition again.
//
// A partition comes into quarantine in one of two ways. Its goroutine returns a
// *QuarantineError (run, quarantine), as it does for a panic in its work. Or the brokers refuse its results in a cycle for good
// (commits.blame): they would refuse them in every later cycle, together with the results of
// all other partitions.
//
// A fault that is not of one partition ends the worker: an output topic that must not be written, an executor that
// fails, or a decision of the operator (RefusedError) that every partition of the worker waits for
// (assignment.undecided), as after settings were changed.

// quarantine pauses the partition if err is a *QuarantineError or a refusal, and reports whether it is.
func (pt *partition) quarantine(err error) bool {
	var refused *RefusedError
	if errors.As(err, &refused) && !pt.host.gone(context.Background(), pt.tp.Topic) {
		pt.running.Store(false)
		pt.refusal.Store(refused)
		err = &QuarantineError{Reason: Undecided, Err: err}
		defer func() {
			select {
			case pt.host.refused <- struct{}{}:
			default:
			}
		}()
	}
	var stuck *QuarantineError
	if !errors.As(err, &stuck) {
		return false
	}
	pt.closeSource()
	pt.status.SetSource(nil)
	if stuck.Reason == Panicked {
		// Its state may be changed by half. It has no results any more that a cycle could lack, is not rolled back, and
		// is of no use until it is restored. Goroutines that have not ended may still use its batch.
		pt.running.Store(false)
		pt.release = nil
	}
	pt.confine(stuck.Reason, err)
	return true
}

// confine records and logs why the partition is paused.
func (pt *partition) confine(reason string, err error) {
	if pt.confined.Load() != nil {
		return
	}
	at := pt.committed.Load()
	switch reason {
	case Unreadable, DeadLetters, Panicked:
		at = pt.position.Load()
	}
	pt.confined.Store(&metrics.Quarantine{Reason: reason, Detail: err.Error(), Offset: at, Since: time.Now()})
	decide := "repair what the reason names; a restart or a rebalance tries the partition again"
	var refused *RefusedError
	if errors.As(err, &refused) {
		decide = refused.Decide
	}
	switch reason {
	case DeadLetters:
		decide = "correct the mapping or the schema and restart, or allow more dead letters: " +
			fmt.Sprintf("worker state resume -topic %s -partition %d", pt.tp.Topic, pt.tp.Partition)
	case Panicked:
		decide = "report this line; another version, or other settings of what the stack names; a restart or a rebalance tries the " +
			"partition again"
	case Unreadable:
		decide = fmt.Sprintf("to skip the unreadable part: worker state reset -topic %s -partition %d -to OFFSET", pt.tp.Topic, pt.tp.Partition)
	}
	attrs := []any{"reason", reason, "offset", at, "err", err, "decide", decide}
	var defect *PanicError
	if errors.As(err, &defect) {
		attrs = append(attrs, "stack", string(defect.Stack))
	}
	pt.log.Error("partition quarantined", attrs...)
}
