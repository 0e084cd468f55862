package metrics

import (
	"time"

	"odradek/processor/kafka"
)

// PartitionStatus describes a partition to an operator.
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
	Bytes       int64            // approximate memory of the state
	Watermark   int64            // event time in us before which no sample is expected; state.NoTime without a sample
	Remaining   int64            // while restoring: offsets yet to be read
	Open        map[string]int64 // anomalies that are open, by detector; read only
	Held        int64
	Suspects    int64 // number of Held whose event time is not believed yet
	Late        int64 // records sent to the late topic since the state was restored
	CommittedAt time.Time
	Since       time.Time // the latest of CommittedAt, when there was something to commit again, and when brokers were back
	Hold        string    // what outside of Kafka the partition waits for; empty: for nothing
	HoldSince   time.Time
	FastClock   string      // what is known of a series whose clock is ahead of the others; "": nothing
	Quarantine  *Quarantine // nil: not paused; read only

	LagKnown      bool          // Committed, End and Lag are known; while it is restored that takes a moment
	HighWatermark int64         // where the log ends, what open transactions have written included; -1: not known yet
	HighLag       int64         // offsets from Committed to HighWatermark
	HighLagKnown  bool          //
	Fetching      bool          // something is being fetched: the partition, or its changelog
	FetchAge      time.Duration // how long no fetch of it has been answered
	Lost          bool          // for longer than brokers take to come back

	Behind int64     // offsets to the last stable one that the partition's goroutine has begun with
	Back   time.Time // when Lost last ended
}

// TP returns the partition's name.
func (s *PartitionStatus) TP() kafka.TP {
	return kafka.TP{Topic: s.Topic, Partition: s.Partition}
}

// Quarantine says why a partition is paused.
type Quarantine struct {
	Reason string // unreadable, unfetchable, unauthorized, unwritable or refused
	Detail string
	Offset int64 // where it would resume
	Since  time.Time
}
