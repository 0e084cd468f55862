package detectors

import (
	"math"
	"math/bits"
	"sync/atomic"

	"odradek/detectors/vec"
)

// Span is a range of words in one of a batch's arenas; of an X whose elements have 8
// bytes, a range of pairs of words.
type Span struct{ Off, Len uint32 }

// Task is one detector's work on one key: 80 bytes without pointers.
type Task struct {
	Op    Op
	Dim   uint32 // values a row of X
	Fresh uint32 // rows at the end of X to score, oldest first
	// After is 1 + the index of an earlier task of the same batch whose Next is
	// this task's carry (the same key's task before this one); 0 means that the
	// carry is Carry. Tasks linked by After run in order.
	After  uint32
	Params Span // in In
	X      Span // in In: rows*Dim elements of the op's Elem, oldest row first
	Bins   Span // in In; empty without a summary; of a wide task float64s, at an even offset
	Carry  Span // in In; empty at the key's first task
	Scores Span // in Out
	Next   Span // in Out: the carry after this task
	Model  Span // of the batch's models, see Batch.Model; empty without one
	Detail Span // in Out: input of AppendFindings beside the scores; no later task reads it
}

// Batch is a set of tasks and the arenas that their spans point into. The
// memory is the executor's (pinned or shared where there is a device): tasks
// are packed into it once. A Batch is not safe for concurrent use.
type Batch struct {
	Tasks []Task
	In    Words // the first at a multiple of 256 bytes
	Out   Words
	// Limits of the arenas' lengths; an append past the capacity is refused by
	// Fits. A batch without limits (all zero) grows.
	MaxTasks, MaxIn, MaxOut int

	serial uint64 // 0: none yet
	models []batchModel
}

// serials is the last Serial of any batch of the process.
var serials atomic.Uint64

// Serial numbers the batch's content: no other batch of the process has the same number, and the batch
// gets a new one after a Reset. It shows whether data noted for a batch (the spans of a detector's
// parameters) are stale.
func (b *Batch) Serial() uint64 {
	if b.serial == 0 {
		b.serial = serials.Add(1)
	}
	return b.serial
}

// Need is an addition to a batch: tasks, words of In and of Out.
type Need struct{ Tasks, In, Out int }

// Words returns the most words of In that n elements take, alignment included.
func (e Elem) Words(n int) int {
	if e == F32 {
		return n
	}
	return 2*n + 1
}

// Fits reports whether n more elements fit without growing past the limits.
func (b *Batch) Fits(n Need) bool {
	return (b.MaxTasks == 0 || len(b.Tasks)+n.Tasks <= b.MaxTasks) &&
		(b.MaxIn == 0 || len(b.In)+n.In <= b.MaxIn) && (b.MaxOut == 0 || len(b.Out)+n.Out <= b.MaxOut)
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Tasks, b.In, b.Out = b.Tasks[:0], b.In[:0], b.Out[:0]
	clear(b.models)
	b.models = b.models[:0]
	b.serial = 0
}

// GrowF32 appends n float32s of undefined content to In and returns where they are.
// The slice is valid until the next Grow of the same arena.
func (b *Batch) GrowF32(n int) (Span, []float32) {
	s, w := grow(&b.In, n)
	return s, w.F32()
}

// Put appends words to In, at an even offset, and returns where they are.
func (b *Batch) Put(w Words) Span {
	b.even()
	s, dst := grow(&b.In, len(w))
	copy(dst, w)
	return s
}

// GrowF64 is GrowF32 for float64s. The span counts float64s, as the span of an X does.
func (b *Batch) GrowF64(n int) (Span, []float64) {
	s, w := b.growPairs(n)
	return s, w.F64()
}

// GrowI64 is GrowF64 for int64s.
func (b *Batch) GrowI64(n int) (Span, []int64) {
	s, w := b.growPairs(n)
	return s, w.I64()
}

func (b *Batch) growPairs(n int) (Span, Words) {
	b.even()
	s, w := grow(&b.In, 2*n)
	return Span{s.Off / 2, uint32(n)}, w
}

// even moves the end of In to an even offset.
func (b *Batch) even() {
	if len(b.In)%2 != 0 {
		_, gap := grow(&b.In, 1)
		gap[0] = 0
	}
}

// GrowOut appends n words of undefined content to the output arena.
func (b *Batch) GrowOut(n int) Span {
	s, _ := grow(&b.Out, n)
	return s
}

// GrowOutputs appends the outputs of a task to Out: its Scores, Next and Detail.
func (b *Batch) GrowOutputs(t *Task, n Outputs) {
	t.Scores = b.GrowOut(n.Scores)
	b.GrowMore(t, n)
}

// GrowMore is GrowOutputs without the Scores.
func (b *Batch) GrowMore(t *Task, n Outputs) {
	if n.Carry > 0 {
		t.Next = b.GrowOut(n.Carry)
	}
	if n.Detail > 0 {
		t.Detail = b.GrowOut(n.Detail)
	}
}

func grow(a *Words, n int) (Span, Words) {
	o := len(*a)
	if o+n > cap(*a) {
		bigger := vec.AlignedWords(max(2*cap(*a), o+n, 1024))
		copy(bigger, *a)
		*a = bigger
	}
	*a = (*a)[:o+n]
	return Span{uint32(o), uint32(n)}, (*a)[o : o+n : o+n]
}

// Rows are a task's spans resolved to slices. X is in the field of the op's
// element type, or in X64 where the task is wide; the others are nil. Inputs are read only.
type Rows struct {
	Dim, Fresh int
	Params     Words
	X          []float32
	X64        []float64
	XI         []int64
	Bins       []float32
	Bins64     []float64 // in place of Bins where the task is wide
	Carry      Words
	Model      Words
	Scores     []float32
	Next       Words
	Detail     Words
}

// Len is the number of rows of X.
func (r *Rows) Len() int { return (len(r.X) + len(r.X64) + len(r.XI)) / r.Dim }

// Rows resolves task i.
func (b *Batch) Rows(i int) (r Rows) {
	b.Resolve(i, &r)
	return r
}

// Resolve is Rows into r, which may hold an earlier task's.
func (b *Batch) Resolve(i int, r *Rows) {
	t := &b.Tasks[i]
	r.Dim, r.Fresh = int(t.Dim), int(t.Fresh)
	r.Params = at(b.In, t.Params)
	if r.Bins, r.Bins64 = nil, nil; t.Wide() {
		r.Bins64 = at(b.In, t.Bins).F64()
	} else {
		r.Bins = at(b.In, t.Bins).F32()
	}
	r.Scores = at(b.Out, t.Scores).F32()
	r.Next = at(b.Out, t.Next)
	r.Detail = at(b.Out, t.Detail)
	r.Model = nil
	if t.Model.Len > 0 {
		r.Model = b.modelAt(t.Model)
	}
	if t.After == 0 {
		r.Carry = at(b.In, t.Carry)
	} else {
		r.Carry = at(b.Out, b.Tasks[t.After-1].Next)
	}
	r.X, r.X64, r.XI = nil, nil, nil
	switch t.Op.Elem() {
	case F32:
		if t.Wide() {
			r.X64 = at(b.In, t.XWords()).F64()
		} else {
			r.X = at(b.In, t.X).F32()
		}
	case F64:
		r.X64 = at(b.In, t.XWords()).F64()
	case I64:
		r.XI = at(b.In, t.XWords()).I64()
	}
}

// XWords returns X as words, regardless of its element type.
func (t *Task) XWords() Span {
	switch {
	case t.Wide():
		return Span{2 * (t.X.Off &^ InWide), 2 * t.X.Len}
	case t.Op.Elem() == F32:
		return t.X
	}
	return Span{2 * t.X.Off, 2 * t.X.Len}
}

func at(a Words, s Span) Words { return a[s.Off : s.Off+s.Len : s.Off+s.Len] }

// Float32 rows are centred, column by column, on the median of three values of their own window:
// float32 has its digits around the values of this task, regardless of the series earlier. A mean
// would follow a single spike, and costs a pass.
//
// Consecutive tasks of a series differ by one row, and the rest of X is equal if they have the same
// center. So the rows of a series are counted in runs of B, the largest power of two that is at most
// half of a full window's rows, 128 at most. The full windows whose newest rows are in one run share
// one center, computed from the rows common to all of them: N-B+1 of N, which end at the run's first. These
// rows depend on the series' own count alone, and so do a task's bits.

// mostCenterRun is the largest number of tasks with the same center.
const mostCenterRun = 128

// CenterRun returns the number of consecutive windows of the given length that share one center.
func CenterRun(rows int) int {
	return 1 << max(0, bits.Len(uint(min(rows/2, mostCenterRun)))-1)
}

// CenterRows returns the rows that a full window is centred on, n rows from row from on.
// rows is the window's length, run CenterRun of it, count the number of its newest row in the series, from 1.
func CenterRows(run, rows int, count int64) (from, n int) {
	behind := int(count & int64(run-1))
	return run - 1 - behind, rows - run + 1
}

// Centers appends the center of each column of rows x, at least one, and then y, floats by their bits:
// the median of the first, the middle and the last of n rows from row from on. Where one of the three
// is missing (NaN) it is the first of them that is present, and where all are missing, the first value
// of these rows. ok is false where a column has no value; its center is 0.
func Centers(dst []float64, x, y []uint64, dim, from, n int) (centers []float64, ok bool) {
	ok = true
	at := from * dim
	middle, last := at+n/2*dim, at+(n-1)*dim
	for c := range dim {
		u, v, w := valueOf(x, y, at+c), valueOf(x, y, middle+c), valueOf(x, y, last+c)
		var center float64
		if u == u && v == v && w == w {
			center = median(u, v, w)
		} else {
			center, ok = firstOf(x, y, dim, at+c, middle+c, last+c, ok)
		}
		dst = append(dst, center)
	}
	return dst, ok
}

// median returns the median of three numbers. Devices make the same comparisons, so that
// a zero has the same sign.
func median(a, b, c float64) float64 {
	if a > b {
		a, b = b, a
	}
	if c < a {
		return a
	}
	if c > b {
		return b
	}
	return c
}

// firstOf returns the first value of a column that is not missing: of the three, or else of
// those from first to last. ok becomes false if there is none.
func firstOf(x, y []uint64, dim, first, middle, last int, ok bool) (float64, bool) {
	for _, i := range [...]int{first, middle, last} {
		if v := valueOf(x, y, i); v == v {
			return v, ok
		}
	}
	for i := first; i <= last; i += dim {
		if v := valueOf(x, y, i); v == v {
			return v, ok
		}
	}
	return 0, false
}

// valueOf returns number i of x followed by y.
func valueOf(x, y []uint64, i int) float64 {
	if i < len(x) {
		return math.Float64frombits(x[i])
	}
	return math.Float64frombits(y[i-len(x)])
}

// Pack packs rows x and then y, a value for each of the centers, floats by their bits: it sets dst to
// the differences to the centers, in float64, and then rounded.
func Pack(dst []float32, x, y []uint64, centers []float64) {
	if len(centers) == 1 {
		vec.Narrow(dst[:len(x)], x, centers[0])
		vec.Narrow(dst[len(x):len(x)+len(y)], y, centers[0])
		return
	}
	packRows(dst[:len(x)], x, centers)
	packRows(dst[len(x):len(x)+len(y)], y, centers)
}

// PackOne is Centers and Pack for rows of one value, inlined, because calls dominate in
// short windows.
func PackOne(dst []float32, x, y []uint64, from, n int) (center float64, ok bool) {
	u, v, w := valueOf(x, y, from), valueOf(x, y, from+n/2), valueOf(x, y, from+n-1)
	if u == u && v == v && w == w {
		center, ok = median(u, v, w), true
	} else {
		center, ok = firstOf(x, y, 1, from, from+n/2, from+n-1, true)
	}
	vec.Narrow(dst[:len(x)], x, center)
	if len(y) > 0 {
		vec.Narrow(dst[len(x):len(x)+len(y)], y, center)
	}
	return center, ok
}

// PackF64 sets dst to the floats whose bits are in x and then y.
func PackF64(dst []float64, x, y []uint64) {
	copy(dst[copy(dst, vec.BitsF64(x)):], vec.BitsF64(y))
}

// packRows is Pack for rows of several values.
func packRows(dst []float32, x []uint64, centers []float64) {
	for len(x) >= len(centers) {
		to, row := dst[:len(centers)], x[:len(centers)]
		for c, center := range centers {
			to[c] = float32(math.Float64frombits(row[c]) - center)
		}
		dst, x = dst[len(centers):], x[len(centers):]
	}
}

// Count converts the value of a counter to the nearest whole number.
func Count(v float64) int64 {
	const most = 1 << 62
	switch v = math.RoundToEven(v); {
	case v >= most:
		return most
	case v <= -most:
		return -most
	}
	return int64(v)
}
