package processor

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
	"odradek/processor/metrics"
	"odradek/schemas/output"
)

// poison returns a record of the year 2199, with a header, in partition 0.
func (b *bench) poison() kafkatest.Record {
	b.t.Helper()
	far := time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)
	rec := kafkatest.Record{Topic: b.input, Partition: 0, Key: []byte("bad"), Time: far.UnixMilli(),
		Headers: []kafkatest.Header{{Key: "site", Value: []byte("x")}},
		Value:   output.NewReadingEncoder(-1, "plant", "mm").Append(nil, []byte("bad"), far.UnixMicro(), 1, 1)}
	if _, err := b.c.ProduceAcked(context.Background(), []kafkatest.Record{rec}); err != nil {
		b.t.Fatal(err)
	}
	return rec
}

func (b *bench) read(topic string) []kafkatest.Record {
	b.t.Helper()
	recs, err := b.c.Admin().ReadAll(context.Background(), topic, true)
	if err != nil {
		b.t.Fatal(err)
	}
	return recs
}

// gathered returns the sum of a metric over its labels.
func gathered(t *testing.T, m *metrics.Metrics, name string) (sum float64) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, v := range f.GetMetric() {
				sum += v.GetCounter().GetValue() + v.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// fieldsOf returns the values of the label field of a metric.
func fieldsOf(t *testing.T, m *metrics.Metrics, name string) (list []string) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, v := range f.GetMetric() {
			for _, l := range v.GetLabel() {
				if f.GetName() == name && l.GetName() == "field" {
					list = append(list, l.GetValue())
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

const minute = int64(60e6)

// rejected requires one dead letter, which is rec byte for byte.
func (b *bench) rejected(rec kafkatest.Record, offset int64) {
	b.t.Helper()
	dead := b.read("dlq")
	if len(dead) != 1 {
		b.t.Fatalf("%d dead letters, want 1", len(dead))
	}
	d := &dead[0]
	class, _ := d.Header("odradek.error.class")
	at, _ := d.Header("__streams.errors.offset")
	site, _ := d.Header("site")
	stamp, _ := d.Header(cycle.TimestampHeader)
	if !bytes.Equal(d.Key, rec.Key) || !bytes.Equal(d.Value, rec.Value) || string(stamp) != fmt.Sprint(rec.Time) || string(site) != "x" ||
		string(class) != "future_time" || string(at) != fmt.Sprint(offset) {
		b.t.Errorf("the dead letter has key %q, %d bytes, time %s of %d, class %s, offset %s", d.Key, len(d.Value), stamp, rec.Time, class, at)
	}
}

// TestPoisonTime: one record of the year 2199 moves nothing but itself: it makes
// no other late and evicts no series, neither live nor after a restart.
func TestPoisonTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(cfg *Config)
	}{
		{"lateness", func(cfg *Config) { cfg.Mappings.State.Reading.Lateness = 1e6 }},
		{"ttl", func(cfg *Config) { cfg.Mappings.State.TTL = 24 * 60 * minute }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 1)
			b.produce(500)
			rec := b.poison()
			b.produce(1000)
			configure := func() Config {
				cfg := b.config("one")
				cfg.Mappings.State.Reading.MaxFuture = time.Hour.Microseconds()
				c.change(&cfg)
				cfg.Mappings.State.Reading.MaxJump = 10 * minute
				return cfg
			}
			cfg := configure()
			l := cfg.capture()
			b.run(cfg)
			late := func() int { return len(b.read("late")) }
			if n, evicted := late(), gathered(t, cfg.Metrics, "odradek_state_evictions_total"); n > 0 || evicted > 0 {
				t.Errorf("%d records after it are late, %v series are evicted", n, evicted)
			}
			b.rejected(rec, 500)
			// The first record of a partition is one, too: there is nothing to compare it with.
			for name, want := range map[string]float64{"suspects_total": 3, "suspects_rejected_total": 1, "suspects_held": 0,
				"records_dead_lettered_total": 1} {
				if got := gathered(t, cfg.Metrics, "odradek_"+name); got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			if lines := l.with("event times", "are rejected"); len(lines) != 1 || !strings.Contains(lines[0], "topic="+b.input) {
				t.Errorf("the log says %q", lines)
			}
			if lines := l.with("key=bad"); len(lines) > 0 {
				t.Errorf("the log names a series: %q", lines)
			}
			b.produce(300)
			b.run(configure())
			if n := late(); n > 0 {
				t.Errorf("after a restart %d records are late", n)
			}
		})
	}
}

// TestSuspectsInTheLog: a topic whose first records agree with each other has no line about held event times. Where records do
// wait, the log says for what, and then that they are accepted.
func TestSuspectsInTheLog(t *testing.T) {
	b := newBench(t, 1)
	run := func() *logLines {
		cfg := b.config("one")
		cfg.Mappings.State.Reading.MaxJump = 10 * minute
		l := cfg.capture()
		b.run(cfg)
		return l
	}
	b.produce(1)
	if l := run(); len(l.with("level=INFO", "first records of the partition wait", "topic="+b.input)) != 1 ||
		len(l.with("max_jump")) != 1 {
		t.Errorf("one record: the log says %q", l.with("max_jump"))
	}
	b.produce(500)
	run() // they are accepted: those that a worker found held are no news of its own
	b = newBench(t, 1)
	b.produceBatch(0, 500) // one batch: a first batch of one record would be held, and the log would say so
	for range 2 {
		if lines := run().with("max_jump"); len(lines) > 0 {
			t.Errorf("500 healthy records: the log says %q", lines)
		}
		b.produce(500)
	}
	b.poison()
	if l := run(); len(l.with("level=INFO", "held until", "topic="+b.input)) != 1 || len(l.with("max_jump")) != 1 {
		t.Errorf("one record of the future: the log says %q", l.with("max_jump"))
	}
}

// TestSuspectIsHandedOver: a suspect that is held when its partition is handed over
// is decided by the next owner, who reads the record again from the input.
func TestSuspectIsHandedOver(t *testing.T) {
	b := newBench(t, 1)
	configure := func() Config {
		cfg := b.config("one")
		cfg.Mappings.State.Reading.MaxJump = 10 * minute
		return cfg
	}
	b.produce(200)
	rec := b.poison()
	status := b.run(configure())
	if len(status) != 1 || status[0].Suspects != 1 || status[0].Held != 1 {
		t.Fatalf("%+v, want one suspect held", status)
	}
	if n := len(b.read("dlq")); n > 0 {
		t.Fatalf("%d dead letters before it is decided", n)
	}
	b.produce(1)
	b.run(configure())
	b.produce(1)
	if status = b.run(configure()); status[0].Suspects != 0 || status[0].Late != 0 {
		t.Errorf("%+v, want no suspect held", status)
	}
	b.rejected(rec, 200)
}

// TestSuspectIsLost: retention deletes a suspect between two owners. The next
// restores without it and logs that.
func TestSuspectIsLost(t *testing.T) {
	b := newBench(t, 1)
	configure := func() Config {
		cfg := b.config("one")
		cfg.Mappings.State.Reading.MaxJump = 10 * minute
		return cfg
	}
	b.produce(200)
	b.poison()
	b.run(configure())
	if err := b.c.Admin().DeleteRecords(context.Background(), b.input, 0, 201); err != nil {
		t.Fatal(err)
	}
	b.produce(100)
	cfg := configure()
	l := cfg.capture()
	if status := b.run(cfg); status[0].Suspects != 0 || status[0].Late != 0 {
		t.Errorf("%+v, want no suspect", status)
	}
	if lines := l.with("WARN", "not in the log any more", "records=1"); len(lines) != 1 || gathered(t, cfg.Metrics,
		"odradek_suspects_lost_total") != 1 {
		t.Errorf("the log says %q", lines)
	}
	if n := len(b.read("dlq")) + len(b.read("late")); n > 0 {
		t.Errorf("%d dead letters and late records", n)
	}
}
