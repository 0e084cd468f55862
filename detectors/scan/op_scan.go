package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"odradek/detectors"
)

// This file is op scan: the most anomalous regions of a grid of counts. The method is package
// detectors/scan.

// Op finds the most anomalous rectangles of a grid of counts.
const Op detectors.Op = 9

var spec = detectors.Spec{
	Name: "scan", Elem: detectors.I64,
	Finds: "more than its baseline in a region, or less",
	Help: "Finds rectangles of a grid with more events than expected, or fewer (DIRECTION), with p-values: the " +
		"spatial scan statistic. The score is the log-likelihood ratio. Samples are the cells of a grid, row " +
		"after row, or with GRID events at places.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 1024, Min: 2, Max: MaxWindow,
			Help: "Cells of the grid, a multiple of COLUMNS.", Example: "4096"},
		{Name: "COLUMNS", Type: detectors.Int, Default: 32, Min: 1, Max: MaxWindow, Word: 1,
			Help: "Cells of a row of the grid.", Example: "64"},
		{Name: "ROWS", Type: detectors.Int, Word: 2},
		{Name: "MODEL", Type: detectors.Choice, Default: Models[ModelPoisson], Choices: Models, Word: 3,
			Help: "Counts are events (poisson), cases among trials (bernoulli), sums of normal values (normal) or of " +
				"waiting times (exponential). The first two have p-values.", Example: "bernoulli"},
		{Name: "TOP", Type: detectors.Int, Default: 1, Min: 1, Max: MaxTop, Word: 4,
			Help: "Rectangles to find, which share no cell.", Example: "3"},
		{Name: "MAX_ROWS", Type: detectors.Int, Default: 0, Max: MaxWindow, Word: 5,
			Help: "Rows of the largest rectangle; 0: all.", Example: "8"},
		{Name: "MAX_COLUMNS", Type: detectors.Int, Default: 0, Max: MaxWindow, Word: 6,
			Help: "Columns of the largest rectangle; 0: all.", Example: "8"},
		{Name: "REPLICATES", Type: detectors.Int, Default: DefaultReplicates, Max: 99_999, Word: 7,
			Help: "Random maps to estimate p-values from; 0: no p-values.", Example: "9999"},
		{Name: "SEED", Type: detectors.Int, Default: 1, Max: math.MaxInt32, Word: 8,
			Help: "Seed of the random maps.", Example: "7", Expert: true},
		{Name: "VARIANCE", Type: detectors.Float, Default: 1.0, Min: 1e-30, Max: 1e30, Word: 9,
			Help: "Variance of a value, with MODEL=normal.", Example: "2.5", Expert: true},
		{Name: detectors.DirectionParam, Type: detectors.Int, Word: 10},
		{Name: detectors.LearntParam, Type: detectors.Bool, Word: 11},
	},
	Defaults: []detectors.Default{
		{Name: "STRIDE", Value: func(v detectors.Values) string { return strconv.Itoa(v.Int(detectors.WindowParam)) }, Words: "WINDOW"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		direction, _ := v[detectors.DirectionParam].(int)
		learnt, _ := v[detectors.LearntParam].(bool)
		return New(
			OpParams{
				Direction:  Direction(direction),
				Learnt:     learnt,
				Cells:      v.Int(detectors.WindowParam),
				Columns:    v.Int("COLUMNS"),
				Model:      OpModel(v.Choice("MODEL", Models)),
				Top:        v.Int("TOP"),
				MaxRows:    v.Int("MAX_ROWS"),
				MaxColumns: v.Int("MAX_COLUMNS"),
				Replicates: v.Int("REPLICATES"),
				Seed:       v.Int("SEED"),
				Variance:   v.Float("VARIANCE"),
			},
		)
	},
	Score: score, CPU: cpu, Cost: cost, Compare: compare, Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

// Limits of the op.
const (
	MaxWindow = 1 << 20
	MaxTop    = 32
)

// OpParams are the parameters of the op.
type OpParams struct {
	Cells, Columns      int // of the grid; Cells is a multiple of Columns
	Model               OpModel
	Top                 int // regions; 0 is 1
	MaxRows, MaxColumns int // of a region; 0 is all
	Replicates          int // null maps of a p-value; 0 is no p-values
	Seed                int
	Variance            float64 // of Normal
	Direction           Direction
	Learnt              bool // the baselines are sums of earlier counts, see scan.Replicates
}

// OpModel is a model of counts.
type OpModel int

// The models of counts: the families of package scan.
const (
	ModelPoisson OpModel = iota
	ModelBernoulli
	ModelNormal
	ModelExponential
	paramModels
)

// Models are the words of the models of counts.
var Models = []string{ModelPoisson: "poisson", ModelBernoulli: "bernoulli", ModelNormal: "normal", ModelExponential: "exponential"}

// The parameters of a task, int32 each.
const (
	paramColumns = iota
	paramRows
	paramModel
	paramTop
	paramMaxRows
	paramMaxColumns
	paramReplicates
	paramSeed
	paramVariance
	paramDirection
	paramLearnt
	paramCount
)

// words is the number of words of a region in a task's Detail: y1, x1, y2, x2; the count and
// the baseline, int64; the expected count, the ratio and the p-value, float64. Where there is no
// region, y1 is detectors.NoRow and the others are 0.
const words = 14

// pAt is the place of the p-value among them.
const pAt = 12

// NullMaps returns the number of null maps of a task: of the models of values there are none.
func NullMaps(params detectors.Words) int {
	if m := OpModel(params.Int(paramModel)); m == ModelNormal || m == ModelExponential {
		return 0
	}
	return params.Int(paramReplicates)
}

type detector struct {
	params detectors.Words
	p      OpParams
}

// New returns the detector of the op: the Top most anomalous regions of a grid, see package scan. The
// last Cells rows of a task are the cells of the grid, row after row. The first value of each is the
// count and the second one the baseline, which is 1 without it; others are ignored.
//
// The score is the log-likelihood ratio of the first region, 0 without any, and belongs to the last
// fresh row. The other fresh rows have no score (NaN), and a grid with a cell that the model excludes
// (scan.Grid.Check) has none either. A finding is a region: the rows from its first cell to its last,
// its rank and its Region, of rows and columns from 0 on; without any region, it is all cells with the
// score 0. A p-value is NaN without Replicates, and for models without null maps (scan.NewReplicates).
// There is no carry.
//
// The error names every fault of the parameters.
func New(p OpParams) (detectors.Detector, error) {
	p.Top = max(p.Top, 1)
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Cells < 2 || p.Cells > MaxWindow {
		fault("a grid of %d cells, use 2 to %d", p.Cells, MaxWindow)
	}
	if p.Columns < 1 || p.Cells%max(1, p.Columns) != 0 {
		fault("rows of %d cells do not make a grid of %d: use a divisor of it", p.Columns, p.Cells)
	}
	if p.Top > MaxTop {
		fault("%d regions, use at most %d", p.Top, MaxTop)
	}
	if min(p.MaxRows, p.MaxColumns, p.Replicates, p.Seed) < 0 {
		fault("limits, replicates and the seed are at least 0")
	}
	if p.Model < 0 || p.Model >= paramModels {
		fault("model %d, use 0 to %d", p.Model, paramModels-1)
	}
	if p.Direction > Both {
		fault("direction %d, use 0 to %d", p.Direction, Both)
	}
	if p.Model == ModelNormal && !(p.Variance >= 1e-30 && p.Variance <= 1e30) {
		fault("the variance is %v, use 1e-30 to 1e30", p.Variance)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("scan: %w", errors.Join(faults...))
	}
	d := &detector{params: make(detectors.Words, paramCount), p: p}
	for i, v := range []int{p.Columns, p.Cells / p.Columns, int(p.Model), p.Top, p.MaxRows, p.MaxColumns, p.Replicates, p.Seed} {
		d.params.SetInt(i, v)
	}
	d.params.SetFloat32(paramVariance, float32(p.Variance))
	d.params.SetInt(paramDirection, int(p.Direction))
	d.params.SetBool(paramLearnt, p.Learnt)
	return d, nil
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }
func (d *detector) Window() int             { return d.p.Cells }

// Whole marks the detector as one that scores a grid as a whole.
func (d *detector) Whole() {}

func (d *detector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows < max(v.Fresh, d.p.Cells) {
		return detectors.Outputs{}, false
	}
	return detectors.Outputs{Scores: v.Fresh, Detail: d.p.Top * words}, true
}

func (d *detector) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	from := r.Len() - d.p.Cells
	regions := foundRegions(&r)
	if len(regions) == 0 && r.Scores[r.Fresh-1] == 0 {
		return append(dst, detectors.Finding{Fresh: r.Fresh - 1, From: from, To: r.Len() - 1})
	}
	for i, s := range regions {
		g := &s.region
		dst = append(dst, detectors.Finding{Fresh: r.Fresh - 1, From: from + g.Y1*d.p.Columns + g.X1, To: from + g.Y2*d.p.Columns + g.X2,
			Score: float64(float32(g.Ratio)), Rank: i + 1, Region: &detectors.Region{From: []int{g.Y1, g.X1}, To: []int{g.Y2, g.X2},
				Observed: g.Count, Expected: g.Expected, Ratio: g.Ratio, P: s.p}})
	}
	return dst
}

// Describe returns the regions of the grid that the fresh row completes.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	e := detectors.Evidence{From: r.Len() - d.p.Cells, To: r.Len() - 1}
	if fresh != r.Fresh-1 {
		return e
	}
	for _, f := range d.AppendFindings(nil, r) {
		if f.Region != nil {
			e.Regions = append(e.Regions, *f.Region)
		}
	}
	var total [2]int64
	for i := e.From * r.Dim; i < len(r.XI); i += r.Dim {
		total[0] += r.XI[i]
		if r.Dim > 1 {
			total[1] += r.XI[i+1]
		}
	}
	e.Measures = []detectors.Measure{{Name: "cells of the grid", Field: detectors.AllFields, Value: float64(d.p.Cells)},
		{Name: "count of all cells", Field: 0, Value: float64(total[0])}}
	if r.Dim > 1 {
		e.Measures = append(e.Measures, detectors.Measure{Name: "baseline of all cells", Field: 1, Value: float64(total[1])})
	}
	return e
}

// MediaType is the media type of the op's blocks: a JSON array of [Region].
const MediaType = "application/vnd.odradek.regions+json"

// FoundRegion is a region in a block.
type FoundRegion struct {
	Rows     [2]int   `json:"rows"`    // the first and the last, from 0
	Columns  [2]int   `json:"columns"` // likewise
	Count    int64    `json:"count"`
	Baseline int64    `json:"baseline"`
	Expected float64  `json:"expected"`
	Ratio    float64  `json:"llr"`
	P        *float64 `json:"p,omitempty"`
}

// Block returns the regions of a task.
func (d *detector) Block(r detectors.Rows) (mediaType string, block []byte) {
	var regions []FoundRegion
	for _, s := range foundRegions(&r) {
		g := &s.region
		v := FoundRegion{Rows: [2]int{g.Y1, g.Y2}, Columns: [2]int{g.X1, g.X2}, Count: g.Count, Baseline: g.Baseline, Expected: g.Expected,
			Ratio: g.Ratio}
		if s.p == s.p {
			v.P = &s.p
		}
		regions = append(regions, v)
	}
	if len(regions) == 0 {
		return "", nil
	}
	block, err := json.Marshal(regions)
	if err != nil {
		panic(err) // all numbers are finite
	}
	return MediaType, block
}

// region is a region with its p-value.
type region struct {
	region Region
	p      float64
}

// foundRegions reads the regions of a finished task.
func foundRegions(r *detectors.Rows) []region {
	var regions []region
	for w := range slices.Chunk(r.Detail, words) {
		if w[0] == detectors.NoRow {
			break
		}
		regions = append(regions, region{Region{Rectangle: Rectangle{Y1: w.Int(0), X1: w.Int(1), Y2: w.Int(2), X2: w.Int(3)},
			Sums: Sums{Count: w.Int64(4), Baseline: w.Int64(6)}, Expected: w.Float64(8), Ratio: w.Float64(10)}, w.Float64(pAt)})
	}
	return regions
}

// task is a task's grid and parameters.
type task struct {
	grid       Grid
	family     Family
	options    Options
	replicates int
	seed       uint64
	learnt     bool
}

func taskOf(r *detectors.Rows) task {
	p := r.Params
	t := task{Grid{Rows: p.Int(paramRows), Cols: p.Int(paramColumns)}, family(p),
		Options{Top: p.Int(paramTop), MaxRows: p.Int(paramMaxRows), MaxCols: p.Int(paramMaxColumns),
			Direction: Direction(p.Int(paramDirection))},
		NullMaps(p), uint64(p.Int(paramSeed)), p.Bool(paramLearnt)}
	cells := t.grid.Rows * t.grid.Cols
	x := r.XI[(r.Len()-cells)*r.Dim:]
	for i := range cells {
		baseline := int64(1)
		if r.Dim > 1 {
			baseline = x[i*r.Dim+1]
		}
		t.grid.Count, t.grid.Baseline = append(t.grid.Count, x[i*r.Dim]), append(t.grid.Baseline, baseline)
	}
	return t
}

func family(params detectors.Words) Family {
	switch OpModel(params.Int(paramModel)) {
	case ModelBernoulli:
		return Bernoulli{}
	case ModelNormal:
		return Normal{Variance: float64(params.Float32(paramVariance))}
	case ModelExponential:
		return Exponential{}
	}
	return Poisson{}
}

// write writes the results of a task: search finds the regions, p their p-values.
func (t *task) write(r *detectors.Rows, search func() []Region, p func(*Replicates, []Region) []float64) {
	for i := range r.Scores {
		r.Scores[i] = float32(math.NaN())
	}
	clear(r.Detail)
	for w := range slices.Chunk(r.Detail, words) {
		w[0] = detectors.NoRow
	}
	if t.grid.Check(t.family) != nil {
		return
	}
	found := search()
	r.Scores[r.Fresh-1] = 0
	if len(found) == 0 {
		return
	}
	r.Scores[r.Fresh-1] = float32(found[0].Ratio)
	ps := slices.Repeat([]float64{math.NaN()}, len(found))
	if null, err := NewReplicates(&t.grid, t.family, t.seed, t.learnt); err == nil && t.replicates > 0 {
		ps = p(null, found)
	}
	for i, f := range found {
		w := r.Detail[i*words:][:words]
		for j, v := range []int{f.Y1, f.X1, f.Y2, f.X2} {
			w.SetInt(j, v)
		}
		w.SetInt64(4, f.Count)
		w.SetInt64(6, f.Baseline)
		w.SetFloat64(8, f.Expected)
		w.SetFloat64(10, f.Ratio)
		w.SetFloat64(pAt, ps[i])
	}
}

func score(r detectors.Rows) {
	t := taskOf(&r)
	t.write(&r, func() []Region { return Define(&t.grid, t.family, t.options) },
		func(null *Replicates, found []Region) []float64 {
			return null.DefinePValues(t.family, t.options, found, t.replicates)
		})
}

func cpu(ctx context.Context, r *detectors.Rows, parallel detectors.Parallel) {
	t := taskOf(r)
	if cost(r) < detectors.LongTask {
		parallel = detectors.Sequential
	}
	t.write(r, func() []Region { return Search(&t.grid, t.family, t.options, parallel) },
		func(null *Replicates, found []Region) []float64 {
			if ctx.Err() != nil {
				return make([]float64, len(found))
			}
			return null.PValues(t.family, t.options, found, t.replicates, parallel)
		})
}

// cost is fitted to measurements of 8 to 512 columns.
func cost(r *detectors.Rows) int {
	rows, columns := r.Params.Int(paramRows), r.Params.Int(paramColumns)
	strips := rows * (rows + 1) / 2
	if limit := r.Params.Int(paramMaxRows); limit > 0 {
		strips = min(strips, rows*limit)
	}
	if r.Params.Int(paramDirection) == int(Both) {
		strips *= 2
	}
	return 20_000 + (r.Params.Int(paramTop)+NullMaps(r.Params))*(10_000+strips*(50+8*columns)+100*rows*columns)
}

// compare requires the definition's regions and p-values to the bit: both forms compute ratios from
// exact sums by the same function. The score is rounded from them.
func compare(_ *detectors.Rows, got, want detectors.Result) error {
	if !slices.Equal(got.Detail, want.Detail) {
		return fmt.Errorf("scan: the regions are %v, the definition has %v", got.Detail, want.Detail)
	}
	return detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6)
}

func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p OpParams, dim, extra int, fresh []int, values ...detectors.Signal) {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(New(p)), dim, extra, fresh, values...))
	}
	counts := func(name string, mean float64) detectors.Signal {
		return detectors.Signal{Name: name, At: func(int, int) float64 { return math.Floor(rng.ExpFloat64() * mean) }}
	}
	baselines := detectors.Signal{Name: "baselines", At: func(int, int) float64 { return float64(1 + rng.IntN(30)) }}
	zeros := detectors.Signal{Name: "zero baselines", At: func(i, _ int) float64 { return float64(i % 3 * 5) }}
	cluster := detectors.Signal{Name: "a cluster", At: func(i, n int) float64 {
		return float64(rng.IntN(3)) + math.Floor(20*max(0, math.Sin(float64(i)*6.3/8)))
	}}
	tied := detectors.Signal{Name: "two values", At: func(int, int) float64 { return float64(1 + rng.IntN(2)) }}
	nothing := detectors.Signal{Name: "nothing", At: func(int, int) float64 { return 0 }}
	equal := detectors.Signal{Name: "equal", At: func(int, int) float64 { return 3 }}
	third := detectors.Signal{Name: "counts of a third", At: func(i, _ int) float64 { return float64(i % 3 * rng.IntN(6)) }}
	trials := detectors.Signal{Name: "trials", At: func(int, int) float64 { return float64(40 + rng.IntN(9)) }}
	draw := func() OpParams {
		columns := 1 + rng.IntN(9)
		return OpParams{Cells: columns * (2 + rng.IntN(6)), Columns: columns, Top: 1 + rng.IntN(3), MaxRows: rng.IntN(5),
			MaxColumns: rng.IntN(5), Replicates: rng.IntN(12), Seed: rng.IntN(100), Direction: Direction(rng.IntN(3)),
			Learnt: rng.IntN(3) == 0}
	}
	for _, s := range []detectors.Signal{counts("counts", 4), cluster, tied, nothing, equal, detectors.Signals(rng)[0]} {
		add(draw(), 1, rng.IntN(3), []int{1 + rng.IntN(20), 1, 30}, s)
		add(draw(), 2, rng.IntN(3), []int{1 + rng.IntN(20)}, s, baselines)
		p := draw()
		p.Model = ModelBernoulli
		add(p, 2, 0, []int{1}, s, trials)
		p.Model, p.Variance = ModelNormal, 1+rng.Float64()
		add(p, 1, 0, []int{9}, detectors.Signals(rng)[rng.IntN(10)])
		p.Model = ModelExponential
		add(p, 2, 0, []int{9}, tied, baselines)
	}
	add(draw(), 2, 0, []int{7}, third, zeros)
	add(draw(), 2, 0, []int{7}, counts("counts over nothing", 4), zeros)
	add(draw(), 1, 0, []int{1}, detectors.Signal{Name: "huge", At: func(int, int) float64 { return 1e18 }})
	add(OpParams{Cells: 2, Columns: 1}, 1, 0, []int{1, 2}, tied)
	add(OpParams{Cells: 24 * 24, Columns: 24, Top: 2}, 2, 0, []int{24 * 24}, cluster, baselines)
	add(OpParams{Cells: 32 * 32, Columns: 32, Model: ModelNormal, Variance: 1}, 1, 0, []int{1}, cluster)
	cases[len(cases)-1].Bench = true
	return cases
}

// Shapes are square grids: many, one alone, and one with null maps; of events and of values.
func Shapes() []detectors.Shape {
	shape := func(n, limit, replicates, tasks int, model OpModel) detectors.Shape {
		s := detectors.Shape{
			Name: fmt.Sprintf("n=%d", n), Unit: "maps/s", Dim: 2, Fresh: 1, Tasks: tasks,
			Values: detectors.Values{detectors.WindowParam: n * n, "COLUMNS": n, "MAX_ROWS": limit, "MAX_COLUMNS": limit, "REPLICATES": replicates,
				"MODEL": Models[model]},
		}
		if limit > 0 {
			s.Name += fmt.Sprintf(", up to %d x %d", limit, limit)
		}
		if replicates > 0 {
			s.Name += fmt.Sprintf(", %d replicates", replicates)
		}
		if tasks == 1 {
			s.Name += ", one map"
		}
		switch model {
		case ModelBernoulli:
			s.Name += ", Bernoulli"
		case ModelNormal, ModelExponential:
			s.Name += ", " + Models[model]
		}
		return s
	}
	return []detectors.Shape{
		shape(128, 0, 0, 64, ModelPoisson), shape(128, 0, 0, 1, ModelPoisson), shape(128, 0, DefaultReplicates, 1, ModelPoisson),
		shape(256, 0, 0, 1, ModelPoisson), shape(512, 0, 0, 1, ModelPoisson), shape(1024, 128, 0, 1, ModelPoisson),
		shape(128, 0, 0, 64, ModelBernoulli), shape(128, 0, DefaultReplicates, 1, ModelBernoulli),
		shape(128, 0, 0, 64, ModelNormal), shape(128, 0, 0, 64, ModelExponential),
	}
}
