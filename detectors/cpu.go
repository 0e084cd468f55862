package detectors

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// Limits of a CPU executor's batches: about a tenth of a second of one core's work, so
// that batches end often. The arenas grow past them for a key that needs more.
const (
	cpuMaxTasks = 1 << 16
	cpuMaxIn    = 1 << 24
	cpuMaxOut   = 1 << 24
)

// splitCost is the cost in nanoseconds from which a batch is split among goroutines; one
// below it runs in the caller's.
const splitCost = 100_000

// NewCPU returns an executor that runs the ops' CPU forms on at most workers cores;
// 0 means GOMAXPROCS. The caller of Execute works too, and all concurrent callers share
// the helpers, so that more than workers goroutines run only where there are more callers.
func NewCPU(workers int) Executor {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &cpu{helpers: NewHelpers(workers - 1), maxFree: 2*workers + 2}
}

type cpu struct {
	helpers *Helpers
	maxFree int // batches kept for reuse

	mu   sync.Mutex
	free []*Batch
}

func (c *cpu) Batch() *Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		b.Reset()
		return b
	}
	return &Batch{MaxTasks: cpuMaxTasks, MaxIn: cpuMaxIn, MaxOut: cpuMaxOut}
}

func (c *cpu) Release(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) < c.maxFree {
		c.free = append(c.free, b)
	}
}

func (c *cpu) Close() error { return nil }

func (c *cpu) Execute(ctx context.Context, b *Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("detectors: execute: %w", err)
	}
	parallel := Parallel(Sequential)
	if c.helpers.Cap() == 0 {
		parallel = c.helpers.Parallel(ctx) // it checks ctx
	} else if cost := costOf(b); cost >= splitCost {
		return c.split(ctx, b, cost)
	}
	r := rowsPool.Get().(*Rows)
	defer rowsPool.Put(r)
	for i := range b.Tasks {
		if i&0xff == 0xff && ctx.Err() != nil {
			break
		}
		b.Resolve(i, r)
		specs[b.Tasks[i].Op].CPU(ctx, r, parallel)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("detectors: execute: %w", err)
	}
	return nil
}

// rowsPool saves an allocation for each task: Rows escape because they are passed through the op table.
var rowsPool = sync.Pool{New: func() any { return new(Rows) }}

// costOf estimates the cost of a batch from a sample of its tasks: visiting each task would double the
// work of tasks of a few nanoseconds.
func costOf(b *Batch) int {
	const sample = 64
	r := rowsPool.Get().(*Rows)
	defer rowsPool.Put(r)
	cost, step := 0, (len(b.Tasks)+sample-1)/sample
	for i := 0; i < len(b.Tasks); i += step {
		b.Resolve(i, r)
		cost += step * specs[b.Tasks[i].Op].Cost(r)
	}
	return cost
}

// split distributes chains among helpers. A chain, the tasks linked by After, stays
// on one goroutine and in order; a long task divides its work among helpers that
// have no chain to work on.
func (c *cpu) split(ctx context.Context, b *Batch, cost int) error {
	chains := chainsOf(b)
	parallel := c.helpers.Parallel(ctx)
	c.helpers.Distribute(ctx, chains.heads, chains.next, cost, func(r *Rows, i int32) {
		b.Resolve(int(i), r)
		specs[b.Tasks[i].Op].CPU(ctx, r, parallel)
	})
	chainPool.Put(chains)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("detectors: execute: %w", err)
	}
	return nil
}

// chains are a batch's tasks grouped by the first task of their chain.
type chains struct {
	heads []int32 // tasks without a predecessor
	next  []int32 // the next task of the same chain; -1 at its end
	last  []int32 // by head: the last task so far; by other tasks: their head, negated
}

var chainPool = sync.Pool{New: func() any { return new(chains) }}

func chainsOf(b *Batch) *chains {
	c := chainPool.Get().(*chains)
	c.heads, c.next, c.last = c.heads[:0], c.next[:0], c.last[:0]
	for i := range int32(len(b.Tasks)) {
		c.next = append(c.next, -1)
		c.last = append(c.last, i)
		if after := int32(b.Tasks[i].After); after == 0 {
			c.heads = append(c.heads, i)
		} else {
			if after > i {
				panic(fmt.Sprintf("detectors: task %d is linked after task %d", i, after-1))
			}
			head := after - 1
			if b.Tasks[head].After != 0 {
				head = ^c.last[head]
			}
			c.next[c.last[head]] = i
			c.last[head] = i
			c.last[i] = ^head
		}
	}
	return c
}
