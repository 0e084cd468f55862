// Package executortest has the tests that every executor has to pass, and its benchmarks:
// all ops on all of their cases.
//
// Run compares an executor with the definitions. It checks that a task's result depends on that task
// alone, to the bit, that Execute writes only outputs, and that an executor with a device (Placer)
// scores the tasks there that its kernels take. Each run draws new inputs; ODRADEK_TEST_SEED repeats a
// run.
package executortest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"odradek/detectors"
	_ "odradek/detectors/ops" // the suite is of all ops
	"odradek/detectors/seedtest"
)

// guard is the number of sentinels around every span, and sentinel their bits:
// a NaN that no op computes.
const (
	guard    = 16
	sentinel = 0x7fc5ca1e
)

// Run tests the executor that newExecutor makes, without the parts that are
// named: definitions, mixed, costly, orders, sizes, concurrent, cancelled. Without definitions, which
// take most of the time, a task's result in a batch is still compared with the one that it
// has alone. Without costly, mixed has one of each op's costly cases.
func Run(t *testing.T, newExecutor func() detectors.Executor, without ...string) {
	part := func(name string, f func(t *testing.T)) {
		if !slices.Contains(without, name) {
			t.Run(name, f)
		}
	}
	rng := seedtest.New(t)

	var all []*chain
	for _, op := range detectors.Ops() {
		var chains []*chain
		for _, c := range op.Spec().Cases(rng) {
			chains = append(chains, newChain(c))
		}
		all = append(all, chains...)
		t.Run(op.String(), func(t *testing.T) {
			e := newExecutor()
			defer shut(t, e)
			define(t, e, op, chains, !slices.Contains(without, "definitions"))
		})
	}
	if t.Failed() {
		return
	}
	shuffled := slices.Clone(all)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	part("mixed", func(t *testing.T) {
		e := newExecutor()
		defer shut(t, e)
		chains := shuffled
		if slices.Contains(without, "costly") {
			had := map[detectors.Op]bool{}
			chains = slices.DeleteFunc(slices.Clone(chains), func(c *chain) bool {
				op := c.Detector.Op()
				left := had[op] && c.cost >= costly
				had[op] = had[op] || c.cost >= costly
				return left
			})
		}
		run(t, e, packShared(e, chains))
	})
	part("orders", func(t *testing.T) {
		e := newExecutor()
		defer shut(t, e)
		execute(t, e, all)
		execute(t, e, shuffled)
		run(t, e, packWhole(e, shuffled))
	})
	part("sizes", func(t *testing.T) {
		e := newExecutor()
		defer shut(t, e)
		for _, n := range []int{0, 1, 2, 3, 31, 32, 33, 255, 256, 257, 1023, 1025} {
			execute(t, e, pick(rng, all, n))
		}
	})
	part("concurrent", func(t *testing.T) {
		e := newExecutor()
		defer shut(t, e)
		var wg sync.WaitGroup
		for range 8 {
			batch := pick(rng, all, 100+rng.IntN(100))
			wg.Go(func() {
				for range 3 {
					execute(t, e, batch)
				}
			})
		}
		wg.Wait()
	})
	part("cancelled", func(t *testing.T) {
		e := newExecutor()
		defer shut(t, e)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		b := pack(e, pick(rng, all, 200))
		if err := e.Execute(ctx, b.batch); err == nil {
			t.Error("no error after the context was cancelled")
		}
		b.execute(t, e)
		e.Release(b.batch)
	})
}

// CheckOp compares an executor with the definition of one op, on cases drawn from rng:
// each task alone, and then all in one batch, where a task must have the result that
// it had alone. The error joins every fault. It serves the development of an op; an
// executor has to pass Run.
func CheckOp(e detectors.Executor, op detectors.Op, rng *rand.Rand) error {
	var f faults
	var chains []*chain
	for _, c := range op.Spec().Cases(rng) {
		chains = append(chains, newChain(c))
	}
	define(&f, e, op, chains, true)
	if len(f) == 0 {
		execute(&f, e, chains)
	}
	return errors.Join(f...)
}

// reporter is the part of *testing.T that checks use.
type reporter interface {
	Logf(format string, a ...any)
	Errorf(format string, a ...any)
}

// faults collects the errors of checks without a *testing.T.
type faults []error

func (f *faults) Logf(string, ...any) {}

func (f *faults) Errorf(format string, a ...any) {
	*f = append(*f, fmt.Errorf("executortest: "+format, a...))
}

// define executes the chains of an op task by task and, with compare, compares each result
// with the definition's.
func define(t reporter, e detectors.Executor, op detectors.Op, chains []*chain, compare bool) {
	where := follow(e, op)
	open, tasks := 0, 0
	for _, c := range chains {
		open += c.define(t, e, compare)
		tasks += len(c.tasks)
		where.scored(c.Name, len(c.tasks), c.CPU)
	}
	if open > mostOpen(tasks) {
		t.Errorf("the definition leaves %d of %d tasks open", open, tasks)
	}
	for _, err := range where.end() {
		t.Errorf("%v", err)
	}
}

func shut(t *testing.T, e detectors.Executor) {
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

const costly = 500_000 // of chain.cost

// pick draws n chains, the cheaper ones of all.
func pick(rng *rand.Rand, all []*chain, n int) []*chain {
	picked := make([]*chain, n)
	for i := range picked {
		for {
			picked[i] = all[rng.IntN(len(all))]
			if picked[i].cost < costly {
				break
			}
		}
	}
	return picked
}

// chain is a case cut into tasks, with the results that each gave alone.
type chain struct {
	detectors.Case
	rows    []float64 // centred
	tasks   []input
	results []detectors.Result
	cost    int
}

// input is a task's part of the case's rows.
type input struct {
	x     []float64
	at    int // of the case's rows, in numbers
	fresh int
	size  detectors.Outputs
}

func newChain(c detectors.Case) *chain {
	ch := &chain{Case: c}
	// Rows reach a batch centred on an origin, as the window's owner keeps them.
	rows := slices.Clone(c.Rows)
	first := 0
	if _, timed := c.Detector.(detectors.Timed); timed {
		first = 1 // times are as they are
	}
	for v := first; v < c.Dim; v++ {
		sum, n := 0.0, 0
		for i := v; i < len(rows); i += c.Dim {
			if rows[i] == rows[i] {
				sum += rows[i]
				n++
			}
		}
		if c.Detector.Op().Elem() != detectors.I64 && n > 0 {
			for i := v; i < len(rows); i += c.Dim {
				rows[i] -= sum / float64(n)
			}
		}
	}
	ch.rows = rows
	end := len(rows) / c.Dim
	for _, f := range c.Fresh {
		end -= f
	}
	for _, f := range c.Fresh {
		end += f
		n := min(end, detectors.TaskRows(c.Detector, f))
		size, ok := c.Detector.Size(detectors.View{Dim: c.Dim, Rows: n, Fresh: f})
		if d, sparing := c.Detector.(detectors.Sparing); sparing {
			turn := detectors.Position{Count: int64(end), Fresh: f, Carried: len(ch.tasks) > 0}
			if first > 0 {
				turn.Before, turn.Newest = int64(rows[(end-f-1)*c.Dim]), int64(rows[(end-1)*c.Dim])
			}
			n = min(n, d.Reads(turn))
		}
		in := input{x: rows[(end-n)*c.Dim : end*c.Dim], at: (end - n) * c.Dim, fresh: f, size: size}
		if !ok {
			panic("executortest: " + c.Name + ": too little history for the detector")
		}
		ch.tasks = append(ch.tasks, in)
	}
	return ch
}

// reacher is a detector with at most one finding per fresh row, each of which covers the same rows
// relative to it. Where there are fewer, the last is of the newest row.
type reacher interface{ Reach() (from, to int) }

// mostOpen returns how many of the tasks may be open (detectors.ErrOpen).
func mostOpen(tasks int) int { return tasks / 50 }

// define executes the chain task by task, passing the carry by hand, and, with compare,
// compares each result with the definition's of the same task. It returns how many are
// open.
func (c *chain) define(t reporter, e detectors.Executor, compare bool) (open int) {
	op := c.Detector.Op()
	var carry detectors.Words
	for i, in := range c.tasks {
		b := batch{batch: e.Batch()}
		b.addTask(c, in, carry, 0)
		b.execute(t, e)
		r := b.batch.Rows(0)
		got := detectors.Result{Scores: slices.Clone(r.Scores), Next: slices.Clone(r.Next), Detail: slices.Clone(r.Detail)}
		if compare {
			want := detectors.Result{
				Scores: make([]float32, in.size.Scores), Next: make(detectors.Words, in.size.Carry), Detail: make(detectors.Words, in.size.Detail),
			}
			d := r
			d.Scores, d.Next, d.Detail = want.Scores, want.Next, want.Detail
			op.Spec().Score(d)
			switch err := op.Spec().Compare(&r, got, want); {
			case errors.Is(err, detectors.ErrOpen):
				open++
				t.Logf("%s: task %d: %v", c.Name, i, err)
			case err != nil:
				t.Errorf("%s: task %d: %v", c.Name, i, err)
			}
		}
		findings := c.Detector.AppendFindings(nil, r)
		for k, f := range findings {
			if d, ok := c.Detector.(reacher); ok {
				from, to := d.Reach()
				at := r.Len() - in.fresh + f.Fresh
				misplaced := f.Fresh != k
				if len(findings) < in.fresh {
					misplaced = k > 0 && f.Fresh <= findings[k-1].Fresh || k == len(findings)-1 && f.Fresh != in.fresh-1
				}
				if misplaced || f.From != at-from || f.To != at-to {
					t.Errorf("%s: task %d: finding %+v of row %d, where Reach says %d to %d before it", c.Name, i, f, at, from, to)
				}
			}
			if f.Fresh < 0 || f.Fresh >= in.fresh || f.From > f.To || f.From < 0 || f.To >= r.Len() {
				t.Errorf("%s: task %d: finding %+v does not lie in the task's %d rows, %d of them fresh", c.Name, i, f, r.Len(), in.fresh)
			}
		}
		c.cost += op.Spec().Cost(&r)
		c.results = append(c.results, got)
		carry = got.Next
		e.Release(b.batch)
	}
	return open
}

// execute runs the chains in one batch, their tasks linked, and demands the
// results that each task gave alone.
func execute(t reporter, e detectors.Executor, chains []*chain) { run(t, e, pack(e, chains)) }

func run(t reporter, e detectors.Executor, b *batch) {
	b.execute(t, e)
	task := 0
	for _, link := range b.order {
		c := link.chain
		r := b.batch.Rows(task)
		want := c.results[link.task]
		if !equal(r.Scores, want.Scores) || !slices.Equal(r.Next, want.Next) || !slices.Equal(r.Detail, want.Detail) {
			t.Errorf("%s: task %d: the result among %d tasks is not the one it has alone", c.Name, link.task, len(b.batch.Tasks))
		}
		task++
	}
	e.Release(b.batch)
}

// batch is a batch with guards and its content before the execution.
type batch struct {
	batch  *detectors.Batch
	order  []link
	params map[detectors.Detector]detectors.Span
	shared map[*chain]detectors.Span // the rows of all of a chain's tasks; nil: each has its own
}

type link struct {
	chain *chain
	task  int
}

// pack puts the first tasks of all chains into a batch, then the second, and so
// on, linked.
func pack(e detectors.Executor, chains []*chain) *batch {
	return (&batch{batch: e.Batch()}).pack(chains)
}

// packShared is pack with overlapping X: tasks of a chain share their common rows, as tasks
// of a window's owner do.
func packShared(e detectors.Executor, chains []*chain) *batch {
	return (&batch{batch: e.Batch(), shared: map[*chain]detectors.Span{}}).pack(chains)
}

func (b *batch) pack(chains []*chain) *batch {
	last := make([]uint32, len(chains))
	for i := 0; ; i++ {
		more := false
		for k, c := range chains {
			if i < len(c.tasks) {
				more = true
				b.addTask(c, c.tasks[i], nil, last[k])
				last[k] = uint32(len(b.batch.Tasks))
				b.order = append(b.order, link{c, i})
			}
		}
		if !more {
			return b
		}
	}
}

// packWhole puts the tasks of one chain after the tasks of the other.
func packWhole(e detectors.Executor, chains []*chain) *batch {
	b := &batch{batch: e.Batch()}
	for _, c := range chains {
		last := uint32(0)
		for i, in := range c.tasks {
			b.addTask(c, in, nil, last)
			last = uint32(len(b.batch.Tasks))
			b.order = append(b.order, link{c, i})
		}
	}
	return b
}

func (b *batch) addTask(c *chain, in input, carry detectors.Words, after uint32) {
	t := detectors.Task{Op: c.Detector.Op(), Dim: uint32(c.Dim), Fresh: uint32(in.fresh), After: after}
	b.guards()
	if b.params == nil {
		b.params = map[detectors.Detector]detectors.Span{}
	}
	span, ok := b.params[c.Detector]
	if !ok {
		span = b.words(c.Detector.Params())
		b.params[c.Detector] = span
	}
	t.Params = span
	if b.shared == nil {
		t.X = b.rows(t.Op, in.x)
	} else {
		all, ok := b.shared[c]
		if !ok {
			all = b.rows(t.Op, c.rows[c.tasks[0].at:])
			b.shared[c] = all
		}
		t.X = detectors.Span{Off: all.Off + uint32(in.at-c.tasks[0].at), Len: uint32(len(in.x))}
	}
	t.Bins = b.words(detectors.WordsOf(c.Bins))
	if d, ok := c.Detector.(detectors.Modelled); ok {
		t.Model = b.batch.Model(d.Model())
	}
	if carry != nil {
		t.Carry = b.words(carry)
	}
	t.Scores = b.batch.GrowOut(in.size.Scores)
	b.guards()
	t.Next = b.batch.GrowOut(in.size.Carry)
	b.guards()
	t.Detail = b.batch.GrowOut(in.size.Detail)
	b.guards()
	b.batch.Tasks = append(b.batch.Tasks, t)
}

// rows packs values as an op's elements.
func (b *batch) rows(op detectors.Op, values []float64) (s detectors.Span) {
	switch op.Elem() {
	case detectors.F32:
		x := make([]float32, len(values))
		for i, v := range values {
			x[i] = float32(v)
		}
		s = b.words(detectors.WordsOf(x))
	case detectors.F64:
		var x []float64
		s, x = b.batch.GrowF64(len(values))
		copy(x, values)
	case detectors.I64:
		var x []int64
		s, x = b.batch.GrowI64(len(values))
		for i, v := range values {
			x[i] = int64(v)
		}
	}
	return s
}

// words puts w between guards.
func (b *batch) words(w detectors.Words) detectors.Span {
	s := b.batch.Put(w)
	b.guards()
	return s
}

// guards puts sentinels into both arenas.
func (b *batch) guards() {
	_, f := b.batch.GrowF32(guard)
	for i, w := 0, detectors.WordsOf(f); i < len(w); i++ {
		w[i] = sentinel
	}
	b.batch.GrowOut(guard)
}

// execute executes the batch and checks that all of the outputs and nothing
// else was written.
func (b *batch) execute(t reporter, e detectors.Executor) {
	for i := range b.batch.Out {
		b.batch.Out[i] = sentinel
	}
	tasks, in := slices.Clone(b.batch.Tasks), slices.Clone(b.batch.In)
	if err := e.Execute(context.Background(), b.batch); err != nil {
		t.Errorf("execute: %v", err)
		return
	}
	output := make([]bool, len(b.batch.Out))
	for _, task := range b.batch.Tasks {
		for _, s := range []detectors.Span{task.Scores, task.Next, task.Detail} {
			for i := s.Off; i < s.Off+s.Len; i++ {
				output[i] = true
			}
		}
	}
	for i, v := range b.batch.Out {
		if written := v != sentinel; written != output[i] {
			t.Errorf("element %d of the output arena: written %v, is an output %v", i, written, output[i])
			break
		}
	}
	if !slices.Equal(tasks, b.batch.Tasks) || !slices.Equal(in, b.batch.In) {
		t.Errorf("an input was changed")
	}
}

// equal compares bits.
func equal(x, y []float32) bool { return slices.Equal(detectors.WordsOf(x), detectors.WordsOf(y)) }

// Bench measures every op's cases for benchmarks: a batch of many keys, each
// with the case's chain, packed once.
func Bench(b *testing.B, newExecutor func() detectors.Executor) {
	for _, op := range detectors.Ops() {
		rng := rand.New(rand.NewPCG(1, 1))
		for _, c := range op.Spec().Cases(rng) {
			if !c.Bench {
				continue
			}
			b.Run(fmt.Sprintf("%s/%s", op, c.Name), func(b *testing.B) {
				e := newExecutor()
				defer func() { _ = e.Close() }()
				const keys = 64
				ch := newChain(c)
				chains := make([]*chain, keys)
				scores := 0
				for i := range chains {
					chains[i] = ch
					for _, in := range ch.tasks {
						scores += in.size.Scores
					}
				}
				batch := pack(e, chains)
				b.ReportAllocs()
				for b.Loop() {
					if err := e.Execute(context.Background(), batch.batch); err != nil {
						b.Fatal(err)
					}
				}
				total := float64(scores) * float64(b.N)
				b.ReportMetric(total/b.Elapsed().Seconds(), "scores/s")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/total, "ns/score")
			})
		}
	}
}
