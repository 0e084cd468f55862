package processor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/keystate"
)

// PartitionStatus is what an operator sees of a partition.
type PartitionStatus struct {
	Topic       string
	Partition   int32
	Running     bool  // restored
	Starting    bool  // where it starts is not committed yet, and nothing is fetched before
	Position    int64 // next offset to fold
	Committed   int64
	End         int64 // last stable offset seen; -1: not known yet
	Lag         int64
	Keys        int64
	Bytes       int64            // memory of the state, about
	Watermark   int64            // event time in us behind which nothing is expected; keystate.NoTime without a sample
	Remaining   int64            // while restoring: offsets yet to be read
	Open        map[string]int64 // anomalies that are open, by detector; read only
	Held        int64
	Suspects    int64 // of Held: those whose event time is not believed yet
	Late        int64 // records sent to the late topic since the state was restored
	CommittedAt time.Time
	Since       time.Time // the latest of CommittedAt, when there was something to commit again, and when brokers were back
	Hold        string    // what outside of Kafka the partition waits for; empty: for nothing
	HoldSince   time.Time
	Quarantine  *Quarantine // nil: it goes on; read only

	LagKnown      bool          // Committed, End and Lag are known; while it is restored that takes a moment
	HighWatermark int64         // where the log ends, what open transactions have written included; -1: not known yet
	HighLag       int64         // offsets from Committed to HighWatermark
	HighLagKnown  bool          //
	Fetching      bool          // something is being fetched: the partition, or its changelog
	FetchAge      time.Duration // how long no fetch of it has been answered
	Lost          bool          // for longer than brokers take to come back

	behind int64     // offsets to the last stable one that the partition's goroutine has taken in hand
	back   time.Time // when it was last not Lost any more
}

// TP is the partition's name.
func (s *PartitionStatus) TP() kafka.TP {
	return kafka.TP{Topic: s.Topic, Partition: s.Partition}
}

// Status lists the assigned partitions, by topic and partition.
func (p *Processor) Status() []PartitionStatus {
	p.statusMu.Lock()
	defer p.statusMu.Unlock()
	out := make([]PartitionStatus, 0, len(p.status))
	for tp, pt := range p.status {
		s := PartitionStatus{
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
		s.behind = s.End - s.Committed
		s.seenEnds(pt)
		if s.Running {
			s.CommittedAt = time.Unix(0, pt.committedAt.Load())
			s.Since = time.Unix(0, max(pt.committedAt.Load(), pt.behindAt.Load()))
			if s.back.After(s.Since) {
				s.Since = s.back
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PartitionStatus) int {
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
		if idle := time.Since(s.Since); s.Running && s.Hold == "" && s.Quarantine == nil && !s.Lost && s.behind > 0 && idle > limit {
			return fmt.Errorf("processor: %s/%d: %d records behind and nothing committed for %s", s.Topic, s.Partition, s.behind,
				idle.Round(time.Second))
		}
	}
	return nil
}
