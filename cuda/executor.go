//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// Executor runs batches on devices and, what these do not take, on the CPU.
type Executor struct {
	o       Options
	log     *slog.Logger
	cpu     detectors.Executor
	helpers chan struct{} // a token for each goroutine that helps to score
	devices []*device
	least   int // shared memory of a block, in bytes, on the device that has the least; 0: not known
	stop    context.CancelFunc
	running sync.WaitGroup

	cpuBatches, cpuTasks, lost, refused, declined atomic.Uint64

	mu     sync.Mutex
	held   map[*detectors.Batch]*held
	free   []*held
	shared int64     // bytes of all memories
	ids    []uint32  // that are free
	told   time.Time // when a refused batch was last logged
}

// held is a batch with its memory.
type held struct {
	*detectors.Batch
	memory  *memory   // nil: none was to be had, the batch is in the heap
	retired []*memory // what it lay in before this Execute
	plan    plan.Planner
	parts   []*part // of a plan that is split
	refused bool    // the device found no room for the plan
	deaths  int     // children that it was lost with in this Execute
}

// Open starts a child for each device. Its error says why there is none that
// can be used.
func Open(o Options) (*Executor, error) {
	if o.Child == "" {
		return nil, errors.New("cuda: no child program given")
	}
	def(&o.Lanes, 4)
	def(&o.Workers, runtime.GOMAXPROCS(0))
	def(&o.Deadline, 2*time.Second)
	def(&o.StartTimeout, 20*time.Second)
	def(&o.Retry, 500*time.Millisecond)
	def(&o.Memory, 1<<30)
	if len(o.Devices) == 0 {
		o.Devices = []int{0}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Executor{
		o: o, log: o.Log, ids: make([]uint32, maxMemories), cpu: detectors.NewCPU(o.Workers), helpers: make(chan struct{}, o.Workers-1),
		stop: stop, held: map[*detectors.Batch]*held{},
	}
	for i := range e.ids {
		e.ids[i] = uint32(maxMemories - 1 - i)
	}
	faults := make([]error, len(o.Devices))
	for i, index := range o.Devices {
		d := &device{o: &e.o, index: index}
		d.stats.Index = index
		e.devices = append(e.devices, d)
		e.running.Go(func() { faults[i] = d.open(ctx) })
	}
	e.running.Wait()
	if err := errors.Join(faults...); err != nil {
		_ = e.Close()
		return nil, err
	}
	for _, d := range e.devices {
		if n := d.stats.Shared; n > 0 && (e.least == 0 || n < e.least) {
			e.least = n
		}
	}
	for _, d := range e.devices {
		e.running.Go(func() { d.keep(ctx, e.log) })
	}
	return e, nil
}

func def[T int | int64 | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// Close ends the children and gives all memory back.
func (e *Executor) Close() error {
	e.stop()
	e.running.Wait()
	var faults []error
	for _, d := range e.devices {
		if c := d.serving(); c != nil {
			faults = append(faults, c.end(e.o.Deadline))
			d.mu.Lock()
			d.child, d.stats.Up, d.stats.Pid = nil, false, 0
			d.mu.Unlock()
		}
	}
	e.mu.Lock()
	for _, h := range e.held {
		e.release(h)
	}
	clear(e.held)
	e.free = nil
	e.mu.Unlock()
	e.running.Wait()
	return errors.Join(append(faults, e.cpu.Close())...)
}

// Stats are the counts so far.
func (e *Executor) Stats() Stats {
	s := Stats{
		CPUBatches: e.cpuBatches.Load(), CPUTasks: e.cpuTasks.Load(), Lost: e.lost.Load(), Refused: e.refused.Load(), Declined: e.declined.Load(),
	}
	for _, d := range e.devices {
		d.mu.Lock()
		s.Devices = append(s.Devices, d.stats)
		d.mu.Unlock()
	}
	e.mu.Lock()
	s.Shared = e.shared
	e.mu.Unlock()
	return s
}

// Execute is the path of a launch: see doc.go.
//
// When ctx ends, a batch that is on a device is waited for: the device writes
// to its memory.
func (e *Executor) Execute(ctx context.Context, b *detectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cuda: execute: %w", err)
	}
	e.mu.Lock()
	h := e.held[b]
	e.mu.Unlock()
	whole := func() error { return e.onCPU(ctx, b) }
	if len(b.Updates) > 0 {
		whole = func() error { return fmt.Errorf("cuda: execute: %w", detectors.ErrCacheLost) }
	}
	if h == nil || !e.o.Wait && !e.inService() {
		return whole()
	}
	for h.deaths = 0; ; {
		lost, err := e.execute(ctx, h, whole)
		if !lost {
			return err
		}
		// Not for ever: it may be this batch that breaks the device.
		if len(b.Updates) > 0 || !e.o.Wait || h.deaths >= mostDeaths {
			return whole()
		}
		if err := e.await(ctx); err != nil {
			return fmt.Errorf("cuda: execute: wait for a GPU: %w", err)
		}
	}
}

// mostDeaths is how many children a batch may be lost with before the CPU scores it.
const mostDeaths = 4

// await waits until a device is in service: 0.3 s or more, so that it may as well look
// now and then.
func (e *Executor) await(ctx context.Context) error {
	for !e.inService() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// execute is Execute on a device, or whole where none takes the batch. lost: no device
// was there for it, or not to the end, and it is to be done from the beginning.
func (e *Executor) execute(ctx context.Context, h *held, whole func() error) (lost bool, err error) {
	b := h.Batch
	p := &h.plan
	p.Start(b)
	h.refused = false
	for round := 0; p.Left() > 0; round++ {
		p.Assign(b)
		if p.Device() > 0 {
			if round == 0 && !e.settle(h) {
				return false, whole()
			}
			end := e.beside(ctx, p, b)
			taken, err := e.onDevice(ctx, h)
			if also := end(taken && err == nil); err == nil {
				err = also
			}
			switch {
			case err != nil:
				return false, fmt.Errorf("cuda: execute: %w", err)
			case !taken && !h.refused && (round == 0 || e.o.Wait):
				return true, nil
			case !taken && round == 0:
				return false, whole()
			case !taken:
				p.Force()
				continue
			}
		} else if round == 0 {
			return false, whole()
		}
		if p.Left() == 0 {
			break
		}
		if err := e.score(ctx, p, b); err != nil {
			return false, fmt.Errorf("cuda: execute: %w", err)
		}
	}
	e.declined.Add(uint64(p.Declined()))
	b.Updated()
	return false, nil
}

// onCPU scores all of a batch on the CPU.
func (e *Executor) onCPU(ctx context.Context, b *detectors.Batch) error {
	e.cpuBatches.Add(1)
	e.cpuTasks.Add(uint64(len(b.Tasks)))
	return e.cpu.Execute(ctx, b)
}

func (e *Executor) inService() bool {
	return slices.ContainsFunc(e.devices, func(d *device) bool { return d.healthy() != nil })
}

// pick is the device in service with the least work, nil for none; tried are
// those not to take.
func (e *Executor) pick(tried []*device) (best *device, c *child) {
	for _, d := range e.devices {
		if slices.Contains(tried, d) {
			continue
		}
		if s := d.healthy(); s != nil && (best == nil || d.load.Load() < best.load.Load()) {
			best, c = d, s
		}
	}
	return best, c
}

// notWritten is what a status word is before the device writes it.
const notWritten = 0xffffffff

// work is about how long a device has to do with a plan of the batch, in nanoseconds.
func (h *held) work(p *plan.Planner) int64 { return p.Work(4 * (len(h.In) + len(h.Out))) }

// onDevice executes the plan of this round, n tasks, on the device with the
// least work, or on all that have none, where that is worth it. A device that
// fails loses the batch to the next one, once; taken is false where the CPU has to
// score it. The error is that of ctx.
func (e *Executor) onDevice(ctx context.Context, h *held) (taken bool, err error) {
	p := &h.plan
	if p.Updates() > 0 {
		return e.onCache(ctx, h)
	}
	if done, err := e.onDevices(ctx, h); done || err != nil {
		return done, err
	}
	if !e.write(h, p) {
		e.refuse(h, errors.New("its plan is too large"))
		return false, nil
	}
	cost := h.work(p)
	var tried []*device
	for len(tried) < 2 {
		d, c := e.pick(tried)
		if d == nil {
			return false, nil
		}
		tried = append(tried, d)
		d.load.Add(cost)
		refused, err := e.onChild(ctx, d, c, h.memory, p.Request())
		d.load.Add(-cost)
		switch {
		case err == nil && refused == nil:
			p.Settle(h.Batch, h.memory.status(p.Request()))
			return true, nil
		case err == nil:
			e.refuse(h, refused)
			return false, nil
		case ctx.Err() != nil && c.failed() == nil:
			return false, err
		}
		e.lost.Add(1)
		h.deaths++
		if !c.ends() {
			if !e.abandon(h) || !e.write(h, p) {
				return false, nil
			}
			p.Request().CopyOut = true
		}
	}
	return false, nil
}

// ends waits until the device lets go of our memory; false: it takes too long.
func (c *child) ends() bool {
	select {
	case <-c.gone:
		return true
	case <-time.After(goneTimeout):
		return false
	}
}

// abandon moves a batch that a killed child may yet write to, and leaves that
// memory there for good. False: there is no other, the batch is in the heap.
func (e *Executor) abandon(h *held) bool {
	if e.move(h, h.memory.limits, true) == nil {
		return true
	}
	h.memory = nil
	h.In, h.Out = slices.Clone(h.In), slices.Clone(h.Out)
	return false
}

// mapTime is what locking a batch's memory may take besides: 1 GiB takes 0.3 s.
const mapTime = 5 * time.Second

// onChild executes a request on a child. An error is that of ctx, or the child
// is done with. Without one, the status words are 0 or 1.
func (e *Executor) onChild(ctx context.Context, d *device, c *child, m *memory, q *plan.Request) (refused, err error) {
	l, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	defer c.give(l)
	if refused, err = c.share(l, m, time.Now().Add(d.allowance()+mapTime)); refused != nil || err != nil {
		return refused, err
	}
	status := m.status(q)
	for i := range status {
		status[i] = notWritten
	}
	r, err := c.ask(l, &request{kind: kindExecute, Request: *q}, "", time.Now().Add(d.allowance()))
	if err != nil {
		return nil, err
	}
	if r.code != codeOK {
		return errors.New(r.text), nil
	}
	for k, s := range status {
		if s > plan.StatusLeft {
			c.fail(fmt.Errorf("status %#x of task %d of %d", s, k, len(status)))
			return nil, c.failed()
		}
	}
	d.count(len(status), r.nanos)
	return nil, nil
}

// write writes plans, which have no task in common, behind the used part of In,
// each with what asks for it. False: there is no room.
func (e *Executor) write(h *held, plans ...*plan.Planner) bool {
	for {
		m := h.memory
		end, status := plan.Align(4*len(h.In)), m.Out+plan.Align(4*len(h.Out))
		for _, p := range plans {
			if end, status = p.Write(h.Batch, &m.Memory, end, status); end > m.Out {
				break
			}
		}
		if end <= m.Out {
			return true
		}
		bigger := m.limits
		bigger.tasks += (end - m.Out + planBytes - 1) / planBytes
		if e.move(h, bigger, false) != nil {
			return false
		}
	}
}

// refuse counts and logs a batch that found no room.
func (e *Executor) refuse(h *held, why error) {
	e.refused.Add(1)
	h.refused = true
	e.mu.Lock()
	quiet := time.Since(e.told) < time.Minute
	if !quiet {
		e.told = time.Now()
	}
	e.mu.Unlock()
	if !quiet {
		e.log.Warn("a batch is scored on the CPU: the GPU has no room for it", "err", why, "tasks", len(h.Tasks), "bytes",
			4*(len(h.In)+len(h.Out)))
	}
}

// Measurement is how long a batch's launches take by themselves.
type Measurement struct {
	Median, Fastest time.Duration
	Copies          int // of the buffers that were used in turn, so that the L2 was cold
}

// Measure executes what a device takes of a batch, then its launches repeat times
// more, on up to rotate copies of its buffers in turn. For benchmarks.
func (e *Executor) Measure(ctx context.Context, b *detectors.Batch, repeat, rotate int) (m Measurement, err error) {
	e.mu.Lock()
	h := e.held[b]
	e.mu.Unlock()
	d, c := e.pick(nil)
	if s, ok := b.CacheMemory().(*cacheShare); ok {
		d, c = s.d, s.c
	}
	if h == nil || d == nil || !e.settle(h) {
		return m, errors.New("cuda: measure: no device in service, or the batch is not in its memory")
	}
	p := &h.plan
	p.Start(b)
	p.Assign(b)
	if p.Device() == 0 || !e.write(h, p) {
		return m, errors.New("cuda: measure: no device takes a task of this batch, or there is no room for its plan")
	}
	l, err := c.take(ctx)
	if err != nil {
		return m, fmt.Errorf("cuda: measure: %w", err)
	}
	defer c.give(l)
	limit := time.Now().Add(e.o.Deadline + mapTime + slack*time.Duration(repeat+1)*time.Duration(p.Work(0)))
	if refused, err := c.share(l, h.memory, limit); err != nil || refused != nil {
		return m, fmt.Errorf("cuda: measure: %w", errors.Join(err, refused))
	}
	q := request{kind: kindMeasure, repeat: uint32(repeat), rotate: uint32(rotate), Request: *p.Request()}
	q.CopyOut = true
	r, err := c.ask(l, &q, "", limit)
	if err == nil && r.code != codeOK {
		err = errors.New(r.text)
	}
	if err != nil {
		return m, fmt.Errorf("cuda: measure: %w", err)
	}
	return Measurement{time.Duration(r.nanos), time.Duration(r.a), int(r.b)}, nil
}
