package ops

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/detectors"
	"odradek/detectors/scan"
)

//go:embed scan.py
var scanProgram string

// The parameters of scan-cpu.
const (
	scanSide = 128
	scanMean = 6 // counts a cell
	// scanNumpy is what scan.py takes with numpy 2 on one core of an AMD EPYC (Zen 4), in
	// seconds: the baseline where it is not installed.
	scanNumpy = 0.85
)

// ScanRegions measures the search of the most likely of all rectangles of Poisson maps on one core.
func (b *Bench) ScanRegions(ctx context.Context) ([]testbed.Row, error) {
	rng := rand.New(rand.NewPCG(5, 6))
	var rows []testbed.Row
	for _, cluster := range []bool{false, true} {
		g := poissonMap(rng, cluster)
		var rates []float64
		var found []scan.Region
		for range b.Repeat {
			ns, _ := perItem(b.Span(time.Second), 1, func() { found = scan.Search(g, scan.Poisson{}, scan.Options{}, detectors.Sequential) })
			rates = append(rates, 1e9/ns)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, spread := testbed.Median(rates)
		name := "numpy"
		seconds, err := b.scanNumpy(ctx, g, found[0].Ratio)
		if err != nil {
			b.Say("numpy: %v", err)
			name, seconds = "numpy, stored figure ("+testbed.FirstLine(err.Error())+")", scanNumpy
		}
		caseName, what := "", "null"
		if cluster {
			caseName, what = "cluster", "a cluster of 9 x 8 cells with twice the counts"
		}
		r := testbed.NewRow(caseName, v, "maps/s").Against(name, 1/seconds, false).Want(">= 25", v >= 25)
		rows = append(rows, r.Noted("Poisson, n=%d, %d counts a cell, %s; %.1f ms a map; median of %d, spread %.0f%%", scanSide, scanMean, what,
			1e3/v, b.Repeat, spread))
	}
	return rows, nil
}

// poissonMap returns a map of equal baselines.
func poissonMap(rng *rand.Rand, cluster bool) *scan.Grid {
	n := scanSide
	g := &scan.Grid{Rows: n, Cols: n, Count: make([]int64, n*n), Baseline: make([]int64, n*n)}
	for i := range g.Count {
		mean := float64(scanMean)
		if y, x := i/n, i%n; cluster && y >= 40 && y < 49 && x >= 70 && x < 78 {
			mean *= 2
		}
		// Knuth's method: the product of uniform numbers falls below exp(-mean).
		for p := rng.Float64(); p > math.Exp(-mean); p *= rng.Float64() {
			g.Count[i]++
		}
		g.Baseline[i] = scanMean
	}
	return g
}

// scanNumpy returns the seconds that numpy takes for the map. Its log-likelihood ratio has to be
// the one given.
func (b *Bench) scanNumpy(ctx context.Context, g *scan.Grid, ratio float64) (float64, error) {
	dir, err := os.MkdirTemp("", "odradek-scan-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var text bytes.Buffer
	for _, cells := range [][]int64{g.Count, g.Baseline} {
		if err := binary.Write(&text, binary.LittleEndian, cells); err != nil {
			return 0, err
		}
	}
	file := filepath.Join(dir, "map")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return 0, err
	}
	out, err := b.runPython(ctx, "numpy", scanProgram, file, scanSide)
	if err != nil {
		return 0, err
	}
	if len(out) != 2 || math.Abs(out[1]-ratio) > 1e-9*ratio {
		return 0, fmt.Errorf("numpy gives %v, here the ratio is %v", out, ratio)
	}
	return out[0], nil
}
