package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/table"
	"odradek/cuda"
	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/knn"
	"odradek/detectors/scan"
)

// This file hands the search of a command on a table to a GPU, as tasks of the op that has kernels for it. The CPU's own search has
// progress within a task, no limit of lengths or cells, and bounds that one length leaves for the next, so it is not an op's task.

// executors are the values of -executor.
var executors = []string{"auto", "cpu", "cuda"}

// executorFlag adds the flag -executor.
func (o *tableOptions) executorFlag(fs *flag.FlagSet) {
	fs.StringVar(&o.executor, "executor", executors[0],
		"what searches: cpu, cuda (a GPU), or auto: a GPU where ODRADEK_CUDA_CHILD can use one")
}

// openGPU opens the GPU that -executor asks for, where the op takes the table; nil for the CPU. limits says what it takes.
func (o *tableOptions) openGPU(taken bool, limits string) (*cuda.Executor, error) {
	switch {
	case o.executor == "cpu" || o.executor == "auto" && !taken:
		return nil, nil
	case !taken:
		return nil, fmt.Errorf("-executor cuda: a GPU takes %s; use auto or cpu", limits)
	}
	c, faults, _ := config.Parse(o.t.environ)
	for _, f := range faults {
		if strings.HasPrefix(f.Name, config.Prefix+"CUDA_") { // the others are of a worker
			return nil, errors.New(f.String())
		}
	}
	c.Fetch.Workers = o.workers
	gpu, err := openGPU(c, slog.New(slog.DiscardHandler))
	switch {
	case err == nil:
		return gpu, nil
	case o.executor != "cuda": // the CPU searches
		return nil, nil
	}
	return nil, fmt.Errorf("-executor cuda: %w; use auto or cpu to search without a GPU", err)
}

// execute executes the tasks of a batch, and returns an error once the command is stopped.
func execute(ctx context.Context, gpu *cuda.Executor, b *detectors.Batch) error {
	if err := gpu.Execute(ctx, b); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the search has ended")
	}
	return nil
}

// What `outliers` hands to op topn: its kernels' limits, and so few outliers that computing their weights in float64 takes no tree.
const (
	outliersColumns = 64
	outliersK       = 128
	outliersN       = 1000
	outliersOnGPU   = 500_000 // rows from which on -executor auto starts a GPU, which takes 0.4 s
	outliersBatch   = 1 << 27 // bytes of the values of a part
)

var outliersTaken = fmt.Sprintf("up to %d columns, -k %d and -n %d", outliersColumns, outliersK, outliersN)

// takesTable reports whether a GPU takes a table of so many columns with the options of the command.
func (o *outliersOptions) takesTable(columns int) bool {
	return columns <= outliersColumns && o.k <= outliersK && o.n <= outliersN
}

// searchOnGPU finds the n rows of largest weight as tasks of op topn, one for each part of the table; ok is false where these do not tell.
func (o *outliersOptions) searchOnGPU(ctx context.Context, gpu *cuda.Executor, x []float64, dim int, p knn.TopParams,
	parallel detectors.Parallel,
) (top knn.Top, ok bool, err error) {
	b := gpu.Batch()
	defer gpu.Release(b)
	return knn.FindByLeaves(x, dim, p, min(knn.MaxTopNWindow, outliersBatch/4/dim), knn.LeavesBy(ctx, gpu, b), parallel)
}

var regionsTaken = fmt.Sprintf("2 to %d cells, up to -top %d and -seed %d", scan.MaxWindow, scan.MaxTop, math.MaxInt32)

// takesMap reports whether op scan takes a map with the options of the command.
func (o *regionsOptions) takesMap(g *scan.Grid) bool {
	cells := g.Rows * g.Cols
	return cells > 1 && cells <= scan.MaxWindow && o.top <= scan.MaxTop && o.seed <= math.MaxInt32
}

// searchOnGPU finds the rectangles of a map and their p-values as a task of op scan, with a variance of 1.
func (o *regionsOptions) searchOnGPU(ctx context.Context, gpu *cuda.Executor, g *scan.Grid, model scan.OpModel, options scan.Options) (
	found []scan.Region, ps []float64, err error,
) {
	cells := g.Rows * g.Cols
	d, err := scan.New(scan.OpParams{Cells: cells, Columns: g.Cols, Model: model, Top: options.Top, MaxRows: options.MaxRows,
		MaxColumns: options.MaxCols, Replicates: o.replicates, Seed: int(o.seed), Variance: 1, Direction: options.Direction, Learnt: o.learnt})
	if err != nil {
		return nil, nil, err
	}
	b := gpu.Batch()
	defer gpu.Release(b)
	task := detectors.Task{Op: d.Op(), Dim: 2, Fresh: 1, Params: b.Put(d.Params())}
	var x []int64
	task.X, x = b.GrowI64(2 * cells)
	for i := range cells {
		x[2*i], x[2*i+1] = g.Count[i], g.Baseline[i]
	}
	size, _ := d.Size(detectors.View{Dim: 2, Rows: cells, Fresh: 1})
	b.GrowOutputs(&task, size)
	b.Tasks = append(b.Tasks, task)
	if err := execute(ctx, gpu, b); err != nil {
		return nil, nil, err
	}
	_, block := d.(detectors.Blocker).Block(b.Rows(0))
	var regions []scan.FoundRegion
	if len(block) > 0 {
		if err := json.Unmarshal(block, &regions); err != nil {
			return nil, nil, err
		}
	}
	for _, r := range regions {
		found = append(found, scan.Region{Rectangle: scan.Rectangle{Y1: r.Rows[0], X1: r.Columns[0], Y2: r.Rows[1], X2: r.Columns[1]},
			Sums: scan.Sums{Count: r.Count, Baseline: r.Baseline}, Expected: r.Expected, Ratio: r.Ratio})
		if r.P != nil {
			ps = append(ps, *r.P)
		}
	}
	return found, ps, nil
}

const (
	lengthsATask = 256      // of first discords
	batchBytes   = 64 << 20 // of the outputs of a batch of range discords
)

var discordsTaken = fmt.Sprintf("up to %d rows, -max %d and -top %d", discord.MaxTopWindow, discord.MaxTopLength, discord.MaxTop)

// takesColumn reports whether op discords takes a column of n values with the options of the command.
func (o *discordsOptions) takesColumn(n int) bool {
	return n <= discord.MaxTopWindow && o.lengths.Max <= discord.MaxTopLength && o.top <= discord.MaxTop
}

// searchOnGPU calls visit for each length, the least first, while that returns true. A task has the first discords of some lengths,
// or the range discords of one, whose radius follows from the first discords of the lengths up to it.
func (o *discordsOptions) searchOnGPU(ctx context.Context, gpu *cuda.Executor, x []float64, p *table.Progress,
	visit func(r discord.Ranged) bool,
) error {
	lengths := o.lengths.All()
	radius := (&discord.RangeQuery{Lengths: o.lengths, Radius: o.radius, Top: o.top,
		Options: func(int) discord.Options { return discord.Options{ExcludeFlat: o.excludeFlat} }}).Radii()
	b := gpu.Batch()
	defer gpu.Release(b)
	several := max(1, min(64, batchBytes/(4*len(x)+16*min(len(x), discord.MaxRanged))))
	for from := 0; from < len(lengths); from += lengthsATask {
		some := lengths[from:min(len(lengths), from+lengthsATask)]
		first := make([]discord.Ranged, len(some))
		if o.radius <= 0 {
			found, err := o.score(ctx, gpu, b, x, []discord.TopParams{{MinLength: some[0], MaxLength: some[len(some)-1], Step: o.lengths.Step}})
			if err != nil {
				return err
			}
			first = found[0]
		}
		if o.radius == 0 {
			for _, r := range first {
				if !visit(r) {
					return nil
				}
			}
			p.Done.Add(int64(len(some)))
			continue
		}
		for from := 0; from < len(some); from += several {
			var tasks []discord.TopParams
			ranged := make([]discord.Ranged, 0, several)
			for i := from; i < min(len(some), from+several); i++ {
				m := some[i]
				r := discord.Ranged{Length: m, Radius: radius(m, first[i].Found)}
				if r.Radius <= 2*math.Sqrt(float64(m)) { // which no distance exceeds
					tasks = append(tasks, discord.TopParams{MinLength: m, MaxLength: m, Radius: r.Radius})
				}
				ranged = append(ranged, r)
			}
			found, err := o.score(ctx, gpu, b, x, tasks)
			if err != nil {
				return err
			}
			for i := range ranged {
				if len(found) > 0 && found[0][0].Length == ranged[i].Length {
					ranged[i], found = found[0][0], found[1:]
				}
				if !visit(ranged[i]) {
					return nil
				}
			}
			p.Done.Add(int64(len(ranged)))
		}
	}
	return nil
}

// score executes tasks on a column, and returns what each has found, by length.
func (o *discordsOptions) score(ctx context.Context, gpu *cuda.Executor, b *detectors.Batch, x []float64, tasks []discord.TopParams) (
	found [][]discord.Ranged, err error,
) {
	b.Reset()
	span, values := b.GrowF64(len(x))
	copy(values, x)
	for _, p := range tasks {
		p.Window, p.Tumbling, p.Top, p.ExcludeFlat = len(x), true, o.top, o.excludeFlat
		d, err := discord.NewTop(p)
		if err != nil {
			return nil, err
		}
		task := detectors.Task{Op: d.Op(), Dim: 1, Fresh: uint32(len(x)), Params: b.Put(d.Params()), X: span}
		size, _ := d.Size(detectors.View{Dim: 1, Rows: len(x), Fresh: len(x)})
		b.GrowOutputs(&task, size)
		b.Tasks = append(b.Tasks, task)
	}
	if len(tasks) > 0 {
		err = execute(ctx, gpu, b)
	}
	for i := range tasks {
		r := b.Rows(i)
		found = append(found, discord.FoundTop(&r))
	}
	return found, err
}
