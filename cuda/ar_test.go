//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/seedtest"
)

// TestARWarpsEmulated scores random shapes, for every kernel, alone and among others; a third of them unless ODRADEK_LONG is set.
func TestARWarpsEmulated(t *testing.T) {
	share := 8
	if os.Getenv("ODRADEK_LONG") != "" {
		share = 1
	}
	arOn(t, emulated(t), 40/share, share)
}

// TestARDevice is TestARWarpsEmulated on a device, with more tasks.
func TestARDevice(t *testing.T) { arOn(t, deviceOptions(t), 600, 1) }

// arOn runs a number of random shapes and one of share of those at the limits of a warp.
func arOn(t *testing.T, o Options, shapes, share int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	var runs []*arRun
	for _, order := range []int{1, 2, 16, 17, 32, 33, 64} { // by the definition
		runs = append(runs, newARRun(rng, order, 1, []int{1}, rng.IntN(200), true))
	}
	for _, order := range []int{16, 31, 32, 33, 64} { // the limits of a warp, and of a block's values
		for _, dim := range []int{1, 2, 7, 8, 9, 17} {
			if rng.IntN(share) > 0 {
				continue
			}
			runs = append(runs, newARRun(rng, order, dim, []int{1}, rng.IntN(200), false))
		}
	}
	for range shapes {
		fresh := []int{1}
		for range rng.IntN(4) {
			fresh = append(fresh, 1+rng.IntN(2)*rng.IntN(40))
		}
		order := 1 + rng.IntN(1+rng.IntN(ar.MaxOrder))
		runs = append(runs, newARRun(rng, order, 1+rng.IntN(2)*rng.IntN(20), fresh, max(0, rng.IntN(300)-100), order < 8))
	}
	for range 20 { // chains of one length, for the warps of a block
		runs = append(runs, newARRun(rng, 12, 1, []int{1, 1, 1}, 50, true))
	}
	var alone [][]detectors.Result
	for _, r := range runs {
		alone = append(alone, arExecute(t, e, r)...)
	}
	for i, got := range arExecute(t, e, runs...) {
		for k := range got {
			if !equalResults(&got[k], &alone[i][k]) {
				t.Errorf("%s: the result of task %d among others is not the one it has alone", runs[i].name, k)
			}
		}
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}

func equalResults(a, b *detectors.Result) bool {
	return slices.Equal(detectors.WordsOf(a.Scores), detectors.WordsOf(b.Scores)) && slices.Equal(a.Next, b.Next) &&
		slices.Equal(a.Detail, b.Detail)
}

// arRun is a chain of tasks.
type arRun struct {
	name   string
	d      detectors.Detector
	dim    int
	fresh  []int
	x      []float64       // all rows
	carry  detectors.Words // of the first task; empty: it is the first of its series
	define bool            // compare with the definition, not with the CPU's form
}

// newARRun is a chain on series of all kinds, of which the given number of samples are learnt before.
func newARRun(rng *rand.Rand, order, dim int, fresh []int, learnt int, define bool) *arRun {
	p := ar.OpParams{Order: order, Memory: 2 + rng.IntN(400), Novelty: rng.IntN(3) == 0}
	p.MinPoints = 1 + rng.IntN(min(p.Memory, 20))
	d, err := ar.New(p)
	if err != nil {
		panic(err)
	}
	r := &arRun{d: d, dim: dim, fresh: fresh, define: define}
	rows := learnt + order
	for _, f := range fresh {
		rows += f
	}
	all := detectors.Signals(rng)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	c := detectors.NewCase(fmt.Sprintf("%+v, %d learnt", p, learnt), d, dim, learnt, fresh, all...)
	r.name, r.x = c.Name, c.Rows
	if learnt == 0 {
		return r
	}
	method := &ar.Params{Order: order, Memory: p.Memory}
	n := method.Words()
	r.carry = make(detectors.Words, dim*n)
	for c := range dim {
		column := make([]float64, rows)
		for i := range column {
			column[i] = r.x[i*dim+c]
		}
		words := r.carry[c*n : (c+1)*n]
		var s ar.State
		s.Init(method, column[:order])
		s.Store(words)
		for i := range learnt {
			s.Load(method, words)
			s.Step(method, column[i:i+order+1])
			s.Store(words)
		}
	}
	r.x = r.x[learnt*dim:]
	return r
}

// arExecute executes the runs as one batch; one alone is compared with the definition or with the CPU's form.
func arExecute(t *testing.T, e *Executor, runs ...*arRun) (results [][]detectors.Result) {
	b := e.Batch()
	defer e.Release(b)
	for _, r := range runs {
		params, end := b.Put(r.d.Params()), r.d.Window()-1
		carry, after := detectors.Span{}, uint32(0)
		if len(r.carry) > 0 {
			carry = b.Put(r.carry)
		}
		for _, f := range r.fresh {
			end += f
			rows := r.d.Window() + f - 1
			n, ok := r.d.Size(detectors.View{Dim: r.dim, Rows: rows, Fresh: f})
			if !ok {
				t.Fatalf("%s: no task", r.name)
			}
			task := detectors.Task{Op: ar.Op, Dim: uint32(r.dim), Fresh: uint32(f), After: after, Params: params, Carry: carry}
			span, x := b.GrowF64(rows * r.dim)
			copy(x, r.x[(end-rows)*r.dim:])
			task.X = span
			b.GrowOutputs(&task, n)
			b.Tasks = append(b.Tasks, task)
			carry, after = detectors.Span{}, uint32(len(b.Tasks))
		}
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, r := range runs {
		var chain []detectors.Result
		for k := range r.fresh {
			rows := b.Rows(i)
			got := detectors.Result{Scores: slices.Clone(rows.Scores), Next: slices.Clone(rows.Next), Detail: slices.Clone(rows.Detail)}
			if len(runs) == 1 {
				want := detectors.Result{Scores: make([]float32, len(got.Scores)), Next: make(detectors.Words, len(got.Next)),
					Detail: make(detectors.Words, len(got.Detail))}
				rows.Scores, rows.Next, rows.Detail = want.Scores, want.Next, want.Detail
				if r.define {
					ar.Op.Spec().Score(rows)
				} else {
					ar.Op.Spec().CPU(context.Background(), &rows, detectors.Sequential)
				}
				if err := ar.Op.Spec().Compare(&rows, got, want); err != nil {
					t.Errorf("%s, task %d: %v", r.name, k, err)
				}
			}
			chain = append(chain, got)
			i++
		}
		results = append(results, chain)
	}
	return results
}
