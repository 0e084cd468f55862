//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cuda/child"
	"odradek/cuda/plan"
	"odradek/detectors"
)

// A partition has one batch in flight, so with few partitions one device would work while the others
// wait. A long batch is therefore cut into parts, one for each idle device: runs of tasks by their
// index, of similar cost, which no chain crosses. A task's result depends on that task alone, so the
// device does not matter. The work in a few long tasks is divided, where their op can: each part has
// all tasks and does its portion of each. Where all devices are busy, batches are not cut.

// leastPart is the least planned work of a part, in nanoseconds. A request with its reply takes 15 us,
// the copies and launches that a device does not overlap about 50.
var leastPart int64 = 500_000

// maxParts is the number of parts that a batch's memory has room for.
const maxParts = 16

// attempt is a plan sent to a device, and its outcome.
type attempt struct {
	plan *plan.Planner
	d    *child.Device
	c    *child.Process
	load int64 // planned work, part of the device's Load, ns

	models [][32]byte // in use on the device

	refused, err error
	stuck        bool // the device's child does not end
}

// part is an attempt to execute a part of a plan.
type part struct {
	attempt
	plan.Part
}

// dispatcher executes plans on devices.
type dispatcher struct {
	devices       devices
	memories      *memories
	log           *slog.Logger
	lost, refused atomic.Uint64

	logging       sync.Mutex
	refusalLogged time.Time // when a refused batch was last logged
}

// mostLosses is the largest number of consecutive rounds in which a batch is lost as a whole with its
// device. After them the CPU scores it, or it waits for a device.
const mostLosses = 2

// dispatch executes the plan of this round: on all idle devices where splitting
// pays, or on the device with the least work. The tasks of a lost device
// wait for the next round. taken is false where no device takes the plan, or none may. The error is
// that of ctx.
func (e *dispatcher) dispatch(ctx context.Context, h *batchState) (taken bool, err error) {
	attempts := e.split(h)
	if attempts == nil {
		attempts = e.whole(h)
	}
	if attempts == nil {
		return false, nil
	}
	run := func(t *attempt) {
		t.refused, t.err = e.onChild(ctx, t.d, t.c, h.memory, t.plan.Request())
		t.stuck = t.err != nil && t.c.Failed() != nil && !t.c.Ends()
	}
	if len(attempts) == 1 {
		run(attempts[0])
	} else {
		var wait sync.WaitGroup
		for _, t := range attempts {
			wait.Go(func() { run(t) })
		}
		wait.Wait()
	}
	release(attempts, true)
	return e.outcome(ctx, h, attempts)
}

// outcome records the results of this round's plan. Scored tasks are done, declined ones go to the CPU,
// those of a lost device wait for the next round, and a part without room goes to the CPU.
func (e *dispatcher) outcome(ctx context.Context, h *batchState, attempts []*attempt) (taken bool, err error) {
	p, whole := &h.plan, len(attempts) == 1
	stuck := false
	taken = true
	var portions []*plan.Planner // of a divided plan, done
	for _, t := range attempts {
		switch {
		case t.refused != nil:
			e.refuse(h, t.refused)
			if taken = taken && !whole; taken {
				p.ToCPU(t.plan)
				p.Lost(t.plan)
			}
		case t.err == nil && t.plan.Divided():
			portions = append(portions, t.plan)
		case t.err == nil:
			p.ReadStatus(h.Batch, t.plan, h.memory.status(t.plan.Request()))
		case ctx.Err() != nil && t.c.Failed() == nil:
			err = t.err
		default:
			e.lost.Add(1)
			h.deaths++
			if whole {
				h.losses++
			}
			stuck = stuck || t.stuck
			if taken {
				p.Lost(t.plan)
			}
		}
	}
	if len(portions) > 0 && len(portions) == len(attempts) {
		p.ReadStatus(h.Batch, portions[0], plan.Merge(h.Batch, &h.memory.Memory, portions))
	}
	if stuck && !e.memories.abandon(h) {
		taken = false // not in shared memory
	}
	return taken, err
}

// release subtracts attempts from their devices' load, and ends their use of models there.
func release(attempts []*attempt, executed bool) {
	for _, t := range attempts {
		t.d.Load.Add(-t.load)
		t.c.Models().Done(t.models, executed && t.err == nil && t.refused == nil)
		t.models = nil
	}
}

// place finds places for the models that an attempt's plan needs on its device. It returns false where
// there is no room.
func (t *attempt) place(b *detectors.Batch) bool {
	t.plan.Places = t.plan.Models(b)
	for i := range t.plan.Places {
		o := &t.plan.Places[i]
		var ok bool
		if o.At, o.Upload, ok = t.c.Models().Use(o.Model.Sum(), 4*len(o.Model.Words())); !ok {
			t.c.Models().Done(t.models, false)
			t.models = nil
			return false
		}
		t.models = append(t.models, o.Model.Sum())
	}
	return true
}

// whole writes the plan of this round for the device with the least work; it returns nil where there
// is none.
func (e *dispatcher) whole(h *batchState) []*attempt {
	p, t := &h.plan, &h.one
	*t = attempt{plan: p}
	if h.losses < mostLosses {
		t.d, t.c = e.devices.pick()
	}
	if t.d == nil {
		return nil
	}
	if !t.place(h.Batch) {
		e.refuse(h, errors.New("its models are too large"))
		return nil
	}
	t.plan.SMs = t.c.SMs
	if !e.write(h, p) {
		t.c.Models().Done(t.models, false)
		e.refuse(h, errors.New("its plan is too large"))
		return nil
	}
	t.load = h.work(p)
	t.d.Load.Add(t.load)
	h.attempts = append(h.attempts[:0], t)
	return h.attempts
}

// split writes parts of the plan of this round for all idle devices: portions of the work in each task, or runs of
// tasks. It returns nil where fewer than two are idle, the plan is too small, or chains cross every cut.
func (e *dispatcher) split(h *batchState) []*attempt {
	p := &h.plan
	if len(e.devices) < 2 || h.losses > 0 || !p.NoneDone() || h.work(p) < 2*leastPart {
		return nil
	}
	parts := e.devices.claim(h)
	plans, cut := make([]*plan.Planner, len(parts)), make([]*plan.Part, len(parts))
	h.attempts = h.attempts[:0]
	for k, t := range parts {
		plans[k], cut[k] = &t.Planner, &t.Part
		h.attempts = append(h.attempts, &t.attempt)
	}
	for _, t := range h.attempts {
		t.plan.SMs = t.c.SMs
	}
	place := func(t *attempt) bool { return t.place(h.Batch) }
	shared := len(parts) > 1 && (plan.Divide(p, h.Batch, &h.memory.Memory, cut) || p.Cut(h.Batch, cut))
	if !shared || !all(h.attempts, place) || !e.write(h, plans...) || !plan.Apart(cut) {
		release(h.attempts, false)
		return nil
	}
	return h.attempts
}

// all reports whether do returns true for every attempt, and stops at the first false.
func all(attempts []*attempt, do func(*attempt) bool) bool {
	return !slices.ContainsFunc(attempts, func(t *attempt) bool { return !do(t) })
}

// notWritten is the status word before the device has written it.
const notWritten = 0xffffffff

// work estimates the time of a plan of the batch on a device, in nanoseconds.
func (h *batchState) work(p *plan.Planner) int64 { return p.Work(4 * (len(h.In) + len(h.Out))) }

// mapTime is the time allowed for locking a batch's memory: 1 GiB takes 0.3 s.
const mapTime = 5 * time.Second

// onChild executes a request on a child. It returns the error of ctx, or one after which the child must
// be replaced. Without an error, the status words are valid.
func (e *dispatcher) onChild(ctx context.Context, d *child.Device, c *child.Process, m *memory, q *plan.Request) (
	refused, err error,
) {
	l, err := c.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Give(l)
	if refused, err = c.Map(l, m.ID, len(m.Bytes), m.path(), time.Now().Add(d.Allowance()+mapTime)); refused != nil || err != nil {
		return refused, err
	}
	if q.Models > 0 {
		if refused, err = c.TakeModels(l, time.Now().Add(d.Allowance())); refused != nil || err != nil {
			return refused, err
		}
	}
	status := m.status(q)
	for i := range status {
		status[i] = notWritten
	}
	allowance := d.Allowance()
	q.RoundLimit = uint64(allowance)
	r, err := c.Ask(l, &child.Request{Kind: child.KindExecute, Request: *q}, time.Now().Add(allowance*time.Duration(max(q.Rounds, 1))))
	if err != nil {
		return nil, err
	}
	if r.Code != child.CodeOK {
		return errors.New(r.Text), nil
	}
	for k, s := range status {
		if s > plan.StatusLeft && s != plan.StatusMore {
			c.Fail(fmt.Errorf("status %#x of task %d of %d", s, k, len(status)))
			return nil, c.Failed()
		}
	}
	d.Count(len(status)-q.Later, r.Nanos)
	return nil, nil
}

// write writes plans without common tasks after the used part of In, each with its request. It returns
// false where there is no room.
func (e *dispatcher) write(h *batchState, plans ...*plan.Planner) bool {
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
		if e.memories.move(h, bigger, false) != nil {
			return false
		}
	}
}

// refuse counts and logs a batch that finds no room.
func (e *dispatcher) refuse(h *batchState, why error) {
	e.refused.Add(1)
	h.refused = true
	e.logging.Lock()
	quiet := time.Since(e.refusalLogged) < time.Minute
	if !quiet {
		e.refusalLogged = time.Now()
	}
	e.logging.Unlock()
	if !quiet {
		e.log.Warn("a batch is scored on the CPU: the GPU has no room for it", "err", why, "tasks", len(h.Tasks), "bytes",
			4*(len(h.In)+len(h.Out)))
	}
}
