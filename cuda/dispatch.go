//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"odradek/cuda/child"
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
	d     *child.Device
	c     *child.Process
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
			t.d.Load.Add(-t.share)
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
			t.stuck = t.err != nil && t.c.Failed() != nil && !t.c.Ends()
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
		case ctx.Err() != nil && t.c.Failed() == nil:
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
		c := d.Healthy()
		if n == most || c == nil || !d.Load.CompareAndSwap(0, leastPart) {
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
		t.d.Load.Add(work/int64(n) - t.share)
		t.share = work / int64(n)
	}
	return h.parts[:n]
}

// pick is the device in service with the least work, nil for none; tried are
// those not to take.
func (e *Executor) pick(tried []*child.Device) (best *child.Device, c *child.Process) {
	for _, d := range e.devices {
		if slices.Contains(tried, d) {
			continue
		}
		if s := d.Healthy(); s != nil && (best == nil || d.Load.Load() < best.Load.Load()) {
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
	var tried []*child.Device
	for len(tried) < 2 {
		d, c := e.pick(tried)
		if d == nil {
			return false, nil
		}
		tried = append(tried, d)
		d.Load.Add(cost)
		refused, err := e.onChild(ctx, d, c, h.memory, p.Request())
		d.Load.Add(-cost)
		switch {
		case err == nil && refused == nil:
			p.Settle(h.Batch, h.memory.status(p.Request()))
			return true, nil
		case err == nil:
			e.refuse(h, refused)
			return false, nil
		case ctx.Err() != nil && c.Failed() == nil:
			return false, err
		}
		e.lost.Add(1)
		h.deaths++
		if !c.Ends() {
			if !e.abandon(h) || !e.write(h, p) {
				return false, nil
			}
			p.Request().CopyOut = true
		}
	}
	return false, nil
}

// mapTime is what locking a batch's memory may take besides: 1 GiB takes 0.3 s.
const mapTime = 5 * time.Second

// onChild executes a request on a child. An error is that of ctx, or the child
// is done with. Without one, the status words are 0 or 1.
func (e *Executor) onChild(ctx context.Context, d *child.Device, c *child.Process, m *memory, q *plan.Request) (refused, err error) {
	l, err := c.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Give(l)
	if refused, err = c.Share(l, m.ID, len(m.Bytes), m.path(), time.Now().Add(d.Allowance()+mapTime)); refused != nil || err != nil {
		return refused, err
	}
	status := m.status(q)
	for i := range status {
		status[i] = notWritten
	}
	r, err := c.Ask(l, &child.Request{Kind: child.KindExecute, Request: *q}, time.Now().Add(d.Allowance()))
	if err != nil {
		return nil, err
	}
	if r.Code != child.CodeOK {
		return errors.New(r.Text), nil
	}
	for k, s := range status {
		if s > plan.StatusLeft {
			c.Fail(fmt.Errorf("status %#x of task %d of %d", s, k, len(status)))
			return nil, c.Failed()
		}
	}
	d.Count(len(status), r.Nanos)
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

// onCache executes the plan of this round on the device that caches the windows that
// its tasks read; taken is false where that is not in service.
func (e *Executor) onCache(ctx context.Context, h *held) (taken bool, err error) {
	p := &h.plan
	s, ok := h.CacheMemory().(*child.WindowShare)
	if !ok || s.Gone() || !p.Fed() {
		return false, nil
	}
	if !e.write(h, p) {
		e.refuse(h, errors.New("its plan is too large"))
		return false, nil
	}
	cost := h.work(p)
	s.Device.Load.Add(cost)
	refused, err := e.onChild(ctx, s.Device, s.Process, h.memory, p.Request())
	s.Device.Load.Add(-cost)
	switch {
	case err == nil && refused == nil:
		p.Settle(h.Batch, h.memory.status(p.Request()))
		return true, nil
	case err == nil:
		e.refuse(h, refused)
		return false, nil
	case ctx.Err() != nil && s.Process.Failed() == nil:
		return false, err
	}
	e.lost.Add(1)
	h.deaths++
	if !s.Process.Ends() {
		e.abandon(h)
	}
	return false, nil
}
