//go:build linux

package cuda

import (
	"context"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestWideEmulated scores wide tasks among others: the CPU takes those alone, with its bits.
func TestWideEmulated(t *testing.T) {
	rng := seedtest.New(t)
	e := open(t, emulated(t))
	defer e.Close()
	cpu := detectors.NewCPU(1)
	defer cpu.Close()
	d := detectors.Must(knn.New(knn.Params{Window: 40, K: 5, Embed: 2}))
	rows := make([]uint64, d.Window())
	got, want := e.Batch(), cpu.Batch()
	defer e.Release(got)
	const tasks = 30
	for i := range tasks {
		for k := range rows {
			rows[k] = math.Float64bits(1e9*float64(k/20) + rng.NormFloat64())
		}
		for _, b := range []*detectors.Batch{got, want} {
			task := detectors.Task{Op: d.Op(), Dim: 1, Fresh: 1, Params: b.Put(d.Params())}
			if i%3 == 0 {
				b.PackWide(&task, rows, nil)
			} else {
				span, x := b.GrowF32(len(rows))
				detectors.Pack(x, rows, nil, []float64{1e9})
				task.X = span
			}
			size, _ := d.Size(detectors.View{Dim: 1, Rows: len(rows), Fresh: 1})
			b.GrowOutputs(&task, size)
			b.Tasks = append(b.Tasks, task)
		}
	}
	for _, err := range []error{e.Execute(context.Background(), got), cpu.Execute(context.Background(), want)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range tasks {
		a, b := got.Rows(i), want.Rows(i)
		if (i%3 == 0) != (a.X64 != nil) || !slices.Equal(detectors.WordsOf(a.Scores), detectors.WordsOf(b.Scores)) && a.X64 != nil {
			t.Errorf("task %d: %v, want %v", i, a.Scores, b.Scores)
		}
		if d := math.Abs(float64(a.Scores[0] - b.Scores[0])); !(d <= 1e-5*float64(b.Scores[0])) {
			t.Errorf("task %d: %v, want %v", i, a.Scores, b.Scores)
		}
	}
	s := e.Stats()
	noFault(t, s)
	byKernels(t, s, 0.34)
}
