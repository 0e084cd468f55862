// Package ops has the benchmarks of pure computation, without brokers: the ops on the CPU and on GPUs, the algorithms
// that find the points of largest kNN weight, and the decoding of records. Baselines are the Python programs beside it.
package ops

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cuda"
	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/scan"
)

// The limits of an H100 or H200 behind the floors: its clock, lanes that add
// and multiply a multiprocessor, and the measured bytes a second of a copy
// on the device (H200).
const (
	opsClock = 1.98e9
	opsLanes = 128
	opsBytes = 4.28e12
)

// Bench has the flags of the benchmarks of ops.
type Bench struct {
	*testbed.Measuring
	GPU        *testbed.GPUOptions
	GPUs       string         // numbers of GPUs of ops-scale; "": 1, 2, 4 and so on
	Shapes     *regexp.Regexp // of the names to measure; nil: all
	Recording  string         // file of a recorded series; "": none
	Python     string         // program with numpy, scipy and scikit-learn
	Tables     string         // folder of the tables
	Recordings string         // folder of the recordings of discords-range
}

// wants reports whether a shape is to be measured.
func (b *Bench) wants(shape string) bool {
	return b.Shapes == nil || b.Shapes.MatchString(shape)
}

// OnDevice measures the ops on a GPU: launches alone on cold buffers, and all of
// Execute with packing and transfers by as many goroutines as there are cores.
func (b *Bench) OnDevice(ctx context.Context) ([]testbed.Row, error) {
	e, err := b.GPU.Open(cuda.Options{})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	var rows []testbed.Row
	defer func() {
		name := e.Stats().Devices[0].Name
		for i := range rows {
			rows[i].Device = name
		}
	}()
	for _, s := range allShapes() {
		s.recording, s.tables = b.Recording, b.Tables
		if !b.wants(s.name) || s.asked && b.Shapes == nil || s.series == recorded && s.recording == "" || !s.hasTable() {
			continue
		}
		if b.Quick {
			s.tasks = max(s.tasks/8, 1)
		}
		b.Say("%s", s.name)
		more, err := b.opsShape(ctx, e, &s)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, more...)
	}
	if b.Shapes == nil {
		more, err := b.opsLatency(ctx, e)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	info := e.Stats().Devices[0]
	if info.Faults > 0 {
		return rows, fmt.Errorf("the device had %d faults, the last: %s", info.Faults, info.LastFault)
	}
	return rows, nil
}

// input has the windows from which tasks of a shape are packed, in float64 as in a worker,
// of far fewer keys than tasks.
type input struct {
	*shape
	det     detectors.Detector
	params  detectors.Words
	windows [][]float64
	carry   detectors.Words // of all keys; nil where the op has none
	size    detectors.Outputs
}

func (s *shape) input() (*input, error) {
	det, err := s.det()
	if err != nil {
		return nil, err
	}
	in := &input{shape: s, det: det, params: det.Params()}
	rows := det.Window() + s.fresh - 1
	var ok bool
	if in.size, ok = det.Size(detectors.View{Dim: s.dim, Rows: rows, Fresh: s.fresh}); !ok {
		return nil, errors.New("too little history in the benchmark's task")
	}
	var recording []float64
	if s.series == recorded {
		if recording, err = readRecording(s.recording); err != nil {
			return nil, err
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	keys := max(1, min(64, 1<<23/(rows*s.dim)))
	for k := range keys {
		x := make([]float64, (rows+max(s.chain, 1)-1)*s.dim)
		for i := range x {
			if x[i] = rng.NormFloat64(); s.dim == 1 {
				x[i] = s.wave(x, i, k)
			}
		}
		switch {
		case s.op == scan.Op:
			s.cells(x, rng)
		case tableOf[s.series] != "":
			values, _, err := table(tableOf[s.series])(&Bench{Tables: s.tables})
			if err != nil {
				return nil, err
			}
			if len(values) != len(x) {
				return nil, fmt.Errorf("table %s has %d values, %d are needed", tableOf[s.series], len(values), len(x))
			}
			copy(x, values)
		case s.dim > 1:
			s.place(x, rng)
		}
		if s.series == recorded { // keys have parts of it, from its begin to its end
			if len(recording) < len(x) {
				return nil, fmt.Errorf("%s has %d values, %d are needed", s.recording, len(recording), len(x))
			}
			copy(x, recording[(len(recording)-len(x))*k/keys:])
		}
		in.setTimes(x, learntRows)
		in.windows = append(in.windows, x)
	}
	return in, nil
}

// The series of windows of one value a row, besides two sines with noise.
const (
	walks    = "random walk"
	noise    = "noise"
	recorded = "recording" // the file that -recording names
)

// The sets of points that are tables of the ADBench collection.
const (
	cover = "cover"
	http  = "http"
)

var tableOf = map[string]string{cover: "10_cover", http: "16_http"}

// hasTable reports whether the shape needs no table, or its table is in the folder of tables.
func (s *shape) hasTable() bool {
	if tableOf[s.series] == "" {
		return true
	}
	_, err := os.Stat(filepath.Join(s.tables, tableOf[s.series]+".npz"))
	return err == nil
}

// The series of grids, besides counts without any cluster.
const (
	cluster = "cluster"        // twice the counts in 8 x 9 cells
	zeros   = "zero baselines" // a third of the cells has none
)

// cells makes x the cells of a square grid: 6 counts a cell on average, of baselines from 50 to 150.
func (s *shape) cells(x []float64, rng *rand.Rand) {
	n := int(math.Sqrt(float64(len(x) / 2)))
	for i := 0; i < len(x); i += 2 {
		baseline := float64(50 + rng.IntN(101))
		if s.series == zeros && rng.IntN(3) == 0 {
			baseline = 0
		}
		mean := baseline * 0.06
		if y, column := i/2/n-n/3, i/2%n-n/4; s.series == cluster && y >= 0 && y < 8 && column >= 0 && column < 9 {
			mean *= 2
		}
		count := 0.0
		for t := rng.ExpFloat64(); t < mean; t += rng.ExpFloat64() {
			count++
		}
		x[i], x[i+1] = max(count, s.fewest), baseline
	}
}

// readRecording reads the values of a file, a value a line.
func readRecording(file string) ([]float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(string(text))
	x := make([]float64, len(lines))
	for i := range x {
		if x[i], err = strconv.ParseFloat(lines[i], 64); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, i+1, err)
		}
	}
	return x, nil
}

// wave returns value i of key k's window. x has the values before it and, at i, a normal deviate.
func (s *shape) wave(x []float64, i, k int) float64 {
	switch {
	case s.series == walks && i > 0:
		return x[i-1] + x[i]
	case s.series != "":
		return x[i]
	}
	return 20 + math.Sin(float64(i)/9) + math.Sin(float64(i+k)/23) + 0.1*x[i]
}

// The sets of points of several values, besides normal ones.
const (
	blobs    = "100 blobs"        // of the same deviation
	outliers = "100 far outliers" // among points that are uniform in a square
)

// place moves normal deviates to where the points of the shape's series lie.
func (s *shape) place(x []float64, rng *rand.Rand) {
	n := len(x) / s.dim
	switch s.series {
	case blobs:
		centers := make([]float64, 100*s.dim)
		for i := range centers {
			centers[i] = 100 * rng.Float64()
		}
		for i := range n {
			c := centers[rng.IntN(100)*s.dim:]
			for j := range s.dim {
				x[i*s.dim+j] += c[j]
			}
		}
	case outliers:
		for i := range x {
			if x[i] = rng.Float64(); i/s.dim%max(n/100, 1) == 0 {
				x[i] = 1000 * (x[i] - 0.5)
			}
		}
	}
}

// pack fills the batch as a partition does: the window centred and made float32,
// the carry of the key. Where keys have several tasks, these come in turn, and bring a
// row each after the first, as far as there are as many tasks for all keys.
func (in *input) pack(b *detectors.Batch, tasks int) {
	b.Reset()
	params := b.Put(in.params)
	var model detectors.Span
	var origin []float64 // of each value of a row; nil: the window's middle value
	if m, ok := in.det.(detectors.Modelled); ok {
		model, origin = b.Model(m.Model()), m.Origin()
	}
	chain := max(in.chain, 1)
	if tasks%chain > 0 {
		chain = 1
	}
	keys, room := tasks/chain, 0 // behind the rows of a key's first task
	if !in.apart {
		room = (chain - 1) * in.dim
	}
	for i := range tasks {
		k, step := i%keys, i/keys
		all := in.windows[k%len(in.windows)]
		n := len(all) - max(in.chain-1, 0)*in.dim
		x, center := all[step*in.dim:][:n], all[n/2]
		t := detectors.Task{Op: in.det.Op(), Dim: uint32(in.dim), Fresh: uint32(in.fresh), Params: params, Model: model}
		var p []float32
		switch {
		case t.Op.Elem() == detectors.F64 && step > 0 && !in.apart:
			before := b.Tasks[i-keys].X
			t.X = detectors.Span{Off: before.Off + uint32(in.dim), Len: before.Len}
			end := 2 * (before.Off + before.Len)
			copy(b.In[end:][:2*in.dim].F64(), x[n-in.dim:])
		case t.Op.Elem() == detectors.F64:
			var wide []float64
			t.X, wide = b.GrowF64(n + room)
			t.X.Len = uint32(n)
			copy(wide, x)
		case t.Op.Elem() == detectors.I64:
			var whole []int64
			t.X, whole = b.GrowI64(n)
			for i, v := range x {
				whole[i] = int64(v)
			}
		case step > 0 && !in.apart:
			before := b.Tasks[i-keys].X
			t.X = detectors.Span{Off: before.Off + uint32(in.dim), Len: before.Len}
			p, x = b.In[before.Off+before.Len:][:in.dim].F32(), x[n-in.dim:]
		default:
			t.X, p = b.GrowF32(n + room)
			t.X.Len = uint32(n)
		}
		for i := range p[:min(len(p), len(x))] {
			if origin != nil {
				center = origin[i%in.dim]
			}
			p[i] = float32(x[i] - center)
		}
		if step > 0 {
			t.After = uint32(i-keys) + 1
		} else if in.carry != nil {
			t.Carry = b.Put(in.carry)
		}
		b.GrowOutputs(&t, in.size)
		b.Tasks = append(b.Tasks, t)
	}
}

// warmUp packs and executes until the batch's memory has its final size, and makes the first
// carry of the tasks.
func (in *input) warmUp(ctx context.Context, e detectors.Executor, batch *detectors.Batch, tasks int) error {
	rounds := 4
	if in.asked { // half a minute each
		rounds = 2
	}
	for range rounds {
		in.pack(batch, tasks)
		if err := e.Execute(ctx, batch); err != nil {
			return err
		}
	}
	if in.size.Carry > 0 && in.carry == nil && !in.first { // what the key's next task begins with
		r := batch.Rows(0)
		in.carry = slices.Clone(r.Next)
		if _, ok := in.det.(detectors.Learner); ok {
			in.carry = in.learnt(ctx)
		}
		return in.warmUp(ctx, e, batch, tasks)
	}
	return nil
}

// learntRows are the rows that a Learner has learnt, an hour apart.
const learntRows = 1000

// learnt returns the carry of a series of noise with a daily wave.
func (in *input) learnt(ctx context.Context) detectors.Words {
	rng := rand.New(rand.NewPCG(3, 4))
	r := detectors.Rows{Dim: in.dim, Fresh: learntRows, Params: in.params}
	for i := range in.det.Window() - 1 + learntRows {
		for range in.dim {
			r.X64 = append(r.X64, math.Sin(2*math.Pi*float64(i)/24)+0.3*rng.NormFloat64())
		}
	}
	in.setTimes(r.X64, 0)
	size, _ := in.det.Size(detectors.View{Dim: in.dim, Rows: r.Len(), Fresh: r.Fresh})
	r.Scores, r.Next, r.Detail = make([]float32, size.Scores), make(detectors.Words, size.Carry), make(detectors.Words, size.Detail)
	in.op.Spec().CPU(ctx, &r, detectors.Sequential)
	return r.Next
}

// setTimes sets the times of rows of a Timed from a number of hours on.
func (in *input) setTimes(x []float64, from int) {
	if _, ok := in.det.(detectors.Timed); !ok {
		return
	}
	for i := range len(x) / in.dim {
		x[i*in.dim] = float64(from+i) * 3600e6
	}
}

func (b *Bench) opsShape(ctx context.Context, e *cuda.Executor, s *shape) ([]testbed.Row, error) {
	in, err := s.input()
	if err != nil {
		return nil, err
	}
	if in.op == knn.OpTopN {
		if err := in.check(ctx, e); err != nil {
			return nil, err
		}
	}
	if in.large() {
		kernel, err := b.opsKernel(ctx, e, in)
		if err != nil || in.asked {
			return []testbed.Row{kernel}, err
		}
		whole, err := b.opsWhole(ctx, e, in)
		return []testbed.Row{kernel, whole}, err
	}
	cpu, err := b.opsCPU(ctx, in)
	if err != nil {
		return nil, err
	}
	baseline := fmt.Sprintf("the CPU executor, %d goroutines", runtime.GOMAXPROCS(0))
	kernel, err := b.opsKernel(ctx, e, in)
	if err != nil {
		return nil, err
	}
	kernel = kernel.Against(baseline, cpu, false)
	whole, err := b.opsWhole(ctx, e, in)
	if err != nil {
		return nil, err
	}
	return []testbed.Row{kernel, whole.Against(baseline, cpu, false)}, nil
}

// check returns an error if the device's scores of a task differ from the CPU's.
func (in *input) check(ctx context.Context, e *cuda.Executor) error {
	batch := e.Batch()
	defer e.Release(batch)
	in.pack(batch, 1)
	before := e.Stats().CPUTasks
	if err := e.Execute(ctx, batch); err != nil {
		return err
	}
	if e.Stats().CPUTasks > before {
		return errors.New("the device leaves the task to the CPU")
	}
	r := batch.Rows(0)
	want := r
	want.Scores = make([]float32, len(r.Scores))
	in.det.Op().Spec().CPU(ctx, &want, detectors.NewHelpers(runtime.GOMAXPROCS(0)-1).Parallel(ctx))
	return in.det.Op().Spec().Compare(&r, detectors.Result{Scores: r.Scores}, detectors.Result{Scores: want.Scores})
}

// large reports whether one task takes a device a good part of a second, or a CPU minutes.
func (s *shape) large() bool { return s.fresh > 1<<18 || s.long }

// opsCPU returns the CPU executor's rate on all cores.
func (b *Bench) opsCPU(ctx context.Context, in *input) (rate float64, err error) {
	e := detectors.NewCPU(runtime.GOMAXPROCS(0))
	defer e.Close()
	batch := e.Batch()
	in.pack(batch, 1)
	began := time.Now()
	if err := e.Execute(ctx, batch); err != nil {
		return 0, err
	}
	// As many tasks as take about half a second.
	tasks := min(in.tasks, max(4*runtime.GOMAXPROCS(0), int(0.5*float64(runtime.GOMAXPROCS(0))/time.Since(began).Seconds())))
	in.pack(batch, tasks)
	ns, _ := perItem(b.Span(500*time.Millisecond), tasks*in.fresh, func() {
		if e := e.Execute(ctx, batch); e != nil {
			err = e
		}
	})
	return 1e9 / ns, err
}

// opsKernel measures the launches of one batch of all tasks.
func (b *Bench) opsKernel(ctx context.Context, e *cuda.Executor, in *input) (r testbed.Row, err error) {
	batch := e.Batch()
	defer e.Release(batch)
	if err := in.warmUp(ctx, e, batch, in.tasks); err != nil {
		return r, err
	}
	// Copies of the buffers of half a gigabyte together: eight times an H200's L2.
	bytes := 4 * (len(batch.In) + len(batch.Out))
	repeat := 30
	if in.large() {
		repeat = 5
	}
	if in.asked {
		repeat = 1
	}
	rotate := max(2, min(64, 512<<20/bytes))
	m, err := e.Measure(ctx, batch, repeat, rotate)
	if err != nil {
		return r, err
	}
	items := float64(in.tasks * in.fresh)
	rate := items / m.Median.Seconds()
	r = testbed.NewRow(in.name+", kernel", rate, in.unit)
	if in.kernel > 0 {
		r = r.Want(">= "+testbed.Figure(in.kernel), rate >= in.kernel)
	}
	least, bound := in.least(e.Stats().Devices[0].SMs, bytes)
	fraction := least / m.Median.Seconds()
	r.Floor = &fraction
	return r.Noted("%d tasks in %v (fastest %v), %.2g%% of the floor (%s), %d copies of %d MB in turn",
		in.tasks, m.Median.Round(time.Microsecond), m.Fastest.Round(time.Microsecond), 100*fraction, bound, m.Copies, bytes>>20), nil
}

// least returns the floor of a batch in seconds: its arithmetic at the rate of the
// lanes, or its bytes once through the device's memory.
func (s *shape) least(sms, bytes int) (seconds float64, bound string) {
	floor := s.floor()
	compute := float64(s.tasks) * floor.ops / (float64(sms) * opsLanes * opsClock)
	if memory := float64(bytes) / opsBytes; memory > compute {
		return memory, "memory: all bytes once"
	}
	return compute, floor.by
}

// opsWhole measures Execute from Go: goroutines, each with a batch of its own,
// pack and execute again and again.
func (b *Bench) opsWhole(ctx context.Context, e *cuda.Executor, in *input) (r testbed.Row, err error) {
	return b.opsExecute(ctx, e, in, max(in.tasks/runtime.GOMAXPROCS(0), 1))
}

// opsExecute is opsWhole with the given number of tasks in a batch.
func (b *Bench) opsExecute(ctx context.Context, e *cuda.Executor, in *input, tasks int) (r testbed.Row, err error) {
	n := min(runtime.GOMAXPROCS(0), in.tasks)
	batches := make([]*detectors.Batch, n)
	for i := range batches {
		batches[i] = e.Batch()
		defer e.Release(batches[i])
		if err := in.warmUp(ctx, e, batches[i], tasks); err != nil {
			return r, err
		}
	}
	before := e.Stats()
	var rates []float64
	for range b.Repeat {
		var executed atomic.Int64
		var wait sync.WaitGroup
		faults := make([]error, n)
		began := time.Now()
		end := began.Add(b.Span(time.Second))
		for i, batch := range batches {
			wait.Go(func() {
				for faults[i] == nil && time.Now().Before(end) {
					in.pack(batch, tasks)
					faults[i] = e.Execute(ctx, batch)
					executed.Add(int64(tasks))
				}
			})
		}
		wait.Wait()
		if err := errors.Join(faults...); err != nil {
			return r, err
		}
		rates = append(rates, float64(executed.Load())*float64(in.fresh)/time.Since(began).Seconds())
	}
	after := e.Stats()
	rate, spread := testbed.Median(rates)
	r = testbed.NewRow(in.name+", Execute", rate, in.unit)
	if in.whole > 0 {
		r = r.Want(">= "+testbed.Figure(in.whole), rate >= in.whole)
	}
	if off := after.CPUTasks - before.CPUTasks; off > 0 {
		r = r.Noted("%d tasks were scored on the CPU", off)
	}
	return r.Noted("%d goroutines, each packing and executing %d tasks a batch; %d KB a batch; median of %d, spread %.0f%%",
		n, tasks, 4*(len(batches[0].In)+len(batches[0].Out))>>10, b.Repeat, spread), nil
}

// opsLatency measures one batch at a time, alone on the device.
func (b *Bench) opsLatency(ctx context.Context, e *cuda.Executor) (rows []testbed.Row, err error) {
	s := shapeNamed(latencyShape)
	in, err := s.input()
	if err != nil {
		return nil, err
	}
	for _, tasks := range []int{1, 1000} {
		batch := e.Batch()
		defer e.Release(batch)
		if err := in.warmUp(ctx, e, batch, tasks); err != nil {
			return rows, err
		}
		rounds := b.Scale(5000)
		packed, executed := make([]float64, rounds), make([]float64, rounds)
		before := e.Stats().Devices[0]
		for i := range rounds {
			began := time.Now()
			in.pack(batch, tasks)
			middle := time.Now()
			if err := e.Execute(ctx, batch); err != nil {
				return rows, err
			}
			packed[i], executed[i] = middle.Sub(began).Seconds()*1e6, time.Since(middle).Seconds()*1e6
		}
		after := e.Stats().Devices[0]
		slices.Sort(packed)
		slices.Sort(executed)
		p99 := executed[rounds*99/100]
		r := testbed.NewRow(fmt.Sprintf("%s, %d tasks, Execute p99", s.name, tasks), p99, "us")
		if tasks == 1000 {
			r = r.Want("<= 1,000", p99 <= 1000)
		}
		device := (after.Busy - before.Busy).Seconds() * 1e6 / float64(rounds)
		rows = append(rows, r.Noted(
			"p50 %.0f us, of it on the device, copies included, %.0f us; packing p50 %.0f us; %d batches one after the other",
			executed[rounds/2], device, packed[rounds/2], rounds))
	}
	return rows, nil
}
