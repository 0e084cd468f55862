//go:build linux

package cuda

import (
	"context"
	"slices"
	"sync"

	"odradek/detectors"
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
	planner
	d     *device
	c     *child
	first int32 // its tasks are those from here on, up to the next part's
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
	if len(e.devices) < 2 || p.left != len(p.places) || h.work(p) < 2*leastPart {
		return false, nil
	}
	parts := e.claim(h)
	defer func() {
		for _, t := range parts {
			t.d.load.Add(-t.share)
		}
	}()
	if len(parts) < 2 || !p.cut(h.Batch, parts) {
		return false, nil
	}
	plans := make([]*planner, len(parts))
	for k, t := range parts {
		plans[k] = &t.planner
	}
	if !e.write(h, plans...) || !apart(parts) {
		return false, nil
	}
	var wait sync.WaitGroup
	for _, t := range parts {
		wait.Go(func() {
			t.refused, t.err = e.onChild(ctx, t.d, t.c, h.memory, &t.q)
			t.stuck = t.err != nil && t.c.failed() != nil && !t.c.ends()
		})
	}
	wait.Wait()
	p.order = p.order[:0]
	var status []uint32
	stuck := false
	for _, t := range parts {
		p.order = append(p.order, t.order...)
		switch {
		case t.err == nil && t.refused == nil:
			status = append(status, view[uint32](h.memory.bytes, int(t.q.statusOff), len(t.order))...)
			continue
		case t.err == nil:
			e.refuse(h, t.refused)
			p.leave(t.order)
		case ctx.Err() != nil && t.c.failed() == nil:
			err = t.err
		default:
			e.lost.Add(1)
			h.deaths++
			stuck = stuck || t.stuck
		}
		for range t.order {
			status = append(status, statusLost)
		}
	}
	if stuck && !e.abandon(h) {
		p.leave(p.order) // without memory that devices see
	}
	p.settle(h.Batch, status)
	return true, err
}

// leave leaves tasks that are not done to the CPU.
func (p *planner) leave(tasks []int32) {
	if p.forced == nil {
		p.forced = make([]bool, len(p.places))
	}
	for _, i := range tasks {
		p.forced[i] = true
	}
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

// cut deals the segments of this round out to parts. False: chains are in the way.
func (p *planner) cut(b *detectors.Batch, parts []*part) bool {
	// From the end: before task i a part may begin if none from there on has its
	// carry from one before.
	share := (p.cost + len(parts) - 1) / len(parts)
	k, cost := len(parts)-1, 0
	low := int32(len(b.Tasks))
	for i := len(b.Tasks) - 1; i > 0 && k > 0; i-- {
		if p.places[i] != onDevice {
			continue
		}
		if from := before(b, i); from >= 0 && p.places[from] == onDevice {
			low = min(low, from)
		}
		s := &p.segments[p.segment[i]]
		if cost += s.cost / int(s.count); cost >= share && low >= int32(i) {
			parts[k].first = int32(i)
			k--
			cost = 0
		}
	}
	if k > 0 {
		return false
	}
	parts[0].first = 0
	for _, t := range parts {
		t.part, t.shared, t.f32 = true, p.shared, p.f32
		t.next, t.classes, t.waves = p.next, p.classes, p.waves
		t.segments, t.cost, t.longest = t.segments[:0], 0, 0
	}
	for i := range p.segments { // by the index of their first task
		s := &p.segments[i]
		for k+1 < len(parts) && s.head >= parts[k+1].first {
			k++
		}
		t := parts[k]
		t.segments = append(t.segments, *s)
		t.cost += s.cost
		t.longest = max(t.longest, s.cost)
	}
	return !slices.ContainsFunc(parts, func(t *part) bool { return len(t.segments) == 0 })
}

// paramsLen is how many numbers the parameters of the plan's tasks are, which a
// part has with it: they lie at the start of the batch's arena, far from the rest.
func (p *planner) paramsLen() (n int) {
	p.params = p.params[:0]
	last := detectors.Span{Off: ^uint32(0)}
	for i := range p.tasks {
		if s := p.tasks[i].Params; s != last {
			if last = s; !slices.Contains(p.params, s) {
				p.params = append(p.params, s)
				n += int(s.Len+3) &^ 3
			}
		}
	}
	return n
}

// narrow has a part bring its own parameters, to byte at, and says what else of
// F32 and which part of Out its tasks have to do with.
func (p *planner) narrow(b *detectors.Batch, m *memory, at int) {
	moved := make([]uint32, len(p.params))
	to := at / 4
	for k, s := range p.params {
		moved[k] = uint32(to)
		copy(view[float32](m.bytes, 4*to, int(s.Len)), b.F32[s.Off:s.Off+s.Len])
		to += int(s.Len+3) &^ 3
	}
	const none = ^uint32(0)
	in, out := detectors.Span{Off: none}, detectors.Span{Off: none} // Len is the end
	cover := func(c *detectors.Span, s detectors.Span) {
		if s.Len > 0 {
			c.Off, c.Len = min(c.Off, s.Off), max(c.Len, s.Off+s.Len)
		}
	}
	k, last := -1, detectors.Span{Off: none}
	for i := range p.tasks {
		t := &p.tasks[i]
		if t.Params != last {
			last = t.Params
			k = slices.Index(p.params, last)
		}
		t.Params.Off = moved[k]
		cover(&in, t.X)
		cover(&in, t.Bins)
		if t.After == 0 {
			cover(&in, t.Carry)
		}
		cover(&out, t.Scores)
		cover(&out, t.Next)
	}
	q := &p.q
	q.inFrom, q.inTo = 4*uint64(min(in.Off, in.Len)), 4*uint64(in.Len)
	q.outFrom, q.outTo = q.outOff+4*uint64(min(out.Off, out.Len)), q.outOff+4*uint64(out.Len)
	q.copyOut = uint64(4*p.outputs) != q.outTo-q.outFrom
}

// apart reports whether no part would write over another's outputs.
func apart(parts []*part) bool {
	for i, t := range parts {
		for _, o := range parts[:i] {
			if t.q.outFrom < o.q.outTo && o.q.outFrom < t.q.outTo {
				return false
			}
		}
	}
	return true
}
