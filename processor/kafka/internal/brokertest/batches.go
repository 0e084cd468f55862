package brokertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// Batches returns batches for partitions of a topic, with n records each
// whose values begin with prefix and count up.
func Batches(t testing.TB, topic string, partitions, n int, prefix string) map[record.TP]*record.Batches {
	t.Helper()
	out := map[record.TP]*record.Batches{}
	for p := range partitions {
		b := record.NewBatches(1000, record.Codec(p%5)) // several batches, every codec
		for i := range n {
			v := fmt.Sprintf("%s-%d-%05d", prefix, p, i)
			if err := b.Append(time.Now().UnixMilli(), []byte("key"), []byte(v), nil); err != nil {
				t.Fatal(err)
			}
		}
		out[TP(topic, int32(p))] = b
	}
	return out
}

// Values reads a topic with franz-go and returns the values by partition, in
// the log's order.
func Values(t testing.TB, k *kafkatest.Cluster, topic string, committed bool) map[int32][]string {
	t.Helper()
	rs, err := k.Admin().ReadAll(Within(t), topic, committed)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32][]string{}
	for _, r := range rs {
		out[r.Partition] = append(out[r.Partition], string(r.Value))
	}
	return out
}

// WantValues checks that a topic holds what Batches made, for each prefix in
// turn, and nothing else. Real Kafka shows a transaction some milliseconds after
// End.
func WantValues(t testing.TB, k *kafkatest.Cluster, topic string, partitions, n int, prefixes ...string) {
	t.Helper()
	wrong := ""
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		got := Values(t, k, topic, true)
		wrong = ""
		for p := range partitions {
			var want []string
			for _, prefix := range prefixes {
				for i := range n {
					want = append(want, fmt.Sprintf("%s-%d-%05d", prefix, p, i))
				}
			}
			if !slices.Equal(got[int32(p)], want) {
				wrong = fmt.Sprintf("%s/%d: %d records, want %d: %s", topic, p, len(got[int32(p)]), len(want), firstDifference(got[int32(p)], want))
			}
			if len(got[int32(p)]) > len(want) {
				t.Fatal(wrong)
			}
		}
		if wrong == "" {
			return
		}
	}
	t.Fatal(wrong)
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("at %d %s, want %s", i, g, w)
		}
	}
	return "the same"
}
