//go:build linux

package cuda

import (
	"context"
	"sync"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// portion is how many nanoseconds of work a goroutine takes at a time.
const portion = 20_000

// portions is how many of the runs of tasks that begin at heads a goroutine takes
// at a time.
func portions(b *detectors.Batch, tasks, heads []int32) int {
	cost := 0
	step := (len(tasks) + 63) / 64
	for k := 0; k < len(tasks); k += step {
		i := tasks[k]
		r := b.Rows(int(i))
		cost += step * b.Tasks[i].Op.Spec().Cost(&r)
	}
	return max(1, len(heads)*portion/max(cost, 1))
}

// deal calls one with the tasks of all runs, each run in order, on as many
// goroutines as are free and on the caller's.
func (e *Executor) deal(ctx context.Context, heads, next []int32, each int, one func(r *detectors.Rows, i int32)) {
	e.helpers.Run(ctx, (len(heads)+each-1)/each, func(k int) {
		r := rowsPool.Get().(*detectors.Rows)
		defer rowsPool.Put(r)
		for _, head := range heads[k*each : min((k+1)*each, len(heads))] {
			for i := head; i >= 0; i = next[i] {
				one(r, i)
			}
		}
	})
}

// score scores the CPU's tasks of this round.
func (e *Executor) score(ctx context.Context, p *plan.Planner, b *detectors.Batch) error {
	heads, next, tasks := p.Runs(b)
	if len(heads) == 0 {
		return nil
	}
	parallel := e.helpers.Parallel(ctx)
	e.deal(ctx, heads, next, portions(b, tasks, heads), func(r *detectors.Rows, i int32) {
		*r = b.Rows(int(i))
		b.Tasks[i].Op.Spec().CPU(ctx, r, parallel)
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	e.cpuTasks.Add(uint64(p.Scored()))
	return nil
}

// beside begins to score those of the CPU's tasks of this round that do not wait for
// the device, while that works. Out comes back from there as one block, so what they
// leave is put aside until then. The function returned waits for them, and with
// keep puts it into its place.
func (e *Executor) beside(ctx context.Context, p *plan.Planner, b *detectors.Batch) (end func(keep bool) error) {
	heads, next, _ := p.Runs(b)
	mine := p.Beside()
	if len(mine) == 0 {
		return func(bool) error { return nil }
	}
	at := make(map[int32]uint32, len(mine))
	n := uint32(0)
	for _, i := range mine {
		at[i] = n
		n += b.Tasks[i].Scores.Len + b.Tasks[i].Next.Len + b.Tasks[i].Detail.Len
	}
	// Where the batch lies now; it may move, and this stays until the next Execute.
	here, aside := *b, make(detectors.Words, n)
	outputs := func(i int32) (scores, next, detail detectors.Words) {
		t := &here.Tasks[i]
		o := aside[at[i]:]
		to := t.Scores.Len + t.Next.Len
		return o[:t.Scores.Len:t.Scores.Len], o[t.Scores.Len:to:to], o[to:][:t.Detail.Len:t.Detail.Len]
	}
	each, parallel := portions(&here, mine, heads), e.helpers.Parallel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.deal(ctx, heads, next, each, func(r *detectors.Rows, i int32) {
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
	}()
	return func(keep bool) error {
		<-ended
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
		e.cpuTasks.Add(uint64(len(mine)))
		return nil
	}
}

var rowsPool = sync.Pool{New: func() any { return new(detectors.Rows) }}
