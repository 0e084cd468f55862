//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

// grids packs some grids of up to most rows and columns, whose work several devices can divide, and returns the
// results of the CPU form.
func grids(t *testing.T, rng *rand.Rand, b *detectors.Batch, n, most int) []detectors.Result {
	t.Helper()
	cells := scanCells(rng)
	for i := range n {
		rows, cols := 2+rng.IntN(most), 2+rng.IntN(most)
		p := scan.OpParams{Cells: rows * cols, Columns: cols, Top: 1 + rng.IntN(4), Seed: rng.IntN(1 << 30), Replicates: 1 + rng.IntN(40)}
		if i%2 > 0 { // the rectangles are divided, not the null maps
			p.Top, p.Replicates = 1, 0
		}
		if rng.IntN(2) == 0 {
			p.MaxRows, p.MaxColumns = rng.IntN(rows+2), rng.IntN(cols+2)
		}
		kind := []string{"null", "ties", "cluster", "zero baselines", "sparse", "equal", "cases", "many cases", "normal",
			"exponential"}[rng.IntN(10)]
		switch {
		case strings.HasSuffix(kind, "cases"):
			p.Model = scan.ModelBernoulli
		case kind == "normal": // without null maps, for any REPLICATES
			p.Model, p.Variance, p.Top = scan.ModelNormal, 100, 1
		case kind == "exponential":
			p.Model, p.Top = scan.ModelExponential, 1
		}
		cell := cells[kind]
		addGrid(t, b, p, 1, cell)
	}
	var want []detectors.Result
	for i := range b.Tasks {
		r := b.Rows(i)
		r.Scores, r.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
		scan.Op.Spec().CPU(t.Context(), &r, detectors.Sequential)
		want = append(want, detectors.Result{Scores: r.Scores, Detail: r.Detail})
	}
	return want
}

// compareGrids compares the results of a batch with others.
func compareGrids(t *testing.T, b *detectors.Batch, want []detectors.Result) {
	t.Helper()
	for i := range b.Tasks {
		r := b.Rows(i)
		if err := scan.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores, Detail: r.Detail}, want[i]); err != nil {
			t.Errorf("task %d: %v", i, err)
		}
	}
}

// onDivided executes batches of one to three grids on devices that divide the work in each.
func onDivided(t *testing.T, o Options, devices, times, most int) {
	splitAlways(t)
	rng := seedtest.New(t)
	o.Devices = indices(devices)
	e := open(t, o)
	defer e.Close()
	tasks := 0
	for range times {
		b := e.Batch()
		n := 1 + rng.IntN(3)
		want := grids(t, rng, b, n, most)
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		compareGrids(t, b, want)
		e.Release(b)
		tasks += n
	}
	s := e.Stats()
	noFault(t, s)
	for _, d := range s.Devices {
		if d.Batches != uint64(times) || d.Tasks != uint64(tasks) {
			t.Errorf("device %d did its portion of %d tasks in %d batches, want %d in %d", d.Index, d.Tasks, d.Batches, tasks, times)
		}
	}
	if s.CPUTasks > 0 {
		t.Errorf("the CPU scored %d tasks", s.CPUTasks)
	}
}

// TestDivideEmulated divides the null maps and the rectangles of grids among devices that run kernels: the bits
// must be the CPU's.
func TestDivideEmulated(t *testing.T) {
	o := emulated(t)
	for _, devices := range []int{2, 3} {
		t.Run(fmt.Sprint(devices), func(t *testing.T) { onDivided(t, o, devices, 4, 32) })
	}
}

// TestDivideDevice is TestDivideEmulated on two devices.
func TestDivideDevice(t *testing.T) {
	onDivided(t, twoDevices(t), 2, 60, 140)
}

// TestDivideLost kills one of the devices that divide the work in a batch, again and again.
func TestDivideLost(t *testing.T) {
	splitAlways(t)
	rng := seedtest.New(t)
	o := goChildOptions(t, "")
	o.Devices, o.Retry = indices(3), 5*time.Millisecond
	e := open(t, o)
	defer e.Close()
	end := killAgain(e, 2, 10*time.Millisecond)
	b := e.Batch()
	want := grids(t, rng, b, 2, 20)
	divided := false
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		compareGrids(t, b, want)
		clear(b.Out)
		divided = divided || !slices.ContainsFunc(e.Stats().Devices, func(d DeviceStats) bool { return d.Tasks == 0 })
	}
	kills, s := end(), e.Stats()
	t.Logf("%d kills, %+v", kills, s)
	if kills == 0 || !divided || s.Lost == 0 || s.CPUTasks > 0 {
		t.Errorf("%d kills, divided %v, %d lost, %d tasks on the CPU", kills, divided, s.Lost, s.CPUTasks)
	}
}
