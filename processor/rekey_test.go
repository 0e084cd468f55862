package processor

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// makeKeyed makes the internal topic rekey and its changelog.
func (b *bench) makeKeyed(partitions int, configs map[string]string) {
	b.t.Helper()
	for name, c := range map[string]map[string]string{"rekey": configs, "g-rekey-changelog": {"cleanup.policy": "compact"}} {
		if err := b.client.Admin.CreateTopic(b.t.Context(), name, partitions, 1, c); err != nil {
			b.t.Fatal(err)
		}
	}
}

// keyed returns the configurations of a processor that keys the records of the input by series, and of one that scores those.
func keyed(cfg Config) (front, scoring Config) {
	front, scoring = cfg, cfg
	front.Group, front.Predecessor, front.Changelog = cfg.Group+"-rekey", cfg.Group, nil
	front.Outputs = cycle.TopicNames{cycle.DeadLetters: cfg.Outputs[cycle.DeadLetters], cycle.Rekeyed: "rekey"}
	scoring.Topics, scoring.Start = []string{"rekey"}, StartEarliest
	return front, scoring
}

// runKeyed runs both until all records are scored.
func (b *bench) runKeyed(cfg Config) {
	b.t.Helper()
	front, scoring := keyed(cfg)
	b.run(front)
	b.run(scoring)
}

// TestRekeyLarge: a record as large as the input takes reaches the internal topic
// whole. Where that topic takes less, the record is a dead letter at its source,
// whole, and never a truncated record that the decoder then refuses.
func TestRekeyLarge(t *testing.T) {
	for _, limit := range []string{"", "100000"} {
		t.Run("limit "+limit, func(t *testing.T) {
			b := newBench(t, 1)
			ctx := context.Background()
			configs := map[string]string{}
			if limit != "" {
				configs["max.message.bytes"] = limit
			}
			b.makeKeyed(1, configs)
			b.produce(20)
			// A text of 950 KB is above MaxMessageBytes, and below the topics' limits.
			value := output.NewReadingEncoder(-1, "plant", strings.Repeat("x", 950<<10)).Append(nil, []byte("s00"), 1700000100000000, 1, 1)
			if _, err := b.c.ProduceAcked(ctx, []kafkatest.Record{{Topic: b.input, Partition: 0, Key: []byte("s00"), Time: 1700000100000,
				Value: value}}); err != nil {
				t.Fatal(err)
			}
			b.runKeyed(b.config(""))
			dead := b.dead()
			if limit == "" {
				if len(dead) != 0 {
					t.Errorf("%d dead letters, class %s", len(dead), head(&dead[0], "odradek.error.class"))
				}
				return
			}
			if len(dead) != 1 {
				t.Fatalf("%d dead letters, want 1", len(dead))
			}
			if d := &dead[0]; head(d, "odradek.error.class") != "too_large" || head(d, "__streams.errors.topic") != b.input ||
				!bytes.Equal(d.Value, value) || string(d.Key) != "s00" {
				t.Errorf("class %s of %s, %d bytes of %d, key %q", head(d, "odradek.error.class"), head(d, "__streams.errors.topic"),
					len(d.Value), len(value), d.Key)
			}
		})
	}
}

// TestRefusedRekeyed: the internal topic of re-keying refuses a record. The input partition that it is of is
// quarantined, and the other goes on.
func TestRefusedRekeyed(t *testing.T) {
	b := newBench(t, 2)
	b.makeKeyed(2, nil)
	b.produce(200)
	recs := b.readings(1, 1)
	recs[0].Headers = []kafkatest.Header{{Key: "x", Value: []byte("poison")}}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		t.Fatal(err)
	}
	b.c.Fake.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "rekey", Err: kerr.InvalidTimestamp, Count: -1, When: holding("rekey", "poison")},
	)
	front, scoring := keyed(b.config(""))
	p, stop := b.start(front)
	_, stopScoring := b.start(scoring)
	waitFor(t, "a quarantine", func() bool { return len(quarantined(p)) > 0 })
	b.produceTo(0, 50)
	if err := b.waitCommittedBut(front.Group, 1); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.c.Admin().WaitCommitted(ctx, "g", "rekey"); err != nil {
		t.Error(err)
	}
	if q := quarantined(p); len(q) != 1 || q[0].Topic != b.input || q[0].Partition != 1 {
		t.Errorf("in quarantine: %+v; want %s/1", q, b.input)
	}
	stop(nil)
	stopScoring(nil)
}

// TestRekeyerPredecessor: a group that has scored the input so far gets its records by series from now on. The
// processor in front begins where the scoring of the input has ended, not at the configured start.
func TestRekeyerPredecessor(t *testing.T) {
	b := newBench(t, 2)
	b.makeKeyed(2, nil)
	b.produce(300)
	b.run(b.config(""))
	b.produce(200)
	cfg := b.config("")
	cfg.Start = StartLatest
	b.runKeyed(cfg)
	b.produce(100)
	b.runKeyed(cfg)
	recs, err := b.c.Admin().ReadAll(t.Context(), "rekey", true)
	if err != nil || len(recs) != 300 {
		t.Errorf("%d records have been copied (%v), want the 300 after those that were scored", len(recs), err)
	}
}
