//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestSolvingSetEmulated compares sets that kernels on the CPU mine with the CPU's, to the bit, and scores.
func TestSolvingSetEmulated(t *testing.T) { solvingSets(t, emulated(t), 60, 9) }

// TestSolvingSetDevice is TestSolvingSetEmulated on a device, with more and larger windows.
func TestSolvingSetDevice(t *testing.T) { solvingSets(t, deviceOptions(t), 400, 13) }

// solvingSets executes chains of tasks that mine and some that do not, for random parameters with windows of up to 2^most points.
func solvingSets(t *testing.T, o Options, shapes, most int) {
	o.Memory, o.Deadline = 4<<30, max(o.Deadline, time.Minute)
	rng := seedtest.New(t)
	e, cpu := open(t, o), detectors.NewCPU(0)
	defer e.Close()
	batches := [2]*detectors.Batch{e.Batch(), cpu.Batch()}
	defer e.Release(batches[0])
	defer cpu.Release(batches[1])
	var names []string
	for range shapes {
		p := knn.SolvingSetParams{Window: 2 + rng.IntN(1<<(2+rng.IntN(most-1)))}
		p.K = 1 + rng.IntN(min(p.Window/2, 1<<rng.IntN(8)))
		p.Top = 1 + rng.IntN(min(max(1, (p.Window-1)/4), 1<<rng.IntN(9)))
		p.ModelPoints = 2*p.K + rng.IntN(1<<(1+rng.IntN(11)))
		p.Embed, p.ZNorm = 1+rng.IntN(1<<rng.IntN(5)), rng.IntN(3) == 0
		p.MinPoints = 2*p.K + rng.IntN(p.Window-2*p.K+1)
		if p.ZNorm {
			p.Embed = max(p.Embed, 3)
		}
		timed := rng.IntN(4) == 0
		if timed {
			p.MineInterval, p.MaxAge = 1e6, int64(rng.IntN(2)*rng.IntN(2*p.Window))*1e6
		}
		d, err := knn.NewSolvingSet(p)
		if err != nil {
			t.Fatal(err)
		}
		dim, rows := 1+rng.IntN(min(5, 64/p.Embed)), p.Window+p.Embed+200
		level, run, noise, kinds := 0.0, 5+rng.IntN(p.Window), math.Pow(10, -6*rng.Float64()), detectors.Signals(rng)
		kinds = append(kinds, detectors.Signal{Name: "levels", At: func(int, int) float64 {
			if rng.IntN(run) == 0 {
				level = math.Pow(10, 9*rng.Float64()) * rng.NormFloat64()
			}
			if rng.IntN(20*run) == 0 {
				return level + 1e6*rng.NormFloat64()
			}
			return level + noise*float64(rng.IntN(40)/2)
		}})
		x := make([]float64, 0, rows*(dim+1))
		name, columns, at := fmt.Sprintf("%+v", p), make([]detectors.Signal, dim), 1.7e15
		for c := range columns {
			columns[c] = kinds[min(rng.IntN(len(kinds)*3/2), len(kinds)-1)]
			name += ", " + columns[c].Name
		}
		hole := rng.IntN(3) * rng.IntN(20) // about as many values are missing of a thousand
		for i := range rows {
			if timed {
				at += float64(rng.IntN(3)) * 1e6
				x = append(x, at)
			}
			for _, s := range columns {
				v := s.At(i, rows)
				if rng.IntN(1000) < hole {
					v = []float64{math.NaN(), math.Inf(1), 1e300, 2e38}[rng.IntN(4)]
				}
				x = append(x, v)
			}
		}
		if timed {
			dim++
		}
		tasks := 1 + rng.IntN(4)
		for i, to := 0, rows-150+rng.IntN(50); i < tasks; i++ {
			fresh := 1 + rng.IntN(1+rng.IntN(24))
			to += fresh
			n := min(to, p.Window+p.Embed+fresh-1)
			switch rng.IntN(3) {
			case 0:
				if i > 0 { // it mines no set
					n = p.Embed + fresh - 1
				}
			case 1: // the window is not full yet
				n = min(n, p.MinPoints+p.Embed+fresh-1+rng.IntN(p.Window-p.MinPoints+1))
			}
			for _, b := range batches {
				task := detectors.Task{Op: d.Op(), Dim: uint32(dim), Fresh: uint32(fresh), Params: b.Put(d.Params())}
				if i > 0 {
					task.After = uint32(len(b.Tasks))
				}
				var values []float64
				task.X, values = b.GrowF64(n * dim)
				copy(values, x[(to-n)*dim:to*dim])
				size, ok := d.Size(detectors.View{Dim: dim, Rows: d.Window() + fresh, Fresh: fresh})
				if !ok {
					t.Fatalf("%s: no size", name)
				}
				b.GrowOutputs(&task, size)
				b.Tasks = append(b.Tasks, task)
			}
			names = append(names, fmt.Sprintf("%s, %d rows, %d fresh", name, n, fresh))
		}
	}
	for i, exec := range []detectors.Executor{e, cpu} {
		if err := exec.Execute(context.Background(), batches[i]); err != nil {
			t.Fatal(err)
		}
	}
	cutOff, wide, exact := 0, 0, 0
	for i, name := range names {
		got, want := batches[0].Rows(i), batches[1].Rows(i)
		if !slices.Equal(got.Next, want.Next) {
			at := 0
			for got.Next[at] == want.Next[at] {
				at++
			}
			t.Errorf("%s: word %d of the set is %#x, the CPU's %#x; %d and %d points", name, at, got.Next[at], want.Next[at],
				got.Next.Int(0), want.Next.Int(0))
		}
		if err := detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wide += int(want.Next[1])
		if most := int(batches[1].Tasks[i].Params.Off) + 5; want.Next.Int(0) == int(batches[1].In[most]) {
			cutOff++
		}
		if slices.Equal(detectors.WordsOf(got.Scores), detectors.WordsOf(want.Scores)) {
			exact++
		}
	}
	t.Logf("of %d tasks %d sets are cut off, %d wide; of %d tasks all scores are the CPU's to the bit", len(names), cutOff, wide, exact)
	s := e.Stats()
	noFault(t, s)
	byKernels(t, s, 0.5)
	if s.Declined > 0 {
		t.Errorf("%d tasks were declined", s.Declined)
	}
}

// TestFewTasksEmulated holds batches in which the device has few tasks, of whose rows and results alone it gets copies: a series in
// some hundred mines, the others only score.
func TestFewTasksEmulated(t *testing.T) {
	rng := seedtest.New(t)
	e, cpu := open(t, emulated(t)), detectors.NewCPU(0)
	defer e.Close()
	d := detectors.Must(knn.NewSolvingSet(knn.SolvingSetParams{Window: 120, Embed: 4, K: 3, Top: 5, ModelPoints: 40, MinPoints: 20}))
	set := detectors.Words(nil)
	batches := [2]*detectors.Batch{e.Batch(), cpu.Batch()}
	for round := range 4 { // the memory of one is used again in the next
		tasks := 2*fewTasks + rng.IntN(2*fewTasks)
		mines := map[int]bool{rng.IntN(tasks): true, rng.IntN(tasks): true}
		if round == 0 {
			tasks, mines = 1, map[int]bool{0: true}
		}
		for _, b := range batches {
			b.Reset()
		}
		for i := range tasks {
			n := 4
			if mines[i] {
				n = 124
			}
			x := make([]float64, n)
			for j := range x {
				x[j] = rng.NormFloat64()
			}
			for _, b := range batches {
				task := detectors.Task{Op: d.Op(), Dim: 1, Fresh: 1, Params: b.Put(d.Params())}
				var to []float64
				task.X, to = b.GrowF64(n)
				copy(to, x)
				if round > 0 {
					task.Carry = b.Put(set)
				}
				size, _ := d.Size(detectors.View{Dim: 1, Rows: d.Window(), Fresh: 1})
				b.GrowOutputs(&task, size)
				b.Tasks = append(b.Tasks, task)
			}
		}
		before := e.Stats().Devices[0].Tasks
		for k, exec := range []detectors.Executor{e, cpu} {
			if err := exec.Execute(t.Context(), batches[k]); err != nil {
				t.Fatal(err)
			}
		}
		if got := int(e.Stats().Devices[0].Tasks - before); got != len(mines) {
			t.Errorf("the device had %d tasks, %d mine", got, len(mines))
		}
		for i := range tasks {
			got, want := batches[0].Rows(i), batches[1].Rows(i)
			if !slices.Equal(got.Next, want.Next) {
				t.Errorf("round %d: the set of task %d of %d is not the CPU's; it mines: %t", round, i, tasks, mines[i])
			}
			if err := detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6); err != nil {
				t.Errorf("round %d: task %d of %d: %v", round, i, tasks, err)
			}
		}
		set = slices.Clone(batches[1].Rows(0).Next)
	}
}

// BenchmarkSolvingSets measures op solvingset on the CPU and with a device, packing and transfers included, on all cores: series with
// windows of 4,096 and the default set of 256 points of 16 values. The package comment has the figures.
//
//   - rows: tasks of a fresh row, of which one in 1,024 mines a set anew: tasks/s are the rows a second of the op.
//   - rows of a backlog: tasks of 64 fresh rows, of which one in 16 mines a set anew.
//   - score: a fresh row among the set, which the task reads and returns.
//   - score as knn_before: the same by the kernel of another op, the set as the rows of a task; nothing is returned.
//   - score as knn_reference: the set as a model that stays on the device.
//   - mine: the set of a window, anew; of noise, whose sets are cut off.
func BenchmarkSolvingSets(b *testing.B) {
	path := os.Getenv("ODRADEK_CUDA_CHILD")
	if path == "" {
		b.Skip("no ODRADEK_CUDA_CHILD")
	}
	gpu := open(b, Options{Child: path, Memory: 8 << 30, Models: 2 << 30, Deadline: time.Minute})
	defer gpu.Close()
	cpu := detectors.NewCPU(0)
	const keys, window, embed, k, points, batches, every = 10_000, 4096, 16, 10, 256, 16, 1024
	rng := rand.New(rand.NewPCG(1, 2))
	x, noise := make([]float64, 2*window+embed), make([]float64, 2*window+embed)
	for i := range x {
		noise[i] = rng.NormFloat64()
		x[i] = math.Sin(float64(i)/9) + 0.1*noise[i]
	}
	d := detectors.Must(knn.NewSolvingSet(knn.SolvingSetParams{Window: window, Embed: embed}))
	several := func(b *detectors.Batch, x []float64, key, rows, fresh int, carry detectors.Words) {
		t := detectors.Task{Op: d.Op(), Dim: 1, Fresh: uint32(fresh), Params: b.Put(d.Params())}
		rows += fresh - 1
		var to []float64
		t.X, to = b.GrowF64(rows)
		copy(to, x[7*key%(len(x)-rows):])
		if len(carry) > 0 {
			t.Carry = b.Put(carry)
		}
		size, _ := d.Size(detectors.View{Dim: 1, Rows: max(rows, d.Window()+fresh-1), Fresh: fresh})
		b.GrowOutputs(&t, size)
		b.Tasks = append(b.Tasks, t)
	}
	add := func(b *detectors.Batch, x []float64, key, rows int, carry detectors.Words) {
		several(b, x, key, rows, 1, carry)
	}
	setOf := func(x []float64) detectors.Words {
		first := cpu.Batch()
		add(first, x, 0, window+embed, nil)
		if err := cpu.Execute(context.Background(), first); err != nil {
			b.Fatal(err)
		}
		set := first.Rows(0).Next
		b.Logf("a set of %d points, %d words", set.Int(0), len(set))
		return set
	}
	set, setOfNoise := setOf(x), setOf(noise)
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
	narrow := func(b *detectors.Batch, key int, d detectors.Detector, dim, rows int) {
		t := detectors.Task{Op: d.Op(), Dim: uint32(dim), Fresh: 1, Params: b.Put(d.Params())}
		var to []float32
		t.X, to = b.GrowF32(rows * dim)
		at := 7 * key % (len(x) - rows)
		for i := range to {
			to[i] = float32(x[at+i%rows])
		}
		t.Scores = b.GrowOut(1)
		b.Tasks = append(b.Tasks, t)
	}
	rows := func(b *detectors.Batch, key int) {
		if key%every == 0 {
			add(b, x, key, window+embed, set)
		} else {
			add(b, x, key, embed, set)
		}
	}
	backlog := func(b *detectors.Batch, key int) {
		if key%(every/64) == 0 {
			several(b, x, key, window+embed, 64, set)
		} else {
			several(b, x, key, embed, 64, set)
		}
	}
	mine := func(b *detectors.Batch, key int) { add(b, x, key, window+embed, set) }
	mineNoise := func(b *detectors.Batch, key int) { add(b, noise, key, window+embed, setOfNoise) }
	for _, c := range []struct {
		name  string
		exec  detectors.Executor
		tasks int
		pack  func(b *detectors.Batch, key int)
	}{
		{"rows", cpu, 640, rows},
		{"rows with a device", gpu, 640, rows},
		{"rows of a backlog", cpu, 640, backlog},
		{"rows of a backlog with a device", gpu, 640, backlog},
		{"score", cpu, 640, func(b *detectors.Batch, key int) { add(b, x, key, embed, set) }},
		{"score as knn_before", gpu, 640, func(b *detectors.Batch, key int) { narrow(b, key, before, embed, points+1) }},
		{"score as knn_reference", gpu, keys / batches, func(b *detectors.Batch, key int) {
			narrow(b, key, byModel[key], 1, embed)
			b.Tasks[len(b.Tasks)-1].Model = b.Model(models[key])
		}},
		{"mine", cpu, 16, mine},
		{"mine on a device", gpu, 64, mine},
		{"mine noise", cpu, 16, mineNoise},
		{"mine noise on a device", gpu, 64, mineNoise},
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
			b.ReportMetric(float64(gpu.Stats().CPUTasks-onCPU)/float64(b.N), "CPUtasks/op")
		})
	}
}
