package ops

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"odradek/cmd/bench/testbed"
	"odradek/detectors"
	"odradek/detectors/scan"
)

// gridFamilies are the families that regions searches maps of.
var gridFamilies = []struct {
	name   string
	family scan.Family
}{
	{"Poisson", scan.Poisson{}}, {"Bernoulli", scan.Bernoulli{}}, {"normal", scan.Normal{Variance: 1}}, {"exponential", scan.Exponential{}},
}

// gridWays are the algorithms of the paper, and what op scan runs.
var gridWays = []struct {
	name string
	// most is the largest side of a grid for which regions runs it, unless -shapes names it.
	most int
	find func(ctx context.Context, g *scan.Grid, f scan.Family) ([]scan.Region, scan.Work)
}{
	{"BF", 64, func(_ context.Context, g *scan.Grid, f scan.Family) ([]scan.Region, scan.Work) {
		return scan.BruteForce(g, f, scan.Options{})
	}},
	{"DM", 128, func(_ context.Context, g *scan.Grid, f scan.Family) ([]scan.Region, scan.Work) {
		return scan.DeMorgan(g, f, scan.Options{})
	}},
	{"AX", 128, func(_ context.Context, g *scan.Grid, f scan.Family) ([]scan.Region, scan.Work) {
		return scan.Approximate(g, f, scan.Options{})
	}},
	{"op scan", math.MaxInt, func(ctx context.Context, g *scan.Grid, f scan.Family) ([]scan.Region, scan.Work) {
		return scan.Search(g, f, scan.Options{}, detectors.NewHelpers(runtime.GOMAXPROCS(0)-1).Parallel(ctx)), scan.Work{}
	}},
}

// gridMap draws a map of n x n cells with a region of twice the events: baselines from 50 to 150, and counts of a
// binomial distribution, of a mean of 6 % of them, and at least 1, which all families take.
func gridMap(n int) *scan.Grid {
	rng := rand.New(rand.NewPCG(2013, uint64(n)))
	g := &scan.Grid{Rows: n, Cols: n}
	for i := range n * n {
		baseline, p := int64(50+rng.IntN(101)), 0.06
		if y, x := i/n-n/3, i%n-n/4; y >= 0 && y < max(4, n/16) && x >= 0 && x < max(4, n/14) {
			p *= 2
		}
		count := int64(0)
		for range baseline {
			if rng.Float64() < p {
				count++
			}
		}
		g.Count, g.Baseline = append(g.Count, max(1, count)), append(g.Baseline, baseline)
	}
	return g
}

// Regions finds the most anomalous rectangle of maps by all algorithms, and holds the results against each other.
func (b *Bench) Regions(ctx context.Context) ([]testbed.Row, error) {
	var rows []testbed.Row
	sides := []int{32, 64, 128}
	if b.Quick {
		sides = []int{16, 32}
	}
	for _, n := range sides {
		g := gridMap(n)
		for _, f := range gridFamilies {
			var found []scan.Region
			for _, way := range gridWays {
				name := fmt.Sprintf("%s n=%d, %s", f.name, n, way.name)
				if !b.wants(name) {
					continue
				}
				if n > way.most && b.Shapes == nil {
					rows = append(rows, testbed.Row{Case: name, Skipped: fmt.Sprintf("more than %d cells a side: -shapes selects it", way.most)})
					continue
				}
				if ctx.Err() != nil {
					return rows, ctx.Err()
				}
				b.Say("%s", name)
				var got []scan.Region
				var work scan.Work
				took := processorTime(func() { got, work = way.find(ctx, g, f.family) })
				if ctx.Err() != nil || len(got) == 0 {
					return rows, fmt.Errorf("%s finds nothing: %w", name, ctx.Err())
				}
				if found == nil {
					found = got
				}
				if !slices.Equal(found, got) {
					return rows, fmt.Errorf("%s finds %+v, another algorithm %+v", name, got, found)
				}
				r := testbed.NewRow(name, took, "s").Noted("processor time")
				if all := work.Rectangles; all > 0 {
					r = r.Noted("%d rectangles, %d cells read, %.4g%% of the ratios computed", all, work.Cells,
						100*float64(work.Ratios)/float64(all))
				}
				top := &got[0]
				rows = append(rows, r.Noted("rows %d to %d, columns %d to %d; ratio %.6f", top.Y1, top.Y2, top.X1, top.X2, top.Ratio))
			}
		}
	}
	return rows, nil
}
