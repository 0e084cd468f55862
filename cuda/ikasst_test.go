//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// TestIKASSTEmulated scores random shapes, for every kernel and number of lanes:
// alone and among others.
func TestIKASSTEmulated(t *testing.T) {
	ikasstShapesOn(t, emulated(t), 40)
}

// TestIKASSTDevice is TestIKASSTEmulated on a device.
func TestIKASSTDevice(t *testing.T) {
	ikasstShapesOn(t, deviceOptions(t), 400)
}

func ikasstShapesOn(t *testing.T, o Options, shapes int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	var runs []*ikasstRun
	type shape struct{ rows, lanes uint32 } // of the kernel for w
	shapeOf := func(w int) (shape, bool) {
		d, err := sst.NewIKA(sst.IKAOpParams{Window: w, Rank: 1, Krylov: min(w, 5), PowerSteps: 2})
		if err != nil {
			t.Fatal(err)
		}
		c, ok := plan.ClassOf(d, 1, 1)
		return shape{c.Variant, c.B & 0xff}, ok
	}
	seen := map[shape]bool{}
	for w, more := 2, true; more; w++ { // the last w of each shape
		s, _ := shapeOf(w)
		var next shape
		if next, more = shapeOf(w + 1); next != s {
			if !seen[s] && w <= 512 || !more {
				runs = append(runs, newIKASSTRun(rng, w))
			}
			seen[s] = true
		}
	}
	for range shapes {
		runs = append(runs, newIKASSTRun(rng, 2+int(math.Exp2(7*rng.Float64()))))
	}
	for _, r := range runs {
		ikasstExecute(t, e, r)
	}
	// In one batch: the same to the bit.
	alone := make([][]detectors.Result, len(runs))
	for i, r := range runs {
		alone[i], r.results = r.results, nil
	}
	rng.Shuffle(len(runs), func(i, k int) { runs[i], runs[k], alone[i], alone[k] = runs[k], runs[i], alone[k], alone[i] })
	ikasstExecute(t, e, runs...)
	for i, r := range runs {
		for k, got := range r.results {
			if !slices.Equal(got.Scores, alone[i][k].Scores) || !slices.Equal(got.Next, alone[i][k].Next) {
				t.Errorf("%s: task %d: the result among others is not the one it has alone", r.name, k)
			}
		}
	}
	byKernels(t, e.Stats(), 0)
}

// ikasstRun is a chain of tasks.
type ikasstRun struct {
	name    string
	d       detectors.Detector
	dim     int
	fresh   []int
	x       []float32 // all rows
	results []detectors.Result
}

func newIKASSTRun(rng *rand.Rand, w int) *ikasstRun {
	p := sst.IKAOpParams{Window: w, Rank: 1 + rng.IntN(min(w-1, 4)), Seed: rng.Uint32(), PowerSteps: 1 + rng.IntN(3)}
	if w > 8 && rng.IntN(4) == 0 {
		p.Krylov = p.Rank + 1 + rng.IntN(min(w, 32)-p.Rank)
	}
	if rng.IntN(2) == 0 {
		p.Gamma = 1 + rng.IntN(3*w)
	}
	d, err := sst.NewIKA(p)
	if err != nil {
		panic(err)
	}
	r := &ikasstRun{d: d, dim: 1 + rng.IntN(3)*rng.IntN(2), fresh: []int{1 + rng.IntN(20)}}
	for range rng.IntN(3) {
		r.fresh = append(r.fresh, 1+rng.IntN(5))
	}
	if w > 256 {
		r.dim, r.fresh = 1, []int{1}
	}
	n := d.Window() - 1
	for _, f := range r.fresh {
		n += f
	}
	r.x = make([]float32, n*r.dim)
	turn := 0.05 + rng.Float64()
	for i := range r.x {
		r.x[i] = float32(5 + math.Sin(turn*float64(i/r.dim)) + 0.3*rng.NormFloat64())
	}
	r.name = fmt.Sprintf("%+v, dim %d, fresh %v", p, r.dim, r.fresh)
	return r
}

// ikasstExecute executes the runs as one batch; one alone is compared with the
// definition.
func ikasstExecute(t *testing.T, e *Executor, runs ...*ikasstRun) {
	b := e.Batch()
	defer e.Release(b)
	for _, r := range runs {
		params := b.Put(r.d.Params())
		end := len(r.x) / r.dim
		for _, f := range r.fresh {
			end -= f
		}
		after := uint32(0)
		for _, f := range r.fresh {
			end += f
			rows := r.d.Window() + f - 1
			task := detectors.Task{Op: sst.OpIKA, Dim: uint32(r.dim), Fresh: uint32(f), After: after, Params: params}
			span, x := b.GrowF32(rows * r.dim)
			copy(x, r.x[(end-rows)*r.dim:end*r.dim])
			task.X, task.Scores, task.Next = span, b.GrowOut(f), b.GrowOut(r.dim*r.d.Params().Int(0))
			b.Tasks = append(b.Tasks, task)
			after = uint32(len(b.Tasks))
		}
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	task := 0
	for _, r := range runs {
		var carry detectors.Words
		for range r.fresh {
			rows := b.Rows(task)
			got := detectors.Result{Scores: slices.Clone(rows.Scores), Next: slices.Clone(rows.Next)}
			if len(runs) == 1 {
				want := detectors.Result{Scores: make([]float32, len(got.Scores)), Next: make(detectors.Words, len(got.Next))}
				rows.Carry, rows.Scores, rows.Next = carry, want.Scores, want.Next
				sst.OpIKA.Spec().Score(rows)
				if err := sst.OpIKA.Spec().Compare(&rows, got, want); err != nil {
					t.Errorf("%s: task %d: %v", r.name, task, err)
				}
			}
			carry = got.Next
			r.results = append(r.results, got)
			task++
		}
	}
}
