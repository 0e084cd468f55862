package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/internal/chart"
	"odradek/cmd/internal/table"
	"odradek/detectors"
	"odradek/detectors/scan"
)

const regionsAbout = `Finds the rectangles of a map with more events than expected, or fewer (-direction): the spatial scan statistic
over all rectangles (Kulldorff 1997; Pang, Chawla, Scholz and Wilcox 2013), with p-values from random maps. FILE is a CSV, Parquet or
Avro file with a row for each place: x, y, the count there, and its baseline, such as a population or an expected count; the
counts and baselines of rows in one cell are summed.

Cells are the combinations of all x and y that occur, if these are up to 100 each, or with -cells each: then the rectangles
are all that differ in the places that they contain. Otherwise they are 64 x 64 of one size, or as -cells 32x48 says.

Models are op scan's: counts are events (poisson), cases among trials, the baseline (bernoulli), or sums of as many
normal values (normal) or waiting times (exponential) as the baseline says. The first two have p-values.`

const regionsExamples = `  worker regions -map map.svg cases.csv
  worker regions -x lon -y lat -count cases -baseline population -direction both -top 3 districts.csv
  worker regions -cells 64x64 -model bernoulli -replicates 9999 -json trials.parquet | jq '.regions[0].p'`

// regionsOptions are the flags of `regions`.
type regionsOptions struct {
	table                 *tableOptions
	x, y, count, baseline string
	cells                 string
	columns, rows         int // of -cells; 0: a cell for each x and y
	model, direction      string
	variance              float64
	top                   int
	maxRows, maxColumns   int
	replicates            int
	seed                  uint64
	learnt                bool
	picture               string
}

// Names of columns that are taken where no flag names one.
var (
	countNames    = []string{"count", "observed", "cases"}
	baselineNames = []string{"baseline", "expected", "population", "trials"}
)

// directions are the words of -direction, by scan.Direction.
var directions = []string{scan.Above: "above", scan.Below: "below", scan.Both: "both"}

// mostDistinct is the number of coordinates that have a column or a row of cells each; a search takes as long as the cube of it.
const mostDistinct = 100

func (t terminal) regions(ctx context.Context, args []string) int {
	fs, common := t.tableFlags("regions", regionsAbout, regionsExamples)
	o := regionsOptions{table: common}
	o.table.columnFlag = "-x, -y, -count or -baseline"
	fs.StringVar(&o.x, "x", "x", "column of the places' x")
	fs.StringVar(&o.y, "y", "y", "column of the places' y")
	fs.StringVar(&o.count, "count", "", "column of the counts; by default "+strings.Join(countNames, ", or "))
	fs.StringVar(&o.baseline, "baseline", "", "column of the baselines, or 1 for the same everywhere; by default "+
		strings.Join(baselineNames, ", or "))
	fs.StringVar(&o.table.missing, "missing", "refuse", "rows without a number in some column: refuse the table, or skip them")
	fs.StringVar(&o.cells, "cells", "", "`COLUMNSxROWS` of cells of one size over all places, or each; by default see above")
	fs.StringVar(&o.model, "model", scan.Models[0], "one of "+strings.Join(scan.Models, ", "))
	fs.Float64Var(&o.variance, "variance", 1, "variance of a value, of -model normal")
	fs.StringVar(&o.direction, "direction", directions[0], "rectangles with a rate above the map's, below it, or both")
	fs.IntVar(&o.top, "top", 5, "rectangles to find, which share no cell")
	fs.IntVar(&o.maxRows, "max-rows", 0, "rows of cells of the largest rectangle; 0: all")
	fs.IntVar(&o.maxColumns, "max-columns", 0, "columns of cells of the largest rectangle; 0: all")
	fs.IntVar(&o.replicates, "replicates", scan.DefaultReplicates, "random maps for the p-values; 0: no p-values")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the random maps")
	fs.BoolVar(&o.learnt, "learnt", false, "the baselines are counts of earlier times, and as uncertain as counts are")
	fs.StringVar(&o.picture, "map", "", "`file` for a map, SVG")
	o.table.executorFlag(fs)
	if code, done := o.table.parseFile(fs, args); done {
		return code
	}
	if code := o.check(); code != exitOK {
		return code
	}
	if code, ok := o.table.checkFolders(outputFile{"map", o.picture}); !ok {
		return code
	}
	if err := o.run(ctx); err != nil {
		return t.fail(err)
	}
	return exitOK
}

func (o *regionsOptions) check() int {
	if o.cells != "" && o.cells != "each" {
		if _, err := fmt.Sscanf(o.cells+" ", "%dx%d ", &o.columns, &o.rows); err != nil || o.columns < 1 || o.rows < 1 ||
			o.columns > scan.MaxCells/o.rows {
			return o.table.bad("-cells %q: write it as 64x48, with up to %d cells, or each", o.cells, scan.MaxCells)
		}
	}
	switch {
	case !slices.Contains(scan.Models, o.model):
		return o.table.bad("-model %q: use one of %s", o.model, strings.Join(scan.Models, ", "))
	case !slices.Contains(directions, o.direction):
		return o.table.bad("-direction %q: use one of %s", o.direction, strings.Join(directions, ", "))
	case !(o.variance > 0) || math.IsInf(o.variance, 0):
		return o.table.bad("-variance %v: use a number above 0", o.variance)
	case o.top < 1 || o.top > 1000:
		return o.table.bad("-top %d: use 1 to 1000", o.top)
	case o.replicates < 0 || o.replicates > 1_000_000:
		return o.table.bad("-replicates %d: use 0 to 1000000", o.replicates)
	case o.maxRows < 0 || o.maxColumns < 0:
		return o.table.bad("-max-rows and -max-columns are at least 0")
	case o.learnt && o.model != "poisson":
		return o.table.bad("-learnt: baselines are learnt with -model poisson alone")
	}
	return exitOK
}

// regionsResult is what `regions` prints with -json.
type regionsResult struct {
	File       string        `json:"file"`
	Rows       int           `json:"rows"`
	LeftOut    int           `json:"rows_left_out"`
	Columns    int           `json:"cell_columns"`
	CellRows   int           `json:"cell_rows"`
	Model      string        `json:"model"`
	Direction  string        `json:"direction"`
	Observed   float64       `json:"observed"` // of the map
	Baseline   float64       `json:"baseline"`
	Replicates int           `json:"replicates"`
	Seconds    float64       `json:"seconds"`
	Regions    []foundRegion `json:"regions"`
}

type foundRegion struct {
	XFrom    float64  `json:"x_from"`
	XTo      float64  `json:"x_to"`
	YFrom    float64  `json:"y_from"`
	YTo      float64  `json:"y_to"`
	Places   int      `json:"places"`
	Observed float64  `json:"observed"`
	Expected float64  `json:"expected"`
	Baseline float64  `json:"baseline"`
	Ratio    float64  `json:"log_likelihood_ratio"`
	P        *float64 `json:"p"` // null without p-values

	cells scan.Rectangle
}

func (o *regionsOptions) run(ctx context.Context) error {
	columns, err := o.named()
	if err != nil {
		return err
	}
	n, err := o.table.read(ctx, columns, o.rowBytes)
	if err != nil {
		return err
	}
	left, err := o.table.complete(n)
	if err != nil {
		return err
	}
	m, err := o.mapOf(n)
	if err != nil {
		return err
	}
	began := time.Now()
	r := regionsResult{File: n.Path, Rows: n.Rows(), LeftOut: left, Columns: m.grid.Cols, CellRows: m.grid.Rows, Model: o.model,
		Direction: o.direction, Replicates: o.replicates}
	if r.Regions, err = o.find(ctx, m); err != nil {
		return err
	}
	if r.Seconds = seconds(began); ctx.Err() != nil {
		return errors.New("regions: stopped before the search has ended")
	}
	for i, c := range m.grid.Count {
		r.Observed += float64(c) / m.countUnit
		r.Baseline += float64(m.grid.Baseline[i]) / m.baselineUnit
	}
	if err := o.print(&r); err != nil { // first: a file that cannot be written loses no result
		return err
	}
	if o.picture != "" {
		if err := writeFile(o.picture, func(w io.Writer) error { return o.draw(w, m, &r) }); err != nil {
			return fmt.Errorf("regions: -map: %w", err)
		}
	}
	return nil
}

// rowBytes is the memory of a row: its values, and with a cell for each x and y what finds these.
func (o *regionsOptions) rowBytes(columns int) int64 {
	if o.cells == "each" {
		return int64(8*columns) + 120
	}
	return int64(8*columns) + 8
}

// cellBytes is the memory of a cell: its place on the map, the sums of the search, and a random map for each core.
func (o *regionsOptions) cellBytes() int64 {
	if o.replicates > 0 {
		return 96 + 32*int64(o.table.workers)
	}
	return 72
}

// named returns the columns to read: x, y, the count, and the baseline if there is one.
func (o *regionsOptions) named() ([]string, error) {
	have, err := table.NumberColumns(o.table.file)
	if err != nil {
		return nil, err
	}
	find := func(name string, usual []string, flag string) (string, error) {
		if name != "" {
			return name, nil
		}
		for _, u := range usual {
			if slices.Contains(have, u) {
				return u, nil
			}
		}
		return "", fmt.Errorf("regions: %s: no column is called %s: name it with %s; columns of numbers are %s", o.table.file,
			strings.Join(usual, " or "), flag, strings.Join(have, ", "))
	}
	count, err := find(o.count, countNames, "-count")
	baseline, err2 := find(o.baseline, baselineNames, "-baseline, or give -baseline 1 for the same in each row")
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	columns := []string{o.x, o.y, count}
	if baseline != "1" {
		columns = append(columns, baseline)
	}
	return columns, nil
}

// cellMap is a map as the scan takes it: whole numbers in units of counts and of baselines.
type cellMap struct {
	grid                    *scan.Grid
	places                  []int // by cell
	x, y                    axis
	countUnit, baselineUnit float64 // a number of the table is as many of the grid's
}

// axis has the cells of a coordinate: one for each of the values, or count cells from low on, each width wide.
type axis struct {
	values     []float64
	count      int
	low, width float64
}

func axisOf(n *table.Numbers, column, count, most int) axis {
	if count == 0 {
		var values []float64
		seen := map[float64]bool{}
		for i := 0; i < n.Rows() && len(values) <= most; i++ {
			if v := n.Row(i)[column]; !seen[v] {
				seen[v], values = true, append(values, v)
			}
		}
		if len(values) <= most {
			slices.Sort(values)
			return axis{values: values, count: len(values)}
		}
		count = 64
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i := range n.Rows() {
		low, high = min(low, n.Row(i)[column]), max(high, n.Row(i)[column])
	}
	return axis{count: count, low: low, width: (high - low) / float64(count)}
}

// cell returns the cell of a coordinate.
func (a *axis) cell(v float64) int {
	if a.values != nil {
		i, _ := slices.BinarySearch(a.values, v)
		return i
	}
	if a.width == 0 {
		return 0
	}
	return max(0, min(a.count-1, int((v-a.low)/a.width)))
}

// span returns what the cells from one to another cover.
func (a *axis) span(from, to int) (low, high float64) {
	if a.values != nil {
		return a.values[from], a.values[to]
	}
	return a.low + float64(from)*a.width, a.low + float64(to+1)*a.width
}

func (o *regionsOptions) mapOf(n *table.Numbers) (*cellMap, error) {
	if n.Rows() == 0 {
		return nil, fmt.Errorf("regions: %s has no rows", n.Path)
	}
	most := mostDistinct
	if o.cells == "each" {
		most = n.Rows()
	}
	m := &cellMap{x: axisOf(n, 0, o.columns, most), y: axisOf(n, 1, o.rows, most)}
	if m.x.count > scan.MaxCells/m.y.count {
		return nil, fmt.Errorf("regions: %s has %d different %s and %d different %s, more than %d cells: give -cells 64x64",
			n.Path, m.x.count, o.x, m.y.count, o.y, scan.MaxCells)
	}
	for i, a := range []*axis{&m.x, &m.y} {
		if math.IsInf(a.width, 0) {
			return nil, fmt.Errorf("regions: %s: the values of %s are too far apart for cells of one size: divide them", n.Path, n.Names[i])
		}
	}
	cells := m.x.count * m.y.count
	if bytes := int64(cells)*o.cellBytes() + int64(n.Rows())*o.rowBytes(len(n.Names)); o.table.memory > 0 && bytes > int64(o.table.memory) {
		return nil, fmt.Errorf("regions: %s: %d x %d cells take %d MiB, more than %d: use fewer with -cells, or allow more with -memory",
			n.Path, m.x.count, m.y.count, bytes>>20, o.table.memory>>20)
	}
	counts, baselines := make([]float64, cells), make([]float64, cells)
	m.places = make([]int, cells)
	for i := range n.Rows() {
		row := n.Row(i)
		at := m.y.cell(row[1])*m.x.count + m.x.cell(row[0])
		m.places[at]++
		counts[at] += row[2]
		if len(row) > 3 {
			baselines[at] += row[3]
		} else {
			baselines[at]++
		}
	}
	m.grid = &scan.Grid{Rows: m.y.count, Cols: m.x.count}
	m.grid.Count, m.countUnit = whole(counts)
	m.grid.Baseline, m.baselineUnit = whole(baselines)
	events := o.model == "poisson" || o.model == "bernoulli"
	switch {
	case events && m.countUnit != 1 && o.replicates > 0:
		return nil, fmt.Errorf("regions: %s: column %s has fractions, and p-values need whole counts: round them, or give -replicates 0",
			n.Path, n.Names[2])
	case o.model == "bernoulli" && m.countUnit != m.baselineUnit:
		m.countUnit, m.baselineUnit = max(m.countUnit, m.baselineUnit), max(m.countUnit, m.baselineUnit)
		m.grid.Count, m.grid.Baseline = inUnits(counts, m.countUnit), inUnits(baselines, m.baselineUnit)
	case o.model != "poisson" && m.baselineUnit != 1:
		return nil, fmt.Errorf("regions: %s: column %s has fractions, and is a number of values with -model %s: use whole numbers",
			n.Path, n.Names[len(n.Names)-1], o.model)
	}
	if o.learnt && m.baselineUnit != 1 {
		return nil, fmt.Errorf("regions: %s: -learnt: column %s has fractions, and learnt baselines are counts: round them",
			n.Path, n.Names[len(n.Names)-1])
	}
	return m, nil
}

// whole returns numbers as whole ones in the least of the units 1, 0.1, ... in which all are whole, or else in the least in
// which the sum keeps within 2^52, rounded; unit is how many of it are 1.
func whole(x []float64) (list []int64, unit float64) {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v)
	}
	unit = 1
	for digits := 0; digits < 12 && sum*unit*10 < 1<<52; digits++ {
		fraction := slices.ContainsFunc(x, func(v float64) bool {
			v *= unit
			return math.Abs(v-math.Round(v)) > 1e-9*max(1, math.Abs(v))
		})
		if !fraction {
			break
		}
		unit *= 10
	}
	return inUnits(x, unit), unit
}

func inUnits(x []float64, unit float64) []int64 {
	list := make([]int64, len(x))
	for i, v := range x {
		list[i] = int64(math.Round(v * unit))
	}
	return list
}

// find searches the rectangles and draws the null maps.
func (o *regionsOptions) find(ctx context.Context, m *cellMap) ([]foundRegion, error) {
	var family scan.Family = scan.Poisson{}
	unit := m.countUnit // of which a ratio is a multiple
	switch o.model {
	case "bernoulli":
		family = scan.Bernoulli{}
	case "normal":
		family, unit = scan.Normal{Variance: o.variance * m.countUnit * m.countUnit}, 1
	case "exponential":
		family, unit = scan.Exponential{}, 1
	}
	if err := m.grid.Check(family); err != nil {
		return nil, fmt.Errorf("regions: %s: a cell is all rows of one x and y: %w", o.table.file, err)
	}
	gpu, err := o.table.openGPU(o.takesMap(m.grid), regionsTaken)
	if err != nil {
		return nil, fmt.Errorf("regions: %w", err)
	}
	if gpu != nil {
		defer gpu.Close()
	}
	p := &table.Progress{Unit: "rows of cells"}
	stop := o.table.watch(p)
	run := detectors.NewHelpers(o.table.workers - 1).Parallel(ctx)
	parallel := func(n int, f func(i int)) {
		p.Done.Store(0)
		p.Total.Store(int64(n))
		run(n, func(i int) {
			f(i)
			p.Done.Add(1)
			p.Rows.Add(1)
		})
	}
	options := scan.Options{Top: o.top, MaxRows: o.maxRows, MaxCols: o.maxColumns,
		Direction: scan.Direction(slices.Index(directions, o.direction))}
	var found []scan.Region
	var values []float64
	if gpu != nil {
		model := scan.OpModel(slices.Index(scan.Models, o.model))
		found, values, err = o.searchOnGPU(ctx, gpu, m.grid, model, options)
		if model == scan.ModelNormal {
			unit *= o.variance * m.countUnit * m.countUnit
		}
	} else {
		found = scan.Search(m.grid, family, options, parallel)
	}
	if stop(); err != nil {
		return nil, fmt.Errorf("regions: %w", err)
	}
	switch {
	case o.replicates == 0 || ctx.Err() != nil || len(found) == 0:
	case gpu != nil:
		if values == nil {
			o.table.note(noMaps, o.model)
		}
	default:
		maps, err := scan.NewReplicates(m.grid, family, o.seed, o.learnt)
		if err != nil {
			o.table.note(noMaps, o.model)
		} else {
			p = &table.Progress{Unit: "random maps"}
			defer o.table.watch(p)()
			values = maps.PValues(family, options, found, o.replicates, parallel)
		}
	}
	list := make([]foundRegion, len(found))
	for i := range found {
		r := &found[i]
		list[i] = foundRegion{Observed: float64(r.Count) / m.countUnit, Expected: r.Expected / m.countUnit,
			Baseline: float64(r.Baseline) / m.baselineUnit, Ratio: r.Ratio / unit, cells: r.Rectangle}
		list[i].XFrom, list[i].XTo = m.x.span(r.X1, r.X2)
		list[i].YFrom, list[i].YTo = m.y.span(r.Y1, r.Y2)
		for y := r.Y1; y <= r.Y2; y++ {
			for x := r.X1; x <= r.X2; x++ {
				list[i].Places += m.places[y*m.grid.Cols+x]
			}
		}
		if values != nil {
			list[i].P = &values[i]
		}
	}
	return list, nil
}

func (o *regionsOptions) print(r *regionsResult) error {
	if o.table.asJSON {
		return json.NewEncoder(o.table.t.out).Encode(r)
	}
	head := []string{"rank", "x from", "x to", "y from", "y to", "places", "observed", "expected", "baseline", "ratio", "p"}
	digits := 6
	if o.table.asCSV {
		digits = -1
		for i := range head {
			head[i] = strings.ReplaceAll(head[i], " ", "_")
		}
	}
	rows := make([][]string, len(r.Regions))
	for i := range r.Regions {
		f := &r.Regions[i]
		row := []string{strconv.Itoa(i + 1)}
		for _, v := range []float64{f.XFrom, f.XTo, f.YFrom, f.YTo, float64(f.Places), f.Observed, f.Expected, f.Baseline, f.Ratio} {
			row = append(row, strconv.FormatFloat(v, 'g', digits, 64))
		}
		p := ""
		if f.P != nil {
			p = strconv.FormatFloat(*f.P, 'g', digits, 64)
		}
		rows[i] = append(row, p)
	}
	if o.table.asCSV {
		return printCSV(o.table.t.out, head, rows)
	}
	fmt.Fprintf(o.table.t.out, "%d rows in %d x %d cells, %g observed of a baseline of %g, %s, %s, in %.3f s\n", r.Rows, r.Columns, r.CellRows,
		r.Observed, r.Baseline, r.Model, r.Direction, r.Seconds)
	if len(rows) == 0 {
		_, err := fmt.Fprintln(o.table.t.out, "no rectangle deviates from the map's rate in this direction")
		return err
	}
	return printAligned(o.table.t.out, head, rows)
}

const noMaps = "no p-values: the model %s has no random maps"

// mostDrawn is the number of cells of a side of the map.
const mostDrawn = 256

// draw writes the map: the rate of each cell relative to the map's, from a quarter, blue, to four times, red, and the rectangles.
func (o *regionsOptions) draw(w io.Writer, m *cellMap, r *regionsResult) error {
	g := m.grid
	by := (max(g.Rows, g.Cols) + mostDrawn - 1) / mostDrawn // cells a side that are drawn as one
	rate := r.Observed * m.countUnit / (r.Baseline * m.baselineUnit)
	c := &chart.Chart{Title: fmt.Sprintf("%s: counts relative to the expected ones, blue a quarter to red four times", o.table.file),
		X: fmt.Sprintf("%s, %g to %g, in cells", o.x, first(m.x.span(0, g.Cols-1)), second(m.x.span(0, g.Cols-1))),
		Y: fmt.Sprintf("%s, %g to %g", o.y, first(m.y.span(0, g.Rows-1)), second(m.y.span(0, g.Rows-1))), Height: 640}
	c.Cells((g.Cols+by-1)/by, (g.Rows+by-1)/by, func(column, row int) float64 {
		count, baseline := int64(0), int64(0)
		for y := row * by; y < min(g.Rows, (row+1)*by); y++ {
			for x := column * by; x < min(g.Cols, (column+1)*by); x++ {
				count += g.Count[y*g.Cols+x]
				baseline += g.Baseline[y*g.Cols+x]
			}
		}
		if baseline == 0 {
			return math.NaN()
		}
		if o.model == "normal" {
			return float64(count)/float64(baseline) - rate
		}
		return math.Log2(max(1.0/16, float64(count)/float64(baseline)/rate))
	}, -2, 2)
	for i := range r.Regions {
		f := &r.Regions[i]
		x1, x2 := float64(f.cells.X1)/float64(by), float64(f.cells.X2+1)/float64(by)
		y1, y2 := float64(f.cells.Y1)/float64(by), float64(f.cells.Y2+1)/float64(by)
		name := fmt.Sprintf("%d: %.3g of %.3g", i+1, f.Observed, f.Expected)
		if f.P != nil {
			name += fmt.Sprintf(", p %.2g", *f.P)
		}
		c.Line(name, []chart.Point{{X: x1, Y: y1}, {X: x2, Y: y1}, {X: x2, Y: y2}, {X: x1, Y: y2}, {X: x1, Y: y1}},
			chart.Style{Color: regionColors[i%len(regionColors)], Width: 3})
	}
	_, err := io.WriteString(w, chart.SVG([]*chart.Chart{c}))
	return err
}

var regionColors = []string{"#1b1f24", "#8250df", "#1a7f37", "#bf8700", "#0969da"}

func first(a, _ float64) float64  { return a }
func second(_, b float64) float64 { return b }
