package processor

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"odradek/detectors/threshold"
	"odradek/processor/kafka"
)

// TestThresholdsOfSeveralWorkers: each worker has other thresholds than the one before,
// and is killed. What the next one restores from Kafka is what the one before had, to
// the byte, by a replay that judges by the thresholds that were in force.
func TestThresholdsOfSeveralWorkers(t *testing.T) {
	b := newBench(t, 1)
	killed := errors.New("killed")
	var before []byte
	for i, params := range []threshold.Params{
		{Kind: threshold.Quantile, Value: 0.8, History: 40, Warmup: 5, Decluster: 3},
		{Kind: threshold.Quantile, Value: 0.8, History: 40, Warmup: 5},
		{Kind: threshold.Mean, Value: 1.1, History: 50, Decluster: 2},
		{Kind: threshold.Fixed, Value: 1, History: 50, Decluster: 5},
		{Kind: threshold.Fixed, Value: 1, History: 50, Decluster: 5, Late: threshold.Late{Open: 1, Close: 5}},
	} {
		b.produce(1500)
		cfg := b.config("one")
		cfg.Mappings.State.Detectors[0].Threshold = &params
		if i != 2 {
			cfg.ReplayLimit = time.Hour // the next one replays all
		}
		restored := make(chan []byte, 1)
		cfg.export = func(_ kafka.TP, wasRestored bool, _ int64, state []byte) {
			if wasRestored {
				restored <- state
			}
		}
		p, stop := b.start(cfg)
		b.committed(p, int64(b.n))
		parts := slices.Collect(maps.Values(p.assigned.partitions)) // it is written again when they end
		stop(killed)
		if state := <-restored; i > 0 && !bytes.Equal(state, before) {
			t.Errorf("worker %d restores %d bytes that are not the %d of the one before", i, len(state), len(before))
		}
		if len(parts) != 1 {
			t.Fatalf("%d partitions", len(parts))
		}
		before = parts[0].work.(*folder).state.Export(nil)
	}
	recs, err := b.c.Admin().ReadAll(context.Background(), "g-"+b.input+"-changelog", true)
	if err != nil {
		t.Fatal(err)
	}
	decisions := 0
	for _, r := range recs {
		if bytes.HasPrefix(r.Key, []byte("D\x04level")) && r.Value != nil {
			decisions++
		}
	}
	if decisions != 5 {
		t.Errorf("%d decisions on thresholds in the changelog", decisions)
	}
}
