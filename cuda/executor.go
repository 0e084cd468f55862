//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cuda/child"
	"odradek/detectors"
)

// Executor runs batches on devices, and tasks that no device takes on the CPU.
type Executor struct {
	o       Options
	devices devices
	stop    context.CancelFunc
	running sync.WaitGroup

	memories   *memories
	dispatcher dispatcher
	fallback   fallback
	declined   atomic.Uint64 // tasks that their kernels declined
}

// Open starts a child for each device. It returns an error if no device can be used.
func Open(o Options) (*Executor, error) {
	if o.Child == "" {
		return nil, errors.New("cuda: no child program given")
	}
	def(&o.Lanes, 8)
	def(&o.Workers, runtime.GOMAXPROCS(0))
	def(&o.Deadline, 2*time.Second)
	def(&o.StartTimeout, 20*time.Second)
	def(&o.Retry, 500*time.Millisecond)
	def(&o.Memory, 1<<30)
	def(&o.Models, 256<<20)
	if len(o.Devices) == 0 {
		o.Devices = []int{0}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	memories := newMemories(o.Log, o.Memory, 2*o.Workers+2)
	e := &Executor{
		o: o, stop: stop, memories: memories,
		dispatcher: dispatcher{memories: memories, log: o.Log, wait: o.Wait},
		fallback:   fallback{cpu: detectors.NewCPU(o.Workers), helpers: detectors.NewHelpers(o.Workers - 1)},
	}
	children := child.Options{
		Program: o.Child, Args: o.Args, Env: o.Env, Lanes: o.Lanes, Deadline: o.Deadline, StartTimeout: o.StartTimeout,
		Retry: o.Retry, Models: o.Models, Log: o.Log,
	}
	faults := make([]error, len(o.Devices))
	for i, index := range o.Devices {
		d := child.NewDevice(&children, index)
		e.devices = append(e.devices, d)
		e.running.Go(func() { faults[i] = d.Open(ctx) })
	}
	memories.devices, e.dispatcher.devices = e.devices, e.devices
	e.running.Wait()
	if err := errors.Join(faults...); err != nil {
		_ = e.Close()
		return nil, fmt.Errorf("cuda: %w", err)
	}
	for _, d := range e.devices {
		if n := d.Stats().Shared; n > 0 && (memories.least == 0 || n < memories.least) {
			memories.least = n
		}
	}
	for _, d := range e.devices {
		e.running.Go(func() { d.Supervise(ctx) })
	}
	return e, nil
}

func def[T int | int64 | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// Close ends the children and frees all memory.
func (e *Executor) Close() error {
	e.stop()
	e.running.Wait()
	var faults []error
	for _, d := range e.devices {
		faults = append(faults, d.Close(e.o.Deadline))
	}
	e.memories.close()
	return errors.Join(append(faults, e.fallback.cpu.Close())...)
}

// Batch returns an empty batch in memory shared with the devices.
func (e *Executor) Batch() *detectors.Batch { return e.memories.newBatch() }

// Release returns a batch's memory.
func (e *Executor) Release(b *detectors.Batch) { e.memories.reuse(b) }

// Stats returns the counts so far.
func (e *Executor) Stats() Stats {
	s := Stats{
		CPUBatches: e.fallback.cpuBatches.Load(), CPUTasks: e.fallback.cpuTasks.Load(),
		Lost: e.dispatcher.lost.Load(), Refused: e.dispatcher.refused.Load(), Declined: e.declined.Load(),
	}
	for _, d := range e.devices {
		s.Devices = append(s.Devices, d.Stats())
	}
	s.Shared = e.memories.bytes()
	return s
}

// Execute follows the path of a launch in the package comment: on devices, and on the CPU where none takes the batch or a task of
// it. When ctx ends, Execute still waits for a batch that is on a device, because the device writes to its memory.
func (e *Executor) Execute(ctx context.Context, b *detectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cuda: execute: %w", err)
	}
	h := e.memories.state(b)
	if d, _ := e.devices.pick(); h == nil || d == nil && !e.o.Wait {
		return e.fallback.onCPU(ctx, b)
	}
	p, progress := &h.plan, &h.plan.Progress
	h.deaths, h.losses, h.refused = 0, 0, false
	p.Start(b)
	for first := true; progress.Left > 0; { // a round
		p.Assign(b)
		if first {
			first = false
			if p.Tasks == 0 {
				return e.fallback.onCPU(ctx, b)
			}
			if err := e.memories.ensureShared(h); err != nil {
				e.dispatcher.refuse(h, err)
				return e.fallback.onCPU(ctx, b)
			}
		}
		if p.Tasks > 0 {
			end := func(bool) error { return nil }
			if len(progress.CPU) > 0 {
				end = e.fallback.scoreConcurrently(ctx, progress, b)
			}
			next, err := e.dispatcher.dispatch(ctx, h)
			if also := end(next == nextRound && err == nil); err == nil {
				err = also
			}
			if err != nil {
				return fmt.Errorf("cuda: execute: %w", err)
			}
			switch next {
			case nextRound:
			case restOnCPU:
				continue
			case batchOnCPU:
				return e.fallback.onCPU(ctx, b)
			case startAgain:
				// Wait a limited number of times: this batch may be the cause of the fault.
				if !e.o.Wait || h.deaths >= mostDeaths {
					if e.o.Wait {
						e.o.Log.Warn("a batch is scored on the CPU, with other bits: children on GPUs have died with it", "children", h.deaths,
							"tasks", len(b.Tasks))
					}
					return e.fallback.onCPU(ctx, b)
				}
				if err := e.await(ctx); err != nil {
					return fmt.Errorf("cuda: execute: wait for a GPU: %w", err)
				}
				h.losses, h.refused, first = 0, false, true
				p.Start(b)
				continue
			}
		}
		if len(progress.CPU) > 0 {
			if err := e.fallback.score(ctx, progress, b); err != nil {
				return fmt.Errorf("cuda: execute: %w", err)
			}
		}
	}
	e.declined.Add(uint64(progress.Declined))
	return nil
}

// mostDeaths is the number of children that may die with a batch before the CPU scores it.
const mostDeaths = 4

// await polls until a device is in service, which takes 0.3 s or more.
func (e *Executor) await(ctx context.Context) error {
	for {
		if d, _ := e.devices.pick(); d != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
