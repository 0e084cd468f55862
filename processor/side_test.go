package processor

import (
	"context"
	"fmt"
	"testing"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// TestSidePartitions: dead letters and late records are spread as Kafka's
// partitioner does by their key; without one they follow their source partition.
func TestSidePartitions(t *testing.T) {
	b := newBench(t, 3)
	ctx := context.Background()
	for _, name := range []string{"dead5", "late5"} {
		if err := b.client.Admin.CreateTopic(ctx, name, 5, 1, nil); err != nil {
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
