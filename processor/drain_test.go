package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// manySeries produces n records of as many series with long names.
func (b *bench) manySeries(n, partitions int) {
	b.t.Helper()
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	recs := make([]kafkatest.Record, n)
	for i := range recs {
		name := fmt.Sprintf("%01000d", b.n)
		at := 1700000000000 + int64(b.n)
		recs[i] = kafkatest.Record{Topic: b.input, Partition: int32(b.n % partitions), Key: []byte(name), Time: at,
			Value: enc.Append(nil, []byte(name), at*1000, float64(b.n%7), int64(b.n))}
		b.n++
	}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		b.t.Fatal(err)
	}
}

// toReplay returns the records that the committed floors leave to replay.
func (b *bench) toReplay(partitions int) (n int64) {
	b.t.Helper()
	var tps []kafka.TP
	for i := range partitions {
		tps = append(tps, kafka.TP{Topic: b.input, Partition: int32(i)})
	}
	offs, err := b.client.Offsets.Committed(context.Background(), "g", tps)
	if err != nil {
		b.t.Fatal(err)
	}
	for tp, off := range offs {
		f, err := state.ParseFloor(off.Metadata)
		if err != nil {
			b.t.Fatal(tp, err)
		}
		n += off.Offset - f.Offset
	}
	return n
}

// TestDrainWritesAllState: a drain brings the replay floor of each partition to the committed offset, in as many cycles as its
// state needs. One without time says what is left.
func TestDrainWritesAllState(t *testing.T) {
	const partitions = 2
	for _, c := range []struct {
		name  string
		drain time.Duration
		all   bool
	}{{"in time", time.Minute, true}, {"without time", time.Nanosecond, false}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, partitions)
			cfg := b.config("one")
			cfg.Drain, cfg.ReplayLimit = c.drain, time.Hour
			log := cfg.capture()
			_, stop := b.start(cfg)
			for range 20 { // a light load: cycles stay small, and with them what a partition adds to one
				b.manySeries(400, partitions)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			stop(nil)
			left := b.toReplay(partitions)
			said := log.with("records_to_replay=")
			switch {
			case c.all && (left > 0 || len(said) > 0):
				t.Errorf("a restart has %d records to replay, and the log says %q", left, said)
			case !c.all && (left == 0 || len(said) != partitions):
				t.Errorf("a restart has %d records to replay, and the log says %q", left, said)
			}
		})
	}
}
