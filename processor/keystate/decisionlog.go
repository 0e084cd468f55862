package keystate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// less reports whether d comes before e.
func (d *decision) less(e *decision) bool {
	return d.offset < e.offset || d.offset == e.offset && d.seq < e.seq
}

// byDue compares decisions by the order in which they are forgotten.
func byDue(a, b *decision) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.offset, b.offset), cmp.Compare(a.seq, b.seq),
		cmp.Compare(string(a.subject), string(b.subject)))
}

// subjects holds the decisions that a replay may need: by kind and subject the latest one,
// which links to the earlier ones.
type subjects [numKinds]map[string]*decision

// link inserts a decision among those of its subject, by offset. If it is the latest, link
// returns the one before it.
func (m *subjects) link(d *decision) (former *decision) {
	of := m[d.kind]
	if of == nil {
		of = map[string]*decision{}
		m[d.kind] = of
	}
	at := of[string(d.subject)]
	if at == nil || !d.less(at) {
		d.before = at
		of[string(d.subject)] = d
		return at
	}
	for at.before != nil && d.less(at.before) {
		at = at.before
	}
	d.before, at.before = at.before, d
	return nil
}

// unlink is the opposite of link.
func (m *subjects) unlink(d *decision) {
	of := m[d.kind]
	at := of[string(d.subject)]
	switch {
	case at == d && d.before == nil:
		delete(of, string(d.subject))
	case at == d:
		of[string(d.subject)] = d.before
	default:
		for at.before != d {
			at = at.before
		}
		at.before = d.before
	}
	d.before = nil
}

// latest returns the last decision about a subject.
func (m *subjects) latest(k Kind, subject []byte) *decision {
	if k >= numKinds {
		return nil
	}
	return m[k][string(subject)]
}

// inForce returns the last decision about a subject that takes effect before the record at
// offset or earlier; nil without one.
func (m *subjects) inForce(k Kind, subject []byte, offset int64) *decision {
	d := m.latest(k, subject)
	for d != nil && d.offset > offset {
		d = d.before
	}
	return d
}

// at returns the decision of the same kind, subject and offset.
func (m *subjects) at(d *decision) *decision {
	for e := m.latest(d.kind, d.subject); e != nil; e = e.before {
		if e.offset == d.offset {
			return e
		}
	}
	return nil
}

// after returns the next decision of the subject.
func (m *subjects) after(d *decision) (next *decision) {
	for at := m[d.kind][string(d.subject)]; at != nil && at != d; at = at.before {
		next = at
	}
	return next
}

// overwritten reports whether a later decision has overwritten the record of this one:
// the log has one eviction of a key, and one decision at an offset.
func (m *subjects) overwritten(d *decision) bool {
	next := m.after(d)
	return next != nil && (d.kind == Eviction || next.offset == d.offset)
}

// end returns the floor from which no replay needs the decision.
func (m *subjects) end(d *decision) int64 {
	switch row := &kinds[d.kind]; {
	case !row.standing || row.lapses && d.asked <= d.offset:
		return d.offset + 1
	case row.lapses:
		// Never later than the next one: a withdrawn decision must not come back
		// because its withdrawal is forgotten first.
		return min(d.asked, m.superseded(d))
	}
	return m.superseded(d)
}

// superseded returns the floor from which no replay needs the decision because of
// the next one of its subject.
func (m *subjects) superseded(d *decision) int64 {
	if next := m.after(d); next != nil {
		return next.offset + 1
	}
	return never
}

// decisionLog holds the decisions in the changelog, and those to be written to it or
// deleted from it.
type decisionLog struct {
	subjects
	queue    []*decision // those in the log, in the order of due
	unlogged []*decision // not emitted yet
	leftover []*decision // emitted, but their keys' records are in the log again
	revoked  []*decision // emitted and undone: their records are to be deleted
	relog    []*decision // forgotten and undone: their records are to be emitted again
	toApply  []*decision // loaded ones that act on the state, in order
	applied  int         // the number of toApply that have acted
	seq      uint64
}

// add adds a new decision.
func (l *decisionLog) add(d *decision) {
	l.seq++
	d.seq = l.seq
	l.link(d)
	l.unlogged = append(l.unlogged, d)
}

// link inserts a decision among those of its subject, and updates the one before it.
func (l *decisionLog) link(d *decision) {
	if former := l.subjects.link(d); former != nil {
		l.requeue(former)
	}
}

// next returns the next loaded decision that acts on the state, if it takes effect up to
// the record at offset, and advances past it; nil without one.
func (l *decisionLog) next(offset int64) *decision {
	if l.applied == len(l.toApply) || l.toApply[l.applied].offset > offset {
		return nil
	}
	l.applied++
	return l.toApply[l.applied-1]
}

// enqueue inserts a decision into the queue, where forget finds it.
func (l *decisionLog) enqueue(d *decision) {
	d.due = l.end(d)
	i := len(l.queue)
	for i > 0 && byDue(d, l.queue[i-1]) < 0 { // most come last
		i--
	}
	l.queue = slices.Insert(l.queue, i, d)
}

// requeue moves a decision forward in the queue if the one that now follows it ends it earlier.
func (l *decisionLog) requeue(d *decision) {
	if l.end(d) >= d.due {
		return // forget computes the end anew
	}
	if i := slices.Index(l.queue, d); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		l.enqueue(d)
	}
}

// undo reverts one operation on a decision. rebuild orders the queue afterwards.
func (l *decisionLog) undo(kind opKind, d *decision) {
	switch kind {
	case opDecide:
		l.unlink(d)
		d.offset = undone // rebuild drops it
	case opLogged:
		// Its record may be in the log all the same, at least once.
		if d.kind != Eviction {
			l.revoked = append(l.revoked, &decision{kind: d.kind, subject: d.subject, offset: d.offset})
		}
	case opRevoke:
		l.revoked = append(l.revoked, d)
	case opLeftover:
		l.leftover = append(l.leftover, d)
	case opRelog:
		l.relog = append(l.relog, d)
	case opForget:
		l.link(d)
		l.queue = append(l.queue, d)
		// Its record may have been deleted all the same, with no newer record at its key.
		if !l.overwritten(d) {
			l.relog = append(l.relog, d)
		}
	}
}

// rebuild restores the queues of decisions as of the offset next.
func (l *decisionLog) rebuild(next int64) {
	gone := func(d *decision) bool { return d.offset == undone }
	l.unlogged = slices.DeleteFunc(l.unlogged, gone)
	l.queue = slices.DeleteFunc(l.queue, gone)
	l.relog = slices.DeleteFunc(l.relog, gone)
	for _, d := range l.queue {
		d.due = l.end(d)
	}
	slices.SortFunc(l.queue, byDue)
	l.applied = 0
	for l.applied < len(l.toApply) && l.toApply[l.applied].offset < next {
		l.applied++
	}
}

// maxDecisions is the number of verdicts that may wait for the floor before
// Snapshot raises it as if want were the last mark.
const maxDecisions = 10_000

// crowded reports whether the floor has to rise so that verdicts can be
// forgotten: they come as fast as records of unknown schemas do.
func (l *decisionLog) crowded() bool { return len(l.subjects[Verdict]) > maxDecisions }

// load reads a decision from the changelog. name is its kind and subject.
func (l *decisionLog) load(name, value []byte, offset uint64) error {
	if len(name) == 0 || offset > 1<<62 {
		return ErrCorrupt
	}
	d := &decision{kind: Kind(name[0]), subject: slices.Clone(name[1:]), offset: int64(offset)}
	if old := l.at(d); old != nil {
		l.unlink(old)
	}
	if value == nil {
		return nil
	}
	if d.kind == Eviction || d.kind >= numKinds || kinds[d.kind].name == "" {
		return fmt.Errorf("a decision of kind %d: %w", d.kind, ErrNewer)
	}
	dec := newDecoder(value)
	if v := dec.Byte(); v > version {
		return fmt.Errorf("a decision of format %d: %w", v, ErrNewer)
	}
	d.seq = dec.Uint()
	d.content = slices.Clone(dec.B)
	if dec.Bad {
		return ErrCorrupt
	}
	if read := kinds[d.kind].read; read != nil {
		if err := read(d); err != nil {
			return err
		}
	}
	l.link(d)
	return nil
}

// loadEviction reads an eviction from the changelog, which has at most one for each key.
func (l *decisionLog) loadEviction(name, value []byte) error {
	if old := l.subjects[Eviction][string(name)]; old != nil {
		l.unlink(old)
	}
	if value == nil {
		return nil
	}
	d := newDecoder(value)
	d.Start()
	offset := d.Offset()
	if d.Bad || len(d.B) > 0 {
		return ErrCorrupt
	}
	l.link(&decision{kind: Eviction, subject: slices.Clone(name), offset: offset})
	return nil
}

// begin ends the loading of decisions and returns their largest offset.
func (l *decisionLog) begin(f Floor, committed int64, ahead bool) (top int64, err error) {
	top = math.MinInt64
	for k := range l.subjects {
		for _, d := range l.subjects[k] {
			for ; d != nil; d = d.before {
				if top = max(top, d.offset); d.offset >= committed && !ahead {
					return 0, fmt.Errorf("keystate: %s at offset %d, the committed offset is %d: %w", kinds[k].name, d.offset, committed, ErrAhead)
				}
				d.due = l.end(d)
				l.seq = max(l.seq, d.seq)
				l.queue = append(l.queue, d)
				if kinds[k].apply != nil && d.offset >= f.Offset {
					l.toApply = append(l.toApply, d)
				}
			}
		}
	}
	slices.SortFunc(l.queue, byDue)
	slices.SortFunc(l.toApply, func(a, b *decision) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.seq, b.seq))
	})
	return top, nil
}
