//go:build linux

package cuda

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// costOf estimates the cost of tasks in nanoseconds from a sample of them.
func costOf(b *detectors.Batch, tasks []int32) (cost int) {
	step := (len(tasks) + 63) / 64
	for k := 0; k < len(tasks); k += step {
		i := tasks[k]
		r := b.Rows(int(i))
		cost += step * b.Tasks[i].Op.Spec().Cost(&r)
	}
	return cost
}

// fallback scores tasks on the CPU.
type fallback struct {
	cpu     detectors.Executor
	helpers *detectors.Helpers

	cpuBatches, cpuTasks atomic.Uint64

	aside sync.Pool // *detectors.Words, of scoreConcurrently
}

// onCPU scores a whole batch.
func (f *fallback) onCPU(ctx context.Context, b *detectors.Batch) error {
	f.cpuBatches.Add(1)
	f.cpuTasks.Add(uint64(len(b.Tasks)))
	return f.cpu.Execute(ctx, b)
}

// score scores the CPU's tasks of this round.
func (f *fallback) score(ctx context.Context, p *plan.Progress, b *detectors.Batch) error {
	heads, next, tasks := p.Runs(b)
	if len(heads) == 0 {
		return nil
	}
	parallel := f.helpers.Parallel(ctx)
	f.helpers.Distribute(ctx, heads, next, costOf(b, tasks), func(r *detectors.Rows, i int32) {
		*r = b.Rows(int(i))
		b.Tasks[i].Op.Spec().CPU(ctx, r, parallel)
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	f.cpuTasks.Add(uint64(p.Scored()))
	return nil
}

// asideOf returns n words that are 0: of an earlier batch, because it is megabytes where a series has a large state.
func (f *fallback) asideOf(n int) *detectors.Words {
	w, _ := f.aside.Get().(*detectors.Words)
	if w == nil {
		w = new(detectors.Words)
	}
	*w = slices.Grow((*w)[:0], n)[:n]
	clear(*w)
	return w
}

// scoreConcurrently begins to score the CPU's tasks of this round that do not wait for the device, while the
// device works. The device's copy of Out overwrites the block, so the CPU's outputs stay elsewhere
// until then. The returned function waits for the tasks, and with keep copies their outputs to Out.
func (f *fallback) scoreConcurrently(ctx context.Context, p *plan.Progress, b *detectors.Batch) (end func(keep bool) error) {
	heads, next, _ := p.Runs(b)
	mine := p.Concurrent()
	if len(mine) == 0 {
		return func(bool) error { return nil }
	}
	at := make(map[int32]uint32, len(mine))
	n := uint32(0)
	for _, i := range mine {
		at[i] = n
		n += b.Tasks[i].Scores.Len + b.Tasks[i].Next.Len + b.Tasks[i].Detail.Len
	}
	// The batch may move, but its present memory stays until the next Execute.
	here, pooled := *b, f.asideOf(int(n))
	aside := *pooled
	outputs := func(i int32) (scores, next, detail detectors.Words) {
		t := &here.Tasks[i]
		o := aside[at[i]:]
		to := t.Scores.Len + t.Next.Len
		return o[:t.Scores.Len:t.Scores.Len], o[t.Scores.Len:to:to], o[to:][:t.Detail.Len:t.Detail.Len]
	}
	cost, parallel := costOf(&here, mine), f.helpers.Parallel(ctx)
	ended := make(chan struct{})
	var caught detectors.Caught
	distribute := func() {
		f.helpers.Distribute(ctx, heads, next, cost, func(r *detectors.Rows, i int32) {
			*r = here.Rows(int(i))
			scores, next, detail := outputs(i)
			r.Scores, r.Next, r.Detail = scores.F32(), next, detail
			if from := plan.Before(&here, int(i)); from >= 0 {
				if _, apart := at[from]; apart {
					_, r.Carry, _ = outputs(from)
				}
			}
			here.Tasks[i].Op.Spec().CPU(ctx, r, parallel)
		})
	}
	go func() {
		defer close(ended)
		caught.Run(distribute)
	}()
	return func(keep bool) error {
		<-ended
		caught.Again()
		defer f.aside.Put(pooled)
		if err := ctx.Err(); err != nil || !keep {
			return err
		}
		for _, i := range mine {
			t := &b.Tasks[i]
			scores, next, detail := outputs(i)
			copy(b.Out[t.Scores.Off:], scores)
			copy(b.Out[t.Next.Off:], next)
			copy(b.Out[t.Detail.Off:], detail)
		}
		p.Done(mine)
		f.cpuTasks.Add(uint64(len(mine)))
		return nil
	}
}
