//go:build linux

package cuda

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

// TestScanEmulated finds regions of grids on kernels on the CPU: sizes around the limits of warps and
// groups of columns, limits of rectangles, further regions, null maps.
func TestScanEmulated(t *testing.T) { onScan(t, emulated(t), 1, 40) }

// TestScanDevice is TestScanEmulated on a device, with more and larger grids.
func TestScanDevice(t *testing.T) {
	if testing.Short() { // under a tool that slows the test down
		onScan(t, deviceOptions(t), 2, 40)
		return
	}
	onScan(t, deviceOptions(t), 12, 140)
}

// scanCell returns the count and the baseline of a cell.
type scanCell func(y, x int) (count, baseline int64)

// scanCells are kinds of grids.
func scanCells(rng *rand.Rand) map[string]scanCell {
	poisson := func(mean float64) int64 {
		n := int64(0)
		for s := rng.ExpFloat64(); s < mean; s += rng.ExpFloat64() {
			n++
		}
		return n
	}
	binomial := func(n int64, p float64) (k int64) {
		for range n {
			if rng.Float64() < p {
				k++
			}
		}
		return k
	}
	cy, cx := rng.IntN(20), rng.IntN(20)
	return map[string]scanCell{
		"null":  func(int, int) (int64, int64) { b := 1 + rng.Int64N(30); return poisson(float64(b) / 5), b },
		"ties":  func(int, int) (int64, int64) { return rng.Int64N(2), 1 },
		"equal": func(int, int) (int64, int64) { return 3, 5 },
		"empty": func(int, int) (int64, int64) { return 0, rng.Int64N(2) },
		"cluster": func(y, x int) (int64, int64) {
			if y >= cy && y < cy+5 && x >= cx && x < cx+6 {
				return 9 + poisson(9), 3
			}
			return poisson(3), 3
		},
		"zero baselines": func(y, x int) (int64, int64) {
			if rng.IntN(3) == 0 || x%11 == 3 || y%7 == 2 {
				return 0, 0
			}
			return poisson(4), 1 + rng.Int64N(9)
		},
		"sparse":          func(int, int) (int64, int64) { return rng.Int64N(40) / 39, 1 },
		"large baselines": func(int, int) (int64, int64) { return poisson(5), 1<<30 + rng.Int64N(1<<33) },
		"large counts":    func(int, int) (int64, int64) { return 1<<35 + rng.Int64N(1<<20), 1<<36 + rng.Int64N(1<<20) },
		// Small differences beside large ones, which float32 rounds.
		"beside": func(_, x int) (int64, int64) {
			switch x / 8 {
			case 0:
				return 1<<30 + 1<<24, 1 << 20
			case 1:
				return 1<<30 - 1<<24, 1 << 20
			}
			return 1<<30 + rng.Int64N(1<<11) - 1<<10, 1 << 20
		},
		// Ratios of all sizes: for grids of few cells.
		"few cells": func(int, int) (int64, int64) {
			return int64(math.Exp(18 * rng.Float64())), int64(math.Exp(30 * rng.Float64()))
		},
		"one cell": func(y, x int) (int64, int64) {
			if y == 0 && x == 0 {
				return 7, 2
			}
			return 0, 1
		},
		"excluded": func(y, x int) (int64, int64) { return 1, int64(y ^ x ^ 1) },
		// Of Bernoulli's model.
		"cases": func(y, x int) (int64, int64) {
			b, rate := rng.Int64N(90), 0.1
			if y >= cy && y < cy+5 && x >= cx && x < cx+6 {
				rate = 0.4
			}
			return binomial(b, rate), b
		},
		"many cases":   func(int, int) (int64, int64) { b := rng.Int64N(40); return binomial(b, 0.8), b },
		"all cases":    func(int, int) (int64, int64) { b := rng.Int64N(40); return b, b },
		"rare cases":   func(int, int) (int64, int64) { b := rng.Int64N(400); return binomial(b, 0.002), b },
		"many trials":  func(int, int) (int64, int64) { b := 1<<28 + rng.Int64N(1<<30); return rng.Int64N(90), b },
		"large cases":  func(int, int) (int64, int64) { b := 1<<30 + rng.Int64N(1<<20); return b/3 + rng.Int64N(1<<16), b },
		"more cases":   func(y, x int) (int64, int64) { return int64(y ^ x), 5 },
		"cases beside": func(_, x int) (int64, int64) { return 1<<29 + int64(x%8)<<20 + rng.Int64N(1<<9), 1 << 30 },
		// Of the models of values: sums of them, of either sign, and of times.
		"normal": func(y, x int) (int64, int64) {
			if rng.IntN(6) == 0 {
				return 0, 0
			}
			b, mean := 1+rng.Int64N(9), 0.0
			if y >= cy && y < cy+5 && x >= cx && x < cx+6 {
				mean = -12
			}
			return int64(float64(b)*mean + math.Sqrt(float64(b))*20*rng.NormFloat64()), b
		},
		"normal, ties":   func(int, int) (int64, int64) { return rng.Int64N(3) - 1, 1 },
		"normal, large":  func(int, int) (int64, int64) { return rng.Int64N(1<<38) - 1<<37, 1 + rng.Int64N(1<<30) },
		"normal, beside": func(_, x int) (int64, int64) { return (1<<30+rng.Int64N(1<<9))*int64(1-x%16/8*2) + int64(x), 1 << 20 },
		"normal, faults": func(y, x int) (int64, int64) { return int64(y - x), int64(y * x % 5) },
		"exponential": func(y, x int) (int64, int64) {
			if rng.IntN(6) == 0 {
				return 0, 0
			}
			b, mean, sum := 1+rng.Int64N(9), 100.0, 1.0
			if y >= cy && y < cy+5 && x >= cx && x < cx+6 {
				mean = 40
			}
			for range b {
				sum += mean * rng.ExpFloat64()
			}
			return int64(sum), b
		},
		"exponential, ties":   func(int, int) (int64, int64) { return 1 + rng.Int64N(2), 1 },
		"exponential, scales": func(int, int) (int64, int64) { return 1 + int64(math.Exp(18*rng.Float64())), 1 + rng.Int64N(3) },
		"exponential, few cells": func(int, int) (int64, int64) {
			return 1 + int64(math.Exp(20*rng.Float64()*rng.Float64())), 1 + int64(math.Exp(20*rng.Float64()))
		},
		"exponential, large":  func(int, int) (int64, int64) { return 1<<35 + rng.Int64N(1<<20), 1<<20 + rng.Int64N(9) },
		"exponential, faults": func(y, x int) (int64, int64) { return int64(y * x % 7), 5 },
		"skewed":              func(int, int) (int64, int64) { b := int64(1) << rng.IntN(20); return rng.Int64N(4), b },
	}
}

// addGrid adds a task with a grid of cells.
func addGrid(t *testing.T, b *detectors.Batch, p scan.OpParams, fresh int, cell scanCell) {
	t.Helper()
	d, err := scan.New(p)
	if err != nil {
		t.Fatal(err)
	}
	task := detectors.Task{Op: scan.Op, Dim: 2, Fresh: uint32(fresh), Params: b.Put(d.Params())}
	var x []int64
	task.X, x = b.GrowI64(2 * (p.Cells + fresh - 1))
	for i := range x {
		x[i] = -9
	}
	for i := range p.Cells {
		x[2*(i+fresh-1)], x[2*(i+fresh-1)+1] = cell(i/p.Columns, i%p.Columns)
	}
	size, ok := d.Size(detectors.View{Dim: 2, Rows: p.Cells + fresh - 1, Fresh: fresh})
	if !ok {
		t.Fatal("too little history")
	}
	b.GrowOutputs(&task, size)
	b.Tasks = append(b.Tasks, task)
}

// manyNulls is the number of rows of grids with many null maps, on a device.
const manyNulls = 47

// onScan scores tasks of each kind, the given number of times, on grids of up to most rows and columns,
// and compares with the CPU form.
func onScan(t *testing.T, o Options, times, most int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	cells := scanCells(rng)
	left := uint64(0)
	for _, kind := range slices.Sorted(maps.Keys(cells)) {
		t.Run(kind, func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			var names []string
			add := func(rows, cols int) {
				p := scan.OpParams{Cells: rows * cols, Columns: cols, Top: 1 + rng.IntN(4), Seed: rng.IntN(1 << 30),
					Direction: scan.Direction(rng.IntN(3)), Learnt: rng.IntN(2) == 0}
				if rng.IntN(2) == 0 {
					p.MaxRows, p.MaxColumns = rng.IntN(rows+2), rng.IntN(cols+2)
				}
				if rng.IntN(2) == 0 && rows*cols < 1500 && rows != manyNulls {
					p.Replicates = 1 + rng.IntN(30)
				}
				if strings.HasSuffix(kind, "few cells") {
					p.Replicates = 0
				}
				switch {
				case strings.HasPrefix(kind, "normal"):
					p.Model, p.Variance = scan.ModelNormal, 400*rng.ExpFloat64()+1e-3
				case strings.HasPrefix(kind, "exponential"):
					p.Model = scan.ModelExponential
				}
				if rows == manyNulls { // more than a device draws at once
					p.Replicates, p.MaxRows, p.MaxColumns = 900, 0, 0
				}
				switch {
				case slices.Contains([]string{"cases", "many cases", "all cases", "rare cases", "more cases"}, kind):
					p.Model = scan.ModelBernoulli
				case slices.Contains([]string{"many trials", "large cases", "cases beside"}, kind):
					p.Model = scan.ModelBernoulli
					fallthrough
				case kind == "large counts", kind == "beside":
					if p.Replicates > 0 {
						left++
					}
				}
				addGrid(t, b, p, 1+rng.IntN(3), cells[kind])
				names = append(names, fmt.Sprintf("%d x %d, %+v", rows, cols, p))
			}
			if strings.HasSuffix(kind, "few cells") {
				for range 60 * times {
					add(1, 2+rng.IntN(3))
				}
				cells[kind] = cells[map[string]string{"few cells": "null", "exponential, few cells": "exponential"}[kind]]
			}
			for range times {
				add(1, 2+rng.IntN(most))
				add(2+rng.IntN(most), 1)
				add(1+rng.IntN(most), 2+rng.IntN(most))
				add(1+rng.IntN(12), []int{7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65}[rng.IntN(12)])
			}
			if most > 100 {
				add(manyNulls, 20+rng.IntN(50))
			}
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				r := b.Rows(i)
				want := r
				want.Scores, want.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
				scan.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
				if err := scan.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores, Detail: r.Detail},
					detectors.Result{Scores: want.Scores, Detail: want.Detail}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	s := e.Stats()
	noFault(t, s)
	if s.CPUTasks != left || s.Declined != left {
		t.Errorf("%d tasks were scored on the CPU, of them %d declined; %d have more counts than null maps draw", s.CPUTasks, s.Declined, left)
	}
}
