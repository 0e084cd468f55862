package state

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/series"
)

// packer puts the rows and the parameters of tasks into a batch.
type packer struct {
	detectors []detector       // by Setup.Index
	batch     *detectors.Batch // that has the parameters
	serial    uint64
	// Of the task being packed: the centers of its columns, their scales if the detector has any, and the
	// sums of a grid's tables.
	centers, scales, sums []float64
}

// packX packs the rows of a task. Consecutive tasks of full windows with the same centers
// share rows if the windows are long (LeastShared): the first task leaves room for the rows of
// those that are likely to follow in this batch; each of these puts its newest rows there,
// and its X begins and ends as many rows later. The bits of X are the same as without
// sharing. room is the number of tasks that may still follow.
func (p *packer) packX(
	t *detectors.Task, w *series.Window, d *detector, m *series.Progress, before *scoringTask, rows int32, b *detectors.Batch,
) (room uint16) {
	x, y := w.Values(d.Dim, rows)
	common := p.center(x, y, d, rows, w.Count)
	if d.Wide != detectors.NotWide && p.changesLevel(x, y, w, d, m, rows, common) {
		p.packLevels(t, x, y, w.Count, d, rows, common, b)
		return 0
	}
	if d.Scale {
		p.scale(x, y, d, rows, w.Count, common)
	}
	if before != nil && before.room > 0 {
		shared, more := b.Tasks[before.Index].X, uint32(d.Fresh)*uint32(d.Dim)
		t.X = detectors.Span{Off: shared.Off + more, Len: shared.Len}
		x, y = w.Values(d.Dim, d.Fresh)
		p.pack(d, b.In[shared.Off+shared.Len:][:more].F32(), x, y)
		return before.room - 1
	}
	if common && d.shares {
		room = d.followers(&m.Packed, w.Count)
	}
	var dst []float32
	n := len(x) + len(y)
	spare := int(room) * int(d.Fresh) * d.Dim
	if o := len(b.In); o+n+spare <= cap(b.In) { // GrowF32 as far as it can be inlined
		b.In = b.In[:o+n+spare]
		t.X, dst = detectors.Span{Off: uint32(o)}, b.In[o:].F32()
	} else {
		t.X, dst = b.GrowF32(n + spare)
	}
	t.X.Len = uint32(n)
	p.pack(d, dst, x, y)
	return room
}

// packWide is packX for rows of float64, which are not centred. All tasks of full windows could share
// them, but it lets only as many share them as packX does.
func (p *packer) packWide(
	t *detectors.Task, w *series.Window, d *detector, m *series.Progress, before *scoringTask, rows int32, b *detectors.Batch,
) (room uint16) {
	if before != nil && before.room > 0 {
		shared, more := b.Tasks[before.Index].X, uint32(d.Fresh)*uint32(d.Dim)
		t.X = detectors.Span{Off: shared.Off + more, Len: shared.Len}
		x, y := w.Values(d.Dim, d.Fresh)
		detectors.PackF64(b.In[2*(shared.Off+shared.Len):][:2*more].F64(), x, y)
		return before.room - 1
	}
	if rows == d.Full && d.shares {
		room = d.followers(&m.Packed, w.Count)
	}
	x, y := w.Values(d.Dim, rows)
	n := len(x) + len(y)
	var dst []float64
	t.X, dst = b.GrowF64(n + int(room)*int(d.Fresh)*d.Dim)
	t.X.Len = uint32(n)
	detectors.PackF64(dst, x, y)
	return room
}

// packTimed packs rows of float64 that begin with their event time. Tasks do not share them.
func packTimed(t *detectors.Task, w *series.Window, d *detector, rows int32, b *detectors.Batch) {
	var dst []float64
	t.X, dst = b.GrowF64(int(rows) * d.Width)
	at := 0
	x, y := w.Times(rows, 0)
	for _, part := range [2][]uint64{x, y} {
		for _, time := range part {
			dst[at] = float64(int64(time))
			at += d.Width
		}
	}
	at = 0
	x, y = w.Values(d.Dim, rows)
	for _, part := range [2][]uint64{x, y} {
		for ; len(part) > 0; part = part[d.Dim:] {
			detectors.PackF64(dst[at+1:], part[:d.Dim], nil)
			at += d.Width
		}
	}
}

// changesLevel reports whether the rows of a task, with the centers of packer, change their level.
func (p *packer) changesLevel(x, y []uint64, w *series.Window, d *detector, m *series.Progress, rows int32, common bool) bool {
	if !common || d.Wide != detectors.WideAll && d.Wide != detectors.WideCourse {
		return detectors.ChangesLevel(d.Wide, x, y, d.Dim, int(min(rows, d.Fresh)), p.centers)
	}
	return detectors.ChangesLevelNext(m.Levels(w, d.Dim), d.Wide, x, y, d.Dim, w.Count, p.centers)
}

// packLevels packs the rows of a task that change their level as float64: not centred, and not shared.
func (p *packer) packLevels(t *detectors.Task, x, y []uint64, count int64, d *detector, rows int32, common bool, b *detectors.Batch) {
	dst := b.PackWide(t, x, y)
	clear(p.centers)
	if d.Scale {
		p.scale(x, y, d, rows, count, common)
		for i := range dst {
			dst[i] /= p.scales[i%d.Dim]
		}
	}
}

// packOne is packX for rows of one value that tasks do not share.
func (p *packer) packOne(t *detectors.Task, w *series.Window, d *detector, rows int32, b *detectors.Batch) {
	x, y := w.Values(1, rows)
	n := len(x) + len(y)
	var dst []float32
	if o := len(b.In); o+n <= cap(b.In) { // GrowF32 as far as it can be inlined
		b.In = b.In[:o+n]
		t.X, dst = detectors.Span{Off: uint32(o), Len: uint32(n)}, b.In[o:].F32()
	} else {
		t.X, dst = b.GrowF32(n)
	}
	var center float64
	ok := false
	if rows == d.Full {
		from, of := detectors.CenterRows(int(d.block), n, w.Count)
		center, ok = detectors.PackOne(dst, x, y, from, of)
	}
	if !ok {
		center, _ = detectors.PackOne(dst, x, y, 0, n)
	}
	p.centers = append(p.centers, center)
}

// center sets p.centers to those of a task's columns: for a full window, those of its block
// of rows (detectors.CenterRows), the newest of which is the count-th of the key; otherwise,
// or where a column has no value in the block, those of all rows of the task; the model's origin
// where there is one. It reports whether the next windows may have the same.
func (p *packer) center(x, y []uint64, d *detector, rows int32, count int64) bool {
	if d.model != nil {
		p.centers = append(p.centers[:0], d.origin...)
		return rows == d.Full
	}
	if rows == d.Full {
		var ok bool
		from, n := detectors.CenterRows(int(d.block), int(rows), count)
		if p.centers, ok = detectors.Centers(p.centers[:0], x, y, d.Dim, from, n); ok {
			return true
		}
	}
	p.centers, _ = detectors.Centers(p.centers[:0], x, y, d.Dim, 0, int(rows))
	return false
}

// scale sets p.scales to those of the rows that center has centred on.
func (p *packer) scale(x, y []uint64, d *detector, rows int32, count int64, common bool) {
	from, n := 0, int(rows)
	if common {
		from, n = detectors.CenterRows(int(d.block), n, count)
	}
	p.scales = detectors.Scales(p.scales[:0], x, y, d.Dim, from, n)
}

// pack packs rows with the centers of the task, and its scales.
func (p *packer) pack(d *detector, dst []float32, x, y []uint64) {
	if d.Scale {
		detectors.PackScaled(dst, x, y, p.centers, p.scales)
		return
	}
	detectors.Pack(dst, x, y, p.centers)
}

// params returns the place of the detector's parameters in the batch. It writes them
// to a batch once until the next Reset.
func (p *packer) params(d *detector, b *detectors.Batch) detectors.Span {
	if p.batch != b || p.serial != b.Serial() {
		p.unplace(b)
	}
	if d.placed {
		return d.span
	}
	return p.place(d, b)
}

func (p *packer) unplace(b *detectors.Batch) {
	p.batch, p.serial = b, b.Serial()
	for i := range p.detectors {
		p.detectors[i].placed = false
	}
}

func (p *packer) place(d *detector, b *detectors.Batch) detectors.Span {
	d.span = b.Put(d.Params)
	d.placed = true
	return d.span
}

// packCounts packs the rows of a task as integers.
func packCounts(t *detectors.Task, w *series.Window, d *detector, rows int32, b *detectors.Batch) {
	var dst []int64
	x, y := w.Values(d.Dim, rows)
	t.X, dst = b.GrowI64(len(x) + len(y))
	for i, v := range x {
		dst[i] = detectors.Count(math.Float64frombits(v))
	}
	for i, v := range y {
		dst[len(x)+i] = detectors.Count(math.Float64frombits(v))
	}
}

// packGrid packs the tables of a grid's window, and returns the window's start.
func (p *packer) packGrid(t *detectors.Task, w *series.Window, g *series.Grid, b *detectors.Batch) (start int64) {
	p.sums = slices.Grow(p.sums[:0], 2*g.Cells())[:2*g.Cells()]
	clear(p.sums)
	start = w.Tables().Sum(g, p.sums)
	var dst []int64
	t.X, dst = b.GrowI64(len(p.sums))
	for i, v := range p.sums {
		dst[i] = detectors.Count(v)
	}
	return start
}

// packSummary puts the summary's virtual points into a task, as float64 or centred as its rows are.
func (p *packer) packSummary(t *detectors.Task, d *detector, m *series.Summary, b *detectors.Batch) {
	if m.Empty() {
		return
	}
	n := d.Summary.Count(m.State)
	if n == 0 {
		return
	}
	if t.Wide() {
		span, dst := b.GrowF64(n * (d.Dim + 1))
		t.Bins = detectors.Span{Off: 2 * span.Off, Len: 2 * span.Len}
		d.Summary.PackF64(dst, m.State)
		return
	}
	var dst []float32
	t.Bins, dst = b.GrowF32(n * (d.Dim + 1))
	d.Summary.Pack(dst, m.State, p.centers)
}
