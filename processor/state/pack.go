package state

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/series"
)

// This file packs the tasks of a partition's series into batches.
//
// A task's rows are a full window's (Setup.Full), or as many as the window has yet. Packed
// as float32 they are centred on a value that runs of consecutive windows have in common
// (detectors.CenterRows), so that their tasks can share rows in a batch. A window that changes its level is packed
// as float64 (detectors.ChangesLevel).

// packer puts the rows and the parameters of tasks into a batch.
type packer struct {
	detectors []packing        // by Setup.Index
	batch     *detectors.Batch // that has the parameters
	serial    uint64
	// Of the task being packed: the centers of its columns, their scales if the detector has any, and of a grid's the
	// sums of its tables and where its window starts.
	centers, scales, sums []float64
	windowStart           int64
}

// packRows packs the rows of a task. room is the number of tasks that may still follow with the same centers (packX).
func (p *packer) packRows(
	t *detectors.Task, w *series.Window, d *packing, m *series.Progress, before *pendingTask, rows int32, b *detectors.Batch,
) (room uint16) {
	p.centers = p.centers[:0]
	switch d.Elem {
	case detectors.F32:
		if d.model != nil {
			t.Model = b.Model(d.model)
		}
		if d.model == nil && !d.shares && d.Dim == 1 && d.Wide == detectors.NotWide {
			p.packOne(t, w, d, rows, b)
			return 0
		}
		return p.packX(t, w, d, m, before, rows, b)
	case detectors.F64:
		if d.Width > d.Dim {
			packTimed(t, w, d, rows, b)
			return 0
		}
		return p.packWide(t, w, d, m, before, rows, b)
	case detectors.I64:
		if d.Grid == nil {
			packCounts(t, w, d, rows, b)
		} else {
			p.packGrid(t, w, d.Grid, b)
		}
	}
	return 0
}

// packX packs the rows of a task. Consecutive tasks of full windows with the same centers
// share rows if the windows are long (LeastShared): the first task leaves room for the rows of
// those that are likely to follow in this batch; each of these puts its newest rows there,
// and its X begins and ends as many rows later. The bits of X are the same as without
// sharing. room is the number of tasks that may still follow.
func (p *packer) packX(
	t *detectors.Task, w *series.Window, d *packing, m *series.Progress, before *pendingTask, rows int32, b *detectors.Batch,
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
	t *detectors.Task, w *series.Window, d *packing, m *series.Progress, before *pendingTask, rows int32, b *detectors.Batch,
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
func packTimed(t *detectors.Task, w *series.Window, d *packing, rows int32, b *detectors.Batch) {
	var dst []float64
	t.X, dst = b.GrowF64(int(rows) * d.Width)
	at := 0
	x, y := w.Times(rows, 0)
	for _, part := range [2][]int64{x, y} {
		for _, time := range part {
			dst[at] = float64(time)
			at += d.Width
		}
	}
	at = 0
	values, more := w.Values(d.Dim, rows)
	for _, part := range [2][]uint64{values, more} {
		for ; len(part) > 0; part = part[d.Dim:] {
			detectors.PackF64(dst[at+1:], part[:d.Dim], nil)
			at += d.Width
		}
	}
}

// changesLevel reports whether the rows of a task, with the centers of packer, change their level.
func (p *packer) changesLevel(x, y []uint64, w *series.Window, d *packing, m *series.Progress, rows int32, common bool) bool {
	if !common || d.Wide != detectors.WideAll && d.Wide != detectors.WideCourse {
		return detectors.ChangesLevel(d.Wide, x, y, d.Dim, int(min(rows, d.Fresh)), p.centers)
	}
	return detectors.ChangesLevelNext(m.Levels(w, d.Dim), d.Wide, x, y, d.Dim, w.Count, p.centers)
}

// packLevels packs the rows of a task that change their level as float64: not centred, and not shared.
func (p *packer) packLevels(t *detectors.Task, x, y []uint64, count int64, d *packing, rows int32, common bool, b *detectors.Batch) {
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
func (p *packer) packOne(t *detectors.Task, w *series.Window, d *packing, rows int32, b *detectors.Batch) {
	x, y := w.Values(1, rows)
	n := len(x) + len(y)
	var dst []float32
	if o := len(b.In); o+n <= cap(b.In) { // GrowF32 as far as it can be inlined
		b.In = b.In[:o+n]
		t.X, dst = detectors.Span{Off: uint32(o), Len: uint32(n)}, b.In[o:].F32()
	} else {
		t.X, dst = b.GrowF32(n)
	}
	p.centers = append(p.centers, d.narrow(dst, x, y, w.Count))
}

// narrow packs rows of one value, the newest of which is the count-th of the series, and returns what they are centred on.
func (d *packing) narrow(dst []float32, x, y []uint64, count int64) (center float64) {
	n := len(x) + len(y)
	ok := false
	if n == int(d.Full) {
		from, common := detectors.CenterRows(int(d.centerRun), n, count)
		center, ok = detectors.PackOne(dst, x, y, from, common)
	}
	if !ok {
		center, _ = detectors.PackOne(dst, x, y, 0, n)
	}
	return center
}

// center sets p.centers to the centers of a task's columns: for a full window, of its run
// of rows (detectors.CenterRows), the newest of which is the count-th of the key; otherwise,
// or where a column has no value in the run, of all rows of the task; the model's origin
// where there is one. It reports whether the next windows may have the same.
func (p *packer) center(x, y []uint64, d *packing, rows int32, count int64) bool {
	if d.model != nil {
		p.centers = append(p.centers[:0], d.origin...)
		return rows == d.Full
	}
	if rows == d.Full {
		var ok bool
		from, n := detectors.CenterRows(int(d.centerRun), int(rows), count)
		if p.centers, ok = detectors.Centers(p.centers[:0], x, y, d.Dim, from, n); ok {
			return true
		}
	}
	p.centers, _ = detectors.Centers(p.centers[:0], x, y, d.Dim, 0, int(rows))
	return false
}

// scale sets p.scales to the scales of the rows that center has centred on.
func (p *packer) scale(x, y []uint64, d *packing, rows int32, count int64, common bool) {
	from, n := 0, int(rows)
	if common {
		from, n = detectors.CenterRows(int(d.centerRun), n, count)
	}
	p.scales = detectors.Scales(p.scales[:0], x, y, d.Dim, from, n)
}

// pack packs rows with the centers of the task, and its scales.
func (p *packer) pack(d *packing, dst []float32, x, y []uint64) {
	if d.Scale {
		detectors.PackScaled(dst, x, y, p.centers, p.scales)
		return
	}
	detectors.Pack(dst, x, y, p.centers)
}

// params returns the place of the detector's parameters in the batch. It writes them
// to a batch once until the next Reset.
func (p *packer) params(d *packing, b *detectors.Batch) detectors.Span {
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

func (p *packer) place(d *packing, b *detectors.Batch) detectors.Span {
	d.span = b.Put(d.Params)
	d.placed = true
	return d.span
}

// packCounts packs the rows of a task as integers.
func packCounts(t *detectors.Task, w *series.Window, d *packing, rows int32, b *detectors.Batch) {
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

// packGrid packs the tables of a grid's window.
func (p *packer) packGrid(t *detectors.Task, w *series.Window, g *series.Grid, b *detectors.Batch) {
	p.sums = slices.Grow(p.sums[:0], 2*g.Cells())[:2*g.Cells()]
	clear(p.sums)
	p.windowStart = w.Tables().Sum(g, p.sums)
	var dst []int64
	t.X, dst = b.GrowI64(len(p.sums))
	for i, v := range p.sums {
		dst[i] = detectors.Count(v)
	}
}

// packSummary puts the summary's virtual points into a task, as float64 or centred as its rows are.
func (p *packer) packSummary(t *detectors.Task, d *packing, m *series.Summary, b *detectors.Batch) {
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

// packing is how the tasks of a detector are packed.
type packing struct {
	*series.Setup
	centerRun int32            // consecutive rows that are the newest of windows with the same centers
	shares    bool             // tasks of a series in a batch share rows
	linked    bool             // a task needs the series' task before it, which has its carry or its rows
	placed    bool             // span is valid
	span      detectors.Span   // of the parameters in packer.batch
	model     *detectors.Model // that its tasks read; nil: none
	origin    []float64        // the centers of its rows with a model
	// sparing says how many rows a task reads; nil: the window's rows.
	sparing detectors.Sparing
	// direct scores a task; nil: an executor does. inPlace: in the memory of the series' carry.
	direct  func(r *detectors.Rows)
	inPlace bool
	// plain is the task of a direct detector of one value a row and one row a task, with a score and nothing else, which is not
	// judged; without X, and reused. nil: it is none.
	plain *detectors.Rows
}

// leastShared is the least number of values of a full window whose rows tasks share:
// packing fewer again takes less time than finding the series' previous task.
const leastShared = 32

// newPacking returns how tasks of a detector are packed. Where scores are watched, a task keeps the carry that it had.
func newPacking(d *series.Setup, watched bool) packing {
	shares := d.Elem != detectors.I64 && int(d.Full)*d.Dim >= leastShared
	sparing, _ := d.Detector.(detectors.Sparing)
	shares = shares && sparing == nil && d.Width == d.Dim
	made := packing{Setup: d, centerRun: int32(detectors.CenterRun(int(d.Full))), sparing: sparing}
	if z, ok := d.Detector.(detectors.Direct); ok {
		made.direct, made.inPlace = z.Direct()
	}
	made.inPlace = made.inPlace && made.direct != nil && d.Most.Carry > 0 && !watched
	if made.direct != nil && d.Elem == detectors.F32 && d.Dim == 1 && d.Fresh == 1 && d.Steady && d.Reads == 1 &&
		d.Wide == detectors.NotWide && d.Summary == nil && !d.Scale && (d.Most == detectors.Outputs{Scores: 1}) && d.Learner == nil &&
		d.Predict == nil && !d.Followed && sparing == nil {
		made.plain = &detectors.Rows{Dim: 1, Fresh: 1, Params: d.Params, Scores: make([]float32, 1)}
	}
	made.shares = shares && made.direct == nil
	made.linked = made.shares || d.Most.Carry > 0 && !made.inPlace
	if m, ok := d.Detector.(detectors.Modelled); ok {
		made.model, made.origin = m.Model(), m.Origin()
	}
	return made
}

// need returns how much of a batch the tasks of one sample that an executor scores take at most: a task of each detector,
// parameters included.
func (p *packer) need() detectors.Need {
	var n detectors.Need
	for i := range p.detectors {
		if d := &p.detectors[i]; d.Setup != nil && d.direct == nil {
			d.addNeed(&n)
		}
	}
	return n
}

func (d *packing) addNeed(n *detectors.Need) {
	n.Tasks++
	n.In += len(d.Params) + d.Most.Carry + 2 // both at even offsets
	n.Out += d.Most.Scores + d.Most.Carry + d.Most.Detail
	if d.Summary != nil && d.Wide == detectors.NotWide {
		n.In += d.Summary.Max * (d.Dim + 1)
	} else if d.Summary != nil {
		n.In += detectors.F64.Words(d.Summary.Max * (d.Dim + 1))
	}
	x := int(d.Full) * d.Width
	n.In += d.Elem.Words(x)
	if d.Wide != detectors.NotWide {
		n.In += detectors.F64.Words(x) - x
	}
	if d.shares { // and room for other tasks' rows, see packX
		room := int((d.centerRun-1)/d.Fresh*d.Fresh) * d.Dim
		if d.Elem == detectors.F64 {
			room *= 2
		}
		n.In += room
	}
}

// followers returns the number of tasks to leave room for behind one whose newest row is
// the count-th of the series: the previous batch's number of tasks less those already packed,
// or, beyond that, as many as are packed; at most those with the same centers.
func (d *packing) followers(m *series.Packed, count int64) uint16 {
	more := m.Tasks
	if m.Before > m.Tasks {
		more = m.Before - m.Tasks
	} else if m.Tasks == 1 {
		return 0
	}
	run := int64(d.centerRun)
	return min(more, uint16((run-1-count&(run-1))/int64(d.Fresh)))
}
