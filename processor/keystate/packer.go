package keystate

import (
	"math"

	"odradek/detectors"
)

// packer puts the rows and the parameters of tasks into a batch.
type packer struct {
	dets    []*detector
	batch   *detectors.Batch // whose parameters are in place
	serial  uint64
	centers []float64 // of the columns of the task being packed
}

// packX packs the rows of a task. Consecutive tasks of full windows with the same centers
// share rows if the windows are long (shares): the first task leaves room for the rows of
// those that are likely to follow in this batch; each of these puts its newest rows there,
// and its X begins and ends as many rows later. The bits of X are the same as without
// sharing. room is the number of tasks that may still follow.
func (p *packer) packX(t *detectors.Task, w *win, d *keyDetector, m *mark, before *pending, rows int32, b *detectors.Batch) (room uint16) {
	x, y := w.values(d.dim, rows)
	common := p.center(x, y, d, rows, w.count)
	if before != nil && before.room > 0 {
		shared, more := b.Tasks[before.task].X, uint32(d.stride)*uint32(d.dim)
		t.X = detectors.Span{Off: shared.Off + more, Len: shared.Len}
		x, y = w.values(d.dim, d.stride)
		detectors.Pack(b.In[shared.Off+shared.Len:][:more].F32(), x, y, p.centers)
		return before.room - 1
	}
	if common && d.shares {
		room = d.followers(m, w.count)
	}
	var dst []float32
	n := len(x) + len(y)
	spare := int(room) * int(d.stride) * d.dim
	if o := len(b.In); o+n+spare <= cap(b.In) { // GrowF32 as far as it can be inlined
		b.In = b.In[:o+n+spare]
		t.X, dst = detectors.Span{Off: uint32(o)}, b.In[o:].F32()
	} else {
		t.X, dst = b.GrowF32(n + spare)
	}
	t.X.Len = uint32(n)
	detectors.Pack(dst, x, y, p.centers)
	return room
}

// packWide is packX for rows of float64, which are not centred: all tasks of full windows
// could share them, but only as many do as have the same centers in packX.
func (p *packer) packWide(
	t *detectors.Task, w *win, d *keyDetector, m *mark, before *pending, rows int32, b *detectors.Batch,
) (room uint16) {
	if before != nil && before.room > 0 {
		shared, more := b.Tasks[before.task].X, uint32(d.stride)*uint32(d.dim)
		t.X = detectors.Span{Off: shared.Off + more, Len: shared.Len}
		x, y := w.values(d.dim, d.stride)
		floats(b.In[2*(shared.Off+shared.Len):][:2*more].F64(), x, y)
		return before.room - 1
	}
	if rows == d.full && d.shares {
		room = d.followers(m, w.count)
	}
	x, y := w.values(d.dim, rows)
	n := len(x) + len(y)
	var dst []float64
	t.X, dst = b.GrowF64(n + int(room)*int(d.stride)*d.dim)
	t.X.Len = uint32(n)
	floats(dst, x, y)
	return room
}

// packOne is packX for rows of one value that tasks do not share.
func (p *packer) packOne(t *detectors.Task, w *win, d *keyDetector, rows int32, b *detectors.Batch) {
	x, y := w.values(1, rows)
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
	if rows == d.full {
		from, of := detectors.CenterRowsIn(int(d.block), n, w.count)
		center, ok = detectors.PackOne(dst, x, y, from, of)
	}
	if !ok {
		center, _ = detectors.PackOne(dst, x, y, 0, n)
	}
	p.centers = append(p.centers, center)
}

// center sets p.centers to those of a task's columns: for a full window, those of its block
// of rows (detectors.CenterRows), the newest of which is the count-th of the key; otherwise,
// or where a column has no value in the block, those of all rows of the task. It reports
// whether they are the block's.
func (p *packer) center(x, y []uint64, d *keyDetector, rows int32, count int64) bool {
	if rows == d.full {
		var ok bool
		from, n := detectors.CenterRowsIn(int(d.block), int(rows), count)
		if p.centers, ok = detectors.Centers(p.centers[:0], x, y, d.dim, from, n); ok {
			return true
		}
	}
	p.centers, _ = detectors.Centers(p.centers[:0], x, y, d.dim, 0, int(rows))
	return false
}

// params returns the place of the detector's parameters in the batch. It puts them
// there once between two Resets.
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
	for _, d := range p.dets {
		d.placed = false
	}
}

func (p *packer) place(d *detector, b *detectors.Batch) detectors.Span {
	d.span = b.Put(d.params)
	d.placed = true
	return d.span
}

// packSummary puts the summary's virtual points into a task, centred as its rows are.
func (p *packer) packSummary(t *detectors.Task, d *keyDetector, m *summary, b *detectors.Batch) {
	if m.empty() {
		return
	}
	n := d.summary.Count(m.state)
	if n == 0 {
		return
	}
	var dst []float32
	t.Bins, dst = b.GrowF32(n * (d.dim + 1))
	d.summary.Pack(dst, m.state, p.centers)
}

// followers returns the number of tasks to leave room for behind one whose newest row is
// the count-th of the key: the previous batch's number of tasks less those already packed,
// or, beyond that, as many as are packed; at most those with the same centers.
func (d *keyDetector) followers(m *mark, count int64) uint16 {
	more := m.now
	if m.before > m.now {
		more = m.before - m.now
	} else if m.now == 1 {
		return 0
	}
	block := int64(d.block)
	return min(more, uint16((block-1-count&(block-1))/int64(d.stride)))
}

// floats sets dst to the floats whose bits are in x and then y.
func floats(dst []float64, x, y []uint64) {
	for i, v := range x {
		dst[i] = math.Float64frombits(v)
	}
	for i, v := range y {
		dst[len(x)+i] = math.Float64frombits(v)
	}
}
