package scan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// concurrent runs all calls at once.
func concurrent(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// TestSearch requires the definition's result of the fast form, to the bit.
func TestSearch(t *testing.T) {
	rng := seedtest.New(t)
	sizes := [][2]int{{1, 1}, {1, 1 + rng.IntN(60)}, {1 + rng.IntN(60), 1},
		{1 + rng.IntN(9), 1 + rng.IntN(9)}, {1 + rng.IntN(20), 1 + rng.IntN(20)}}
	for _, f := range families {
		for _, size := range sizes {
			for name, g := range grids(rng, f.Family, size[0], size[1]) {
				o := randomOptions(rng, g.Rows, g.Cols)
				want := describe(Define(g, f, o))
				for i, parallel := range []detectors.Parallel{detectors.Sequential, concurrent} {
					if got := describe(Search(g, f, o, parallel)); got != want {
						t.Errorf("%s, %s, %d x %d, %+v: form %d finds%s, want%s", f.name, name, g.Rows, g.Cols, o, i, got, want)
					}
				}
			}
		}
	}
}

// TestLines requires that all rectangles that are better than a level lie above a line.
func TestLines(t *testing.T) {
	rng := seedtest.New(t)
	for _, f := range families {
		for name, g := range grids(rng, f.Family, 1+rng.IntN(9), 1+rng.IntN(9)) {
			o := randomOptions(rng, 3, 3)
			s := newScanner(g, f, o)
			found := Define(g, f, o)
			if len(found) == 0 {
				continue
			}
			best := found[0].Ratio
			for _, share := range []float64{0, 1e-6, 0.3, 0.9, 1, 1, 1} {
				level := best * share
				if share == 1 {
					level *= rng.Float64()
				}
				filters := s.filters(level)
				for _, l := range filters {
					for _, b := range g.Baseline { // the border of the convex set
						if b > 0 && b < s.total.Baseline && level > 0 {
							least, most := f.Counts(float64(b), s.total)
							d, e := reach(f, s.total, l.side, level, float64(b)), s.total.expected(float64(b))
							most = max(float64(l.side)*(most-e), float64(l.side)*(least-e))
							if v := f.Ratio(float64(l.side)*d, float64(b), s.total); d > 0 && v > level || d < most*(1-1e-6) && v < level*0.98 {
								t.Errorf("%s, %s: baseline %d reaches %v with an excess of %v of %v, want %v", f.name, name, b, v, d, most, level)
							}
						}
					}
				}
				eachRectangle(g, o, func(r Rectangle) {
					sums := s.table.sums(r)
					if v := ratio(f, o.Direction, sums, s.total); v > 0 && v >= level {
						for _, l := range filters {
							for k := range l.slope {
								if float64(l.side)*float64(sums.Count)-l.slope[k]*float64(sums.Baseline) > l.offset[k] {
									return
								}
							}
						}
						t.Errorf("%s, %s, %+v: %v %v has the ratio %v and is below all lines of the level %v", f.name, name, o, r, sums, v, level)
					}
				})
			}
		}
	}
}

// TestLinesStayBelow requires that no line is above the border of the level, where an excess that has been tried has almost the
// level's ratio: rectangles between the border and the line would be lost.
func TestLinesStayBelow(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		total := Sums{Count: 2000 + rng.Int64N(1<<20), Baseline: 4000 + rng.Int64N(1<<20)}
		total.Count = min(total.Count, total.Baseline/2)
		b := float64(total.Baseline) * (0.01 + 0.3*rng.Float64())
		for _, f := range families {
			for _, side := range []side{above, below} {
				s := &scanner{grid: &Grid{Rows: 1, Cols: 8}, f: f, total: total, least: b, most: b, magnitude: float64(total.Count)}
				least, most := f.Counts(b, total)
				e := total.expected(b)
				d := max(float64(side)*(most-e), float64(side)*(least-e)) / 1024 // what reach tries first
				if math.IsInf(d, 1) {
					d = math.MaxInt32
				}
				level := f.Ratio(float64(side)*d, b, total) * (1 - 5e-7)
				l := s.newLines(side, level)
				at := l.offset[0] + l.slope[0]*b - float64(side)*e // the least excess above the line
				if v := f.Ratio(float64(side)*at, b, total); v > level {
					t.Fatalf("%s, side %v, baseline %v of %v: the line has the ratio %v, above the level %v", f.name, side, b, total, v, level)
				}
			}
		}
	}
}

func TestSearchNewYork(t *testing.T) {
	for _, want := range newYorkRegions {
		g := newYork(t, want.n)
		newYorkIs(t, g, Search(g, Poisson{}, Options{}, concurrent))
	}
}

// large returns grids of n x n cells with about 6 counts a cell.
func large(rng *rand.Rand, n int) map[string]*Grid {
	cell := func(rate float64, b int64) (int64, int64) { return draw(rng, Poisson{}, b, rate/100), b }
	baseline := func() int64 { return 50 + rng.Int64N(101) }
	inside := func(y, x int) bool { return y >= n/3 && y < n/3+8 && x >= n/4 && x < n/4+9 }
	cluster := func(rate float64, zeros bool) *Grid {
		return newGrid(n, n, func(y, x int) (int64, int64) {
			switch {
			case zeros && rng.IntN(3) == 0:
				return 0, 0
			case inside(y, x):
				return cell(rate, baseline())
			}
			return cell(6, baseline())
		})
	}
	return map[string]*Grid{
		"null": cluster(6, false), "cluster": cluster(7.5, false), "strong cluster": cluster(60, false),
		"null, third of zero baseline": cluster(6, true), "strong cluster, third of zero baseline": cluster(60, true),
		"all equal": newGrid(n, n, func(int, int) (int64, int64) { return 6, 100 }),
		"all zero":  newGrid(n, n, func(int, int) (int64, int64) { return 0, 100 }),
	}
}

// TestSearchLarge is TestSearch on a grid of the size of the benchmark.
func TestSearchLarge(t *testing.T) {
	rng := seedtest.New(t)
	n := 40 + rng.IntN(24)
	if testing.Short() {
		n = 40
	}
	for name, g := range large(rng, n) {
		for _, o := range []Options{{Top: 2}, {MaxRows: 16, MaxCols: 8}} {
			if got, want := describe(Search(g, Poisson{}, o, detectors.Sequential)), describe(Define(g, Poisson{}, o)); got != want {
				t.Errorf("%s, %d x %d, %+v: %s, want%s", name, n, n, o, got, want)
			}
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, c := range []struct {
		n     int
		limit Options
	}{{128, Options{}}, {128, Options{Top: 5}}, {256, Options{}}, {512, Options{}}, {1024, Options{MaxRows: 128, MaxCols: 128}}} {
		grids := large(rand.New(rand.NewPCG(1, 2)), c.n)
		for _, name := range []string{"null", "cluster", "strong cluster", "null, third of zero baseline",
			"strong cluster, third of zero baseline", "all equal"} {
			b.Run(fmt.Sprintf("n=%d, %+v, %s", c.n, c.limit, name), func(b *testing.B) {
				for b.Loop() {
					Search(grids[name], Poisson{}, c.limit, detectors.Sequential)
				}
			})
		}
	}
}

// BenchmarkAlgorithms measures the algorithms; the definition, DeMorgan, is the paper's for one core.
func BenchmarkAlgorithms(b *testing.B) {
	g := large(rand.New(rand.NewPCG(1, 2)), 64)["cluster"]
	for _, name := range []string{"DM", "AX"} {
		b.Run(name+", n=64", func(b *testing.B) {
			for b.Loop() {
				ways[name](g, Poisson{}, Options{})
			}
		})
	}
	g = large(rand.New(rand.NewPCG(1, 2)), 128)["cluster"]
	b.Run("DM, n=128", func(b *testing.B) {
		for b.Loop() {
			Define(g, Poisson{}, Options{})
		}
	})
}
