package processor

import (
	"cmp"
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
	Position    int64 // next offset to fold
	Committed   int64
	End         int64 // last stable offset seen
	Lag         int64
	Keys        int64
	Bytes       int64            // memory of the state, about
	Watermark   int64            // event time in us behind which nothing is expected; keystate.NoTime without a sample
	Remaining   int64            // while restoring: offsets yet to be read
	Open        map[string]int64 // anomalies that are open, by detector; read only
	Held        int64
	Late        int64 // records sent to the late topic since the state was restored
	CommittedAt time.Time
	Since       time.Time // the later of CommittedAt and when there was something to commit again
	Hold        string    // what outside of Kafka the partition waits for; empty: for nothing
	HoldSince   time.Time
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
			Topic: tp.Topic, Partition: tp.Partition, Running: pt.running.Load(),
			Position: pt.position.Load(), Committed: pt.committed.Load(), End: pt.end.Load(),
			Keys: pt.keys.Load(), Held: pt.heldNow.Load(), Late: pt.lateNow.Load(), Bytes: pt.bytes.Load(), Remaining: pt.remaining.Load(),
			Watermark: keystate.NoTime,
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
		if s.Running {
			s.Lag = max(0, s.End-s.Committed)
			s.CommittedAt = time.Unix(0, pt.committedAt.Load())
			s.Since = time.Unix(0, max(pt.committedAt.Load(), pt.behindAt.Load()))
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// Ready reports whether the worker is in the group and all it was assigned is
// restored.
func (p *Processor) Ready() bool {
	p.statusMu.Lock()
	defer p.statusMu.Unlock()
	for _, pt := range p.status {
		if !pt.running.Load() {
			return false
		}
	}
	return p.joined
}

// Stalled names a partition that has had input for longer than limit without
// committing any; nil when there is none. One that is held does not count.
func (p *Processor) Stalled(limit time.Duration) error {
	for _, s := range p.Status() {
		if idle := time.Since(s.Since); s.Running && s.Hold == "" && s.Lag > 0 && idle > limit {
			return fmt.Errorf("processor: %s/%d: %d records behind and nothing committed for %s", s.Topic, s.Partition, s.Lag, idle.Round(time.Second))
		}
	}
	return nil
}
