package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

func foundRegions(t *testing.T, args ...string) regionsResult {
	t.Helper()
	r, _ := tableResult[regionsResult](t, terminal.regions, append(args, "-quiet")...)
	return r
}

// TestRegions holds the command to the definition, on random maps of each model and direction in each format: rows in any order,
// several of one cell, coordinates and units that are no whole numbers; half of them as tasks of a GPU's child.
func TestRegions(t *testing.T) {
	rnd := seedtest.New(t)
	t.Setenv("ODRADEK_CUDA_CHILD", goChildProgram(t))
	for round := range 24 {
		model, direction := scan.Models[round%4], directions[round%3]
		w, h := 1+rnd.IntN(7), 1+rnd.IntN(7)
		executor := executors[1+round/4%2]
		if executor == "cuda" {
			h = max(h, 3-w) // a GPU takes two cells and more
		}
		g := &scan.Grid{Rows: h, Cols: w}
		var rows [][]float64
		countUnit, baselineUnit := 1.0, 1.0
		switch model {
		case "poisson":
			baselineUnit = 100
		case "normal", "exponential":
			countUnit = 10
		}
		family := []scan.Family{scan.Poisson{}, scan.Bernoulli{}, scan.Normal{Variance: 2.5 * countUnit * countUnit}, scan.Exponential{}}[round%4]
		for y := range h {
			for x := range w {
				var count, baseline int64
				for range 1 + rnd.IntN(3) { // rows of the cell
					b := 1 + rnd.Int64N(20)
					c := 1 + rnd.Int64N(b)
					count, baseline = count+c, baseline+b
					rows = append(rows, []float64{0.5 * float64(x), 10 - 3*float64(h-1-y), float64(c) / countUnit, float64(b) / baselineUnit})
				}
				g.Count, g.Baseline = append(g.Count, count), append(g.Baseline, baseline)
			}
		}
		rnd.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		path := filepath.Join(t.TempDir(), "t"+[]string{".csv", ".parquet", ".avro"}[rnd.IntN(3)])
		writeTable(t, path, []string{"x", "y", "cases", "population"}, rows)
		options := scan.Options{Top: 1 + rnd.IntN(3), MaxRows: rnd.IntN(4), MaxCols: rnd.IntN(4), Direction: scan.Direction(round % 3)}
		want := scan.Define(g, family, options)
		got := foundRegions(t, path, "-model", model, "-direction", direction, "-variance", "2.5", "-top", fmt.Sprint(options.Top),
			"-max-rows", fmt.Sprint(options.MaxRows), "-max-columns", fmt.Sprint(options.MaxCols), "-replicates", "19", "-seed", "7",
			"-executor", executor)
		if got.Columns != w || got.CellRows != h || len(got.Regions) != len(want) {
			t.Fatalf("%s, %s: %+v, want %+v", model, direction, got, want)
		}
		var p []float64
		if maps, err := scan.NewReplicates(leastUnit(g, int64(baselineUnit)), family, 7, false); err == nil {
			p = maps.DefinePValues(family, options, want, 19)
		}
		for i, r := range got.Regions {
			d := &want[i]
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }
			if !near(r.Ratio, d.Ratio) || !near(r.Observed, float64(d.Count)/countUnit) || !near(r.Baseline, float64(d.Baseline)/baselineUnit) ||
				!near(r.Expected, d.Expected/countUnit) || r.XFrom != 0.5*float64(d.X1) || r.XTo != 0.5*float64(d.X2) ||
				r.YFrom != 10-3*float64(h-1-d.Y1) || r.YTo != 10-3*float64(h-1-d.Y2) || (r.P != nil) != (p != nil) || p != nil && *r.P != p[i] {
				t.Fatalf("%s, %s: region %d is %+v, want %+v", model, direction, i, r, d)
			}
		}
	}
}

// leastUnit returns the grid with baselines in the least unit in which all are whole, as null maps depend on these numbers: a unit
// of the grid is one of the most-th parts of the table's unit.
func leastUnit(g *scan.Grid, most int64) *scan.Grid {
	for most > 1 && slices.ContainsFunc(g.Baseline, func(b int64) bool { return b%most != 0 }) {
		most /= 10
	}
	u := &scan.Grid{Rows: g.Rows, Cols: g.Cols, Count: g.Count}
	for _, b := range g.Baseline {
		u.Baseline = append(u.Baseline, b/most)
	}
	return u
}

// TestRegionsOfPlaces: places are counted in cells of one size, rectangles and the map name what is planted, and the CSV table has
// a row for each.
func TestRegionsOfPlaces(t *testing.T) {
	rnd := seedtest.New(t)
	dir := t.TempDir()
	path, picture := filepath.Join(dir, "t.csv"), filepath.Join(dir, "t.svg")
	rows := [][]float64{{0, 0, 0}, {1, 1, 0}}
	for range 5000 {
		x, y, count := rnd.Float64(), rnd.Float64(), float64(rnd.IntN(3))
		if x > 0.5 && x < 0.75 && y > 0.25 && y < 0.5 {
			count += 3
		}
		rows = append(rows, []float64{x, y, count})
	}
	writeTable(t, path, []string{"x", "y", "n"}, rows)
	args := []string{path, "-count", "n", "-baseline", "1", "-cells", "16x8", "-top", "1", "-replicates", "99"}
	r := foundRegions(t, append(args, "-map", picture)...)
	f := r.Regions[0]
	if r.Columns != 16 || r.CellRows != 8 || f.XFrom != 0.5 || f.XTo != 0.75 || f.YFrom != 0.25 || f.YTo != 0.5 || *f.P != 0.01 ||
		f.Baseline != float64(f.Places) || r.Baseline != 5002 {
		t.Errorf("%+v", r)
	}
	svg, err := os.ReadFile(picture)
	must(t, err)
	if want := fmt.Sprintf("1: %.3g of %.3g, p 0.01", f.Observed, f.Expected); !bytes.HasPrefix(svg, []byte("<svg")) ||
		!bytes.Contains(svg, []byte(want)) {
		t.Errorf("the map does not say %q: %.200s", want, svg)
	}
	term, out, errs := console()
	if code := term.regions(context.Background(), append(args, "-csv", "-direction", "both")); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	all, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll()
	must(t, err)
	if len(all) != 2 || all[0][1] != "x_from" || all[1][1] != "0.5" || all[1][10] != "0.01" {
		t.Errorf("%q", all)
	}
	term, out, errs = console()
	if code := term.regions(context.Background(), append(args, "-model", "normal")); code != exitOK ||
		!strings.Contains(errs.String(), "no p-values: the model normal has no random maps") || !strings.Contains(out.String(), "16 x 8 cells") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	// As many places as would be too many cells: they are counted in 64 x 64.
	r = foundRegions(t, path, "-count", "n", "-baseline", "1", "-replicates", "0")
	if r.Columns != 64 || r.CellRows != 64 || r.Regions[0].P != nil {
		t.Errorf("%+v", r)
	}
}

// TestRegionsRefuses: what a flag or a table lacks is said, with what can be done.
func TestRegionsRefuses(t *testing.T) {
	dir := t.TempDir()
	path, parts := filepath.Join(dir, "t.csv"), filepath.Join(dir, "parts.csv")
	must(t, os.WriteFile(path, []byte("x,y,cases,population\n1,1,3,2\n2,1,0,5\n"), 0o600))
	texts := filepath.Join(dir, "texts.csv")
	must(t, os.WriteFile(texts, []byte("name\npump\n"), 0o600))
	far := filepath.Join(dir, "far.csv")
	must(t, os.WriteFile(far, []byte("x,y,cases,population\n1,-1e308,3,5\n2,1e308,4,6\n2,1,,6\n"), 0o600))
	must(t, os.WriteFile(parts, []byte("x,y,cases,population\n1,1,1.5,2\n2,1,0,5.5\n"), 0o600))
	for args, want := range map[string]string{
		"":                                    "name a file that ends with",
		"TEXTS":                               `there is no column of numbers: column name: row 1 has the text "pump"`,
		"FAR":                                 "-missing skip leaves these rows out, or name other columns with -x, -y, -count or -baseline",
		"FAR -missing skip -cells 2x2":        "the values of y are too far apart for cells of one size",
		"FILE -cells 256x256 -memory 1MiB":    "256 x 256 cells take",
		"FILE -cells 64":                      "write it as 64x48",
		"FILE -cells 9x9x9":                   "write it as 64x48",
		"FILE -cells 100000x100000":           "with up to 16777216 cells",
		"FILE -model gauss":                   "use one of poisson, bernoulli, normal, exponential",
		"FILE -direction up":                  "use one of above, below, both",
		"FILE -variance 0":                    "use a number above 0",
		"FILE -top 0":                         "use 1 to 1000",
		"FILE -executor gpu":                  "use one of auto, cpu, cuda",
		"FILE -executor cuda":                 "regions: -executor cuda: no program",
		"FILE -replicates -1":                 "use 0 to",
		"FILE -max-rows -1":                   "are at least 0",
		"FILE -learnt -model bernoulli":       "learnt with -model poisson alone",
		"FILE -x lon":                         `there is no column "lon"; columns of numbers are x, y, cases, population`,
		"FILE -model bernoulli":               "a cell is all rows of one x and y: scan: cell (y 0, x 0): 3 cases among 2",
		"PARTS":                               "column cases has fractions, and p-values need whole counts: round them, or give -replicates 0",
		"PARTS -count population -baseline 1": "column population has fractions",
		"PARTS -learnt -replicates 0":         "column population has fractions, and learnt baselines are counts",
		"PARTS -model normal":                 "is a number of values with -model normal: use whole numbers",
		"FILE -count cases -baseline pop":     `there is no column "pop"`,
		"FILE -map /nowhere/map.svg":          "-map /nowhere/map.svg: stat /nowhere: no such file or directory: make the folder first",
		"FILE -memory 10B":                    "allow more with -memory",
		"FILE -direction below -model none":   "use one of poisson",
	} {
		term, out, errs := console()
		args := strings.Fields(strings.NewReplacer("FILE", path, "PARTS", parts, "TEXTS", texts, "FAR", far).Replace(args))
		if code := term.regions(context.Background(), args); code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d: %s%s, want %s", args, code, out, errs, want)
		}
	}
	bare := filepath.Join(dir, "bare.csv")
	must(t, os.WriteFile(bare, []byte("x,y,n\n1,1,3\n"), 0o600))
	term, _, errs := console()
	if code := term.regions(context.Background(), []string{bare}); code == exitOK ||
		!strings.Contains(errs.String(), "no column is called count or observed or cases: name it with -count; columns of numbers are x, y, n") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if r := foundRegions(t, parts, "-replicates", "0"); math.Abs(r.Regions[0].Expected-1.5*2/7.5) > 1e-12 ||
		math.Abs(r.Regions[0].Ratio-1.5*math.Log(7.5/2)) > 1e-9 {
		t.Errorf("fractions: %+v", r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	term, _, _ = console()
	if code := term.regions(ctx, []string{path}); code != exitFailed {
		t.Errorf("stopped: exit %d", code)
	}
}

// TestResultBesideAFile: a file that cannot be written is an error, and the result of the search is printed nevertheless.
func TestResultBesideAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.csv")
	var rows [][]float64
	for i := range 100 {
		rows = append(rows, []float64{float64(i % 10), float64(i / 10), float64(i % 7)})
	}
	writeTable(t, path, []string{"x", "y", "n"}, rows)
	for name, run := range map[string]func(t terminal) int{
		"regions": func(t terminal) int {
			return t.regions(context.Background(), []string{path, "-count", "n", "-baseline", "1", "-replicates", "0", "-json", "-map", dir})
		},
		"outliers": func(t terminal) int {
			return t.outliers(context.Background(), []string{path, "-n", "2", "-k", "1", "-algorithm", "SolvingSet", "-json", "-solving-set", dir})
		},
	} {
		term, out, errs := console()
		if code := run(term); code != exitFailed || !strings.Contains(out.String(), `"`+name+`":[`) || !strings.Contains(errs.String(), dir) {
			t.Errorf("%s: exit %d, printed %s, %s", name, code, out, errs)
		}
	}
}
