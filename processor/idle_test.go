package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/anomaly"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// quickReadings returns n readings of five series, a millisecond apart.
func (b *bench) quickReadings(n int) []kafkatest.Record {
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	recs := make([]kafkatest.Record, n)
	for i := range recs {
		name := fmt.Sprintf("s%d", b.n%5)
		at := int64(1700000000000 + b.n)
		recs[i] = kafkatest.Record{Topic: b.input, Key: []byte(name), Time: at,
			Value: enc.Append(nil, []byte(name), at*1000, b.rng.Float64(), int64(b.n))}
		b.n++
	}
	return recs
}

// idle is a configuration under which a partition without records is idle after 100 ms.
func (b *bench) idle() Config {
	b.t.Helper()
	if err := b.client.Admin.CreateTopic(context.Background(), "anomalies", 1, 1, nil); err != nil {
		b.t.Fatal(err)
	}
	cfg := b.config("one")
	cfg.Mappings.IdleAfter = 100 * time.Millisecond
	cfg.Mappings.State.Detectors[0].Stride = 1
	cfg.Mappings.State.Reading.Lateness, cfg.Mappings.State.Silence = 50_000, 400_000
	cfg.Outputs[cycle.Anomalies] = "anomalies"
	return cfg
}

// silences returns how many silences have opened and closed.
func (b *bench) silences() (opened, closed int) {
	b.t.Helper()
	recs, err := b.c.Admin().ReadAll(context.Background(), "anomalies", true)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range recs {
		a, err := output.DecodeAnomaly(recs[i].Value)
		if err != nil {
			b.t.Fatal(err)
		}
		switch {
		case a.Detector != "silence":
		case anomaly.Kind(a.Kind) == anomaly.Open:
			opened++
		case anomaly.Kind(a.Kind) == anomaly.Close:
			closed++
		}
	}
	return opened, closed
}

// quiet waits until the samples of an idle partition are scored and its series silent.
func (b *bench) quiet(p *Processor, committed int64, silent int) {
	b.t.Helper()
	waitFor(b.t, "the tail is scored, and all series are silent", func() bool {
		l := p.Status()
		opened, closed := b.silences()
		return len(l) == 1 && l[0].Committed == committed && l[0].Held == 0 && opened-closed == silent
	})
}

// TestIdlePartition: where the topic ends, the samples held for LATENESS are scored and the series become silent, once,
// although the cycle that says so fails at first; the next owner restores the state that the last one had, after a crash
// too, and a new record ends the silence of its series.
func TestIdlePartition(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		b := newBench(t, 1)
		send := func(n int) {
			t.Helper()
			if _, err := b.c.ProduceAcked(context.Background(), b.quickReadings(n)); err != nil {
				t.Fatal(err)
			}
		}
		send(60)
		b.c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "anomalies", Err: kerr.OutOfOrderSequenceNumber, Count: 2})
		var last []byte
		lastAt := int64(-1)
		cfg := b.idle()
		cfg.Guarantee = g
		restored := 0
		cfg.export = func(_ kafka.TP, again bool, offset int64, state []byte) {
			if again && offset == lastAt && offset > 0 {
				if restored++; !bytes.Equal(last, state) {
					t.Errorf("restore %d: the state of %d bytes differs from the state of %d before", restored, len(state), len(last))
				}
			}
			last, lastAt = bytes.Clone(state), offset
		}
		p, stop := b.start(cfg)
		b.quiet(p, 60, 5)
		if n := testutil.ToFloat64(cfg.Metrics.Transactions.WithLabelValues("aborted")); n == 0 {
			t.Error("no cycle failed")
		}
		if n := len(b.ledger()); n != 60 {
			t.Errorf("%d scores, want 60", n)
		}
		lastAt = -1 // the first hand-over follows
		stop(nil)
		p, stop = b.start(cfg)
		waitFor(t, "it runs again", func() bool { l := p.Status(); return len(l) == 1 && l[0].Running })
		stop(errors.New("crash"))
		p, stop = b.start(cfg)
		b.quiet(p, 60, 5)
		b.n += 10_000
		send(1)
		b.quiet(p, 61, 5) // it ends a silence, and its series becomes silent again
		if opened, closed := b.silences(); opened != 6 || closed != 1 {
			t.Errorf("%d silences opened and %d closed, want 6 and 1", opened, closed)
		}
		stop(nil)
		if restored < 2 {
			t.Errorf("restored %d times", restored)
		}
	}
}

// TestNoIdlePartition: without IDLE_AFTER only records move the watermark.
func TestNoIdlePartition(t *testing.T) {
	b := newBench(t, 1)
	if _, err := b.c.ProduceAcked(context.Background(), b.quickReadings(60)); err != nil {
		t.Fatal(err)
	}
	cfg := b.idle()
	cfg.Mappings.IdleAfter = 0
	b.run(cfg)
	if opened, _ := b.silences(); opened > 0 {
		t.Errorf("%d silences", opened)
	}
}
