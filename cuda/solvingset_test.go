//go:build linux

package cuda

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
)

// BenchmarkSolvingSets measures what op solvingset would gain from a device: tasks a second, packing and transfers included, of series
// with windows of 4,096 and the default set of 256 points of 16 values, on all cores, and what kernels of other ops do for as many
// points. The package comment has the figures.
//
//   - score: a fresh row among the set, which the task reads and returns.
//   - score as knn_before: the same, the set as the rows of a task of op knn; nothing is returned.
//   - score as knn_reference: the set as a model that stays on the device.
//   - mine: the set of a window, anew.
//   - mine as topn, as knn: the largest weights of the window, or all weights, without a set.
func BenchmarkSolvingSets(b *testing.B) {
	path := os.Getenv("ODRADEK_CUDA_CHILD")
	if path == "" {
		b.Skip("no ODRADEK_CUDA_CHILD")
	}
	gpu := open(b, Options{Child: path, Memory: 8 << 30, Models: 2 << 30})
	defer gpu.Close()
	cpu := detectors.NewCPU(0)
	const keys, window, embed, k, points, batches = 10_000, 4096, 16, 10, 256, 16
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 2*window+embed)
	for i := range x {
		x[i] = math.Sin(float64(i)/9) + 0.1*rng.NormFloat64()
	}
	d := detectors.Must(knn.NewSolvingSet(knn.SolvingSetParams{Window: window, Embed: embed}))
	add := func(b *detectors.Batch, key, rows int, carry detectors.Words) {
		t := detectors.Task{Op: d.Op(), Dim: 1, Fresh: 1, Params: b.Put(d.Params())}
		var to []float64
		t.X, to = b.GrowF64(rows)
		copy(to, x[7*key%(len(x)-rows):])
		if len(carry) > 0 {
			t.Carry = b.Put(carry)
		}
		size, _ := d.Size(detectors.View{Dim: 1, Rows: max(rows, d.Window()), Fresh: 1})
		b.GrowOutputs(&t, size)
		b.Tasks = append(b.Tasks, t)
	}
	first := cpu.Batch()
	add(first, 0, window+embed, nil)
	if err := cpu.Execute(context.Background(), first); err != nil {
		b.Fatal(err)
	}
	set := first.Rows(0).Next
	b.Logf("a set of %d points, %d words", set.Int(0), len(set))
	models := make([]*detectors.Model, keys)
	byModel := make([]detectors.Detector, keys)
	for i := range models {
		values := make([]float64, points*embed)
		for v := range values {
			values[v] = x[v%window] + float64(i)/keys
		}
		m, err := knn.NewModel(knn.Reference{Dim: 1, Embed: embed, Points: values})
		if err != nil {
			b.Fatal(err)
		}
		models[i] = m
		if byModel[i], err = knn.NewByModel(knn.ModelParams{Model: m, K: k}); err != nil {
			b.Fatal(err)
		}
	}
	before := detectors.Must(knn.New(knn.Params{Window: points + 1, K: k}))
	whole := detectors.Must(knn.New(knn.Params{Window: window, K: k, Embed: embed, Tumbling: true}))
	top := detectors.Must(knn.NewTopN(knn.TopNParams{Window: window, K: k, Embed: embed, Top: 5, Tumbling: true}))
	narrow := func(b *detectors.Batch, key int, d detectors.Detector, dim, fresh, rows int) {
		t := detectors.Task{Op: d.Op(), Dim: uint32(dim), Fresh: uint32(fresh), Params: b.Put(d.Params())}
		var to []float32
		t.X, to = b.GrowF32(rows * dim)
		at := 7 * key % (len(x) - rows)
		for i := range to {
			to[i] = float32(x[at+i%rows])
		}
		t.Scores = b.GrowOut(fresh)
		b.Tasks = append(b.Tasks, t)
	}
	for _, c := range []struct {
		name  string
		exec  detectors.Executor
		tasks int
		pack  func(b *detectors.Batch, key int)
	}{
		{"score", cpu, 500, func(b *detectors.Batch, key int) { add(b, key, embed, set) }},
		{"score as knn_before", gpu, 500, func(b *detectors.Batch, key int) { narrow(b, key, before, embed, 1, points+1) }},
		{"score as knn_reference", gpu, keys / batches, func(b *detectors.Batch, key int) {
			narrow(b, key, byModel[key], 1, 1, embed)
			b.Tasks[len(b.Tasks)-1].Model = b.Model(models[key])
		}},
		{"mine", cpu, 16, func(b *detectors.Batch, key int) { add(b, key, window+embed, set) }},
		{"mine as topn", gpu, 64, func(b *detectors.Batch, key int) { narrow(b, key, top, 1, window, window+embed-1) }},
		{"mine as knn", gpu, 64, func(b *detectors.Batch, key int) { narrow(b, key, whole, 1, window, window+embed-1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			store := make([]detectors.Words, batches)
			round := func() {
				var all sync.WaitGroup
				for i := range batches {
					all.Go(func() {
						batch := c.exec.Batch()
						defer c.exec.Release(batch)
						for key := range c.tasks {
							c.pack(batch, i*c.tasks+key)
						}
						if err := c.exec.Execute(context.Background(), batch); err != nil {
							b.Error(err)
						}
						store[i] = append(store[i][:0], batch.Out...)
					})
				}
				all.Wait()
			}
			for range 3 { // memories grow, models are copied
				round()
			}
			onCPU := gpu.Stats().CPUTasks
			for b.Loop() {
				round()
			}
			b.ReportMetric(float64(b.N*batches*c.tasks)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric(float64(gpu.Stats().CPUTasks-onCPU), "CPUtasks")
		})
	}
}
