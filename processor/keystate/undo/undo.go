// Package undo has what it takes to undo the uncommitted changes of a partition's state, and
// the marks to which they can be undone.
//
// A mark is an offset of the input. What changes between two marks is a unit, which is
// committed or undone as a whole. A change is an operation, which the owner adds to the open
// unit before it changes anything. Marks are also where a replay can begin, so each is a
// replay floor, and those from the last committed floor on are kept.
package undo

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"odradek/processor/keystate/floor"
)

// Owner is the state whose changes a Log undoes.
type Owner[K, S any] struct {
	Save    func() S                     // what is restored with a whole unit
	Restore func(S)                      // restores what Save has returned
	Revert  func(*Op[K], *Operands)      // reverts an operation
	Release func(o *Op[K], values []any) // an operation of a kind with Released is committed
	Renew   func()                       // unit numbers, of which keys have the lower half, begin anew
}

// Log holds the marks, and a unit from each to the next.
type Log[K, S any] struct {
	// Number is that of the open unit. Keys have its lower half, and so know whether the
	// unit has a copy of them.
	Number uint64
	// Open is the unit to which operations are added.
	Open *Unit[K, S]
	// Replaying is set during a replay, which is not undone: no operations are added.
	Replaying bool

	owner     Owner[K, S]
	units     []*Unit[K, S] // those that end at a mark that is not committed
	spare     []*Unit[K, S]
	base      int64         // last committed mark, or where the state began
	started   bool          // base is set
	implicit  bool          // by the first sample
	marks     []floor.Floor // marks since the floor, oldest first
	committed int64         // the last committed floor
}

// New returns a Log without a mark.
func New[K, S any](owner Owner[K, S]) Log[K, S] {
	l := Log[K, S]{Number: 1, Open: new(Unit[K, S]), owner: owner, base: math.MinInt64, committed: math.MinInt64}
	l.Open.reset(0, owner.Save())
	return l
}

// Started reports whether there is a mark.
func (l *Log[K, S]) Started() bool { return l.started }

// Begin makes the first mark. If it is implicit, Rollback may undo it.
func (l *Log[K, S]) Begin(f floor.Floor, implicit bool) {
	l.started, l.implicit = true, implicit
	l.base, l.committed = f.Offset, f.Offset
	l.marks = append(l.marks[:0], f)
	l.Open.start, l.Open.saved = f.Offset, l.owner.Save()
}

// Last returns the last mark.
func (l *Log[K, S]) Last() *floor.Floor { return &l.marks[len(l.marks)-1] }

// At returns the mark at an offset.
func (l *Log[K, S]) At(offset int64) floor.Floor {
	i := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].Offset >= offset })
	if l.marks[i].Offset != offset {
		panic(fmt.Sprintf("undo: no mark at %d", offset))
	}
	return l.marks[i]
}

// Newest returns the unit that ends at the last mark, or, where that is committed, the open one.
func (l *Log[K, S]) Newest() *Unit[K, S] {
	if n := len(l.units); n > 0 {
		return l.units[n-1]
	}
	return l.Open
}

// Mark ends the open unit, and begins the next one.
func (l *Log[K, S]) Mark(f floor.Floor) {
	l.marks = append(l.marks, f)
	l.Open.end = f.Offset
	l.units = append(l.units, l.Open)
	l.begin(f.Offset)
}

// Pass adds a mark to which nothing can be undone: one of a replay.
func (l *Log[K, S]) Pass(f floor.Floor) {
	l.marks = append(l.marks, f)
	l.count()
}

// EndReplay makes the end of a replay the committed mark, and begins the first unit.
func (l *Log[K, S]) EndReplay(f floor.Floor) {
	l.Replaying = false
	l.base = f.Offset
	if l.Last().Offset < f.Offset {
		l.marks = append(l.marks, f)
	}
	l.begin(f.Offset)
}

// begin begins a unit at a mark.
func (l *Log[K, S]) begin(start int64) {
	l.count()
	if n := len(l.spare); n > 0 {
		l.Open, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		l.Open = new(Unit[K, S])
	}
	l.Open.reset(start, l.owner.Save())
}

// count counts units.
func (l *Log[K, S]) count() {
	if l.Number++; uint32(l.Number) == 0 {
		l.owner.Renew()
		l.Number++
	}
}

// spareUnits is the number of units kept for reuse: at full load, those of the cycle that
// is committed and of the next one.
const spareUnits = 32

func (l *Log[K, S]) recycle(u *Unit[K, S]) {
	if len(l.spare) < spareUnits {
		l.spare = append(l.spare, u)
	}
}

// Snapshotted reports whether the last mark has a snapshot that is not committed.
func (l *Log[K, S]) Snapshotted() bool {
	u := l.Newest()
	return u.snapped || u == l.Open && u.prefix > u.final
}

// Snapshot notes that the operations of a snapshot are complete; f is the floor if it is
// committed.
func (l *Log[K, S]) Snapshot(f floor.Floor) {
	u := l.Newest()
	u.floor = f
	if u == l.Open {
		u.prefix, u.prefixFloor = len(u.ops), f.Offset
	} else {
		u.snapped = true
	}
}

// SetFloor sets the floor if the last mark is committed without a snapshot.
func (l *Log[K, S]) SetFloor(f floor.Floor) { l.Newest().floor = f }

// Committed returns the offset of the last committed floor.
func (l *Log[K, S]) Committed() int64 { return l.committed }

// Commit discards what would undo the changes up to the mark at next, with its snapshot, and
// the marks behind the committed floor.
func (l *Log[K, S]) Commit(next int64) {
	n := 0
	for n < len(l.units) && l.units[n].end <= next {
		n++
	}
	for _, u := range l.units[:n] {
		u.commit(len(u.ops), l.owner.Release)
		l.base, l.committed, l.implicit = u.end, u.floor.Offset, false
		l.recycle(u)
	}
	l.units = slices.Delete(l.units, 0, n)
	first := l.Open
	if len(l.units) > 0 {
		first = l.units[0]
	}
	if first.start == next && first.prefix > first.final {
		first.commit(first.prefix, l.owner.Release)
		first.final = first.prefix
		l.committed = max(l.committed, first.prefixFloor)
	}
	// Floors are marks, and those behind the committed one are not needed again.
	i := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].Offset >= l.committed })
	l.marks = slices.Delete(l.marks, 0, min(i, len(l.marks)-1))
}

// Check returns an error if there is no mark at an offset to roll back to.
func (l *Log[K, S]) Check(to int64) error {
	if _, at := l.find(to); at != to && !l.toBeginning(to) {
		return fmt.Errorf("no mark at offset %d to roll back to, the nearest is at %d", to, at)
	}
	return nil
}

// toBeginning reports whether a rollback leads to before an implicit first mark.
func (l *Log[K, S]) toBeginning(to int64) bool {
	first, at := l.find(to)
	return l.implicit && first == 0 && to < at
}

// find returns the index of the first unit to undo to go back to a mark, and the mark
// that this leads to.
func (l *Log[K, S]) find(to int64) (first int, at int64) {
	first = len(l.units)
	for first > 0 && l.units[first-1].start >= to {
		first--
	}
	if first > 0 {
		return first, l.units[first-1].end
	}
	return first, l.base
}

// Rollback undoes the changes after the mark at an offset, for which Check has returned nil,
// and returns the offset of the mark. An implicit first mark to which it leads is undone, too.
func (l *Log[K, S]) Rollback(to int64) (at int64) {
	first, at := l.find(to)
	l.undo(l.Open)
	for _, u := range slices.Backward(l.units[first:]) {
		l.undo(u)
	}
	l.units = slices.Delete(l.units, first, len(l.units))
	for len(l.marks) > 1 && l.Last().Offset > at {
		l.marks = l.marks[:len(l.marks)-1]
	}
	if l.implicit && first == 0 {
		l.started, l.implicit = false, false
		l.marks = l.marks[:0]
	}
	l.begin(at)
	return at
}

func (l *Log[K, S]) undo(u *Unit[K, S]) {
	u.undo(l.owner.Revert)
	l.owner.Restore(u.saved)
	l.recycle(u)
}
