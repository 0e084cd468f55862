package ops

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cuda"
	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/lof"
	"odradek/detectors/sst"
)

// This file measures what papers vary and no other benchmark does: the bins of LOF_GPU, the tasks of a batch of SST, and the series and
// lengths of PALMAD.

// processorTime returns the seconds of processor time that f takes, in which other work of the machine does not count.
func processorTime(f func()) float64 {
	began, used := time.Now(), testbed.OwnCPU()
	f()
	if took := testbed.OwnCPU() - used; took > 0 {
		return took.Seconds()
	}
	return time.Since(began).Seconds()
}

// aloneOnCore measures batches of all tasks, one after the other on one core, by processor time.
func (b *Bench) aloneOnCore(ctx context.Context, e detectors.Executor, in *input) (r testbed.Row, err error) {
	batch := e.Batch()
	defer e.Release(batch)
	if err := in.warmUp(ctx, e, batch, in.tasks); err != nil {
		return r, err
	}
	batches, took, err := b.onCore(func() error { return e.Execute(ctx, batch) })
	return testbed.NewRow(in.name, float64(batches*in.tasks*in.fresh)/took, in.unit).Noted("Execute alone by processor time, %.3g us a batch",
		1e6*took/float64(batches)), err
}

// onCore executes again and again for a second, and returns how often, and the processor time.
func (b *Bench) onCore(execute func() error) (times int, took float64, err error) {
	for took < b.Span(time.Second).Seconds() && err == nil {
		took += processorTime(func() {
			for began := time.Now(); time.Since(began) < b.Span(500*time.Millisecond) && err == nil; times++ {
				err = execute()
			}
		})
	}
	return times, took, err
}

// oneCore is the name of the CPU's executor.
const oneCore = "one core"

// onExecutors calls measure with the CPU's executor on one core and, where there is one, with a GPU's, and returns the rows of both.
func (b *Bench) onExecutors(measure func(e detectors.Executor, name string) ([]testbed.Row, error)) (rows []testbed.Row, err error) {
	cpu := detectors.NewCPU(1)
	defer cpu.Close()
	if rows, err = measure(cpu, oneCore); err != nil {
		return rows, err
	}
	gpu, err := b.GPU.Open(cuda.Options{})
	if err != nil {
		b.Say("no GPU: %v", err)
		return rows, nil
	}
	defer gpu.Close()
	more, err := measure(gpu, "one GPU")
	device := gpu.Stats().Devices[0]
	for i := range more {
		more[i].Device = device.Name
	}
	if err == nil && device.Faults > 0 {
		err = fmt.Errorf("the device had %d faults, the last: %s", device.Faults, device.LastFault)
	}
	return append(rows, more...), err
}

// The parameters of lof-bins.
const (
	binsPoints = 10_000
	binsK      = 10
	binsFrom   = 1024 // points whose scores do not count
)

// binsStream draws points of two values: a machine that is in one of eight states for 40 to 120 points, in the first two of them
// most of the time, and a fault, a point anywhere that is five deviations or more from all states, among 50 points.
func binsStream() (x []float64, fault []bool) {
	rng := rand.New(rand.NewPCG(2017, 0))
	var states [8][2]float64
	for i := range states {
		states[i] = [2]float64{10 * float64(i%3), 10 * float64(i/3)}
	}
	for len(fault) < binsPoints {
		at := states[rng.IntN(2)]
		if rng.IntN(5) == 0 {
			at = states[2+rng.IntN(6)]
		}
		for range 40 + rng.IntN(81) {
			p, odd := [2]float64{at[0] + rng.NormFloat64(), at[1] + rng.NormFloat64()}, rng.IntN(50) == 0
			for near := odd; near; {
				p = [2]float64{40*rng.Float64() - 10, 40*rng.Float64() - 10}
				near = slices.ContainsFunc(states[:], func(s [2]float64) bool { return math.Hypot(p[0]-s[0], p[1]-s[1]) < 5 })
			}
			x, fault = append(x, p[:]...), append(fault, odd)
		}
	}
	return x[:2*binsPoints], fault[:binsPoints]
}

// binsScores scores each point of a stream among the last ones of a window and the virtual points of a summary of those before, with
// cells above 0. It returns the mean number of virtual points, too.
func binsScores(x []float64, window, cells int) (scores []float64, virtual float64, err error) {
	d, err := lof.New(lof.OpParams{Window: window, K: binsK, Warmup: 2 * binsK, Cells: cells})
	if err != nil {
		return nil, 0, err
	}
	var bins *detectors.BinParams
	if s, ok := d.(detectors.Summarizer); ok {
		bins = s.Summary(2)
	}
	r := detectors.Rows{Dim: 2, Fresh: 1, Params: d.Params(), Scores: make([]float32, 1)}
	points, state := make([]float32, len(x)), []float64(nil)
	for i, v := range x {
		points[i] = float32(v)
	}
	for i := range len(x) / 2 {
		if left := i - window; bins != nil && left >= 0 {
			state = bins.Add(state, x[2*left:][:2])
		}
		r.X = points[2*max(0, i-window+1) : 2*(i+1)]
		if bins != nil {
			n := bins.Count(state)
			r.Bins = slices.Grow(r.Bins[:0], 3*n)[:3*n]
			bins.Pack(r.Bins, state, []float64{0, 0})
			virtual += float64(n) * 2 / float64(len(x))
		}
		score := 0.0
		if i >= 2*binsK {
			d.Op().Spec().CPU(context.Background(), &r, detectors.Sequential)
			score = float64(r.Scores[0])
		}
		scores = append(scores, score)
	}
	return scores, virtual, nil
}

// ranksOf returns the rank of each score, equal ones in the order of their places.
func ranksOf(scores []float64) []float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	ranks := make([]float64, len(scores))
	for rank, i := range order {
		ranks[i] = float64(rank)
	}
	return ranks
}

// auroc returns the chance that a fault has a higher score than another point.
func auroc(scores []float64, fault []bool) float64 {
	sum, faults := 0.0, 0.0
	for i, rank := range ranksOf(scores) {
		if fault[i] {
			sum, faults = sum+rank, faults+1
		}
	}
	return (sum - faults*(faults-1)/2) / (faults * (float64(len(scores)) - faults))
}

// correlation returns the correlation of two lists of equal length.
func correlation(a, b []float64) float64 {
	var ma, mb, ab, aa, bb float64
	for i := range a {
		ma, mb = ma+a[i]/float64(len(a)), mb+b[i]/float64(len(b))
	}
	for i := range a {
		ab, aa, bb = ab+(a[i]-ma)*(b[i]-mb), aa+(a[i]-ma)*(a[i]-ma), bb+(b[i]-mb)*(b[i]-mb)
	}
	return ab / math.Sqrt(aa*bb)
}

// LOFBins measures LOF by window and cells on one core, the summary included, and how well its scores tell faults from states that
// have left the window, beside exact LOF over all earlier points.
func (b *Bench) LOFBins(ctx context.Context) (rows []testbed.Row, err error) {
	x, fault := binsStream()
	measure := func(name string, window, cells int) (scores []float64, err error) {
		virtual := 0.0
		took := processorTime(func() { scores, virtual, err = binsScores(x, window, cells) })
		if err != nil {
			return nil, err
		}
		rate, kept := float64(len(scores))/took, min(window, len(scores))
		bytes := 16*kept + int(virtual*8*7) // a bin has a cell, two counts and two means
		rows = append(rows, testbed.NewRow(name, rate, "points/s").Noted("AUROC %.3f, %.0f bins, %.1f KB",
			auroc(scores[binsFrom:], fault[binsFrom:]), virtual, float64(bytes)/1000))
		return scores, ctx.Err()
	}
	exact, err := measure("exact, all earlier points", binsPoints, 0)
	if err != nil {
		return nil, err
	}
	ranks := ranksOf(exact[binsFrom:])
	for _, window := range []int{128, 512, 1024} {
		for _, cells := range []int{0, 10, 20, 100} {
			scores, err := measure(fmt.Sprintf("w=%d BINS=%d", window, cells), window, cells)
			if err != nil {
				return rows, err
			}
			last := &rows[len(rows)-1]
			*last = last.Noted("rank correlation with exact LOF %.2f", correlation(ranksOf(scores[binsFrom:]), ranks))
		}
	}
	batches, err := b.onExecutors(func(e detectors.Executor, where string) (rows []testbed.Row, err error) {
		for _, window := range []int{128, 1024} {
			for _, cells := range []int{0, 20, 100} {
				r, err := b.binsBatch(ctx, e, x, window, cells, where)
				if err != nil {
					return rows, err
				}
				rows = append(rows, r)
			}
		}
		return rows, ctx.Err()
	})
	return append(rows, batches...), err
}

// binsBatch measures Execute of windows of the stream, each with the virtual points of all points before it and one point to score.
func (b *Bench) binsBatch(ctx context.Context, e detectors.Executor, x []float64, window, cells int, where string) (r testbed.Row,
	err error) {
	d, err := lof.New(lof.OpParams{Window: window, K: binsK, Cells: cells})
	if err != nil {
		return r, err
	}
	tasks, in := min(16_384, 1<<22/window), 0 // in: points of the summary
	if where == oneCore {                     // a core has no more work at once
		tasks = 256
	}
	var bins *detectors.BinParams
	if s, ok := d.(detectors.Summarizer); ok {
		bins = s.Summary(2)
	}
	batch := e.Batch()
	defer e.Release(batch)
	params, state := batch.Put(d.Params()), []float64(nil)
	size, _ := d.Size(detectors.View{Dim: 2, Rows: window, Fresh: 1})
	for i := range tasks {
		begin := len(x)/4 + i*(len(x)/4-window)/tasks // in the second half of the stream
		t := detectors.Task{Op: d.Op(), Dim: 2, Fresh: 1, Params: params}
		var p []float32
		t.X, p = batch.GrowF32(2 * window)
		for j := range p {
			p[j] = float32(x[2*begin+j])
		}
		if bins != nil {
			for ; in < begin; in++ {
				state = bins.Add(state, x[2*in:][:2])
			}
			t.Bins, p = batch.GrowF32(3 * bins.Count(state))
			bins.Pack(p, state, []float64{0, 0})
		}
		batch.GrowOutputs(&t, size)
		batch.Tasks = append(batch.Tasks, t)
	}
	name := fmt.Sprintf("batch of %d, w=%d BINS=%d, %s", tasks, window, cells, where)
	b.Say("%s", name)
	execute := func() error { return e.Execute(ctx, batch) }
	if err := execute(); err != nil {
		return r, err
	}
	var rate float64
	if where == oneCore {
		var times int
		var took float64
		times, took, err = b.onCore(execute)
		rate = float64(times*tasks) / took
	} else {
		ns, _ := perItem(b.Span(time.Second), tasks, func() {
			if failed := execute(); failed != nil {
				err = failed
			}
		})
		rate = 1e9 / ns
	}
	return testbed.NewRow(name, rate, "points/s").Noted("Execute alone, %d KB", 4*(len(batch.In)+len(batch.Out))>>10), err
}

// SSTTasks measures change scores by the number of tasks in a batch, one batch at a time.
func (b *Bench) SSTTasks(ctx context.Context) ([]testbed.Row, error) {
	type kind struct {
		name string
		op   detectors.Op
		det  func() (detectors.Detector, error)
	}
	kinds := []kind{{"ikasst w=100", sst.OpIKA, func() (detectors.Detector, error) {
		return sst.NewIKA(sst.IKAOpParams{Window: 100, Rank: 3, PowerSteps: sstSteps, Epsilon: 1e-5})
	}}}
	for _, w := range []int{64, 128, 256, 320} {
		kinds = append(kinds, kind{fmt.Sprintf("svdsst w=%d r=3", w), sst.OpSVD, func() (detectors.Detector, error) {
			return sst.NewSVD(sst.SVDOpParams{Window: w, Rank: 3})
		}})
	}
	return b.onExecutors(func(e detectors.Executor, where string) (rows []testbed.Row, err error) {
		for _, k := range kinds {
			for _, tasks := range []int{1, 16, 64, 256, 1024, 16_384} {
				if tasks > 256 && where == oneCore { // a core has no more work at once
					continue
				}
				s := &shape{op: k.op, name: fmt.Sprintf("%s, %d tasks, %s", k.name, tasks, where), unit: "scores/s", det: k.det, dim: 1,
					fresh: 1, tasks: tasks}
				if !b.wants(s.name) {
					continue
				}
				in, err := s.input()
				if err != nil {
					return rows, err
				}
				b.Say("%s", s.name)
				alone := b.scaleAlone
				if where == oneCore {
					alone = b.aloneOnCore
				}
				r, err := alone(ctx, e, in)
				if err != nil {
					return rows, fmt.Errorf("%s: %w", s.name, err)
				}
				rows = append(rows, r)
			}
		}
		if where == oneCore {
			more, err := b.sstApart(ctx)
			return append(rows, more...), errors.Join(err, ctx.Err())
		}
		return rows, ctx.Err()
	})
}

// apartPoints is the number of scores that sstApart compares.
const apartPoints = 5000

// sstApart holds IKA-SST's scores of the recordings of discords-range against SVD-SST's.
func (b *Bench) sstApart(ctx context.Context) (rows []testbed.Row, err error) {
	const w = 100
	ika, err := sst.NewIKA(sst.IKAOpParams{Window: w, Rank: 3, PowerSteps: sstSteps, Epsilon: 1e-5})
	if err != nil {
		return nil, err
	}
	svd, err := sst.NewSVD(sst.SVDOpParams{Window: w, Rank: 3})
	if err != nil {
		return nil, err
	}
	for _, s := range rangeSeriesAll() {
		name := fmt.Sprintf("ikasst and svdsst w=%d r=3, %s", w, s.name)
		if s.file == "" || !b.wants(name) {
			continue
		}
		x, err := s.values(b.Recordings)
		if err != nil {
			rows = append(rows, testbed.Row{Case: name, Skipped: testbed.FirstLine(err.Error())})
			continue
		}
		b.Say("%s", name)
		x = x[:min(len(x), apartPoints+ika.Window()-1)]
		fast, exact := scoresOf(ctx, ika, x), scoresOf(ctx, svd, x)
		apart := 0.0
		for i := range fast {
			apart += math.Abs(fast[i]-exact[i]) / float64(len(fast))
		}
		rows = append(rows, testbed.NewRow(name, correlation(ranksOf(fast), ranksOf(exact)), "correlation").
			Noted("of ranks; %d scores, %.3f apart in the mean", len(fast), apart))
	}
	return rows, ctx.Err()
}

// scoresOf returns the scores of a series from the first full window on, as one task without a carry.
func scoresOf(ctx context.Context, d detectors.Detector, x []float64) []float64 {
	fresh := len(x) - d.Window() + 1
	size, _ := d.Size(detectors.View{Dim: 1, Rows: len(x), Fresh: fresh})
	r := detectors.Rows{Dim: 1, Fresh: fresh, Params: d.Params(), Scores: make([]float32, size.Scores),
		Next: make(detectors.Words, size.Carry)}
	for _, v := range x {
		r.X = append(r.X, float32(v-x[0]))
	}
	d.Op().Spec().CPU(ctx, &r, detectors.Sequential)
	scores := make([]float64, fresh)
	for i := range scores {
		scores[i] = float64(r.Scores[i])
	}
	return scores
}

// walk draws a random walk of n values.
func walk(n int) []float64 {
	rng := rand.New(rand.NewPCG(2023, uint64(n)))
	x := make([]float64, n)
	for i := range x {
		if x[i] = rng.NormFloat64(); i > 0 {
			x[i] += x[i-1]
		}
	}
	return x
}

// readColumn reads a column of numbers of a compressed file, whose lines have several.
func readColumn(path string, column int) (x []float64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= column {
			return nil, fmt.Errorf("%s: line %d has %d numbers", path, len(x)+1, len(fields))
		}
		v, err := strconv.ParseFloat(fields[column], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(x)+1, err)
		}
		x = append(x, v)
	}
	return x, lines.Err()
}

// rangeSeries is a series of discords-range with its lengths.
type rangeSeries struct {
	name        string
	file        string // of a recording; "": a random walk of n values
	column, n   int
	least, most int
}

// values returns the values of a series, of a recording from the folder.
func (s *rangeSeries) values(recordings string) ([]float64, error) {
	if s.file == "" {
		return walk(s.n), nil
	}
	return readColumn(filepath.Join(recordings, s.file+".txt.gz"), s.column)
}

// rangeSeriesAll are the recordings of Zymbler and Kraeva's table 3 that are at hand, and random walks of several sizes with several
// numbers of lengths.
func rangeSeriesAll() []rangeSeries {
	all := []rangeSeries{
		{"respiration", "nprs44", 0, 0, 250, 250}, {"power demand", "power_data", 0, 0, 750, 750},
		{"ECG", "qtdbsel102", 1, 0, 200, 200}, {"ECG-2", "mitdbx_108", 1, 0, 400, 400},
	}
	add := func(n, least, most int) { all = append(all, rangeSeries{"random walk", "", 0, n, least, most}) }
	for _, most := range []int{128, 143, 191, 383} {
		add(10_000, 128, most)
	}
	for _, n := range []int{20_000, 40_000, 80_000, 160_000} {
		add(n, 128, 128)
	}
	add(1_000_000, 512, 512)
	return all
}

// DiscordRanges measures the search for range discords, with a radius by MERLIN's rule, by the number of values and of lengths.
func (b *Bench) DiscordRanges(ctx context.Context) ([]testbed.Row, error) {
	return b.onExecutors(func(e detectors.Executor, where string) (rows []testbed.Row, err error) {
		for _, s := range rangeSeriesAll() {
			x, err := s.values(b.Recordings)
			if err != nil {
				rows = append(rows, testbed.Row{Case: s.name, Skipped: testbed.FirstLine(err.Error())})
				continue
			}
			name := fmt.Sprintf("%s n=%d m=%d to %d, %s", s.name, len(x), s.least, s.most, where)
			if !b.wants(name) || where == oneCore && len(x) > 80_000 {
				continue
			}
			b.Say("%s", name)
			took, found, err := b.rangeDiscords(ctx, e, x, s.least, s.most)
			if err != nil {
				return rows, fmt.Errorf("%s: %w", name, err)
			}
			rows = append(rows, testbed.NewRow(name, took, "s").Noted("%d range discords, %.3g ms each", found, 1e3*took/float64(max(1, found))))
		}
		return rows, ctx.Err()
	})
}

// rangeDiscords returns the least time of some searches, on a core processor time, and the number of range discords.
func (b *Bench) rangeDiscords(ctx context.Context, e detectors.Executor, x []float64, least, most int) (
	took float64, found int, err error,
) {
	d, err := discord.NewTop(discord.TopParams{Window: len(x), Tumbling: true, MinLength: least, MaxLength: most, Radius: discord.Auto})
	if err != nil {
		return 0, 0, err
	}
	batch := e.Batch()
	defer e.Release(batch)
	took = math.Inf(1)
	g, device := e.(*cuda.Executor)
	for range max(2, b.Repeat) { // the first makes the batch's memory
		batch.Reset()
		t := detectors.Task{Op: d.Op(), Dim: 1, Fresh: uint32(len(x)), Params: batch.Put(d.Params())}
		var values []float64
		t.X, values = batch.GrowF64(len(x))
		copy(values, x)
		size, _ := d.Size(detectors.View{Dim: 1, Rows: len(x), Fresh: len(x)})
		batch.GrowOutputs(&t, size)
		batch.Tasks = append(batch.Tasks, t)
		began := time.Now()
		used := processorTime(func() { err = e.Execute(ctx, batch) })
		if err != nil {
			return 0, 0, err
		}
		if !device {
			took = min(took, used)
		} else {
			took = min(took, time.Since(began).Seconds())
		}
		if took > 2 {
			break
		}
	}
	if device && g.Stats().CPUTasks > 0 {
		return 0, 0, fmt.Errorf("the CPU scored it: %d tasks declined, last fault %q", g.Stats().Declined, g.Stats().Devices[0].LastFault)
	}
	r := batch.Rows(0)
	for _, l := range discord.FoundTop(&r) {
		found += l.Count
	}
	return took, found, nil
}

// DiscordLeft measures the distances of subsequences of 64 samples to all earlier ones of a window, as a stream takes them, on one core.
func (b *Bench) DiscordLeft(ctx context.Context) (rows []testbed.Row, err error) {
	e := detectors.NewCPU(1)
	defer e.Close()
	for _, window := range []int{1024, 4096, 16_384, 65_536, 100_000} {
		s := &shape{op: discord.Op, name: fmt.Sprintf("n=%d m=64", window), unit: "samples/s", dim: 1, fresh: 16, tasks: 4, series: walks,
			det: func() (detectors.Detector, error) { return discord.New(discord.Params{Window: window, Length: 64}) }}
		if !b.wants(s.name) {
			continue
		}
		in, err := s.input()
		if err != nil {
			return rows, err
		}
		r, err := b.aloneOnCore(ctx, e, in)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r)
	}
	return rows, ctx.Err()
}
