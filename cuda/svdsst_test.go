//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
)

func TestSVDSSTShapes(t *testing.T) {
	for w := 2; w <= svdsstMaxWindow; w++ {
		s := svdsstShapeOf(w)
		for _, r := range []int{1, min(3, w-1), min(w-1, svdsstMaxRank)} {
			shared, scratch := s.memory(w, r)
			steps := min(w, svdsstSteps)
			kept := steps - scratch/(128*s.rows)
			// What refining takes lies where the kept vectors were.
			if kept < min(steps, 12) || shared > (227/s.blocks-1)<<10 {
				t.Errorf("w=%d r=%d: %+v keeps %d vectors of %d in %d bytes", w, r, s, kept, steps, shared)
			}
		}
	}
}

// TestSVDSSTTiles: every row of every task is in one tile.
func TestSVDSSTTiles(t *testing.T) {
	rng := seeded(t)
	d, err := detectors.NewSVDSST(detectors.SVDSSTParams{Window: 20})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		b := &detectors.Batch{}
		params, p := b.GrowF32(3)
		copy(p, d.Params())
		for range 1 + rng.IntN(2500) {
			fresh := 1 + rng.IntN(1+rng.IntN(20))*rng.IntN(1+rng.IntN(20))
			task := detectors.Task{Op: detectors.SVDSST, Dim: 1, Fresh: uint32(fresh), Params: params, X: detectors.Span{Len: uint32(d.Window() + fresh - 1)}}
			task.Scores = b.GrowOut(fresh)
			b.Tasks = append(b.Tasks, task)
		}
		var pl planner
		pl.start(b)
		pl.assign(b)
		tasks := make([]detectors.Task, pl.device())
		pl.lay(b, tasks)
		left := make([]uint32, len(tasks))
		for _, tile := range pl.tiles {
			for i := tile.First; i < tile.First+tile.Count; i++ {
				rows := tasks[i].Fresh
				if tile.Count == 1 {
					if rows = tile.Part >> 16; tile.Part&0xffff != left[i] {
						t.Fatalf("task %d: a tile begins at row %d, %d are done", i, tile.Part&0xffff, left[i])
					}
				}
				left[i] += rows
			}
		}
		for i, n := range left {
			if n != tasks[i].Fresh {
				t.Fatalf("%d of %d rows of task %d are in tiles", n, tasks[i].Fresh, i)
			}
		}
	}
}

// TestSVDSSTEmulated scores random shapes, for every kernel: alone and among others.
func TestSVDSSTEmulated(t *testing.T) {
	windows := []int{2, 3, 20, 64, 65, 128, 129, 200}
	if !testing.Short() {
		windows = append(windows, 224, 320, 400, 512)
	}
	svdsstOn(t, emulated(t), windows, 20, false)
}

// TestSVDSSTDevice does so on a device.
func TestSVDSSTDevice(t *testing.T) {
	windows := []int{2, 3, 20, 63, 64, 65, 128, 129, 224, 225, 320, 321, 416, 417, 500, 512}
	svdsstOn(t, deviceOptions(t), windows, 300, true)
}

func svdsstOn(t *testing.T, o Options, windows []int, more int, device bool) {
	rng := seeded(t)
	e := open(t, o)
	defer e.Close()
	var runs []*svdsstRun
	for _, w := range windows {
		runs = append(runs, newSVDSSTRun(rng, w, device))
	}
	for range more {
		runs = append(runs, newSVDSSTRun(rng, 2+int(math.Exp2(7*rng.Float64())), device))
	}
	worst := 0.0
	for _, r := range runs {
		worst = max(worst, svdsstExecute(t, e, r))
	}
	t.Logf("the largest difference to the definition is %.1e", worst)
	// In one batch: the same to the bit.
	alone := make([][]float32, len(runs))
	for i, r := range runs {
		alone[i] = r.scores
	}
	rng.Shuffle(len(runs), func(i, k int) { runs[i], runs[k], alone[i], alone[k] = runs[k], runs[i], alone[k], alone[i] })
	svdsstExecute(t, e, runs...)
	for i, r := range runs {
		if !slices.Equal(r.scores, alone[i]) {
			t.Errorf("%s: the result among others is not the one it has alone", r.name)
		}
	}
	s := e.Stats()
	if s.Devices[0].Tasks == 0 {
		t.Error("nothing was on the device")
	}
	t.Logf("%d tasks on the device, %d on the CPU", s.Devices[0].Tasks, s.CPUTasks)
}

// svdsstRun is a task.
type svdsstRun struct {
	name       string
	d          detectors.Detector
	dim, fresh int
	x, scores  []float32
}

func newSVDSSTRun(rng *rand.Rand, w int, device bool) *svdsstRun {
	p := detectors.SVDSSTParams{Window: w, Rank: 1 + rng.IntN(min(w-1, svdsstMaxRank))}
	if rng.IntN(2) == 0 {
		p.Gamma = 1 + rng.IntN(3*w)
	}
	d, err := detectors.NewSVDSST(p)
	if err != nil {
		panic(err)
	}
	r := &svdsstRun{d: d, dim: 1 + rng.IntN(3)*rng.IntN(2), fresh: 1 + rng.IntN(6)}
	if w > 100 && !device {
		r.dim, r.fresh = 1, 1
	}
	n := d.Window() + r.fresh - 1
	r.x = make([]float32, n*r.dim)
	turn, noise, walk, size := 0.05+rng.Float64(), []float64{0, 0.01, 0.3, 3}[rng.IntN(4)], 0.0, math.Ldexp(1, rng.IntN(160)-80)
	walks := float64(rng.IntN(2))
	for i := range r.x {
		walk += walks * rng.NormFloat64()
		r.x[i] = float32(size * (5 + math.Sin(turn*float64(i/r.dim)) + 0.5*math.Sin(2.3*turn*float64(i/r.dim)) + noise*rng.NormFloat64() + walk))
	}
	r.name = fmt.Sprintf("%+v, dim %d, fresh %d, noise %v, walk %v", p, r.dim, r.fresh, noise, walks)
	return r
}

// svdsstExecute executes the runs as one batch; one alone is compared with the
// definition. It gives the largest difference.
func svdsstExecute(t *testing.T, e *Executor, runs ...*svdsstRun) (worst float64) {
	b := e.Batch()
	defer e.Release(b)
	for _, r := range runs {
		params, p := b.GrowF32(len(r.d.Params()))
		copy(p, r.d.Params())
		task := detectors.Task{Op: detectors.SVDSST, Dim: uint32(r.dim), Fresh: uint32(r.fresh), Params: params}
		span, x := b.GrowF32(len(r.x))
		copy(x, r.x)
		task.X, task.Scores = span, b.GrowOut(r.fresh)
		b.Tasks = append(b.Tasks, task)
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		rows := b.Rows(i)
		r.scores = slices.Clone(rows.Scores)
		if len(runs) > 1 {
			continue
		}
		got := detectors.Result{Scores: r.scores}
		want := detectors.Result{Scores: make([]float32, r.fresh)}
		rows.Scores = want.Scores
		detectors.SVDSST.Spec().Score(rows)
		if err := detectors.SVDSST.Spec().Compare(&rows, got, want); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		for k, s := range got.Scores {
			worst = max(worst, math.Abs(float64(s-want.Scores[k])))
		}
	}
	return worst
}
