package detectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"odradek/detectors/scan"
)

// Scan finds the most anomalous rectangles of a grid of counts.
const Scan Op = 9

var scanSpec = Spec{
	Name: "scan", Elem: I64,
	Help: "rectangles of a grid whose counts exceed what their baselines let expect (spatial scan statistic), with p-values. " +
		"WINDOW samples are the cells of a grid, row after row, of a count and, with a second field, a baseline",
	Version: 1,
	Params: []Param{
		{Name: WindowParam, Type: Int, Default: 1024, Min: 2, Max: ScanMaxWindow,
			Help: "cells of the grid, a multiple of COLUMNS"},
		{Name: "COLUMNS", Type: Int, Default: 32, Min: 1, Max: ScanMaxWindow, Word: 1,
			Help: "cells of a row of the grid; WINDOW/COLUMNS is the number of rows."},
		{Name: "ROWS", Type: Int, Word: 2},
		{Name: "MODEL", Type: Int, Default: int(ScanPoisson), Max: float64(scanModels - 1), Word: 3,
			Help: "0 Poisson: counts are events, at a rate in proportion to the baseline; 1 Bernoulli: cases among as many trials as the baseline " +
				"says; 2 normal: sums of as many normal values; 3 exponential: sums of as many waiting times. Of 0 and 1 there are p-values."},
		{Name: "TOP", Type: Int, Default: 1, Min: 1, Max: ScanMaxTop, Word: 4,
			Help: "rectangles that are found, which share no cell"},
		{Name: "MAX_ROWS", Type: Int, Default: 0, Max: ScanMaxWindow, Word: 5,
			Help: "rows of the largest rectangle; 0 means all."},
		{Name: "MAX_COLUMNS", Type: Int, Default: 0, Max: ScanMaxWindow, Word: 6,
			Help: "columns of the largest rectangle; 0 means all."},
		{Name: "REPLICATES", Type: Int, Default: scan.DefaultReplicates, Max: 99_999, Word: 7,
			Help: "null maps that p-values are estimated from; 0 means none."},
		{Name: "SEED", Type: Int, Default: 1, Max: math.MaxInt32, Word: 8,
			Help: "seed of the null maps: the same seed gives the same p-values."},
		{Name: "VARIANCE", Type: Float, Default: 1.0, Min: 1e-30, Max: 1e30, Word: 9,
			Help: "with MODEL=2, the variance of one of the values."},
	},
	Defaults: []Default{
		{"STRIDE", func(v Values) string { return strconv.Itoa(v.Int(WindowParam)) }, "WINDOW"},
	},
	New: func(v Values) (Detector, error) {
		return NewScan(ScanParams{Cells: v.Int(WindowParam), Columns: v.Int("COLUMNS"), Model: ScanModel(v.Int("MODEL")), Top: v.Int("TOP"),
			MaxRows: v.Int("MAX_ROWS"), MaxColumns: v.Int("MAX_COLUMNS"), Replicates: v.Int("REPLICATES"), Seed: v.Int("SEED"),
			Variance: v.Float("VARIANCE")})
	},
	Score: scanScore, CPU: scanCPU, Cost: scanCost, Compare: scanCompare, Cases: scanCases,
}

// Limits of op Scan.
const (
	ScanMaxWindow = 1 << 16
	ScanMaxTop    = 32
)

// ScanParams are the parameters of op Scan.
type ScanParams struct {
	Cells, Columns      int // of the grid; Cells is a multiple of Columns
	Model               ScanModel
	Top                 int // regions; 0 is 1
	MaxRows, MaxColumns int // of a region; 0 is all
	Replicates          int // null maps of a p-value; 0 is no p-values
	Seed                int
	Variance            float64 // of ScanNormal
}

// ScanModel is a model of counts.
type ScanModel int

// The models of op Scan: the families of package scan.
const (
	ScanPoisson ScanModel = iota
	ScanBernoulli
	ScanNormal
	ScanExponential
	scanModels
)

// The parameters of a task, int32 each.
const (
	scanColumns = iota
	scanRows
	scanModel
	scanTop
	scanMaxRows
	scanMaxColumns
	scanReplicates
	scanSeed
	scanVariance
	scanParamCount
)

// scanWords is the number of words of a region in a task's Detail: y1, x1, y2, x2; the count and
// the baseline, int64; the expected count, the ratio and the p-value, float64. Where there is no
// region, y1 is NoNeighbour and the others are 0.
const scanWords = 14

type scanDetector struct {
	params Words
	p      ScanParams
}

// NewScan returns the detector of op Scan: the Top most anomalous regions of a grid, see package
// scan. The last Cells rows of a task are the cells of the grid, row after row. The first value of
// each is the count and the second one the baseline, which is 1 without it; others are ignored.
//
// The score is the log-likelihood ratio of the first region, 0 without any, and belongs to
// the last fresh row. The other fresh rows have none (NaN), nor has a grid with a cell that the model
// excludes (scan.Grid.Check). A finding is a region: the rows from its first cell to its last, its rank and its
// Region, of rows and columns from 0 on. A p-value is NaN without Replicates, and for models of
// which there are no null maps (scan.NewReplicates). There is no carry.
//
// The error names every fault of the parameters.
func NewScan(p ScanParams) (Detector, error) {
	p.Top = max(p.Top, 1)
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Cells < 2 || p.Cells > ScanMaxWindow {
		fault("a grid of %d cells, use 2 to %d", p.Cells, ScanMaxWindow)
	}
	if p.Columns < 1 || p.Cells%max(1, p.Columns) != 0 {
		fault("rows of %d cells do not make a grid of %d: use a divisor of it", p.Columns, p.Cells)
	}
	if p.Top > ScanMaxTop {
		fault("%d regions, use at most %d", p.Top, ScanMaxTop)
	}
	if min(p.MaxRows, p.MaxColumns, p.Replicates, p.Seed) < 0 {
		fault("limits, replicates and the seed are at least 0")
	}
	if p.Model < 0 || p.Model >= scanModels {
		fault("model %d, use 0 to %d", p.Model, scanModels-1)
	}
	if p.Model == ScanNormal && !(p.Variance >= 1e-30 && p.Variance <= 1e30) {
		fault("the variance is %v, use 1e-30 to 1e30", p.Variance)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("detectors: scan: %w", errors.Join(faults...))
	}
	d := &scanDetector{params: make(Words, scanParamCount), p: p}
	for i, v := range []int{p.Columns, p.Cells / p.Columns, int(p.Model), p.Top, p.MaxRows, p.MaxColumns, p.Replicates, p.Seed} {
		d.params.SetInt(i, v)
	}
	d.params.SetFloat32(scanVariance, float32(p.Variance))
	return d, nil
}

func (d *scanDetector) Op() Op        { return Scan }
func (d *scanDetector) Params() Words { return d.params }
func (d *scanDetector) Window() int   { return d.p.Cells }

func (d *scanDetector) Size(v View) (n Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < d.p.Cells {
		return Outputs{}, false
	}
	return Outputs{Scores: v.Fresh, Detail: d.p.Top * scanWords}, true
}

func (d *scanDetector) AppendFindings(dst []Finding, r Rows) []Finding {
	from := r.Len() - d.p.Cells
	for i, s := range scanRegions(&r) {
		dst = append(dst, Finding{Fresh: r.Fresh - 1, From: from + s.Y1*d.p.Columns + s.X1, To: from + s.Y2*d.p.Columns + s.X2,
			Score: float64(float32(s.Ratio)), Rank: i + 1, Region: &Region{From: []int{s.Y1, s.X1}, To: []int{s.Y2, s.X2}}})
	}
	return dst
}

// ScanMediaType is the media type of the blocks of op Scan: a JSON array of [ScanRegion].
const ScanMediaType = "application/vnd.odradek.regions+json"

// ScanRegion is a region in a block.
type ScanRegion struct {
	Rows     [2]int   `json:"rows"`    // the first and the last, from 0
	Columns  [2]int   `json:"columns"` // likewise
	Count    int64    `json:"count"`
	Baseline int64    `json:"baseline"`
	Expected float64  `json:"expected"`
	Ratio    float64  `json:"llr"`
	P        *float64 `json:"p,omitempty"`
}

// Block returns the regions of a task.
func (d *scanDetector) Block(r Rows) (mediaType string, block []byte) {
	var regions []ScanRegion
	for _, s := range scanRegions(&r) {
		v := ScanRegion{Rows: [2]int{s.Y1, s.Y2}, Columns: [2]int{s.X1, s.X2}, Count: s.Count, Baseline: s.Baseline, Expected: s.Expected,
			Ratio: s.Ratio}
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
	return ScanMediaType, block
}

// scanRegion is a region with its p-value.
type scanRegion struct {
	scan.Region
	p float64
}

// scanRegions reads the regions of a finished task.
func scanRegions(r *Rows) []scanRegion {
	var regions []scanRegion
	for w := range slices.Chunk(r.Detail, scanWords) {
		if w[0] == NoNeighbour {
			break
		}
		regions = append(regions, scanRegion{scan.Region{Rectangle: scan.Rectangle{Y1: w.Int(0), X1: w.Int(1), Y2: w.Int(2), X2: w.Int(3)},
			Sums: scan.Sums{Count: w.Int64(4), Baseline: w.Int64(6)}, Expected: w.Float64(8), Ratio: w.Float64(10)}, w.Float64(12)})
	}
	return regions
}

// scanTask is a task's grid and parameters.
type scanTask struct {
	grid       scan.Grid
	family     scan.Family
	options    scan.Options
	replicates int
	seed       uint64
}

func scanOf(r *Rows) scanTask {
	p := r.Params
	t := scanTask{scan.Grid{Rows: p.Int(scanRows), Cols: p.Int(scanColumns)}, scanFamily(p),
		scan.Options{Top: p.Int(scanTop), MaxRows: p.Int(scanMaxRows), MaxCols: p.Int(scanMaxColumns)},
		p.Int(scanReplicates), uint64(p.Int(scanSeed))}
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

func scanFamily(params Words) scan.Family {
	switch ScanModel(params.Int(scanModel)) {
	case ScanBernoulli:
		return scan.Bernoulli{}
	case ScanNormal:
		return scan.Normal{Variance: float64(params.Float32(scanVariance))}
	case ScanExponential:
		return scan.Exponential{}
	}
	return scan.Poisson{}
}

// write writes the results of a task: search finds the regions, p their p-values.
func (t *scanTask) write(r *Rows, search func() []scan.Region, p func(*scan.Replicates, []scan.Region) []float64) {
	for i := range r.Scores {
		r.Scores[i] = float32(math.NaN())
	}
	clear(r.Detail)
	for w := range slices.Chunk(r.Detail, scanWords) {
		w[0] = NoNeighbour
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
	if null, err := scan.NewReplicates(&t.grid, t.family, t.seed); err == nil && t.replicates > 0 {
		ps = p(null, found)
	}
	for i, f := range found {
		w := r.Detail[i*scanWords:][:scanWords]
		for j, v := range []int{f.Y1, f.X1, f.Y2, f.X2} {
			w.SetInt(j, v)
		}
		w.SetInt64(4, f.Count)
		w.SetInt64(6, f.Baseline)
		w.SetFloat64(8, f.Expected)
		w.SetFloat64(10, f.Ratio)
		w.SetFloat64(12, ps[i])
	}
}

func scanScore(r Rows) {
	t := scanOf(&r)
	t.write(&r, func() []scan.Region { return scan.Define(&t.grid, t.family, t.options) },
		func(null *scan.Replicates, found []scan.Region) []float64 {
			return null.DefinePValues(t.family, t.options, found, t.replicates)
		})
}

func scanCPU(ctx context.Context, r *Rows, parallel Parallel) {
	t := scanOf(r)
	if scanCost(r) < longTask {
		parallel = Sequential
	}
	t.write(r, func() []scan.Region { return scan.Search(&t.grid, t.family, t.options, scan.Parallel(parallel)) },
		func(null *scan.Replicates, found []scan.Region) []float64 {
			if ctx.Err() != nil {
				return make([]float64, len(found))
			}
			return null.PValues(t.family, t.options, found, t.replicates, scan.Parallel(parallel))
		})
}

// scanCost is fitted to measurements of 8 to 512 columns.
func scanCost(r *Rows) int {
	rows, columns := r.Params.Int(scanRows), r.Params.Int(scanColumns)
	strips := rows * (rows + 1) / 2
	if limit := r.Params.Int(scanMaxRows); limit > 0 {
		strips = min(strips, rows*limit)
	}
	return 20_000 + (r.Params.Int(scanTop)+r.Params.Int(scanReplicates))*(10_000+strips*(50+8*columns)+100*rows*columns)
}

// scanCompare requires the definition's regions and p-values to the bit: both forms compute ratios from
// exact sums by the same function. The score is rounded from them.
func scanCompare(_ *Rows, got, want Result) error {
	if !slices.Equal(got.Detail, want.Detail) {
		return fmt.Errorf("detectors: the regions are %v, the definition has %v", got.Detail, want.Detail)
	}
	return compareScores(got.Scores, want.Scores, 0, 1e-6)
}

func scanCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(p ScanParams, dim, extra int, fresh []int, values ...signal) {
		cases = append(cases, newCase(fmt.Sprintf("%+v", p), must(NewScan(p)), dim, extra, fresh, values...))
	}
	counts := func(name string, mean float64) signal {
		return signal{name, func(int, int) float64 { return math.Floor(rng.ExpFloat64() * mean) }}
	}
	baselines := signal{"baselines", func(int, int) float64 { return float64(1 + rng.IntN(30)) }}
	zeros := signal{"zero baselines", func(i, _ int) float64 { return float64(i % 3 * 5) }}
	cluster := signal{"a cluster", func(i, n int) float64 {
		return float64(rng.IntN(3)) + math.Floor(20*max(0, math.Sin(float64(i)*6.3/8)))
	}}
	tied := signal{"two values", func(int, int) float64 { return float64(1 + rng.IntN(2)) }}
	nothing := signal{"nothing", func(int, int) float64 { return 0 }}
	equal := signal{"equal", func(int, int) float64 { return 3 }}
	third := signal{"counts of a third", func(i, _ int) float64 { return float64(i % 3 * rng.IntN(6)) }}
	trials := signal{"trials", func(int, int) float64 { return float64(40 + rng.IntN(9)) }}
	draw := func() ScanParams {
		columns := 1 + rng.IntN(9)
		return ScanParams{Cells: columns * (2 + rng.IntN(6)), Columns: columns, Top: 1 + rng.IntN(3), MaxRows: rng.IntN(5),
			MaxColumns: rng.IntN(5), Replicates: rng.IntN(12), Seed: rng.IntN(100)}
	}
	for _, s := range []signal{counts("counts", 4), cluster, tied, nothing, equal, signals(rng)[0]} {
		add(draw(), 1, rng.IntN(3), []int{1 + rng.IntN(20), 1, 30}, s)
		add(draw(), 2, rng.IntN(3), []int{1 + rng.IntN(20)}, s, baselines)
		p := draw()
		p.Model = ScanBernoulli
		add(p, 2, 0, []int{1}, s, trials)
		p.Model, p.Variance = ScanNormal, 1+rng.Float64()
		add(p, 1, 0, []int{9}, signals(rng)[rng.IntN(10)])
		p.Model = ScanExponential
		add(p, 2, 0, []int{9}, tied, baselines)
	}
	add(draw(), 2, 0, []int{7}, third, zeros)
	add(draw(), 2, 0, []int{7}, counts("counts over nothing", 4), zeros)
	add(draw(), 1, 0, []int{1}, signal{"huge", func(int, int) float64 { return 1e18 }})
	add(ScanParams{Cells: 2, Columns: 1}, 1, 0, []int{1, 2}, tied)
	add(ScanParams{Cells: 24 * 24, Columns: 24, Top: 2}, 2, 0, []int{24 * 24}, cluster, baselines)
	add(ScanParams{Cells: 32 * 32, Columns: 32, Model: ScanNormal, Variance: 1}, 1, 0, []int{1}, cluster)
	cases[len(cases)-1].Bench = true
	return cases
}
