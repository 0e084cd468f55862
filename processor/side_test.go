package processor

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

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
			for name, c := range map[string]map[string]string{"rekey": configs, "g-rekey-changelog": {"cleanup.policy": "compact"}} {
				if err := b.client.CreateTopic(ctx, name, 1, 1, c); err != nil {
					t.Fatal(err)
				}
			}
			b.produce(20)
			// A text of 950 KB is above MaxMessageBytes, and below the topics' limits.
			value := output.NewReadingEncoder(-1, "plant", strings.Repeat("x", 950<<10)).Append(nil, []byte("s00"), 1700000100000000, 1, 1)
			if _, err := b.c.ProduceAcked(ctx, []kafkatest.Record{{Topic: b.input, Partition: 0, Key: []byte("s00"), Time: 1700000100000,
				Value: value}}); err != nil {
				t.Fatal(err)
			}
			cfg := b.config("")
			cfg.Outputs[cycle.Rekeyed] = "rekey"
			_, stop := b.start(cfg)
			wctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			for _, topic := range []string{b.input, "rekey"} {
				if err := b.c.Admin().WaitCommitted(wctx, "g", topic); err != nil {
					t.Fatal(err)
				}
			}
			stop(nil)
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

// TestSidePartitions: dead letters and late records are spread as Kafka's
// partitioner does by their key; without one they follow their source partition.
func TestSidePartitions(t *testing.T) {
	b := newBench(t, 3)
	ctx := context.Background()
	for _, name := range []string{"dead5", "late5"} {
		if err := b.client.CreateTopic(ctx, name, 5, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	var recs []kafkatest.Record
	want := map[string]int32{}
	for i := range 40 {
		key := []byte(fmt.Sprintf("k%d", i))
		partition := int32(i % 3)
		recs = append(recs, kafkatest.Record{Topic: b.input, Partition: partition, Key: key, Time: 1700000000000,
			Value: []byte("bad" + string(key))})
		want["bad"+string(key)] = kafka.Partition(key, 5)
		recs = append(recs, kafkatest.Record{Topic: b.input, Partition: partition, Key: key, Time: 1700000000000,
			Value: enc.Append(nil, key, 1700000001000000, 1, 2)})
		late := enc.Append(nil, key, 1700000000000000, 1, int64(i))
		recs = append(recs, kafkatest.Record{Topic: b.input, Partition: partition, Key: key, Time: 1700000000000, Value: late})
		want[string(late)] = kafka.Partition(key, 5)
	}
	for p := range int32(3) {
		recs = append(recs, kafkatest.Record{Topic: b.input, Partition: p, Time: 1700000000000, Value: []byte(fmt.Sprint("null", p))})
		want[fmt.Sprint("null", p)] = p
	}
	if _, err := b.c.ProduceAcked(ctx, recs); err != nil {
		t.Fatal(err)
	}
	cfg := b.config("one")
	cfg.Outputs[cycle.DeadLetters], cfg.Outputs[cycle.Late] = "dead5", "late5"
	b.run(cfg)
	n := 0
	for _, topic := range []string{"dead5", "late5"} {
		got, err := b.c.Admin().ReadAll(ctx, topic, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			if p, ok := want[string(r.Value)]; !ok || r.Partition != p {
				t.Errorf("%s: a record of key %q is in partition %d, want %d (known: %v)", topic, r.Key, r.Partition, p, ok)
			}
			n++
		}
	}
	if n != len(want) {
		t.Errorf("%d records, want %d", n, len(want))
	}
}
