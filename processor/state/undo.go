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

// undoOwner is the state whose changes a Log undoes.
type undoOwner[K, S any] struct {
	Save    func() S                         // what is restored with a whole unit
	Restore func(S)                          // restores what Save has returned
	Revert  func(*undoOp[K], *undoOperands)  // reverts an operation
	Release func(o *undoOp[K], values []any) // an operation of a kind with Released is committed
	Renew   func()                           // unit numbers, of which keys have the lower half, begin again
}

// undoLog holds the marks, and a unit from each to the next.
type undoLog[K, S any] struct {
	// Number is the open unit's. Keys have its lower half, and so know whether the
	// unit has a copy of them.
	Number uint64

	units[K, S]
	marks

	owner     undoOwner[K, S]
	base      int64 // last committed mark, or where the state began
	started   bool  // base is set
	implicit  bool  // by the first sample
	committed int64 // the last committed floor
}

// newUndoLog returns a Log without a mark.
func newUndoLog[K, S any](owner undoOwner[K, S]) undoLog[K, S] {
	l := undoLog[K, S]{Number: 1, owner: owner, base: math.MinInt64, committed: math.MinInt64}
	l.units.open(0, owner.Save())
	return l
}

// Started reports whether there is a mark.
func (l *undoLog[K, S]) Started() bool { return l.started }

// Init makes the first mark. If it is implicit, Rollback may undo it.
func (l *undoLog[K, S]) Init(f checkpoint.Floor, implicit bool) {
	l.started, l.implicit = true, implicit
	l.base, l.committed = f.Offset, f.Offset
	l.marks.reset(f)
	l.Open.start, l.Open.saved = f.Offset, l.owner.Save()
}

// Mark ends the open unit, and begins the next one.
func (l *undoLog[K, S]) Mark(f checkpoint.Floor) {
	l.add(f)
	l.end(f.Offset)
	l.startUnit(f.Offset)
}

// BeginReplay begins a replay, which is not undone: operations are dropped, up to EndReplay.
func (l *undoLog[K, S]) BeginReplay() { l.Open.void = true }

// Pass adds a mark to which nothing can be undone: one of a replay.
func (l *undoLog[K, S]) Pass(f checkpoint.Floor) {
	l.add(f)
	l.count()
}

// EndReplay makes the end of a replay the committed mark, and begins the first unit.
func (l *undoLog[K, S]) EndReplay(f checkpoint.Floor) {
	l.base = f.Offset
	if l.Last().Offset < f.Offset {
		l.add(f)
	}
	l.startUnit(f.Offset)
}

// startUnit begins a unit at a mark.
func (l *undoLog[K, S]) startUnit(start int64) {
	l.count()
	l.units.open(start, l.owner.Save())
}

// count counts units.
func (l *undoLog[K, S]) count() {
	if l.Number++; uint32(l.Number) == 0 {
		l.owner.Renew()
		l.Number++
	}
}

// Snapshot notes that the operations of a snapshot are complete; f is the floor if it is committed.
func (l *undoLog[K, S]) Snapshot(f checkpoint.Floor) {
	l.snapshot(f)
	if l.Newest() == l.Open {
		l.Open.prefixSaved = l.owner.Save()
		l.count() // what the prefix has a copy of is copied once more behind it
	}
}

// Committed returns the offset of the last committed floor.
func (l *undoLog[K, S]) Committed() int64 { return l.committed }

// Commit discards what would undo the changes up to the mark at next, with its snapshot, and
// the marks behind the committed floor.
func (l *undoLog[K, S]) Commit(next int64) {
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
	l.marks.commit(l.committed)
}

// Check returns an error if there is no mark at an offset to roll back to.
func (l *undoLog[K, S]) Check(to int64) error {
	if _, at := l.find(to, l.base); at != to && !l.toBeginning(to) {
		return fmt.Errorf("no mark at offset %d to roll back to, the nearest is at %d", to, at)
	}
	return nil
}

// toBeginning reports whether a rollback leads to before an implicit first mark.
func (l *undoLog[K, S]) toBeginning(to int64) bool {
	first, at := l.find(to, l.base)
	return l.implicit && first == 0 && to < at
}

// Rollback undoes the changes after the mark at an offset, for which Check has returned nil,
// and returns the offset of the mark. An implicit first mark to which it leads is undone, too.
func (l *undoLog[K, S]) Rollback(to int64) (at int64) {
	first, at := l.find(to, l.base)
	l.ended = append(l.ended, l.Open)
	for _, u := range slices.Backward(l.ended[first:]) {
		u.undo(l.owner.Revert)
		l.owner.Restore(u.saved)
		l.recycle(u)
	}
	l.ended = slices.Delete(l.ended, first, len(l.ended))
	l.cut(at)
	if l.implicit && first == 0 {
		l.started, l.implicit = false, false
		l.marks.list = l.marks.list[:0]
	}
	l.startUnit(at)
	return at
}

// units holds the open unit, and those that end at a mark that is not committed.
type units[K, S any] struct {
	// Open is the unit to which operations are added.
	Open *undoUnit[K, S]

	ended []*undoUnit[K, S]
	spare []*undoUnit[K, S]
}

// Newest returns the unit that ends at the last mark, or, where that is committed, the open one.
func (un *units[K, S]) Newest() *undoUnit[K, S] {
	if n := len(un.ended); n > 0 {
		return un.ended[n-1]
	}
	return un.Open
}

// end ends the open unit at a mark. begin follows.
func (un *units[K, S]) end(at int64) {
	un.Open.end = at
	un.ended = append(un.ended, un.Open)
}

// open opens a unit at a mark, where saved is what is restored with it.
func (un *units[K, S]) open(start int64, saved S) {
	if n := len(un.spare); n > 0 {
		un.Open, un.spare = un.spare[n-1], un.spare[:n-1]
	} else {
		un.Open = new(undoUnit[K, S])
	}
	un.Open.reset(start, saved)
}

// spareUnits is the number of units kept for reuse: at full load, the units of the cycle that
// is committed and of the next one.
const spareUnits = 32

// recycle takes a unit that is committed or undone, for reuse.
func (un *units[K, S]) recycle(u *undoUnit[K, S]) {
	if len(un.spare) < spareUnits {
		un.spare = append(un.spare, u)
	}
}

// find returns the index of the first ended unit to undo to go back to a mark, and the mark
// that this leads to. Units begin at base.
func (un *units[K, S]) find(to, base int64) (first int, at int64) {
	first = len(un.ended)
	for first > 0 && un.ended[first-1].start >= to {
		first--
	}
	if first > 0 {
		return first, un.ended[first-1].end
	}
	return first, base
}

// Snapshotted reports whether the last mark has a snapshot that is not committed.
func (un *units[K, S]) Snapshotted() bool {
	u := un.Newest()
	return u.snapped || u == un.Open && u.prefix > u.final
}

// snapshot notes that the newest unit has a snapshot whose floor is f.
func (un *units[K, S]) snapshot(f checkpoint.Floor) {
	u := un.Newest()
	u.floor = f
	if u == un.Open {
		u.prefix, u.prefixFloor = len(u.ops), f.Offset
	} else {
		u.snapped = true
	}
}

// SetFloor sets the floor if the last mark is committed without a snapshot.
func (un *units[K, S]) SetFloor(f checkpoint.Floor) { un.Newest().floor = f }

// undoKind says what an operation changes. The owner of a Log defines the kinds.
type undoKind uint8

// undoFloats is set in kinds whose numbers are on the stack undoUnit.Floats, not on undoUnit.Words.
const undoFloats undoKind = 1 << 7

// undoReleased is set in kinds whose operations undoOwner.Release is called for.
const undoReleased undoKind = 1 << 6

// undoOp is a change that can be undone.
type undoOp[K any] struct {
	Key    K
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

// undoUnit is what it takes to undo the changes between two marks. Operations are
// undone last first; what they need lies on stacks, and is popped.
type undoUnit[K, S any] struct {
	// Words and Floats are where the numbers of an operation are appended before Push.
	Words  []uint64
	Floats []float32

	void       bool // operations are dropped
	start, end int64
	floor      checkpoint.Floor // if the cycle that ends here is committed
	saved      S                // of the owner, as of start
	ops        []undoOp[K]
	values     []any

	// The operations of a snapshot are the last of the unit whose mark it follows.
	// Without a new mark, they are the first ones of the open unit, prefix in
	// number; once that is committed, the first ones, final in number, are not undone.
	snapped       bool
	prefix, final int
	prefixFloor   int64
	prefixSaved   S // of the owner, as of the end of the prefix
}

// Start returns the offset of the mark where the unit begins.
func (u *undoUnit[K, S]) Start() int64 { return u.start }

// Push adds an operation, whose n numbers are the last of Words or Floats.
func (u *undoUnit[K, S]) Push(kind undoKind, k K, what int, n int) {
	if u.void {
		u.Words, u.Floats = u.Words[:0], u.Floats[:0]
		return
	}
	// Filled in place: a literal is built on the stack in small stores and copied in
	// large loads, which have to wait for them.
	u.ops = append(u.ops, undoOp[K]{})
	o := &u.ops[len(u.ops)-1]
	o.Key, o.Kind, o.What, o.n = k, kind, uint16(what), uint32(n)
}

// PushValues is Push for an operation that needs values, too.
func (u *undoUnit[K, S]) PushValues(kind undoKind, k K, what int, n int, values ...any) {
	u.Push(kind, k, what, n)
	if !u.void {
		u.values = append(u.values, values...)
		u.ops[len(u.ops)-1].values = uint8(len(values))
	}
}

// undo reverts the operations that are not final.
func (u *undoUnit[K, S]) undo(revert func(*undoOp[K], *undoOperands)) {
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
func (u *undoUnit[K, S]) commit(n int, release func(o *undoOp[K], values []any)) {
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
func (u *undoUnit[K, S]) reset(start int64, saved S) {
	*u = undoUnit[K, S]{
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

// journal is the undo log of a State.
type journal = undoLog[*Key, atMark]

// unit is an undo unit of a State.
type unit = undoUnit[*Key, atMark]

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

// touch records a key's first change in the open unit.
func (s *State) touch(k *Key) {
	k.Unit = uint32(s.journal.Number)
	saveHead(s.journal.Open, k)
	s.markDirty(k)
}

// markDirty makes a key dirty since the last mark.
func (s *State) markDirty(k *Key) { s.dirty.Add(k, s.journal.Last().Offset) }

// The functions that save gather nothing for a unit that drops its operations: a replay calls them for each sample.

// saveHead pushes everything of a key but rows, carries and held samples.
func saveHead(u *unit, k *Key) {
	if u.void {
		return
	}
	from := len(u.Words)
	u.Words = k.AppendPlaces(u.Words)
	u.Push(opHead, k, 0, len(u.Words)-from)
}

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

// marks holds the marks since the committed floor, oldest first.
type marks struct{ list []checkpoint.Floor }

// Last returns the last mark.
func (m *marks) Last() *checkpoint.Floor { return &m.list[len(m.list)-1] }

// At returns the mark at an offset.
func (m *marks) At(offset int64) checkpoint.Floor {
	i := m.search(offset)
	if m.list[i].Offset != offset {
		panic(fmt.Sprintf("state: no mark at %d", offset))
	}
	return m.list[i]
}

// reset makes a mark the only one.
func (m *marks) reset(f checkpoint.Floor) { m.list = append(m.list[:0], f) }

// add adds the next mark.
func (m *marks) add(f checkpoint.Floor) { m.list = append(m.list, f) }

// commit discards the marks behind the committed floor: floors are marks, and those are not
// needed again.
func (m *marks) commit(floor int64) {
	m.list = slices.Delete(m.list, 0, min(m.search(floor), len(m.list)-1))
}

// cut discards the marks after an offset, but not the first one.
func (m *marks) cut(at int64) {
	for len(m.list) > 1 && m.Last().Offset > at {
		m.list = m.list[:len(m.list)-1]
	}
}

// search returns the index of the first mark that is not below an offset.
func (m *marks) search(offset int64) int {
	return sort.Search(len(m.list), func(i int) bool { return m.list[i].Offset >= offset })
}
