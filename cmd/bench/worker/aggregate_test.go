package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/processor/kafkatest"
)

// TestBenchAggregate: a worker's means of a small backlog are the input's, and others are found.
func TestBenchAggregate(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	var log bytes.Buffer
	b := &Bench{Bed: &testbed.Bed{Measuring: &testbed.Measuring{Repeat: 1, Log: &log}, Kafka: "kfake",
		WorkerProgram: workerBinary(t), Dir: t.TempDir()}}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := b.Open(ctx); err != nil {
		t.Fatal(err)
	}
	in, err := b.newAggregateInput(ctx, 500)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.aggregateWorker(ctx, in, "t"); err != nil {
		t.Fatal(err)
	}
	const means = "means"
	if err := b.Cluster.Admin().CreateTopic(ctx, means, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	var records []kafkatest.Record
	add := func(s int32, minute int, mean float64) {
		value, _ := json.Marshal(map[string]any{"start": aggregateStart + int64(minute)*60_000, "mean": mean})
		records = append(records, kafkatest.Record{Topic: means, Key: fmt.Appendf(nil, aggregateKey, s), Value: value})
	}
	check := func(want string) {
		t.Helper()
		if _, err := b.Cluster.ProduceAcked(ctx, records); err != nil {
			t.Fatal(err)
		}
		records = nil
		err := in.verify(ctx, b, means, decodeMean)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("verify: %s, want %s", got, want)
		}
	}
	for s := range int32(500) {
		for minute := range aggregateMinutes {
			if s > 0 || minute > 0 {
				add(s, minute, aggregateMean(s, minute))
			}
		}
	}
	check("999 means of 1000")
	add(0, 0, aggregateMean(0, 0))
	check("<nil>")
	add(7, 1, aggregateMean(7, 1))
	check("a second mean of series 7, minute 1")
}
