package processor

import (
	"fmt"
	"time"

	"odradek/processor/metrics"
)

// notReadyError returns why partitions do not do their work: one is being restored, its start
// is not committed yet, or the brokers do not answer. A partition in quarantine counts for its dead letters, so that
// a rollout of settings that cannot read the records stops there, and where all partitions wait for the operator,
// which ends the worker a moment later.
func notReadyError(parts []metrics.PartitionStatus) error {
	undecided := 0
	for i := range parts {
		switch s := &parts[i]; {
		case s.Quarantine != nil && s.Quarantine.Reason == Undecided:
			undecided++
		case s.Quarantine != nil && s.Quarantine.Reason == DeadLetters:
			return fmt.Errorf("processor: %s/%d: paused at offset %d: %s", s.Topic, s.Partition, s.Quarantine.Offset, s.Quarantine.Detail)
		case s.Quarantine != nil:
		case !s.Running:
			return fmt.Errorf("processor: %s/%d: its state is being restored", s.Topic, s.Partition)
		case s.Starting:
			return fmt.Errorf("processor: %s/%d: its start is not committed yet", s.Topic, s.Partition)
		case s.Lost:
			return fmt.Errorf("processor: %s/%d: no fetch has been answered for %s", s.Topic, s.Partition, s.FetchAge.Round(time.Second))
		}
	}
	if undecided > 0 && undecided == len(parts) {
		return fmt.Errorf("processor: %s/%d: waits for a decision, as all partitions of this worker: %s", parts[0].Topic, parts[0].Partition,
			parts[0].Quarantine.Detail)
	}
	return nil
}

// stalledError names a partition that has had input for longer than limit without
// committing any; nil when there is none. One that is held or in quarantine does not
// count, nor one whose broker does not answer: a restarted worker is no better off.
func stalledError(parts []metrics.PartitionStatus, limit time.Duration) error {
	for i := range parts {
		s := &parts[i]
		if idle := time.Since(s.Since); s.Running && s.Hold == "" && s.Quarantine == nil && !s.Lost && s.Behind > 0 && idle > limit {
			return fmt.Errorf("processor: %s/%d: %d records behind and nothing committed for %s", s.Topic, s.Partition, s.Behind,
				idle.Round(time.Second))
		}
	}
	return nil
}
