package state_test

import (
	"context"
	"fmt"
	"math"

	"odradek/detectors"
	"odradek/detectors/simple"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// One series with a fault: samples are folded, their tasks executed, the scores
// applied, and what follows is read and committed.
func Example() {
	zscore, err := simple.NewZScore(8)
	if err != nil {
		fmt.Println(err)
		return
	}
	bound := threshold.New(threshold.Fixed, 6)
	config := state.Config{
		Dim:     1,
		Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{
			Name: "level", Detector: zscore, Stride: 1, Fingerprint: 1,
			Threshold: &bound,
			Events:    &anomaly.Policy{OpenAfter: 1, CloseAfter: 3, Release: 1},
		}},
	}
	if err := config.Check(); err != nil {
		fmt.Println(err)
		return
	}
	st := state.New(&config)
	st.SetSource("readings", 0)
	st.Mark(0) // where the input begins

	executor := detectors.NewCPU(1)
	defer executor.Close()
	batch := executor.Batch()
	defer executor.Release(batch)
	score := func() {
		if err := executor.Execute(context.Background(), batch); err != nil {
			fmt.Println(err)
		}
		st.Apply(batch)
		batch.Reset()
	}

	const samples = 20
	for offset := range int64(samples) {
		value := 20 + math.Sin(float64(offset))
		if offset == 12 {
			value = 45 // the fault
		}
		for !st.Fits(batch) {
			score()
		}
		st.Fold(&state.Sample{Key: []byte("press-7"), Time: offset * 1e6, Offset: offset, Values: []float64{value}}, batch)
	}
	for !st.Fits(batch) {
		score()
	}
	score()

	for _, row := range st.Rows {
		if row.Exceeds {
			fmt.Printf("%s: offset %d has score %.1f, above %v\n", row.Key.Name(), row.Offset, row.Score, row.Threshold)
		}
	}
	for _, event := range st.Events {
		kind := map[anomaly.Kind]string{anomaly.Open: "opened", anomaly.Update: "updated", anomaly.Close: "closed"}
		fmt.Printf("anomaly of %s %s at offset %d\n", event.Name, kind[event.Change.Kind], event.Change.Offset)
	}

	// What the transaction takes along: which threshold is in force (a decision), and
	// the head of the series, since its anomaly has changed.
	st.Mark(samples)
	err = st.Snapshot(math.MinInt64, 0, func(key, value []byte) error {
		fmt.Printf("changelog record of type %c\n", key[0])
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	st.Committed(samples)

	// Output:
	// press-7: offset 12 has score 34.1, above 6
	// anomaly of level opened at offset 12
	// anomaly of level closed at offset 15
	// changelog record of type D
	// changelog record of type D
	// changelog record of type H
}
