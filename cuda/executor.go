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
	"odradek/cuda/plan"
	"odradek/detectors"
)

// Executor runs batches on devices, and tasks that no device takes on the CPU.
type Executor struct {
	o       Options
	devices devices
	stop    context.CancelFunc
	running sync.WaitGroup

	memories
	dispatcher
	fallback
	declined atomic.Uint64 // tasks that their kernels declined
}

// batchState is a batch with its memory.
type batchState struct {
	*detectors.Batch
	memory  *memory   // nil: no shared memory was available, the batch is in the heap
	retired []*memory // former memories, kept until the next Execute
	plan    plan.Planner
	refused bool // a device had no room for the plan
	deaths  int  // children that ended with the batch in this Execute
	losses  int  // consecutive losses of the whole batch

	parts    []*part // of a plan that is split
	one      attempt // at a plan that is not
	attempts []*attempt
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
	e := &Executor{
		o: o, stop: stop,
		memories:   memories{log: o.Log, limit: o.Memory, mostFree: 2*o.Workers + 2},
		dispatcher: dispatcher{log: o.Log},
		fallback:   fallback{cpu: detectors.NewCPU(o.Workers), helpers: detectors.NewHelpers(o.Workers - 1)},
	}
	e.memories.begin()
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
	e.memories.devices, e.dispatcher.devices, e.dispatcher.memories = e.devices, e.devices, &e.memories
	e.running.Wait()
	if err := errors.Join(faults...); err != nil {
		_ = e.Close()
		return nil, err
	}
	for _, d := range e.devices {
		if n := d.Stats().Shared; n > 0 && (e.least == 0 || n < e.least) {
			e.least = n
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
	e.memories.end()
	return errors.Join(append(faults, e.cpu.Close())...)
}

// Stats returns the counts so far.
func (e *Executor) Stats() Stats {
	s := Stats{
		CPUBatches: e.cpuBatches.Load(), CPUTasks: e.cpuTasks.Load(), Lost: e.lost.Load(), Refused: e.refused.Load(), Declined: e.declined.Load(),
	}
	for _, d := range e.devices {
		s.Devices = append(s.Devices, d.Stats())
	}
	s.Shared = e.bytes()
	return s
}

// Execute follows the path of a launch in the package comment. When ctx ends, Execute still waits for a
// batch that is on a device, because the device writes to its memory.
func (e *Executor) Execute(ctx context.Context, b *detectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cuda: execute: %w", err)
	}
	h := e.of(b)
	if h == nil || !e.o.Wait && !e.devices.inService() {
		return e.onCPU(ctx, b)
	}
	for h.deaths = 0; ; {
		lost, err := e.execute(ctx, h)
		if !lost {
			return err
		}
		// Wait a limited number of times: this batch may be the cause of the fault.
		if !e.o.Wait || h.deaths >= mostDeaths {
			return e.onCPU(ctx, b)
		}
		if err := e.await(ctx); err != nil {
			return fmt.Errorf("cuda: execute: wait for a GPU: %w", err)
		}
	}
}

// mostDeaths is the number of children that may die with a batch before the CPU scores it.
const mostDeaths = 4

// await polls until a device is in service, which takes 0.3 s or more.
func (e *Executor) await(ctx context.Context) error {
	for !e.devices.inService() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// execute is Execute on a device, or on the CPU where no device takes the batch. lost reports that no
// device completed the batch, which then has to be executed from the beginning.
func (e *Executor) execute(ctx context.Context, h *batchState) (lost bool, err error) {
	b := h.Batch
	p := &h.plan
	p.Start(b)
	h.refused, h.losses = false, 0
	for round := 0; p.Pending() > 0; round++ {
		p.Assign(b)
		if p.Device() > 0 {
			if round == 0 {
				if err := e.ensureShared(h); err != nil {
					e.refuse(h, err)
					return false, e.onCPU(ctx, b)
				}
			}
			end := e.scoreConcurrently(ctx, p, b)
			taken, err := e.dispatch(ctx, h)
			if also := end(taken && err == nil); err == nil {
				err = also
			}
			switch {
			case err != nil:
				return false, fmt.Errorf("cuda: execute: %w", err)
			case !taken && !h.refused && (p.NoneDone() || e.o.Wait):
				return true, nil
			case !taken && p.NoneDone():
				return false, e.onCPU(ctx, b)
			case !taken:
				p.AllToCPU()
				continue
			}
		} else if round == 0 {
			return false, e.onCPU(ctx, b)
		}
		if p.Pending() == 0 {
			break
		}
		if err := e.score(ctx, p, b); err != nil {
			return false, fmt.Errorf("cuda: execute: %w", err)
		}
	}
	e.declined.Add(uint64(p.Declined()))
	return false, nil
}
