package processor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/metrics"
	"odradek/schemas/output"
)

// illegible writes n records to a partition that no schema reads.
func (b *bench) illegible(partition int32, n int) {
	b.t.Helper()
	recs := make([]kafkatest.Record, n)
	for i := range recs {
		recs[i] = kafkatest.Record{Topic: b.input, Partition: partition, Key: []byte("p"), Value: []byte("no reading")}
	}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		b.t.Fatal(err)
	}
}

// say writes a resume of partition 0 to the feedback topic.
func (b *bench) say(offset, until int64) {
	b.t.Helper()
	f := output.Feedback{ID: "resume", Kind: output.FeedbackResume, WrittenAt: 1,
		Resume: &feedback.Resume{Topic: b.input, Offset: offset, Until: until}}
	if err := feedback.Write(context.Background(), b.client, "said", f.ID, f.Append(nil, -1)); err != nil {
		b.t.Fatal(err)
	}
}

// operated is a configuration that stops above 5 of 20 records and follows the feedback topic.
func (b *bench) operated() Config {
	b.t.Helper()
	if err := b.client.Admin.CreateTopic(context.Background(), "said", 1, 1, feedback.Configs); err != nil {
		b.t.Fatal(err)
	}
	cfg := b.config("one")
	reader := feedback.NewReader(b.client, "said", 0, cfg.Log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); reader.Run(ctx) }()
	b.t.Cleanup(func() { cancel(); <-done })
	cfg.Mappings.StopAbove, cfg.Resume = cycle.DeadLetterLimit{Most: 5, Of: 20}, reader.Resume
	return cfg
}

// paused waits until partition 0 is paused before the record at an offset, with everything before it committed.
func (b *bench) paused(p *Processor, at int64) metrics.PartitionStatus {
	b.t.Helper()
	var s metrics.PartitionStatus
	waitFor(b.t, "the partition is paused", func() bool {
		q := quarantined(p)
		if len(q) != 1 || q[0].Committed != at {
			return false
		}
		s = q[0]
		return s.Quarantine.Offset == at
	})
	return s
}

// TestStopAbove: a partition is paused before the dead letter that is one too many; what comes before is committed, and
// the other partition goes on. A crash and a restart later it is paused at the same record, without another dead letter.
// A resume is worth one window, or until an offset.
func TestStopAbove(t *testing.T) {
	b := newBench(t, 2)
	b.produceTo(0, 33) // the second window of partition 0 begins at 20
	b.illegible(0, 30)
	b.produceTo(0, 40)
	b.produceTo(1, 50)
	cfg := b.operated()
	p, stop := b.start(cfg)
	s := b.paused(p, 38)
	if s.Quarantine.Reason != DeadLetters || !strings.Contains(s.Quarantine.Detail, "5 of 20 records (stop_above)") {
		t.Errorf("paused for %+v", s.Quarantine)
	}
	if n := len(b.dead()); n != 5 {
		t.Errorf("%d dead letters, want 5", n)
	}
	if err := p.NotReady(); err == nil || !strings.Contains(err.Error(), "paused at offset 38") {
		t.Errorf("the worker is ready: %v", err)
	}
	waitFor(t, "the other partition is committed", func() bool { return p.Status()[1].Committed == 50 })
	if err := p.Stalled(0); err != nil {
		t.Errorf("a restart would help nobody: %v", err)
	}
	stop(errors.New("crash"))

	cfg.Metrics = b.config("").Metrics
	p, stop = b.start(cfg)
	b.paused(p, 38)
	if n := len(b.dead()); n != 5 {
		t.Errorf("%d dead letters after a restart, want 5", n)
	}
	b.say(37, 0) // of another record
	b.say(38, 0)
	b.paused(p, 43) // it begins a window with the record at 38
	if n := len(b.dead()); n != 10 {
		t.Errorf("%d dead letters after a resume, want 10", n)
	}
	stop(nil)
	if text := b.commitOf(0).Metadata; cycle.LetterWindowOf(text) != (cycle.LetterWindow{Dead: 5, Records: 5}) {
		t.Errorf("the metadata is %q", text)
	}

	p, _ = b.start(cfg)
	b.paused(p, 43)
	b.say(43, 60)
	waitFor(t, "the partition is committed", func() bool { return p.Status()[0].Committed == 103 })
	if n := len(b.dead()); n != 30 || !p.Ready() {
		t.Errorf("%d dead letters in the end, want 30; %v", n, p.NotReady())
	}
}

func (b *bench) commitOf(partition int32) kafka.Offset {
	b.t.Helper()
	tp := kafka.TP{Topic: b.input, Partition: partition}
	offs, err := b.client.Offsets.Committed(context.Background(), "g", []kafka.TP{tp})
	if err != nil {
		b.t.Fatal(err)
	}
	return offs[tp]
}

// TestStopAboveCountsOnce: cycles that fail and are done again count their records once, and a rollback of a partition
// that is paused already has it come to the same record.
func TestStopAboveCountsOnce(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		b := newBench(t, 1)
		b.c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "scores", Err: kerr.OutOfOrderSequenceNumber, Count: 6})
		for range 20 {
			b.produceTo(0, 15)
			b.illegible(0, 5)
		}
		b.produceTo(0, 10)
		b.illegible(0, 6)
		cfg := b.operated()
		cfg.Guarantee = g
		p, stop := b.start(cfg)
		b.paused(p, 415)
		if n := testutil.ToFloat64(cfg.Metrics.Transactions.WithLabelValues("aborted")); n == 0 {
			t.Error("no cycle failed")
		}
		if n := len(b.dead()); g == ExactlyOnce && n != 105 || n < 105 {
			t.Errorf("%d dead letters, want 105", n)
		}
		stop(nil)
	}
}

// TestStopAboveUnreadableBatch: a batch counts as many dead letters as it has records, and the partition is paused
// before all of it.
func TestStopAboveUnreadableBatch(t *testing.T) {
	var d disk
	b := newBench(t, 1, kfake.ListenFn(d.listen))
	b.produceBatch(0, 7)
	b.produceBatch(0, 6)
	b.produceBatch(0, 9)
	d.damage(7, func(batch []byte) { batch[len(batch)-1] ^= 0xff })
	cfg := b.operated()
	p, stop := b.start(cfg)
	b.paused(p, 7)
	if n := len(b.dead()); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
	b.say(7, 0)
	waitFor(t, "the partition is committed", func() bool { return p.Status()[0].Committed == 22 })
	if dead := b.dead(); len(dead) != 1 {
		t.Errorf("%d dead letters, want one of the whole batch", len(dead))
	}
	stop(nil)
}

// TestStopAboveOfMissingSchema: a record whose schema the registry lacks is held first. If it would then be a dead letter
// too many, the partition is paused, and nothing is decided about the schema.
func TestStopAboveOfMissingSchema(t *testing.T) {
	b, r := newBench(t, 1), newRegistry(t)
	b.produceTo(0, 10)
	for id := range int32(3) {
		b.framed(9 + id)
	}
	b.produceTo(0, 10)
	operated := b.operated()
	p, stop := r.start(b, 100*time.Millisecond, func(cfg *Config) {
		cfg.Mappings.StopAbove, cfg.Resume = cycle.DeadLetterLimit{Most: 1, Of: 20}, operated.Resume
	})
	b.paused(p, 11)
	if n := len(b.dead()); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
	b.say(11, 20)
	waitFor(t, "the partition is committed", func() bool { return p.Status()[0].Committed == 23 })
	if n := len(b.dead()); n != 3 {
		t.Errorf("%d dead letters, want 3", n)
	}
	stop(nil)
}
