package state

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"odradek/detectors"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/series"
)

// This file has what it takes to undo the uncommitted changes of a partition's state, and
// the marks to which they can be undone.
//
// A mark is an offset of the input. What changes between two marks is a unit, which is
// committed or undone as a whole. A change is an operation, which the owner adds to the open
// unit before it changes anything. Marks are also where a replay can begin, so each is a
// replay floor, and those from the last committed floor on are kept.

// undoOwner is the state whose changes a journal undoes.
type undoOwner struct {
	Save    func() atMark                 // what is restored with a whole unit
	Restore func(atMark)                  // restores what Save has returned
	Revert  func(*undoOp, *undoOperands)  // reverts an operation
	Release func(o *undoOp, values []any) // an operation of a kind with Released is committed
	Renew   func()                        // unit numbers, of which keys have the lower half, begin again
}

// journal holds the marks, and a unit from each to the next.
type journal struct {
	// Number is the open unit's. Keys have its lower half, and so know whether the
	// unit has a copy of them.
	Number uint64

	Open  *unit   // to which operations are added
	ended []*unit // that end at a mark which is not committed
	spare []*unit

	marks     []checkpoint.Floor // since the committed floor, oldest first
	owner     undoOwner
	base      int64 // last committed mark, or where the state began
	started   bool  // base is set
	implicit  bool  // by the first sample
	committed int64 // the last committed floor
}

// newJournal returns a journal without a mark.
func newJournal(owner undoOwner) journal {
	l := journal{Number: 1, owner: owner, base: math.MinInt64, committed: math.MinInt64}
	l.open(0)
	return l
}

// Started reports whether there is a mark.
func (l *journal) Started() bool { return l.started }

// Init makes the first mark. If it is implicit, Rollback may undo it.
func (l *journal) Init(f checkpoint.Floor, implicit bool) {
	l.started, l.implicit = true, implicit
	l.base, l.committed = f.Offset, f.Offset
	l.marks = append(l.marks[:0], f)
	l.Open.start, l.Open.saved = f.Offset, l.owner.Save()
}

// Mark ends the open unit, and begins the next one.
func (l *journal) Mark(f checkpoint.Floor) {
	l.marks = append(l.marks, f)
	l.Open.end = f.Offset
	l.ended = append(l.ended, l.Open)
	l.startUnit(f.Offset)
}

// BeginReplay begins a replay, which is not undone: operations are dropped, up to EndReplay.
func (l *journal) BeginReplay() { l.Open.void = true }

// Pass adds a mark to which nothing can be undone: one of a replay.
func (l *journal) Pass(f checkpoint.Floor) {
	l.marks = append(l.marks, f)
	l.count()
}

// EndReplay makes the end of a replay the committed mark, and begins the first unit.
func (l *journal) EndReplay(f checkpoint.Floor) {
	l.base = f.Offset
	if l.Last().Offset < f.Offset {
		l.marks = append(l.marks, f)
	}
	l.startUnit(f.Offset)
}

// Snapshot notes that the operations of a snapshot are complete; f is the floor if it is committed.
func (l *journal) Snapshot(f checkpoint.Floor) {
	u := l.Newest()
	u.floor = f
	if u != l.Open {
		u.snapped = true
		return
	}
	u.prefix, u.prefixFloor, u.prefixSaved = len(u.ops), f.Offset, l.owner.Save()
	l.count() // what the prefix has a copy of is copied once more behind it
}

// Committed returns the offset of the last committed floor.
func (l *journal) Committed() int64 { return l.committed }

// Commit discards what would undo the changes up to the mark at next, with its snapshot, and
// the marks behind the committed floor.
func (l *journal) Commit(next int64) {
	n := 0
	for n < len(l.ended) && l.ended[n].end <= next {
		n++
	}
	for _, u := range l.ended[:n] {
		u.commit(len(u.ops), l.owner.Release)
		l.base, l.committed, l.implicit = u.end, u.floor.Offset, false
		l.recycle(u)
	}
	l.ended = slices.Delete(l.ended, 0, n)
	first := l.Open
	if len(l.ended) > 0 {
		first = l.ended[0]
	}
	if first.start == next && first.prefix > first.final {
		first.commit(first.prefix, l.owner.Release)
		first.final, first.saved = first.prefix, first.prefixSaved
		l.committed = max(l.committed, first.prefixFloor)
	}
	// Floors are marks, and those behind the committed one are not needed again.
	l.marks = slices.Delete(l.marks, 0, min(l.search(l.committed), len(l.marks)-1))
}

// Check returns an error if there is no mark at an offset to roll back to.
func (l *journal) Check(to int64) error {
	if _, at := l.find(to); at != to && !l.toBeginning(to) {
		return fmt.Errorf("no mark at offset %d to roll back to, the nearest is at %d", to, at)
	}
	return nil
}

// toBeginning reports whether a rollback leads to before an implicit first mark.
func (l *journal) toBeginning(to int64) bool {
	first, at := l.find(to)
	return l.implicit && first == 0 && to < at
}

// Rollback undoes the changes after the mark at an offset, for which Check has returned nil,
// and returns the offset of the mark. An implicit first mark to which it leads is undone, too.
func (l *journal) Rollback(to int64) (at int64) {
	first, at := l.find(to)
	l.ended = append(l.ended, l.Open)
	for _, u := range slices.Backward(l.ended[first:]) {
		u.undo(l.owner.Revert)
		l.owner.Restore(u.saved)
		l.recycle(u)
	}
	l.ended = slices.Delete(l.ended, first, len(l.ended))
	for len(l.marks) > 1 && l.Last().Offset > at {
		l.marks = l.marks[:len(l.marks)-1]
	}
	if l.implicit && first == 0 {
		l.started, l.implicit = false, false
		l.marks = l.marks[:0]
	}
	l.startUnit(at)
	return at
}

// Newest returns the unit that ends at the last mark, or, where that is committed, the open one.
func (l *journal) Newest() *unit {
	if n := len(l.ended); n > 0 {
		return l.ended[n-1]
	}
	return l.Open
}

// startUnit begins a unit at a mark.
func (l *journal) startUnit(start int64) {
	l.count()
	l.open(start)
}

// open opens a unit at a mark.
func (l *journal) open(start int64) {
	if n := len(l.spare); n > 0 {
		l.Open, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		l.Open = new(unit)
	}
	l.Open.reset(start, l.owner.Save())
}

// count counts units.
func (l *journal) count() {
	if l.Number++; uint32(l.Number) == 0 {
		l.owner.Renew()
		l.Number++
	}
}

// spareUnits is the number of units kept for reuse: at full load, the units of the cycle that
// is committed and of the next one.
const spareUnits = 32

// recycle takes a unit that is committed or undone, for reuse.
func (l *journal) recycle(u *unit) {
	if len(l.spare) < spareUnits {
		l.spare = append(l.spare, u)
	}
}

// find returns the index of the first ended unit to undo to go back to a mark, and the mark
// that this leads to.
func (l *journal) find(to int64) (first int, at int64) {
	first = len(l.ended)
	for first > 0 && l.ended[first-1].start >= to {
		first--
	}
	if first > 0 {
		return first, l.ended[first-1].end
	}
	return first, l.base
}

// Snapshotted reports whether the last mark has a snapshot that is not committed.
func (l *journal) Snapshotted() bool {
	u := l.Newest()
	return u.snapped || u == l.Open && u.prefix > u.final
}

// SetFloor sets the floor if the last mark is committed without a snapshot.
func (l *journal) SetFloor(f checkpoint.Floor) { l.Newest().floor = f }

// Last returns the last mark.
func (l *journal) Last() *checkpoint.Floor { return &l.marks[len(l.marks)-1] }

// At returns the mark at an offset.
func (l *journal) At(offset int64) checkpoint.Floor {
	i := l.search(offset)
	if l.marks[i].Offset != offset {
		panic(fmt.Sprintf("state: no mark at %d", offset))
	}
	return l.marks[i]
}

// search returns the index of the first mark that is not below an offset.
func (l *journal) search(offset int64) int {
	return sort.Search(len(l.marks), func(i int) bool { return l.marks[i].Offset >= offset })
}

// undoKind says what an operation changes. The owner of a journal defines the kinds.
type undoKind uint8

// undoFloats is set in kinds whose numbers are on the stack unit.Floats, not on unit.Words.
const undoFloats undoKind = 1 << 7

// undoReleased is set in kinds whose operations undoOwner.Release is called for.
const undoReleased undoKind = 1 << 6

// undoOp is a change that can be undone.
type undoOp struct {
	Key    *Key
	Kind   undoKind
	values uint8  // on the stack of values
	What   uint16 // which field of the key, or as the kind defines
	n      uint32 // numbers on their stack
}

// undoOperands are what an operation needs to be undone: numbers on the stack of its kind, and the
// values that it was pushed with. The others are undefined.
type undoOperands struct {
	Words  []uint64
	Floats []float32
	Values []any
}

// atMark is what is restored with a whole unit: values as of the mark where it begins.
type atMark struct {
	maxTime   int64
	heldN     int
	tally     Tally
	suspects  []suspect
	suspected SuspectCounts
}

// unit is what it takes to undo the changes between two marks. Operations are
// undone last first; what they need lies on stacks, and is popped.
type unit struct {
	// Words and Floats are where the numbers of an operation are appended before Push.
	Words  []uint64
	Floats []float32

	void       bool // operations are dropped
	start, end int64
	floor      checkpoint.Floor // if the cycle that ends here is committed
	saved      atMark           // of the owner, as of start
	ops        []undoOp
	values     []any

	// The operations of a snapshot are the last of the unit whose mark it follows.
	// Without a new mark, they are the first ones of the open unit, prefix in
	// number; once that is committed, the first ones, final in number, are not undone.
	snapped       bool
	prefix, final int
	prefixFloor   int64
	prefixSaved   atMark // of the owner, as of the end of the prefix
}

// Start returns the offset of the mark where the unit begins.
func (u *unit) Start() int64 { return u.start }

// Push adds an operation, whose n numbers are the last of Words or Floats.
func (u *unit) Push(kind undoKind, k *Key, what int, n int) {
	if u.void {
		u.Words, u.Floats = u.Words[:0], u.Floats[:0]
		return
	}
	// Filled in place: a literal is built on the stack in small stores and copied in
	// large loads, which have to wait for them.
	u.ops = append(u.ops, undoOp{})
	o := &u.ops[len(u.ops)-1]
	o.Key, o.Kind, o.What, o.n = k, kind, uint16(what), uint32(n)
}

// PushValues is Push for an operation that needs values, too.
func (u *unit) PushValues(kind undoKind, k *Key, what int, n int, values ...any) {
	u.Push(kind, k, what, n)
	if !u.void {
		u.values = append(u.values, values...)
		u.ops[len(u.ops)-1].values = uint8(len(values))
	}
}

// undo reverts the operations that are not final.
func (u *unit) undo(revert func(*undoOp, *undoOperands)) {
	with := new(undoOperands)
	for i := len(u.ops) - 1; i >= u.final; i-- {
		o := &u.ops[i]
		if o.Kind&undoFloats != 0 {
			with.Floats = pop(&u.Floats, int(o.n))
		} else {
			with.Words = pop(&u.Words, int(o.n))
		}
		if o.values == 0 {
			revert(o, with)
			continue
		}
		with.Values = pop(&u.values, int(o.values))
		revert(o, with)
		clear(with.Values)
	}
}

func pop[T any](stack *[]T, n int) []T {
	at := len(*stack) - n
	top := (*stack)[at:]
	*stack = (*stack)[:at]
	return top
}

// commit releases what only an undo of the operations up to n would need.
func (u *unit) commit(n int, release func(o *undoOp, values []any)) {
	at := 0
	for i := range u.ops[:n] {
		o := &u.ops[i]
		if o.Kind&undoReleased != 0 && i >= u.final {
			release(o, u.values[at:at+int(o.values)])
		}
		at += int(o.values)
	}
}

// reset empties the unit for what follows a mark.
func (u *unit) reset(start int64, saved atMark) {
	*u = unit{
		start: start, saved: saved,
		Words: trim(u.Words, false), Floats: trim(u.Floats, false), ops: trim(u.ops, true), values: trim(u.values, true),
	}
}

// trim empties a stack and clears its pointers. It releases the memory of a burst; units differ by several times
// where the open intervals of all series keep more values from unit to unit, and close at once.
func trim[T any](a []T, pointers bool) []T {
	if cap(a) > 1<<16 && len(a) < cap(a)/8 {
		return nil
	}
	if pointers {
		clear(a)
	}
	return a[:0]
}

// The operations. What each needs to be undone is said where it is pushed.
const (
	opHead       undoKind = iota // the key's head as of the unit's first change
	opRow                        // a row of a window was overwritten
	opHeldIn                     // a sample was held
	opHeldOut                    // a sample was released
	opCreate                     // a key was created
	opSnapshot                   // the key was snapshotted
	opAlert                      // what events remember of a detector was changed
	opSilent                     // a silence was opened or closed
	opOrphans                    // anomalies that nothing continued were closed
	opSummary                    // a summary was changed
	opThreshold                  // a history was made one of another threshold
	opScoreState                 // the state of a detector's scores was changed
	opCell                       // a cell of a grid was changed
	opTable                      // a grid began its next window

	opEvict    = undoReleased | iota // a key was evicted
	opDecision                       // a step of a decision, which is What

	opCarry  = undoFloats | iota // a carry was replaced
	opJudged                     // a score was added to a threshold's history
)

// touch records a key's first change in the open unit: it pushes everything of the key but rows, carries and held samples, and makes
// it dirty since the last mark.
func (s *State) touch(k *Key) {
	k.Unit = uint32(s.journal.Number)
	if u := s.journal.Open; !u.void {
		from := len(u.Words)
		u.Words = k.AppendPlaces(u.Words)
		u.Push(opHead, k, 0, len(u.Words)-from)
	}
	s.dirty.Add(k, s.journal.Last().Offset)
}

// The functions that save gather nothing for a unit that drops its operations: a replay calls them for each sample.

// saveRow pushes the oldest row of a full window, which is overwritten next.
func saveRow(u *unit, k *Key, i int, sw *series.SetWindow, w *series.Window) {
	if u.void {
		return
	}
	u.Words = w.AppendOldest(u.Words, len(sw.Columns))
	u.Push(opRow, k, i, 1+len(sw.Columns))
}

// saveValue is saveRow for the only window of a key, with one column.
func saveValue(u *unit, k *Key, w *series.Window) {
	if u.void {
		return
	}
	u.Words = w.AppendOldestValue(u.Words)
	u.Push(opRow, k, 0, 2)
}

func saveCarry(u *unit, k *Key, place int, carry detectors.Words) {
	if u.void {
		return
	}
	u.Floats = append(u.Floats, carry.F32()...)
	u.Push(opCarry, k, place, len(carry))
}

func saveHeldIn(u *unit, k *Key, time, offset int64) {
	u.Words = append(u.Words, uint64(time), uint64(offset), uint64(k.Held.Behind))
	u.Push(opHeldIn, k, 0, 3)
}

func saveHeldOut(u *unit, k *Key, sample []uint64) {
	u.Words = append(append(u.Words, sample...), uint64(k.Held.Behind))
	u.Push(opHeldOut, k, 0, len(sample)+1)
}
