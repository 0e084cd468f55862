package detectors_test

import (
	"context"
	"fmt"

	"odradek/detectors"
	"odradek/detectors/simple"
)

// Example scores a batch of one task: the last three rows of a series, each compared with the four
// rows before it.
func Example() {
	series := []float64{10, 11, 10, 11, 10, 11, 30}
	const fresh = 3

	detector, err := simple.NewZScore(5)
	if err != nil {
		fmt.Println(err)
		return
	}
	size, ok := detector.Size(detectors.View{Dim: 1, Rows: len(series), Fresh: fresh})
	if !ok {
		fmt.Println("too few rows")
		return
	}

	executor := detectors.NewCPU(1)
	defer executor.Close()
	batch := executor.Batch()
	defer executor.Release(batch)

	// A task has the places of its parts in the batch. Rows are centred on a value of the series, so
	// that float32 holds their differences.
	task := detectors.Task{Op: detector.Op(), Dim: 1, Fresh: fresh}
	var part []float32
	task.Params = batch.Put(detector.Params())
	task.X, part = batch.GrowF32(len(series))
	for i, v := range series {
		part[i] = float32(v - series[0])
	}
	batch.GrowOutputs(&task, size)
	batch.Tasks = append(batch.Tasks, task)

	if err := executor.Execute(context.Background(), batch); err != nil {
		fmt.Println(err)
		return
	}
	for _, finding := range detector.AppendFindings(nil, batch.Rows(0)) {
		fmt.Printf("row %d, value %v: score %.1f\n", finding.To, series[finding.To], finding.Score)
	}

	// Output:
	// row 4, value 10: score 1.0
	// row 5, value 11: score 1.0
	// row 6, value 30: score 39.0
}
