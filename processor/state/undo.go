package state

import (
	"fmt"
	"math"
	"slices"

	"odradek/processor/state/checkpoint"
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
