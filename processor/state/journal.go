package state

import (
	"odradek/detectors"
	"odradek/processor/state/series"
)

// journal is the undo log of a State.
type journal = undoLog[*Key, atMark]

// unit is an undo unit of a State.
type unit = undoUnit[*Key, atMark]

// The operations. What each needs to be undone is said where it is pushed.
const (
	opHead     undoKind = iota // the key's head as of the unit's first change
	opRow                      // a row of a window was overwritten
	opHeldIn                   // a sample was held
	opHeldOut                  // a sample was released
	opCreate                   // a key was created
	opSnapshot                 // the key was snapshotted
	opAlert                    // what events remember of a detector was changed
	opSilent                   // a silence was opened or closed
	opOrphans                  // anomalies that nothing continued were closed
	opSummary                  // a summary was changed
	opRule                     // a history was made one of another threshold
	opTrace                    // a trace was changed
	opCell                     // a cell of a grid was changed
	opTable                    // a grid began its next window

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
	u.Words = append(u.Words, uint64(time), uint64(offset))
	u.Push(opHeldIn, k, 0, 2)
}

func saveHeldOut(u *unit, k *Key, sample []uint64) {
	u.Words = append(u.Words, sample...)
	u.Push(opHeldOut, k, 0, len(sample))
}
