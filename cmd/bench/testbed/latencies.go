package testbed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/schemas/output"
)

// Latencies has the latencies of single records, from event time until an independent reader of committed records receives the score.
type Latencies struct {
	Micros []int64 // sorted
	Rate   float64 // records/s that the generator reached
	Others float64 // share of the cores that neither worker, brokers nor this process used
}

// Quantile returns a quantile in milliseconds; 0 without scores.
func (l *Latencies) Quantile(q float64) float64 {
	if len(l.Micros) == 0 {
		return 0
	}
	return float64(l.Micros[min(int(q*float64(len(l.Micros))), len(l.Micros)-1)]) / 1000
}

// watchedPartition is the partition of the scores that is read back: a fair sample, with a
// quarter of the reader's load on the measured machine. The scores topic has the input's
// partition count, the same keys and the same hash, so these are the scores of the input's
// partition of that number. The hot key of ZipfMix is in partition 0.
const watchedPartition = 1

// Read takes the latency of every score of the watched partition that becomes
// visible between two times.
func (l *Latencies) Read(ctx context.Context, brokers []string, topic string, from, to time.Time) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {watchedPartition: kgo.NewOffset().AtEnd()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithDeadline(ctx, to)
	defer cancel()
	var list []output.Score
	for {
		fetches := cl.PollFetches(ctx)
		now := time.Now()
		if now.After(to) || ctx.Err() != nil {
			break
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s: %w", topic, e.Err)
		}
		if now.Before(from) {
			continue
		}
		var fault error
		fetches.EachRecord(func(r *kgo.Record) {
			var err error
			if list, err = output.DecodeScores(list[:0], r.Value); err != nil {
				fault = err
			}
			for _, s := range list {
				if s.Partition != watchedPartition {
					fault = fmt.Errorf("a score of partition %d in partition %d", s.Partition, watchedPartition)
				}
				l.Micros = append(l.Micros, now.UnixMicro()-s.EventTime)
			}
		})
		if fault != nil {
			return fmt.Errorf("read %s: %w", topic, fault)
		}
	}
	slices.Sort(l.Micros)
	return nil
}

// Reached adds to the row's note the rate, whether it is below the requested one, and a
// disturbance.
func (l *Latencies) Reached(r Row, rate float64) Row {
	if l.Others > MaxOthers {
		r = r.Noted("DISTURBED: other processes took %.0f%% of the cores", 100*l.Others)
	}
	if l.Rate < 0.97*rate {
		return r.Noted("at %s records/s: the generator did not reach %s", Figure(l.Rate), Figure(rate)).Want(r.Target, false)
	}
	return r.Noted("at %s records/s", Figure(l.Rate))
}
