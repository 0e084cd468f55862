//go:build linux

package cuda

import (
	"slices"

	"odradek/cuda/child"
)

// devices are the devices of an Executor.
type devices []*child.Device

// inService reports whether some device is.
func (ds devices) inService() bool {
	return slices.ContainsFunc(ds, func(d *child.Device) bool { return d.Healthy() != nil })
}

// pick returns the device in service with the least work, or nil.
func (ds devices) pick() (best *child.Device, c *child.Process) {
	for _, d := range ds {
		if s := d.Healthy(); s != nil && (best == nil || d.Load.Load() < best.Load.Load()) {
			best, c = d, s
		}
	}
	return best, c
}

// claim takes idle devices in service, as many as the work is enough for, each with an equal share of
// it.
func (ds devices) claim(h *batchState) []*part {
	work := h.work(&h.plan)
	most := min(int(work/leastPart), maxParts)
	n := 0
	for _, d := range ds {
		c := d.Healthy()
		if n == most || c == nil || !d.Load.CompareAndSwap(0, leastPart) {
			continue
		}
		if n == len(h.parts) {
			h.parts = append(h.parts, &part{})
		}
		t := h.parts[n]
		t.attempt = attempt{plan: &t.Planner, d: d, c: c, load: leastPart}
		n++
	}
	for _, t := range h.parts[:n] {
		t.d.Load.Add(work/int64(n) - t.load)
		t.load = work / int64(n)
	}
	return h.parts[:n]
}
