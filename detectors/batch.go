package detectors

import "sync/atomic"

// Span is a run of elements of one of a batch's arenas.
type Span struct{ Off, Len uint32 }

// Task is one detector's work on one key: 64 bytes without pointers, so that a
// batch can be handed to a device as it lies.
type Task struct {
	Op    Op
	Dim   uint32 // values a row of X
	Fresh uint32 // rows at the end of X to score, oldest first
	// After is 1 + the index of an earlier task of the same batch whose Next is
	// this task's carry (the same key's task before this one); 0 means that the
	// carry is Carry. Tasks linked by After run in order.
	After  uint32
	Params Span // in F32
	X      Span // rows*Dim elements, oldest row first, in the arena of the op's Elem
	Bins   Span // in F32; empty without a summary
	Carry  Span // in F32; empty at the key's first task
	Scores Span // in Out
	Next   Span // in Out: the carry after this task
}

// Batch is a set of tasks and the arenas that their spans point into. The
// memory is the executor's (pinned or shared where there is a device): tasks
// are packed into it once. A Batch is not safe for concurrent use.
type Batch struct {
	Tasks []Task
	F32   []float32
	F64   []float64
	I64   []int64
	Out   []float32
	// Limits of the arenas' lengths; an append past the capacity is refused by
	// Fits. A batch without limits (all zero) grows.
	MaxTasks, MaxF32, MaxF64, MaxI64, MaxOut int

	serial uint64 // 0: none yet

	// Updates are those of cached windows that tasks read, whose X, CachedX elements
	// together, are not here: see WindowPool.
	Updates []WindowUpdate
	CachedX int
	Cache   *WindowCache // nil without Updates
	memory  CacheMemory
	updated bool // the executor has applied Updates
}

// serials is the last Serial of any batch of the process.
var serials atomic.Uint64

// Serial numbers the batch's content: no other batch of the process has the same, nor
// has this one after a Reset. So what is kept of a batch (the spans of a detector's
// parameters, the slot of a window's last update) is known to be stale.
func (b *Batch) Serial() uint64 {
	if b.serial == 0 {
		b.serial = serials.Add(1)
	}
	return b.serial
}

// Need is what a task takes of a batch's arenas.
type Need struct{ Tasks, F32, F64, I64, Out int }

// Fits reports whether n more elements fit without growing past the limits.
func (b *Batch) Fits(n Need) bool {
	return fits(len(b.Tasks), n.Tasks, b.MaxTasks) && fits(len(b.F32), n.F32, b.MaxF32) &&
		fits(len(b.F64), n.F64, b.MaxF64) && fits(len(b.I64), n.I64, b.MaxI64) && fits(len(b.Out), n.Out, b.MaxOut)
}

func fits(have, more, limit int) bool { return limit == 0 || have+more <= limit }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Tasks, b.F32, b.F64, b.I64, b.Out = b.Tasks[:0], b.F32[:0], b.F64[:0], b.I64[:0], b.Out[:0]
	b.serial = 0
	if !b.updated {
		b.Invalidate()
	} else if b.Cache != nil {
		b.dropUpdates()
	}
}

// Invalidate takes the Updates back and invalidates the window cache that they are of.
// The X of their tasks have to be packed before the batch is executed.
func (b *Batch) Invalidate() {
	if b.Cache != nil {
		b.Cache.Invalidate()
		b.dropUpdates()
	}
}

func (b *Batch) dropUpdates() {
	b.Updates, b.CachedX, b.Cache, b.memory, b.updated = b.Updates[:0], 0, nil, nil, false
}

// CacheMemory is the memory of the windows that Updates are of; nil without any.
func (b *Batch) CacheMemory() CacheMemory { return b.memory }

// Updated notes that the executor has applied the Updates. Without it, Reset
// invalidates the window cache. For executors.
func (b *Batch) Updated() { b.updated = true }

// GrowF32 appends n elements of undefined content and returns where they are.
// The slice is valid until the next Grow of the same arena.
func (b *Batch) GrowF32(n int) (Span, []float32) {
	s, d := grow(&b.F32, n)
	return s, d
}

// GrowF64 is GrowF32 for the float64 arena.
func (b *Batch) GrowF64(n int) (Span, []float64) { return grow(&b.F64, n) }

// GrowI64 is GrowF32 for the int64 arena.
func (b *Batch) GrowI64(n int) (Span, []int64) { return grow(&b.I64, n) }

// GrowOut appends n elements of undefined content to the output arena.
func (b *Batch) GrowOut(n int) Span {
	s, _ := grow(&b.Out, n)
	return s
}

func grow[T any](a *[]T, n int) (Span, []T) {
	o := len(*a)
	if o+n > cap(*a) {
		bigger := make([]T, o, max(2*cap(*a), o+n, 1024))
		copy(bigger, *a)
		*a = bigger
	}
	*a = (*a)[:o+n]
	return Span{uint32(o), uint32(n)}, (*a)[o : o+n : o+n]
}

// Rows are a task's spans resolved to slices. X is in the field of the op's
// element type; the others are nil. Inputs are read only.
type Rows struct {
	Dim, Fresh int
	Params     []float32
	X          []float32
	X64        []float64
	XI         []int64
	Bins       []float32
	Carry      []float32
	Scores     []float32
	Next       []float32
}

// Len is the number of rows of X.
func (r *Rows) Len() int { return (len(r.X) + len(r.X64) + len(r.XI)) / r.Dim }

// Rows resolves task i.
func (b *Batch) Rows(i int) (r Rows) {
	b.resolve(i, &r)
	return r
}

// resolve is Rows into r, which may hold an earlier task's.
func (b *Batch) resolve(i int, r *Rows) {
	t := &b.Tasks[i]
	r.Dim, r.Fresh = int(t.Dim), int(t.Fresh)
	r.Params = at(b.F32, t.Params)
	r.Bins = at(b.F32, t.Bins)
	r.Scores = at(b.Out, t.Scores)
	r.Next = at(b.Out, t.Next)
	if t.After == 0 {
		r.Carry = at(b.F32, t.Carry)
	} else {
		r.Carry = at(b.Out, b.Tasks[t.After-1].Next)
	}
	r.X, r.X64, r.XI = nil, nil, nil
	switch t.Op.Elem() {
	case F32:
		if t.X.Off < InCache { // the executor alone has the others
			r.X = at(b.F32, t.X)
		}
	case F64:
		r.X64 = at(b.F64, t.X)
	case I64:
		r.XI = at(b.I64, t.X)
	}
}

func at[T any](a []T, s Span) []T { return a[s.Off : s.Off+s.Len : s.Off+s.Len] }
