package plan

import "odradek/detectors"

// WindowUpdate is a detectors.WindowUpdate for the kernel window_cache: struct Update in
// window_cache.cu, three tiles long.
type WindowUpdate struct {
	Ring      uint64
	Rows, Dim uint32
	First, X  uint32
	Fresh, N  uint32
	Next      uint32
	Flags     uint32
	Common    uint32 // the first of the rows that X is centred on
	CommonN   uint32 // the number of these rows
}

// UpdateTiles is the length of a WindowUpdate in tiles. UpdateWindow and UpdateLater are its flags: it
// updates a window; it is not the window's first update in the batch.
const (
	UpdateTiles     = 3
	UpdateWindow    = 1
	UpdateLater     = 2
	updatesPerBlock = 4
)

// windowCacheKernel is the kernel of the window cache, and the name of its .cu.
const windowCacheKernel = "window_cache"

// launchUpdates reserves tiles for the updates and adds, before all others, the launch that makes the X
// of their tasks.
func (p *Planner) launchUpdates() {
	n := (len(p.updates) + updatesPerBlock - 1) / updatesPerBlock * updatesPerBlock
	for range n * UpdateTiles {
		p.tile(Tile{})
	}
	p.launchGrid(kernel(windowCacheKernel), n/updatesPerBlock, 32*updatesPerBlock, 0)
}

// writeUpdates writes the updates.
func (p *Planner) writeUpdates(b *detectors.Batch, to []WindowUpdate) {
	for i := range p.updates {
		r, t := &p.updates[i], &b.Tasks[p.updates[i].Task]
		rows := t.X.Len / t.Dim
		to[i] = WindowUpdate{
			Ring: r.At, Rows: rows, Dim: t.Dim, First: r.First, X: t.X.Off - detectors.InCache + p.cachedX,
			Fresh: 2 * r.Rows.Off, N: r.Rows.Len / t.Dim, Next: r.Next, Flags: UpdateWindow,
			Common: r.Common.Off, CommonN: r.Common.Len,
		}
		if r.Later {
			to[i].Flags |= UpdateLater
		}
	}
}

// Caches reports whether devices cache the windows of these tasks.
func (p *Planner) Caches(d detectors.Detector, dim, fresh int) bool {
	c, ok := ClassOf(d, dim, fresh)
	return ok && byOp[c.Op].caches && (p.Shared == 0 || byOp[c.Op].shared(c) <= p.Shared)
}

// Updates returns the number of window updates in the plan of this round.
func (p *Planner) Updates() int { return len(p.updates) }

// HasUpdatedTasks reports whether the plan contains every task that reads an updated window.
func (p *Planner) HasUpdatedTasks() bool {
	for i := range p.updates {
		if p.places[p.updates[i].Task] != onDevice {
			return false
		}
	}
	return true
}
