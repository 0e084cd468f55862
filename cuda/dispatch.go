//go:build linux

package cuda

import (
	"context"
	"errors"
	"log/slog"
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

// fewTasks: where a device has one task in so many, or fewer, its In and Out are copied from the first of them to the last alone.
const fewTasks = 64

// attempt is a plan sent to a device, and its outcome.
type attempt struct {
	plan   *plan.Planner
	device *child.Device
	child  *child.Process
	load   int64      // planned work, part of the device's Load, ns
	models [][32]byte // in use on the device

	status       []uint32 // of the plan's tasks
	refused, err error
	stuck        bool // the device's child does not end
}

// dispatcher executes plans on devices.
type dispatcher struct {
	devices       devices
	memories      *memories
	log           *slog.Logger
	wait          bool // a batch may wait for a device
	lost, refused atomic.Uint64

	logging       sync.Mutex
	refusalLogged time.Time // when a refused batch was last logged
}

// mostLosses is the largest number of consecutive rounds in which a batch is lost as a whole with its
// device. After them the CPU scores it, or it waits for a device.
const mostLosses = 2

// next is how a batch goes on after a round on devices.
type next int

const (
	nextRound  next = iota // the CPU scores its tasks of this round, then the others are planned again
	restOnCPU              // the CPU scores all that is left, from the next round on
	batchOnCPU             // the CPU scores the whole batch
	startAgain             // no device has scored a task: the batch waits for one, or the CPU scores it
)

// dispatch executes the plan of this round: on all idle devices where splitting
// pays, or on the device with the least work. An error is ctx's.
func (d *dispatcher) dispatch(ctx context.Context, h *batchState) (next, error) {
	h.attempts, h.divided = h.attempts[:0], false
	if len(d.devices) < 2 || !d.split(h) {
		p, t := &h.plan, &h.one
		*t = attempt{plan: p}
		if h.losses < mostLosses {
			t.device, t.child = d.devices.pick()
		}
		switch {
		case t.device == nil:
		case p.ReadsModels && !t.placeModels(h.batch):
			d.refuse(h, errors.New("its models are too large"))
		default:
			p.SMs = t.child.SMs
			// With few tasks the device copies their range alone. Later, carries lie in Out.
			p.Narrowed = p.Progress.Left == len(h.batch.Tasks) && len(h.batch.Tasks) >= fewTasks*p.Tasks
			if !d.write(h, p) {
				release([]*attempt{t}, false)
				d.refuse(h, errors.New("its plan is too large"))
				break
			}
			t.load = p.Work
			t.device.Load.Add(t.load)
			h.attempts = append(h.attempts, t)
		}
	}
	execute := func(t *attempt) {
		t.status, t.refused, t.err = t.device.Execute(ctx, t.child, &h.memory.Memory, &t.plan.Request, h.deaths)
		t.stuck = t.err != nil && t.child.Failed() != nil && !t.child.Gone()
	}
	if len(h.attempts) == 1 {
		execute(h.attempts[0])
	} else {
		var wait sync.WaitGroup
		for _, t := range h.attempts {
			wait.Go(func() { execute(t) })
		}
		wait.Wait()
	}
	return d.outcome(ctx, h)
}

// outcome records the results of this round's attempts. Scored tasks are done, declined ones go to the CPU,
// a lost device's tasks wait for the next round, and a part without room goes to the CPU. Without an attempt
// no device takes the plan, or none may.
func (d *dispatcher) outcome(ctx context.Context, h *batchState) (n next, err error) {
	release(h.attempts, true)
	progress, whole := &h.plan.Progress, len(h.attempts) == 1
	taken, stuck := len(h.attempts) > 0, false
	var portions []*plan.Planner // of a divided plan, done
	for _, t := range h.attempts {
		switch {
		case t.refused != nil:
			d.refuse(h, t.refused)
			if taken = taken && !whole; taken {
				progress.ToCPU(t.plan)
				progress.Lost(t.plan)
			}
		case t.err == nil && h.divided:
			portions = append(portions, t.plan)
		case t.err == nil:
			progress.ReadStatus(h.batch, t.plan, t.status)
		case ctx.Err() != nil && t.child.Failed() == nil:
			err = t.err
		default:
			d.lost.Add(1)
			h.deaths++
			if whole {
				h.losses++
			}
			stuck = stuck || t.stuck
			if taken {
				progress.Lost(t.plan)
			}
		}
	}
	if len(portions) > 0 && len(portions) == len(h.attempts) {
		progress.ReadStatus(h.batch, portions[0], plan.Merge(h.batch, &h.memory.Memory, portions))
	}
	if stuck && !d.memories.abandon(h) {
		taken = false // not in shared memory
	}
	noneDone := progress.Left == len(h.batch.Tasks)
	switch {
	case taken || err != nil:
		return nextRound, err
	case !h.refused && (noneDone || d.wait):
		return startAgain, nil
	case noneDone:
		return batchOnCPU, nil
	}
	progress.AllToCPU()
	return restOnCPU, nil
}

// release subtracts attempts from their devices' load, and ends their use of models there.
func release(attempts []*attempt, executed bool) {
	for _, t := range attempts {
		t.device.Load.Add(-t.load)
		if t.models != nil {
			t.child.Models().Done(t.models, executed && t.err == nil && t.refused == nil)
			t.models = nil
		}
	}
}

// placeModels finds places for the models that an attempt's plan needs on its device. It returns false where
// there is no room.
func (a *attempt) placeModels(b *detectors.Batch) bool {
	a.plan.Models = a.plan.ModelsOf(b)
	for i := range a.plan.Models {
		o := &a.plan.Models[i]
		var ok bool
		if o.At, o.Upload, ok = a.child.Models().Use(o.Model.Sum(), 4*len(o.Model.Words())); !ok {
			a.child.Models().Done(a.models, false)
			a.models = nil
			return false
		}
		a.models = append(a.models, o.Model.Sum())
	}
	return true
}

// split writes parts of the plan of this round for all idle devices: portions of the work in each task, or runs of
// tasks. It returns false where fewer than two are idle, the plan is too small, or chains cross every cut.
func (d *dispatcher) split(h *batchState) bool {
	p := &h.plan
	if h.losses > 0 || p.Progress.Left < len(h.batch.Tasks) || p.Work < 2*leastPart {
		return false
	}
	d.devices.claim(h)
	parts := make([]*plan.Planner, len(h.attempts))
	for k, t := range h.attempts {
		parts[k] = t.plan
		t.plan.SMs = t.child.SMs
	}
	ok := len(parts) > 1
	if ok {
		h.divided = p.Divide(h.batch, &h.memory.Memory, parts)
		ok = h.divided || p.Cut(h.batch, parts)
	}
	for _, t := range h.attempts {
		ok = ok && (!p.ReadsModels || t.placeModels(h.batch))
	}
	if !ok || !d.write(h, parts...) || !plan.Apart(parts) {
		release(h.attempts, false)
		h.attempts, h.divided = h.attempts[:0], false
		return false
	}
	return true
}

// write writes plans without common tasks after the used part of In, each with its request. It returns
// false where there is no room.
func (d *dispatcher) write(h *batchState, plans ...*plan.Planner) bool {
	for {
		m := h.memory
		end, status := plan.Align(4*len(h.batch.In)), m.Out+plan.Align(4*len(h.batch.Out))
		for _, p := range plans {
			if end, status = p.Write(h.batch, &m.Memory, end, status); end > m.Out {
				break
			}
		}
		if end <= m.Out {
			return true
		}
		bigger := m.limits
		bigger.tasks += (end - m.Out + planBytes - 1) / planBytes
		if d.memories.move(h, bigger, false) != nil {
			return false
		}
	}
}

// refuse counts and logs a batch that finds no room.
func (d *dispatcher) refuse(h *batchState, why error) {
	d.refused.Add(1)
	h.refused = true
	d.logging.Lock()
	quiet := time.Since(d.refusalLogged) < time.Minute
	if !quiet {
		d.refusalLogged = time.Now()
	}
	d.logging.Unlock()
	if !quiet {
		d.log.Warn("a batch is scored on the CPU, with other bits: the GPU has no room for it", "err", why, "tasks", len(h.batch.Tasks),
			"bytes", 4*(len(h.batch.In)+len(h.batch.Out)))
	}
}

// devices are the devices of an Executor.
type devices []*child.Device

// pick returns the device in service with the least work, and its child; nil where none is in service.
func (ds devices) pick() (best *child.Device, c *child.Process) {
	for _, d := range ds {
		if s := d.Healthy(); s != nil && (best == nil || d.Load.Load() < best.Load.Load()) {
			best, c = d, s
		}
	}
	return best, c
}

// claim makes attempts on idle devices in service, as many as the work of the batch's plan is enough for, each with an
// equal share of it.
func (ds devices) claim(h *batchState) {
	most := min(int(h.plan.Work/leastPart), maxParts)
	for _, d := range ds {
		c, n := d.Healthy(), len(h.attempts)
		if n == most || c == nil || !d.Load.CompareAndSwap(0, leastPart) {
			continue
		}
		if n == len(h.parts) {
			h.parts = append(h.parts, &attempt{plan: &plan.Planner{}})
		}
		t := h.parts[n]
		*t = attempt{plan: t.plan, device: d, child: c, load: leastPart}
		h.attempts = append(h.attempts, t)
	}
	for _, t := range h.attempts {
		share := h.plan.Work / int64(len(h.attempts))
		t.device.Load.Add(share - t.load)
		t.load = share
	}
}
