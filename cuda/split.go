//go:build linux

package cuda

import (
	"context"
	"sync"

	"odradek/cuda/plan"
)

// A partition has one batch in flight, so with few partitions one device would
// work and the others wait. A batch that takes long is therefore cut into parts,
// one for each device that has nothing to do: runs of tasks by their index, which
// no chain crosses, of about the same cost. A task's result depends on that task
// alone, so it makes no difference where it is computed. Where all devices are
// busy, batches are spread as they are.

// leastPart is how much planned work a part has at least, in nanoseconds. A
// request with its reply takes 15 us, the copies and launches that a device does
// not overlap some 50.
var leastPart int64 = 500_000

// maxParts is how many parts a batch's memory has room for.
const maxParts = 16

// part is a part of a plan, and what became of it.
type part struct {
	plan.Part
	d     *device
	c     *child
	share int64 // of the work, ns

	refused, err error
	stuck        bool // the device's child does not end
}

// onDevices executes the plan of this round on all devices that have nothing to do,
// if there are several and the work is enough for them. A device that is lost takes
// its part with it, which is left for the next round; what found no room is left
// to the CPU. done is false where nothing was tried. The error is that of ctx.
func (e *Executor) onDevices(ctx context.Context, h *held) (done bool, err error) {
	p := &h.plan
	if len(e.devices) < 2 || !p.NoneDone() || h.work(p) < 2*leastPart {
		return false, nil
	}
	parts := e.claim(h)
	defer func() {
		for _, t := range parts {
			t.d.load.Add(-t.share)
		}
	}()
	plans, cut := make([]*plan.Planner, len(parts)), make([]*plan.Part, len(parts))
	for k, t := range parts {
		plans[k], cut[k] = &t.Planner, &t.Part
	}
	if len(parts) < 2 || !p.Cut(h.Batch, cut) || !e.write(h, plans...) || !plan.Apart(cut) {
		return false, nil
	}
	var wait sync.WaitGroup
	for _, t := range parts {
		wait.Go(func() {
			t.refused, t.err = e.onChild(ctx, t.d, t.c, h.memory, t.Request())
			t.stuck = t.err != nil && t.c.failed() != nil && !t.c.ends()
		})
	}
	wait.Wait()
	p.Join(cut)
	var status []uint32
	stuck := false
	for _, t := range parts {
		switch {
		case t.err == nil && t.refused == nil:
			status = append(status, h.memory.status(t.Request())...)
			continue
		case t.err == nil:
			e.refuse(h, t.refused)
			p.Leave(&t.Planner)
		case ctx.Err() != nil && t.c.failed() == nil:
			err = t.err
		default:
			e.lost.Add(1)
			h.deaths++
			stuck = stuck || t.stuck
		}
		for range t.Request().Tasks {
			status = append(status, plan.StatusLost)
		}
	}
	if stuck && !e.abandon(h) {
		p.Leave(p) // without memory that devices see
	}
	p.Settle(h.Batch, status)
	return true, err
}

// claim takes the devices in service that have nothing to do, as many as there is
// work for, with a share of it.
func (e *Executor) claim(h *held) []*part {
	work := h.work(&h.plan)
	most := min(int(work/leastPart), maxParts)
	n := 0
	for _, d := range e.devices {
		c := d.healthy()
		if n == most || c == nil || !d.load.CompareAndSwap(0, leastPart) {
			continue
		}
		if n == len(h.parts) {
			h.parts = append(h.parts, &part{})
		}
		t := h.parts[n]
		t.d, t.c, t.share, t.refused, t.err, t.stuck = d, c, leastPart, nil, nil, false
		n++
	}
	for _, t := range h.parts[:n] {
		t.d.load.Add(work/int64(n) - t.share)
		t.share = work / int64(n)
	}
	return h.parts[:n]
}
