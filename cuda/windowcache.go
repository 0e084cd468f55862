//go:build linux

package cuda

import (
	"context"
	"errors"

	"odradek/cuda/child"
	"odradek/cuda/plan"
	"odradek/detectors"
)

// The window cache of a device lies in memory that its child takes when it starts, in
// blocks that owners have, and is lost with the child. Which window lies where only its
// owner knows (detectors.WindowPool): the device never looks anything up, and so cannot
// find the wrong thing. A batch with updates goes to the device that has the windows, or
// back to its owner.

// WindowCache returns a cache of one owner's windows on a device, if
// Options.WindowCache allows it: see detectors.WindowPool.
func (e *Executor) WindowCache() *detectors.WindowCache {
	if e.o.WindowCache <= 0 {
		return nil
	}
	find := func() detectors.CacheMemory {
		var best *child.WindowMemory
		blocks := 0
		for _, d := range e.devices {
			if c := d.Serving(); c != nil && c.Windows() != nil {
				if n := c.Windows().Free(); n > blocks {
					best, blocks = c.Windows(), n
				}
			}
		}
		if best == nil {
			return nil
		}
		return best.Share()
	}
	takes := func(d detectors.Detector, dim, fresh int) bool {
		p := plan.Planner{Shared: e.least}
		return p.Caches(d, dim, fresh)
	}
	return detectors.NewWindowCache(find, takes)
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
