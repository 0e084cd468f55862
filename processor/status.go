package processor

import (
	"errors"
	"fmt"
	"time"

	"odradek/processor/metrics"
)

// Status lists the assigned partitions, by topic and partition.
func (p *Processor) Status() []metrics.PartitionStatus { return p.assigned.list() }

func (pt *partition) progress() progress {
	return progress{Running: pt.running.Load(), Starting: pt.starting.Load(), Position: pt.position.Load(),
		Committed: pt.committed.Load(), End: pt.end.Load(), Quarantine: pt.confined.Load()}
}

// Ready reports whether the worker does its work: see NotReady.
func (p *Processor) Ready() bool { return p.NotReady() == nil }

// NotReady returns why the worker does not do its work: it is not in the group,
// notReadyError has a reason, or a topic that it writes does not exist any more. It is nil for a member that the group has no partition
// for.
func (p *Processor) NotReady() error {
	parts := p.Status()
	if len(parts) == 0 {
		if member := p.session.member.Load(); member == nil || !member.Spare() {
			return errors.New("processor: not in the group")
		}
	}
	if err := notReadyError(parts); err != nil {
		if held := p.session.held.Load(); held != nil {
			return fmt.Errorf("%w: %w", err, held)
		}
		return err
	}
	return p.missing.err()
}

// Stalled names a partition that has had input for longer than limit without committing
// any, see stalledError; nil when there is none.
func (p *Processor) Stalled(limit time.Duration) error { return stalledError(p.Status(), limit) }
