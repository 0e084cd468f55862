package processor

import (
	"errors"
	"fmt"
	"time"

	"odradek/processor/metrics"
	"odradek/processor/quarantine"
)

// Quarantine pauses a partition that fails by itself, while the others continue. Its
// goroutine stays: it fetches nothing, and obeys the commands of a rollback and of a
// rebalance as always, so that its finished results are committed and the group is not
// affected. A new assignment or a restart tries the partition again.
//
// A partition comes into quarantine in one of two ways. Its goroutine returns a
// *quarantine.Error (run, quarantine). Or the brokers refuse its results in a cycle for good
// (recovery.blame): they would refuse them in every later cycle, together with those of
// all other partitions.
//
// A fault that is not of one partition ends the worker: a decision about state that is
// the operator's (policy.RefusedError), an output topic that must not be written, an
// executor that fails.

// quarantine pauses the partition if err is a *quarantine.Error, and reports whether it is.
func (pt *partition) quarantine(err error) bool {
	var stuck *quarantine.Error
	if !errors.As(err, &stuck) {
		return false
	}
	pt.closeSource()
	pt.status.SetSource(nil)
	pt.confine(stuck.Reason, err)
	return true
}

// confine records and logs why the partition is paused.
func (pt *partition) confine(reason string, err error) {
	if pt.confined.Load() != nil {
		return
	}
	at := pt.committed.Load()
	if reason == quarantine.Unreadable || reason == quarantine.DeadLetters {
		at = pt.position.Load()
	}
	pt.confined.Store(&metrics.Quarantine{Reason: reason, Detail: err.Error(), Offset: at, Since: time.Now()})
	decide := "repair what the reason names; a restart or a rebalance tries the partition again"
	switch reason {
	case quarantine.DeadLetters:
		decide = "correct the mapping or the schema and restart, or allow more dead letters: " +
			fmt.Sprintf("worker state resume -topic %s -partition %d", pt.tp.Topic, pt.tp.Partition)
	case quarantine.Unreadable:
		decide = fmt.Sprintf("to skip the unreadable part: worker state reset -topic %s -partition %d -to OFFSET", pt.tp.Topic, pt.tp.Partition)
	}
	pt.log.Error("partition quarantined, the others continue", "reason", reason, "offset", at, "err", err, "decide", decide)
}
