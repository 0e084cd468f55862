package keystate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"odradek/detectors"
	"odradek/processor/events"
	"odradek/processor/keystate/reorder"
)

// undoLog holds what is needed to undo uncommitted changes, in one unit from each mark to
// the next.
type undoLog struct {
	unit      uint64  // number of the open unit; keys and marks have its lower half
	cur       *unit   // the open unit
	units     []*unit // those that end at a mark that is not committed
	spare     []*unit
	base      int64   // last committed mark, or where the state began
	started   bool    // base is set
	implicit  bool    // by the first sample
	marks     []Floor // marks since the floor, oldest first
	committed int64   // the last committed floor
}

func newUndoLog() undoLog {
	return undoLog{unit: 1, cur: new(unit), base: math.MinInt64, committed: math.MinInt64}
}

// begin makes the first mark.
func (l *undoLog) begin(f Floor) {
	l.started = true
	l.base, l.committed = f.Offset, f.Offset
	l.marks = append(l.marks[:0], f)
	l.cur.start, l.cur.maxTime = f.Offset, f.MaxTime
}

// last returns the last mark.
func (l *undoLog) last() *Floor { return &l.marks[len(l.marks)-1] }

// markAt returns the mark at an offset where a key became dirty.
func (l *undoLog) markAt(offset int64) Floor {
	i := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].Offset >= offset })
	if l.marks[i].Offset != offset {
		panic(fmt.Sprintf("keystate: no mark at %d where a key became dirty", offset))
	}
	return l.marks[i]
}

// newest returns the unit that ends at the last mark, or, where that is committed, the open one.
func (l *undoLog) newest() *unit {
	if n := len(l.units); n > 0 {
		return l.units[n-1]
	}
	return l.cur
}

// close ends the open unit at a mark.
func (l *undoLog) close(f Floor) {
	l.marks = append(l.marks, f)
	l.cur.end = f.Offset
	l.units = append(l.units, l.cur)
}

// open makes a spare or new unit the open one; the caller resets it.
func (l *undoLog) open() *unit {
	if n := len(l.spare); n > 0 {
		l.cur, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		l.cur = new(unit)
	}
	return l.cur
}

// recycle keeps a unit for use again.
func (l *undoLog) recycle(u *unit) {
	if len(l.spare) < spareUnits {
		l.spare = append(l.spare, u)
	}
}

// next counts units.
func (l *undoLog) next(keys *table) {
	if l.unit++; uint32(l.unit) == 0 {
		for k := range keys.all {
			k.unit = 0
			for i := range k.marks {
				k.marks[i].unit = 0
			}
		}
		l.unit++
	}
}

// forgetMarks forgets the marks behind the committed floor: floors are marks, and those
// are not needed again.
func (l *undoLog) forgetMarks() {
	i := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].Offset >= l.committed })
	l.marks = slices.Delete(l.marks, 0, min(i, len(l.marks)-1))
}

// undoTo returns the index of the first unit to undo to go back to a mark, and the mark
// that this leads to.
func (l *undoLog) undoTo(to int64) (first int, at int64, err error) {
	first = len(l.units) // the first unit to undo
	for first > 0 && l.units[first-1].start >= to {
		first--
	}
	at = l.base
	if first > 0 {
		at = l.units[first-1].end
	}
	if at != to && !(l.implicit && first == 0 && to < at) {
		return 0, 0, fmt.Errorf("keystate: no mark at offset %d to roll back to, the nearest is at %d", to, at)
	}
	return first, at, nil
}

// unit is what it takes to undo the changes between two marks. Operations are
// undone last first; what they need lies on the stacks words, floats, decisions
// and stale, and is popped.
type unit struct {
	start, end int64
	floor      Floor // if the cycle that ends here is committed
	maxTime    int64 // and the others: as of start
	heldN      int
	counts     Counts
	evicted    int64
	early      int64
	suspects   []suspect
	suspected  SuspectCounts

	ops       []op
	words     []uint64
	floats    []float32
	decisions []*decision
	stale     [][]staleSegment
	blocks    [][]heldBlock
	alerts    []events.State
	silent    []*events.Anomaly
	orphans   [][]orphan
	rules     []formerRule

	// The operations of Snapshot are the last of the unit whose mark it follows.
	// Without a new mark, they are the first ones of the open unit, prefix in
	// number; once that is committed, the first ones, final in number, are not undone.
	snapped       bool
	prefix, final int
	prefixFloor   int64
}

type op struct {
	key  *Key
	kind opKind
	what uint16 // window or mark
	n    uint32 // numbers on the stack
}

type opKind uint8

const (
	opHead    opKind = iota // the key's head as of the unit's first change
	opRow                   // a row of a window was overwritten
	opCarry                 // a carry was replaced
	opHeldIn                // a sample was held
	opHeldOut               // a sample was released
	opCreate
	opEvict
	opSnapshot // the key was snapshotted
	opDecide   // a decision was made
	opLogged   // and emitted
	opLeftover // and once more
	opForget   // and deleted from the log
	opRevoke   // or deleted after it was undone
	opRelog    // or emitted again after its deletion was undone
	opJudged   // a score was added to a threshold's history
	opAlert    // what events remember of a detector was changed
	opSilent   // a silence was opened or closed
	opOrphans  // anomalies that nothing continued were closed
	opSummary  // a summary was changed
	opRule     // a history was made one of another threshold
)

// reset empties the unit for what follows the state as it is.
func (u *unit) reset(s *State) {
	*u = unit{
		ops: trim(u.ops, true), words: trim(u.words, false), floats: trim(u.floats, false),
		decisions: trim(u.decisions, true), stale: trim(u.stale, true), blocks: trim(u.blocks, true),
		alerts: trim(u.alerts, true), silent: trim(u.silent, true), orphans: trim(u.orphans, true), rules: trim(u.rules, true),
		maxTime: s.maxTime, heldN: s.held.N, counts: s.Counts, evicted: s.EvictedKeys, early: s.Early,
		suspects: s.jury.list, suspected: s.Suspects,
	}
}

// spareUnits is the number of units kept for reuse: at full load, those of the cycle that
// is committed and of the next one.
const spareUnits = 32

// trim empties a stack and clears its pointers. It releases the memory of a burst.
func trim[T any](a []T, pointers bool) []T {
	if cap(a) > 1<<16 && len(a) < cap(a)/2 {
		return nil
	}
	if pointers {
		clear(a)
	}
	return a[:0]
}

func (u *unit) add(kind opKind, k *Key, what int, n int) {
	// Filled in place here and elsewhere: a literal is built on the stack in
	// small stores and copied in large loads, which have to wait for them.
	u.ops = append(u.ops, op{})
	o := &u.ops[len(u.ops)-1]
	o.key, o.kind, o.what, o.n = k, kind, uint16(what), uint32(n)
}

// touch records a key's first change in the open unit.
func (s *State) touch(k *Key) {
	k.unit = uint32(s.journal.unit)
	if !s.restore.replaying {
		s.journal.cur.saveHead(k)
	}
	s.markDirty(k)
}

// markDirty makes a key dirty since the last mark.
func (s *State) markDirty(k *Key) { s.dirty.add(k, s.journal.last().Offset) }

// saveHead pushes everything of a key but rows, carries and held samples.
func (u *unit) saveHead(k *Key) {
	from := len(u.words)
	dirty := uint64(0)
	if k.dirty {
		dirty = 1
	}
	w := append(u.words, uint64(k.lastOffset), uint64(k.lastTime), uint64(k.since), dirty)
	for i := range k.wins {
		w = append(w, uint64(k.wins[i].count), uint64(k.wins[i].rows))
	}
	for i := range k.set.wins {
		sw := &k.set.wins[i]
		for j := range sw.dets {
			d := &sw.dets[j]
			n := k.marks[d.mark].n
			if w = append(w, uint64(n)); n > 0 {
				w = append(w, k.wins[i].fresh(sw, d)[:n]...)
			}
		}
	}
	u.words = w
	u.add(opHead, k, 0, len(w)-from)
}

// restoreHead is the opposite of saveHead.
func (k *Key) restoreHead(w []uint64) {
	k.lastOffset, k.lastTime, k.since, k.dirty = int64(w[0]), int64(w[1]), int64(w[2]), w[3] != 0
	w = w[4:]
	for i := range k.wins {
		win := &k.wins[i]
		win.unpush(win.count - int64(w[0]))
		win.rows = int32(w[1])
		w = w[2:]
	}
	for i := range k.set.wins {
		sw := &k.set.wins[i]
		for j := range sw.dets {
			d := &sw.dets[j]
			n := int32(w[0])
			if k.marks[d.mark].n = n; n > 0 {
				copy(k.wins[i].fresh(sw, d), w[1:1+n])
			}
			w = w[1+n:]
		}
	}
}

// unpush reverts the last n pushes, but does not restore the rows that they overwrote.
func (w *win) unpush(n int64) {
	w.count -= n
	if w.pos -= int32(n); w.pos < 0 {
		w.pos += w.cap
	}
}

// saveRow pushes the oldest row of a full window, which is overwritten next.
func (u *unit) saveRow(k *Key, i int, sw *keyWindow, w *win) {
	nc, at := len(sw.cols), int(w.pos)
	u.words = append(u.words, w.slab[at])
	if v := w.slab[int(w.cap)+at*nc:]; nc == 1 {
		u.words = append(u.words, v[0])
	} else {
		u.words = append(u.words, v[:nc]...)
	}
	u.add(opRow, k, i, 1+nc)
}

// restoreRow is the opposite of saveRow.
func (k *Key) restoreRow(i int, row []uint64) {
	w, nc := &k.wins[i], len(k.set.wins[i].cols)
	w.unpush(1)
	w.slab[w.pos] = row[0]
	copy(w.slab[int(w.cap)+int(w.pos)*nc:], row[1:])
}

func (u *unit) saveCarry(k *Key, mark int, carry detectors.Words) {
	u.floats = append(u.floats, carry.F32()...)
	u.add(opCarry, k, mark, len(carry))
}

func (u *unit) saveHeldIn(k *Key, time, offset int64) {
	u.words = append(u.words, uint64(time), uint64(offset))
	u.add(opHeldIn, k, 0, 2)
}

func (u *unit) saveHeldOut(k *Key, sample []uint64) {
	u.words = append(u.words, sample...)
	u.add(opHeldOut, k, 0, len(sample))
}

// undo reverts a unit's operations.
func (s *State) undo(u *unit) {
	for i := len(u.ops) - 1; i >= u.final; i-- {
		o := &u.ops[i]
		k := o.key
		var w []uint64
		if o.kind != opCarry && o.kind != opJudged {
			w = pop(&u.words, int(o.n))
		}
		switch o.kind {
		case opHead:
			k.restoreHead(w)
		case opRow:
			k.restoreRow(int(o.what), w)
		case opCarry:
			m := &k.marks[o.what]
			m.carry = append(m.carry[:0], detectors.WordsOf(pop(&u.floats, int(o.n)))...)
		case opSummary:
			s.undoSummary(k.summary(int(o.what)), w)
		case opJudged:
			a := &k.alerts.dets[o.what]
			a.rule.Undo(a.history, pop(&u.floats, int(o.n)))
		case opRule:
			s.undoRule(k, &k.alerts.dets[o.what], pop(&u.rules, 1)[0])
		case opAlert:
			k.alerts.dets[o.what].events = pop(&u.alerts, 1)[0]
		case opSilent:
			k.alerts.silent = pop(&u.silent, 1)[0]
		case opOrphans:
			k.alerts.orphans = pop(&u.orphans, 1)[0]
		case opHeldIn:
			s.unhold(k, int64(w[0]), int64(w[1]))
		case opHeldOut:
			s.rehold(k, w)
		case opCreate:
			s.remove(k)
			for i := range k.wins {
				s.freeRing(&k.set.wins[i], &k.wins[i])
			}
		case opEvict:
			s.insert(k)
		case opSnapshot:
			s.undoSnapshot(k, w, u)
		case opDecide, opLogged, opLeftover, opForget, opRevoke, opRelog:
			s.decisions.undo(o.kind, pop(&u.decisions, 1)[0])
		}
	}
	s.maxTime, s.held.N, s.Counts, s.EvictedKeys, s.Early = u.maxTime, u.heldN, u.counts, u.evicted, u.early
	s.jury.list, s.Suspects = u.suspects, u.suspected
}

func pop[T any](stack *[]T, n int) []T {
	at := len(*stack) - n
	top := (*stack)[at:]
	*stack = (*stack)[:at]
	return top
}

// unhold takes back that a sample was held.
func (s *State) unhold(k *Key, time, offset int64) {
	if !k.held.Remove(time, offset) {
		panic("keystate: a held sample to be taken back is not there")
	}
	if k.held.Len() == 0 {
		s.bytes -= k.held.Bytes()
		k.held = nil
	}
}

// rehold takes back that a sample was released.
func (s *State) rehold(k *Key, w []uint64) {
	if k.held == nil {
		k.held = reorder.NewList(k, s.cfg.Dim, 0)
	}
	s.bytes -= k.held.Bytes()
	k.held.Restore(w)
	s.bytes += k.held.Bytes()
}

// begin makes the first mark.
func (s *State) begin(f Floor) {
	s.journal.begin(f)
	s.next, s.maxTime = f.Offset, f.MaxTime
	s.beginSuspects(f)
	s.rebuildRules()
	s.planSweep()
}

// Mark ends an undo unit: all samples below offset next, folded since the last
// mark, are one step that is committed or rolled back as a whole. Their tasks
// must have been applied. The first Mark of a new State says where it begins.
func (s *State) Mark(next int64) {
	if !s.journal.started {
		s.begin(Floor{Offset: next, MaxTime: NoTime})
		s.route()
		return
	}
	switch {
	case s.restore.replaying:
		panic("keystate: Mark during replay")
	case len(s.tasks.pend) > 0 || s.waiting || len(s.line) > 0:
		panic("keystate: Mark with tasks that are not applied, or before Fits was true")
	case len(s.decisions.unlogged) > 0 && s.decisions.unlogged[0].offset < s.journal.cur.start:
		panic("keystate: Mark before Snapshot has emitted the decisions of the last mark")
	case len(s.changed.list) > 0 && s.changed.since < s.journal.cur.start:
		panic("keystate: Mark before Snapshot has emitted the keys whose anomalies have changed")
	case next < s.next:
		panic(fmt.Sprintf("keystate: mark at %d, but %d is folded", next, s.next-1))
	case next == s.journal.cur.start:
		return
	case len(s.decisions.unlogged) > 0 && s.decisions.unlogged[len(s.decisions.unlogged)-1].offset >= next:
		panic(fmt.Sprintf("keystate: mark at %d, not above the decision at %d", next, s.decisions.unlogged[len(s.decisions.unlogged)-1].offset))
	}
	s.next = next
	s.journal.close(s.floorAt(next))
	s.newUnit(next)
	s.journal.newest().floor = s.Floor()
	s.route()
}

// newUnit opens a unit that begins at a mark.
func (s *State) newUnit(start int64) {
	s.journal.next(&s.keys)
	u := s.journal.open()
	u.reset(s)
	u.start = start
}

// Committed notes that everything up to the mark at next is committed, with what
// Snapshot has emitted for it, and discards what would undo it.
func (s *State) Committed(next int64) {
	if len(s.decisions.unlogged) > 0 && s.decisions.unlogged[0].offset < next {
		panic("keystate: decisions were committed that Snapshot has not emitted")
	}
	if len(s.changed.list) > 0 && s.changed.since < next {
		panic("keystate: changes of anomalies were committed whose keys Snapshot has not emitted")
	}
	n := 0
	for n < len(s.journal.units) && s.journal.units[n].end <= next {
		n++
	}
	for _, u := range s.journal.units[:n] {
		s.commitUnit(u, len(u.ops))
		s.journal.base, s.journal.committed, s.journal.implicit = u.end, u.floor.Offset, false
		s.journal.recycle(u)
	}
	s.journal.units = slices.Delete(s.journal.units, 0, n)
	open := s.journal.cur
	if len(s.journal.units) > 0 {
		open = s.journal.units[0]
	}
	if open.start == next && open.prefix > open.final {
		s.commitUnit(open, open.prefix)
		open.final = open.prefix
		s.journal.committed = max(s.journal.committed, open.prefixFloor)
	}
	if s.restore.shedAt < next {
		s.restore.dropped, s.restore.shedAt = nil, math.MaxInt64
	}
	s.journal.forgetMarks()
}

// commitUnit releases what only an undo of the first n operations would need.
func (s *State) commitUnit(u *unit, n int) {
	at := 0 // in u.decisions
	for i := range u.ops[:n] {
		switch o := &u.ops[i]; o.kind {
		case opEvict:
			if i >= u.final {
				for j := range o.key.wins {
					s.freeRing(&o.key.set.wins[j], &o.key.wins[j])
				}
			}
		case opLogged, opLeftover:
			delete(s.stale, u.decisions[at].key)
			delete(s.blocks, u.decisions[at].key)
			u.decisions[at].key = nil
			at++
		case opDecide, opForget, opRevoke, opRelog:
			at++
		}
	}
}

// Rollback undoes everything after the mark at to: the last one committed, or
// where the state began. Tasks that are not applied are dropped; the caller
// resets their batch. Rows is emptied.
func (s *State) Rollback(to int64) error {
	if !s.journal.started {
		return nil
	}
	if s.restore.replaying {
		return errors.New("keystate: rollback during replay, restore again")
	}
	first, at, err := s.journal.undoTo(to)
	if err != nil {
		return err
	}
	s.tasks.drop()
	s.tasks.cache.Invalidate()
	s.Rows, s.Events, s.Blocks, s.Refused = s.Rows[:0], s.Events[:0], s.Blocks[:0], s.Refused[:0]
	s.line = s.line[:0]
	s.changed.reset()
	s.evictor.built = false
	s.waiting, s.accept, s.sweepDue = false, false, false
	s.undo(s.journal.cur)
	s.journal.recycle(s.journal.cur)
	for i := len(s.journal.units) - 1; i >= first; i-- {
		s.undo(s.journal.units[i])
		s.journal.recycle(s.journal.units[i])
	}
	s.journal.units = s.journal.units[:first]
	for len(s.journal.marks) > 1 && s.journal.marks[len(s.journal.marks)-1].Offset > at {
		s.journal.marks = s.journal.marks[:len(s.journal.marks)-1]
	}
	s.next = at
	if s.journal.implicit && first == 0 {
		s.journal.started, s.journal.implicit, s.next = false, false, math.MinInt64
		s.journal.marks = s.journal.marks[:0]
	}
	s.newUnit(at)
	s.rebuild()
	s.route()
	return nil
}

// rebuild derives from the keys the queue of dirty ones, the heap of those with
// held samples and the queues of decisions.
func (s *State) rebuild() {
	s.dirty.rebuild(&s.keys)
	s.held.Rebuild(func(yield func(*reorder.List[*Key]) bool) {
		s.keys.all(func(k *Key) bool { return yield(k.held) })
	})
	s.silence.reset()
	s.evictor.reset()
	s.orphaned = s.orphaned[:0]
	for k := range s.keys.all {
		if a := k.alerts; a != nil {
			if a.silent != nil {
				s.silence.n++
			}
			if len(a.orphans) > 0 {
				s.orphaned = append(s.orphaned, k)
			}
		}
	}
	s.decisions.rebuild(s.next)
	s.rebuildRules()
	s.planSweep()
}
