package detectors

import (
	"context"
	"sync"
	"sync/atomic"
)

// Parallel runs f(0) to f(n-1), each once, in any order and perhaps several at a time,
// and returns when they have returned. Calls that have not begun when the task's
// context is done may be left out: the caller checks the context afterwards.
type Parallel func(n int, f func(i int))

// Sequential is a Parallel on one core, which leaves nothing out.
func Sequential(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

// LongTask is the cost in nanoseconds from which a task's CPU form divides its work.
// Dividing it takes some microseconds.
const LongTask = 2_000_000

// Helpers bounds the number of goroutines that help an executor's callers: the bound holds for all
// callers together, beside the callers' own goroutines.
type Helpers struct{ tokens chan struct{} }

// NewHelpers returns helpers of at most n goroutines; n may be 0.
func NewHelpers(n int) *Helpers { return &Helpers{make(chan struct{}, max(n, 0))} }

// Cap returns the most goroutines that help at a time.
func (h *Helpers) Cap() int { return cap(h.tokens) }

// Run is a Parallel for tasks of ctx. The caller's goroutine works as well, and takes
// in helpers that become free meanwhile. If f panics, no further call begins, and Run panics with
// a *Panic when all calls have ended.
func (h *Helpers) Run(ctx context.Context, n int, f func(i int)) {
	if n == 1 || cap(h.tokens) == 0 {
		for i := 0; i < n && ctx.Err() == nil; i++ {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var caught Caught
	help := func() {
		for ctx.Err() == nil && !caught.Any() {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			caught.Run(func() { f(i) })
		}
	}
	helping := 0
	for ctx.Err() == nil && !caught.Any() {
		i := int(next.Add(1)) - 1
		if i >= n {
			break
		}
	lend:
		for helping < min(cap(h.tokens), n-1-i) {
			select {
			case h.tokens <- struct{}{}:
				helping++
				wg.Go(func() {
					help()
					<-h.tokens
				})
			default:
				break lend
			}
		}
		caught.Run(func() { f(i) })
	}
	wg.Wait()
	caught.Again()
}

// portionCost is the cost in nanoseconds of the chains that Distribute gives a goroutine at a time.
const portionCost = 20_000

// Distribute calls one for each task of all chains, by Run. A chain begins with a head, and next has the task
// after each, -1 after the last. Each chain runs in order on one goroutine. cost is the estimated cost
// of all tasks together in nanoseconds. The Rows are scratch memory of one, and may contain the rows of an
// earlier task.
func (h *Helpers) Distribute(ctx context.Context, heads, next []int32, cost int, one func(r *Rows, task int32)) {
	each := max(1, len(heads)*portionCost/max(cost, 1))
	h.Run(ctx, (len(heads)+each-1)/each, func(k int) {
		r := rowsPool.Get().(*Rows)
		defer rowsPool.Put(r)
		for _, head := range heads[k*each : min((k+1)*each, len(heads))] {
			for i := head; i >= 0; i = next[i] {
				one(r, i)
			}
		}
	})
}

// Parallel returns Run for one context.
func (h *Helpers) Parallel(ctx context.Context) Parallel {
	return func(n int, f func(i int)) { h.Run(ctx, n, f) }
}
