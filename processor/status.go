package processor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"odradek/processor/keystate"
	"odradek/processor/metrics"
)

// Status lists the assigned partitions, by topic and partition.
func (p *Processor) Status() []metrics.PartitionStatus {
	p.statusMu.Lock()
	defer p.statusMu.Unlock()
	out := make([]metrics.PartitionStatus, 0, len(p.status))
	for tp, pt := range p.status {
		s := metrics.PartitionStatus{
			Topic: tp.Topic, Partition: tp.Partition, Running: pt.running.Load(), Starting: pt.starting.Load(),
			Position: pt.position.Load(), Committed: pt.committed.Load(), End: pt.end.Load(),
			Keys: pt.keys.Load(), Held: pt.heldNow.Load(), Late: pt.lateNow.Load(), Suspects: pt.suspectNow.Load(), Bytes: pt.bytes.Load(),
			Remaining: pt.remaining.Load(),
			Watermark: keystate.NoTime, Quarantine: pt.confined.Load(),
		}
		if t := pt.maxTime.Load(); t != 0 && t > keystate.NoTime+p.cfg.State.Lateness {
			s.Watermark = t - p.cfg.State.Lateness
		}
		if open := pt.openNow.Load(); open != nil {
			s.Open = *open
		}
		if h := pt.onHold.Load(); h != nil {
			s.Hold, s.HoldSince = h.why, h.since
		}
		s.Behind = s.End - s.Committed
		pt.seenEnds(&s)
		if s.Running {
			s.CommittedAt = time.Unix(0, pt.committedAt.Load())
			s.Since = time.Unix(0, max(pt.committedAt.Load(), pt.behindAt.Load()))
			if s.Back.After(s.Since) {
				s.Since = s.Back
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b metrics.PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// Ready reports whether the worker does its work: see NotReady.
func (p *Processor) Ready() bool { return p.NotReady() == nil }

// NotReady says why the worker does not do its work: it is not in the group, a
// partition is being restored or its start is not committed yet, or the brokers do
// not answer. It is nil for a member that the group has no partition for, and a
// partition in quarantine does not count.
func (p *Processor) NotReady() error {
	parts := p.Status()
	if len(parts) == 0 {
		p.statusMu.Lock()
		member := p.member
		p.statusMu.Unlock()
		if member == nil || !member.Spare() {
			return errors.New("processor: not in the group")
		}
	}
	for i := range parts {
		switch s := &parts[i]; {
		case s.Quarantine != nil:
		case !s.Running:
			return fmt.Errorf("processor: %s/%d: its state is being restored", s.Topic, s.Partition)
		case s.Starting:
			return fmt.Errorf("processor: %s/%d: its start is not committed yet", s.Topic, s.Partition)
		case s.Lost:
			return fmt.Errorf("processor: %s/%d: no fetch has been answered for %s", s.Topic, s.Partition, s.FetchAge.Round(time.Second))
		}
	}
	return nil
}

// Stalled names a partition that has had input for longer than limit without
// committing any; nil when there is none. One that is held or in quarantine does not
// count, nor one whose broker does not answer: a worker that is started anew is no better off.
func (p *Processor) Stalled(limit time.Duration) error {
	for _, s := range p.Status() {
		if idle := time.Since(s.Since); s.Running && s.Hold == "" && s.Quarantine == nil && !s.Lost && s.Behind > 0 && idle > limit {
			return fmt.Errorf("processor: %s/%d: %d records behind and nothing committed for %s", s.Topic, s.Partition, s.Behind,
				idle.Round(time.Second))
		}
	}
	return nil
}
