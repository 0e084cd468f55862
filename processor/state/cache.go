package state

import (
	"slices"

	"odradek/detectors"
	"odradek/processor/state/series"
)

// cachePacker is a packer for an executor that may cache windows.
type cachePacker struct {
	packer
	windows *detectors.WindowCache // nil: windows travel with their tasks
	cached  []cachedTask
	most    detectors.Need
}

// Need returns how much of a batch the tasks of one sample take at most.
func (p *cachePacker) Need() detectors.Need { return p.most }

// SetWindowCache gives the queue the executor's window cache; nil: there is none. A task
// then brings only the rows that the executor does not have. The caller closes the cache
// after the queue's last use.
func (p *cachePacker) SetWindowCache(c *detectors.WindowCache) {
	p.windows = c
	for i := range p.detectors {
		d := &p.detectors[i]
		d.pool = nil
		// Code that reads a finished task's X needs it here.
		if d.Setup != nil && d.Steady && !d.Scale && d.model == nil && d.Explain == nil && d.Summary == nil && d.Elem == detectors.F32 {
			d.pool = c.Pool(d.Detector, d.Dim, int(d.Fresh))
		}
	}
	p.most = p.need()
}

// Invalidate makes the next task of each window bring all rows.
func (p *cachePacker) Invalidate() { p.windows.Invalidate() }

// cachedTask is a pending task whose window the executor has cached.
type cachedTask struct {
	detector *detector
	window   *series.Window
	task     int   // in the batch
	count    int64 // of the window, when it was packed
}

// packCached packs the rows of a full window that the executor lacks; false: it does not
// cache this window.
func (p *cachePacker) packCached(
	t *detectors.Task, w *series.Window, d *detector, m *series.Progress, b *detectors.Batch,
) (cached bool, added int64) {
	if m.Packed.Slot == nil {
		m.Packed.Slot = new(detectors.SlotRef)
		added = series.SlotBytes
	}
	n, ok := d.pool.Missing(b, m.Packed.Slot, w.Count)
	if !ok {
		return false, added
	}
	span, dst := b.GrowF64(n * d.Dim)
	if n > 0 {
		x, y := w.Values(d.Dim, int32(n))
		detectors.PackF64(dst, x, y)
	}
	task := len(b.Tasks) - 1
	t.X = d.pool.Update(b, m.Packed.Slot, w.Count, span, task)
	p.cached = append(p.cached, cachedTask{d, w, task, w.Count})
	return true, added
}

// Cached returns the windows of tasks whose rows the executor has cached.
func (p *cachePacker) Cached() []*series.Window {
	list := make([]*series.Window, len(p.cached))
	for i := range p.cached {
		list[i] = p.cached[i].window
	}
	return list
}

// Repack packs Cached windows into b as they were when their tasks became due. overwritten
// has the values of rows of a window that were overwritten since, oldest first.
func (p *cachePacker) Repack(b *detectors.Batch, overwritten map[*series.Window][][]uint64) {
	for i := range p.cached {
		a := &p.cached[i]
		d, w := a.detector, a.window
		var rows []uint64
		// The ring has rows w.Count-w.Rows to w.Count-1 now, the task's were those
		// from first on.
		first, oldest := a.count-int64(d.Full), w.Count-int64(w.Rows)
		if missing := oldest - first; missing > 0 {
			lost := overwritten[w]
			rows = slices.Concat(lost[len(lost)-int(missing):]...)
			first = oldest
		}
		x, y := w.Values(d.Dim, int32(w.Count-first))
		rows = append(append(rows, x...), y...)[:int(d.Full)*d.Dim]
		t := &b.Tasks[a.task]
		var dst []float32
		t.X, dst = b.GrowF32(len(rows))
		p.center(rows, nil, d, d.Full, a.count)
		detectors.Pack(dst, rows, nil, p.centers)
	}
	p.cached = p.cached[:0]
}
