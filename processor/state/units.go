package state

import "odradek/processor/state/checkpoint"

// units holds the open unit, and those that end at a mark that is not committed.
type units[K, S any] struct {
	// Open is the unit to which operations are added.
	Open *undoUnit[K, S]

	ended []*undoUnit[K, S]
	spare []*undoUnit[K, S]
}

// Newest returns the unit that ends at the last mark, or, where that is committed, the open one.
func (l *units[K, S]) Newest() *undoUnit[K, S] {
	if n := len(l.ended); n > 0 {
		return l.ended[n-1]
	}
	return l.Open
}

// end ends the open unit at a mark. begin follows.
func (l *units[K, S]) end(at int64) {
	l.Open.end = at
	l.ended = append(l.ended, l.Open)
}

// open opens a unit at a mark, where saved is what is restored with it.
func (l *units[K, S]) open(start int64, saved S) {
	if n := len(l.spare); n > 0 {
		l.Open, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		l.Open = new(undoUnit[K, S])
	}
	l.Open.reset(start, saved)
}

// spareUnits is the number of units kept for reuse: at full load, those of the cycle that
// is committed and of the next one.
const spareUnits = 32

// recycle takes a unit that is committed or undone, for reuse.
func (l *units[K, S]) recycle(u *undoUnit[K, S]) {
	if len(l.spare) < spareUnits {
		l.spare = append(l.spare, u)
	}
}

// find returns the index of the first ended unit to undo to go back to a mark, and the mark
// that this leads to. Units begin at base.
func (l *units[K, S]) find(to, base int64) (first int, at int64) {
	first = len(l.ended)
	for first > 0 && l.ended[first-1].start >= to {
		first--
	}
	if first > 0 {
		return first, l.ended[first-1].end
	}
	return first, base
}

// Snapshotted reports whether the last mark has a snapshot that is not committed.
func (l *units[K, S]) Snapshotted() bool {
	u := l.Newest()
	return u.snapped || u == l.Open && u.prefix > u.final
}

// snapshot notes that the newest unit has a snapshot whose floor is f.
func (l *units[K, S]) snapshot(f checkpoint.Floor) {
	u := l.Newest()
	u.floor = f
	if u == l.Open {
		u.prefix, u.prefixFloor = len(u.ops), f.Offset
	} else {
		u.snapped = true
	}
}

// SetFloor sets the floor if the last mark is committed without a snapshot.
func (l *units[K, S]) SetFloor(f checkpoint.Floor) { l.Newest().floor = f }
