package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"odradek/cmd/internal/table"
	"odradek/detectors"
	"odradek/detectors/knn"
)

const outliersAbout = `Finds the n most unusual rows of a table exactly: the ones with the largest weight, the sum of the distances to the
k nearest other rows (Angiulli, Basta, Lodi and Sartori, Fast outlier detection using a GPU, 2013). FILE is a CSV, Parquet or Avro file.
Of rows of equal weight the first ones are taken. Rows are numbered from 1, without the line that names the columns of a CSV file.

By default a kd-tree searches, or a GPU where there is one and the table has %d rows or more; it takes %s.
-algorithm names one of the paper's, which all find the same rows, on the CPU. The algorithms with a solving set can write it: rows that
judge new rows as the whole table does (REFERENCE and OUTLIERS of op knn).

Distances are between the columns' values as they are: scale columns of different units with -scale.`

const outliersExamples = `  worker outliers measurements.csv
  worker outliers -n 20 -k 5 -columns pressure,flow -scale deviation measurements.parquet
  worker outliers -algorithm SolvingSet -solving-set set.csv -json measurements.csv | jq '.outliers[].row'`

// outliersOptions are the flags of `outliers`.
type outliersOptions struct {
	table      *tableOptions
	n, k       int
	algorithm  string
	scale      string
	self       bool
	solvingSet string
}

func (t terminal) outliers(ctx context.Context, args []string) int {
	fs, common := t.tableFlags("outliers", fmt.Sprintf(outliersAbout, outliersOnGPU, outliersTaken), outliersExamples)
	o := outliersOptions{table: common}
	names := []string{knn.Fastest}
	for _, a := range knn.Algorithms {
		names = append(names, a.Name)
	}
	fs.StringVar(&o.table.columns, "columns", "", "columns to compare, separated by commas; by default all of numbers but time and timestamp")
	fs.StringVar(&o.table.missing, "missing", "refuse", "rows without a number in some column: refuse the table, or skip them")
	fs.IntVar(&o.n, "n", 10, "outliers to find")
	fs.IntVar(&o.k, "k", 10, fmt.Sprintf("nearest rows whose distances are summed, up to %d", knn.MaxK))
	fs.StringVar(&o.algorithm, "algorithm", knn.Fastest, "one of "+strings.Join(names, ", "))
	fs.StringVar(&o.scale, "scale", "none", "divide each column by its standard deviation (deviation) or by its range (range), or not (none)")
	fs.BoolVar(&o.self, "include-self", false, "count a row as its own first neighbour, as the paper's figures do")
	o.table.executorFlag(fs)
	fs.StringVar(&o.solvingSet, "solving-set", "", "`file` for the rows of the solving set, CSV with the columns searched")
	if code, done := o.table.parseFile(fs, args); done {
		return code
	}
	way := -1
	for i, name := range names {
		if strings.EqualFold(name, o.algorithm) {
			way, o.algorithm = i, name
		}
	}
	switch {
	case way < 0:
		return o.table.bad("-algorithm %q: use one of %s", o.algorithm, strings.Join(names, ", "))
	case o.solvingSet != "" && !strings.HasPrefix(o.algorithm, "SolvingSet"):
		return o.table.bad("-solving-set: %s has none; add -algorithm SolvingSet", o.algorithm)
	case o.n < 1 || o.n > 1_000_000:
		return o.table.bad("-n %d: use 1 to 1000000", o.n)
	case o.k < 1 || o.k > knn.MaxK:
		return o.table.bad("-k %d: use 1 to %d", o.k, knn.MaxK)
	case o.table.executor == "cuda" && way > 0:
		return o.table.bad("-executor cuda: %s runs on the CPU; leave out -algorithm", o.algorithm)
	case o.scale != "none" && o.scale != "deviation" && o.scale != "range":
		return o.table.bad("-scale %q: use none, deviation or range", o.scale)
	}
	if code, ok := o.table.checkFolders(outputFile{"solving-set", o.solvingSet}); !ok {
		return code
	}
	if err := o.run(ctx, way-1); err != nil {
		return t.fail(err)
	}
	return exitOK
}

// rowBytes is the memory of a row in the whole command: its values, as they are and as searched, and what the search keeps of it.
func (o *outliersOptions) rowBytes(columns int) int64 {
	bytes := 8 * columns
	if o.scale != "none" {
		bytes += 8 * columns
	}
	switch o.algorithm {
	case knn.Fastest:
		bytes += 16*columns + 32
	case "BruteForce-SH":
	default:
		bytes += 48 + 8*o.k
	}
	return int64(bytes)
}

// outliersResult is what `outliers` prints with -json.
type outliersResult struct {
	File       string         `json:"file"`
	Columns    []string       `json:"columns"`
	Rows       int            `json:"rows"`
	LeftOut    int            `json:"rows_left_out"`
	N          int            `json:"n"`
	K          int            `json:"k"`
	Scale      string         `json:"scale"`
	Algorithm  string         `json:"algorithm"`
	Seconds    float64        `json:"seconds"` // of the search
	Distances  int64          `json:"distances,omitempty"`
	Outliers   []foundOutlier `json:"outliers"`
	SolvingSet []int64        `json:"solving_set,omitempty"` // rows
}

type foundOutlier struct {
	Row    int64     `json:"row"`
	Weight float64   `json:"weight"`
	Values []float64 `json:"values"`
}

// run searches by the algorithm of a number; below 0 by the fastest way.
func (o *outliersOptions) run(ctx context.Context, way int) error {
	n, err := o.table.read(ctx, commas(o.table.columns), o.rowBytes)
	if err != nil {
		return err
	}
	left, err := o.table.complete(n)
	if err != nil {
		return err
	}
	if n.Rows() < 2 {
		return fmt.Errorf("outliers: %s has %d rows to compare, use 2 or more", n.Path, n.Rows())
	}
	began := time.Now()
	top, name, err := o.find(ctx, scaled(n, o.scale), len(n.Names), way)
	if err != nil {
		return fmt.Errorf("outliers: %w", err)
	}
	if ctx.Err() != nil {
		return errors.New("outliers: stopped before the search has ended")
	}
	r := outliersResult{File: n.Path, Columns: n.Names, Rows: n.Rows(), LeftOut: left, N: o.n, K: o.k, Scale: o.scale, Algorithm: name,
		Seconds: seconds(began), Distances: top.Distances}
	for _, out := range top.Outliers {
		if math.IsInf(out.Weight, 0) || math.IsNaN(out.Weight) {
			return fmt.Errorf("outliers: %s: row %d is farther from others than a float64 can say: divide the values of its columns",
				n.Path, n.Number(out.At))
		}
		r.Outliers = append(r.Outliers, foundOutlier{n.Number(out.At), out.Weight, n.Row(out.At)})
	}
	for _, i := range top.SolvingSet {
		r.SolvingSet = append(r.SolvingSet, n.Number(i))
	}
	if err := o.print(&r); err != nil { // first: a file that cannot be written loses no result
		return err
	}
	if o.solvingSet != "" {
		if err := o.writeSet(n, top.SolvingSet); err != nil {
			return fmt.Errorf("outliers: -solving-set: %w", err)
		}
	}
	return nil
}

// find runs the search and shows its progress.
func (o *outliersOptions) find(ctx context.Context, x []float64, dim, way int) (top knn.Top, name string, err error) {
	rows := len(x) / dim
	gpu, err := o.table.openGPU(way < 0 && o.takesTable(dim) && (o.table.executor == "cuda" || rows >= outliersOnGPU), outliersTaken)
	if err != nil {
		return top, "", err
	}
	if gpu != nil {
		defer gpu.Close()
	}
	p := &table.Progress{Unit: "points"}
	var points atomic.Int64
	search := knn.TopParams{N: min(o.n, rows), K: o.k, Self: o.self, Workers: o.table.workers}
	search.Stop = func() bool {
		done := points.Add(1)
		switch o.algorithm {
		case "BruteForce": // a point is compared with those after it
			p.Rows.Store(done)
			p.Done.Store(done * (2*int64(rows) - done) / 2)
		case "BruteForce-SH":
			p.Rows.Store(done)
			p.Done.Store(done)
		default: // a step compares a hundred candidates with all points, and nobody knows how many follow
			p.Rows.Store(min(100*(done-1), int64(rows)))
		}
		return ctx.Err() != nil
	}
	switch o.algorithm {
	case "BruteForce":
		p.Total.Store(int64(rows) * int64(rows) / 2)
	case "BruteForce-SH":
		p.Total.Store(int64(rows))
	}
	defer o.table.watch(p)()
	if way >= 0 {
		a := &knn.Algorithms[way]
		top, err = a.Find(x, dim, search)
		return top, a.Name, err
	}
	search.Stop = func() bool { return ctx.Err() != nil }
	run := detectors.NewHelpers(o.table.workers - 1).Parallel(ctx)
	parallel := func(n int, f func(i int)) {
		p.Done.Store(0)
		p.Total.Store(int64(n)) // of one of several phases
		run(n, func(i int) {
			f(i)
			p.Done.Add(1)
			p.Rows.Store(int64(rows) * p.Done.Load() / int64(n))
		})
	}
	if gpu != nil {
		if top, ok, err := o.searchOnGPU(ctx, gpu, x, dim, search, parallel); ok || err != nil {
			return top, "topn on a GPU", err
		}
		o.table.note("the CPU searches: too many rows are as far from the others, by the float32s of a GPU")
	}
	return knn.FindFast(x, dim, search, parallel)
}

// scaled returns the values of the rows, each column divided by its deviation or range, unless that is 0.
func scaled(n *table.Numbers, scale string) []float64 {
	if scale == "none" {
		return n.X
	}
	width, rows := len(n.Names), float64(n.Rows())
	by := make([]float64, width)
	for c := range by {
		mean, least, most := 0.0, math.Inf(1), math.Inf(-1)
		for i := c; i < len(n.X); i += width {
			mean += n.X[i] / rows
			least, most = min(least, n.X[i]), max(most, n.X[i])
		}
		if by[c] = most - least; scale == "deviation" {
			sum := 0.0
			for i := c; i < len(n.X); i += width {
				d := n.X[i] - mean
				sum += d * d / rows
			}
			by[c] = math.Sqrt(sum)
		}
		if by[c] == 0 || math.IsInf(by[c], 0) {
			by[c] = 1
		}
	}
	x := make([]float64, len(n.X))
	for i, v := range n.X {
		x[i] = v / by[i%width]
	}
	return x
}

func (o *outliersOptions) writeSet(n *table.Numbers, set []int) error {
	rows := make([][]string, len(set))
	for i, at := range set {
		rows[i] = numbers(n.Row(at))
	}
	return writeFile(o.solvingSet, func(w io.Writer) error { return printCSV(w, n.Names, rows) })
}

// numbers writes numbers with as many digits as it takes to read them again.
func numbers(x []float64) []string {
	texts := make([]string, len(x))
	for i, v := range x {
		texts[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return texts
}

func (o *outliersOptions) print(r *outliersResult) error {
	if o.table.asJSON {
		return json.NewEncoder(o.table.t.out).Encode(r)
	}
	head := append([]string{"rank", "row", "weight"}, r.Columns...)
	rows := make([][]string, len(r.Outliers))
	for i, out := range r.Outliers {
		weight := strconv.FormatFloat(out.Weight, 'g', 7, 64)
		if o.table.asCSV {
			weight = strconv.FormatFloat(out.Weight, 'g', -1, 64)
		}
		rows[i] = append([]string{strconv.Itoa(i + 1), strconv.FormatInt(out.Row, 10), weight}, numbers(out.Values)...)
	}
	if o.table.asCSV {
		return printCSV(o.table.t.out, head, rows)
	}
	what := ""
	if r.SolvingSet != nil {
		what = fmt.Sprintf(", %d rows in the solving set", len(r.SolvingSet))
	}
	if r.Distances > 0 {
		what += fmt.Sprintf(", %.4g %% of the distances", 100*float64(r.Distances)/float64(r.Rows)/float64(r.Rows-1))
	}
	fmt.Fprintf(o.table.t.out, "%d of %d rows by %s, k=%d, columns %s, in %.3f s%s\n", len(r.Outliers), r.Rows, r.Algorithm, r.K,
		strings.Join(r.Columns, ", "), r.Seconds, what)
	return printAligned(o.table.t.out, head, rows)
}
