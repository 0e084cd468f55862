package cycle

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/simple"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

// scored returns a state with rows scores of some series.
func scored(tb testing.TB, cfg *state.Config, rows int) *state.State {
	tb.Helper()
	level, err := simple.NewZScore(8)
	if err != nil {
		tb.Fatal(err)
	}
	*cfg = state.Config{Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "level", Detector: level, Stride: 1, Fingerprint: 2}}}
	s := state.New(cfg)
	s.SetSource("in", 0)
	s.Mark(0)
	executor := detectors.NewCPU(1)
	defer executor.Close()
	batch := executor.Batch()
	defer executor.Release(batch)
	score := func() {
		if err := executor.Execute(context.Background(), batch); err != nil {
			tb.Fatal(err)
		}
		s.Apply(batch)
		batch.Reset()
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for offset := int64(0); len(s.Rows) < rows; offset++ {
		for !s.Fits(batch) {
			score()
		}
		s.Fold(&state.Sample{Key: fmt.Appendf(nil, "plant/line/sensor-%03d", rng.IntN(200)), Time: offset * 1e6, Offset: offset,
			Values: []float64{math.Sin(float64(offset)) + rng.NormFloat64()}}, batch)
		if offset%4096 == 4095 {
			score()
		}
	}
	return s
}

// BenchmarkWrite is the encoding of a chunk's scores into a payload of 8 partitions.
func BenchmarkWrite(b *testing.B) {
	for name, id := range map[string]int32{"avro": 1, "json": output.JSON} {
		b.Run(name, func(b *testing.B) { benchmarkWrite(b, id, false) })
		b.Run(name+"/runs", func(b *testing.B) { benchmarkWrite(b, id, true) })
	}
}

func benchmarkWrite(b *testing.B, id int32, runs bool) {
	const rows = 4096
	var cfg state.Config
	s := scored(b, &cfg, rows)
	topics := &Topics{}
	topics.Outputs[Scores] = Topic{Name: "scores", Partitions: 8, BatchBytes: 900_000}
	p := NewPayload(topics, func(n int) *record.Batches { return record.NewBatches(n, record.CodecNone) })
	w := NewWriter(topics, kafka.TP{Topic: "in"}, &cfg, &SchemaIDs{Scores: id}, ScoresAll, NewCarried(nil))
	if runs {
		w.Runs()
	}
	now := time.Unix(1700000000, 0)
	b.ReportAllocs()
	for b.Loop() {
		var work metrics.Work
		if _, err := w.Write(p, s, &work, now); err != nil {
			b.Fatal(err)
		}
		p.Reset()
	}
	b.ReportMetric(float64(len(s.Rows))*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
