package processor

import (
	"context"
	"sync/atomic"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// restoring is what is known of a partition's lag before it runs: where the group
// was, and where the log ends. All are -1 until they are known.
type restoring struct {
	committed, stable, high atomic.Int64
}

// endsInterval is how often the end of a partition that is restored is asked for.
// One that runs learns it from its fetches.
const endsInterval = 5 * time.Second

// follow asks for the log's end until ctx ends. A broker that does not answer is
// asked again; the restore meets the same fault and reports it.
func (r *restoring) follow(ctx context.Context, c *kafka.Client, tp kafka.TP) {
	for {
		actx, cancel := context.WithTimeout(ctx, endsInterval)
		tps := []kafka.TP{tp}
		if m, err := c.ListStable(actx, tps); err == nil {
			r.stable.Store(m[tp])
		}
		if m, err := c.ListOffsets(actx, tps, kafka.Latest); err == nil {
			r.high.Store(m[tp])
		}
		cancel()
		if sleep(ctx, endsInterval) != nil {
			return
		}
	}
}

// seenEnds fills in what the partition's source has been answered. It knows the end
// of an idle partition, and how long there has been no answer.
func (pt *partition) seenEnds(s *metrics.PartitionStatus) {
	s.HighWatermark = -1
	if src := pt.watched.Load(); src != nil {
		seen := src.Seen()
		s.Fetching, s.FetchAge, s.Lost, s.Back = true, seen.Age, seen.Lost, seen.Back
		if src.TP() == pt.tp && s.Running && seen.LastStable >= 0 {
			s.End, s.HighWatermark = seen.LastStable, seen.HighWatermark
		}
	}
	if !s.Running {
		s.Committed, s.End, s.HighWatermark = pt.restoring.committed.Load(), pt.restoring.stable.Load(), pt.restoring.high.Load()
	}
	s.LagKnown = s.Committed >= 0 && s.End >= 0
	if s.LagKnown {
		s.Lag = max(0, s.End-s.Committed)
	}
	if s.HighLagKnown = s.Committed >= 0 && s.HighWatermark >= 0; s.HighLagKnown {
		s.HighLag = max(0, s.HighWatermark-s.Committed)
	}
}
