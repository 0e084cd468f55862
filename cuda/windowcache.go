//go:build linux

package cuda

import (
	"odradek/cuda/child"
	"odradek/cuda/plan"
	"odradek/detectors"
)

// The window cache of a device lies in memory that its child takes at its start, in blocks that belong
// to owners, and is lost with the child. Only the owner has the directory of its windows
// (detectors.WindowPool): the device looks nothing up, and so cannot find a wrong window. A batch with
// updates goes to the device with its windows, or back to its owner.

// WindowCache returns a cache of one owner's windows on a device; nil without Options.WindowCache. See
// detectors.WindowPool.
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
		var p plan.Planner
		p.Shared = e.least
		return p.Caches(d, dim, fresh)
	}
	return detectors.NewWindowCache(find, takes)
}
