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

// updates are the updates of cached windows that a plan brings.
type updates struct {
	pending []detectors.WindowUpdate // of this round
	cachedX uint32                   // word of In on the device at which the X outside the batch begin
}

// launch reserves tiles for the updates and adds, before all others, the launch that makes the X
// of their tasks.
func (u *updates) launch(p *builder) {
	if len(u.pending) == 0 {
		return
	}
	n := (len(u.pending) + updatesPerBlock - 1) / updatesPerBlock * updatesPerBlock
	for range n * UpdateTiles {
		p.tile(Tile{})
	}
	p.launchGrid(kernel(windowCacheKernel), n/updatesPerBlock, 32*updatesPerBlock, 0)
}

// write writes the updates.
func (u *updates) write(b *detectors.Batch, to []WindowUpdate) {
	for i := range u.pending {
		r, t := &u.pending[i], &b.Tasks[u.pending[i].Task]
		rows := t.X.Len / t.Dim
		to[i] = WindowUpdate{
			Ring: r.At, Rows: rows, Dim: t.Dim, First: r.First, X: t.X.Off - detectors.InCache + u.cachedX,
			Fresh: 2 * r.Rows.Off, N: r.Rows.Len / t.Dim, Next: r.Next, Flags: UpdateWindow,
			Common: r.Common.Off, CommonN: r.Common.Len,
		}
		if r.Later {
			to[i].Flags |= UpdateLater
		}
	}
}

// Updates returns the number of window updates in the plan of this round.
func (u *updates) Updates() int { return len(u.pending) }

// HasUpdatedTasks reports whether the plan contains every task that reads an updated window.
func (p *Planner) HasUpdatedTasks() bool {
	for i := range p.updates.pending {
		if p.places[p.updates.pending[i].Task] != onDevice {
			return false
		}
	}
	return true
}
