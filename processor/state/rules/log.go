package rules

import (
	"cmp"
	"slices"

	"odradek/processor/state/changelog"
)

// DecisionLog holds the decisions in the changelog, and those to be written to it or
// deleted from it.
type DecisionLog struct {
	kinds KindTable
	step  func(DecisionStep, *Decision)
	// latest has the decisions that a replay may need: by kind and subject the last one, which links to the earlier ones.
	latest [NumKinds]map[string]*Decision
	queue  []*Decision // those in the changelog, in the order in which they are to be deleted from it
	acts   []*Decision // the loaded ones that act on the state, in the order in which they do
	acted  int         // the number of them that have acted

	unlogged []*Decision // not emitted yet
	leftover []*Decision // emitted, but their series' records are in the log again
	revoked  []*Decision // emitted and undone: their records are to be deleted
	relog    []*Decision // forgotten and undone: their records are to be emitted again
	seq      uint64

	enc  changelog.Encoder // of a record
	name []byte            // likewise
}

// DecisionStep is a step in the life of a decision, which Undo reverts.
type DecisionStep uint8

// The steps.
const (
	Made      DecisionStep = iota // a decision was made
	Logged                        // and emitted
	LeftOver                      // and once more, because its series' records were in the log again
	Forgotten                     // and deleted from the log
	Revoked                       // or deleted after it was undone
	Relogged                      // or emitted again after its deletion was undone
)

// NewDecisionLog returns an empty log. step is called with each step that Undo may have to revert.
func NewDecisionLog(kinds *KindTable, step func(DecisionStep, *Decision)) *DecisionLog {
	return &DecisionLog{kinds: *kinds, step: step}
}

// DecisionOutput is where Emit and Forget write.
type DecisionOutput struct {
	// Put writes a record of the changelog; a nil value deletes it.
	Put func(kind byte, name, value []byte, suffix ...uint64)
	// Evict deletes the records of the series that an eviction forgets.
	Evict func(*Decision)
	// Full reports whether no more decisions are to be forgotten now.
	Full func() bool
}

// Add makes a decision.
func (l *DecisionLog) Add(d *Decision) {
	l.seq++
	d.seq = l.seq
	l.link(d)
	l.unlogged = append(l.unlogged, d)
	l.step(Made, d)
}

// Unlogged returns the decisions that Emit has not written yet, in order.
func (l *DecisionLog) Unlogged() []*Decision { return l.unlogged }

// Emit writes what was decided below an offset.
func (l *DecisionLog) Emit(out *DecisionOutput, below int64) {
	for _, d := range l.leftover {
		l.put(out, d)
		out.Evict(d)
		l.step(LeftOver, d)
	}
	l.leftover = l.leftover[:0]
	for _, d := range l.revoked {
		if at := l.at(d); at == nil {
			l.putRecord(out, d, nil)
		}
		l.step(Revoked, d)
	}
	l.revoked = l.revoked[:0]
	for _, d := range l.relog {
		l.put(out, d)
		l.step(Relogged, d)
	}
	l.relog = l.relog[:0]
	n := 0
	for ; n < len(l.unlogged) && l.unlogged[n].Offset < below; n++ {
		d := l.unlogged[n]
		l.put(out, d)
		if d.Kind == KindEviction {
			out.Evict(d)
		}
		l.step(Logged, d)
		l.enqueue(d)
	}
	l.unlogged = slices.Delete(l.unlogged, 0, n)
}

// Forget deletes decisions that no replay from floor on needs, until the output is full.
func (l *DecisionLog) Forget(out *DecisionOutput, floor int64) {
	n := 0
	for n < len(l.queue) {
		d := l.queue[n]
		if d.due > floor || out.Full() {
			break
		}
		if l.end(d) > floor { // it was looked up since
			l.queue = slices.Delete(l.queue, n, n+1)
			l.enqueue(d)
			continue
		}
		overwritten := l.overwritten(d)
		if l.unlink(d); !overwritten {
			l.putRecord(out, d, nil)
		}
		l.step(Forgotten, d)
		n++
	}
	l.queue = slices.Delete(l.queue, 0, n)
}

// Undo reverts one step of a decision; steps are undone last first. Rebuild follows, and
// orders the queue.
func (l *DecisionLog) Undo(step DecisionStep, d *Decision) {
	switch step {
	case Made:
		l.unlink(d)
		d.Offset = undone // Rebuild drops it
	case Logged:
		// Its record may be in the log nevertheless, at least once.
		if d.Kind != KindEviction {
			l.revoked = append(l.revoked, &Decision{Kind: d.Kind, Subject: d.Subject, Offset: d.Offset})
		}
	case Revoked:
		l.revoked = append(l.revoked, d)
	case LeftOver:
		l.leftover = append(l.leftover, d)
	case Relogged:
		l.relog = append(l.relog, d)
	case Forgotten:
		l.link(d)
		l.queue = append(l.queue, d)
		// Its record may have been deleted nevertheless, with no newer record at its key.
		if !l.overwritten(d) {
			l.relog = append(l.relog, d)
		}
	}
}

// Rebuild restores the queues of decisions as of the offset next.
func (l *DecisionLog) Rebuild(next int64) {
	gone := func(d *Decision) bool { return d.Offset == undone }
	l.unlogged = slices.DeleteFunc(l.unlogged, gone)
	l.queue = slices.DeleteFunc(l.queue, gone)
	l.relog = slices.DeleteFunc(l.relog, gone)
	for _, d := range l.queue {
		d.due = l.end(d)
	}
	slices.SortFunc(l.queue, byDue)
	l.acted = 0
	for l.acted < len(l.acts) && l.acts[l.acted].Offset < next {
		l.acted++
	}
}

// MaxMissingSchemas is the number of missing schemas that may wait for the floor before it has to rise.
const MaxMissingSchemas = 10_000

// Crowded reports whether the floor has to rise so that missing schemas can be
// forgotten: they come as fast as records of unknown schemas do.
func (l *DecisionLog) Crowded() bool { return len(l.latest[KindMissingSchema]) > MaxMissingSchemas }

// Resume takes a loaded eviction that was cut off before it had deleted the records of its
// series: the next Emit writes it again and deletes them. It comes before EndLoading.
func (l *DecisionLog) Resume(d *Decision) { l.leftover = append(l.leftover, d) }

// EndLoading ends the loading of decisions, for a replay from floor on, and returns the one with
// the largest offset, of several at that offset one that is not made between records; nil without one.
func (l *DecisionLog) EndLoading(floor int64) (top *Decision) {
	for k := range l.latest {
		for _, d := range l.latest[k] {
			for ; d != nil; d = d.before {
				if top == nil || d.Offset > top.Offset || d.Offset == top.Offset && top.Kind.BetweenRecords() {
					top = d
				}
				d.due = l.end(d)
				l.seq = max(l.seq, d.seq)
				l.queue = append(l.queue, d)
				if l.kinds[k].Acts && d.Offset >= floor {
					l.acts = append(l.acts, d)
				}
			}
		}
	}
	slices.SortFunc(l.leftover, func(a, b *Decision) int { return cmp.Compare(a.Offset, b.Offset) })
	slices.SortFunc(l.queue, byDue)
	slices.SortFunc(l.acts, func(d, e *Decision) int { return cmp.Or(cmp.Compare(d.Offset, e.Offset), cmp.Compare(d.seq, e.seq)) })
	return top
}

// link inserts a decision among the decisions on its subject, and updates the one before it.
func (l *DecisionLog) link(d *Decision) {
	if former := l.insert(d); former != nil {
		l.requeue(former)
	}
}

// end returns the floor from which no replay needs the decision.
func (l *DecisionLog) end(d *Decision) int64 {
	switch row := &l.kinds[d.Kind]; {
	case !row.Standing || row.Lapses && d.asked <= d.Offset:
		return d.Offset + 1
	case row.Lapses:
		// Never later than the next one: a withdrawn decision must not come back
		// because its withdrawal is forgotten first.
		return min(d.asked, l.superseded(d))
	}
	return l.superseded(d)
}

// enqueue inserts a decision into the queue, where Forget finds it.
func (l *DecisionLog) enqueue(d *Decision) {
	d.due = l.end(d)
	i := len(l.queue)
	for i > 0 && byDue(d, l.queue[i-1]) < 0 { // most come last
		i--
	}
	l.queue = slices.Insert(l.queue, i, d)
}

// requeue moves a decision forward in the queue if the one that now follows it ends it earlier.
func (l *DecisionLog) requeue(d *Decision) {
	if l.end(d) >= d.due {
		return // Forget computes the end again
	}
	if i := slices.Index(l.queue, d); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		l.enqueue(d)
	}
}

// less reports whether d comes before e.
func (d *Decision) less(e *Decision) bool {
	return d.Offset < e.Offset || d.Offset == e.Offset && d.seq < e.seq
}

// byDue compares decisions by the order in which they are forgotten.
func byDue(a, b *Decision) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.seq, b.seq),
		cmp.Compare(string(a.Subject), string(b.Subject)))
}

// insert inserts a decision among the decisions on its subject, by offset. If it is the latest, insert
// returns the one before it.
func (l *DecisionLog) insert(d *Decision) (former *Decision) {
	bySubject := l.latest[d.Kind]
	if bySubject == nil {
		bySubject = map[string]*Decision{}
		l.latest[d.Kind] = bySubject
	}
	at := bySubject[string(d.Subject)]
	if at == nil || !d.less(at) {
		d.before = at
		bySubject[string(d.Subject)] = d
		return at
	}
	for at.before != nil && d.less(at.before) {
		at = at.before
	}
	d.before, at.before = at.before, d
	return nil
}

// unlink reverses insert.
func (l *DecisionLog) unlink(d *Decision) {
	bySubject := l.latest[d.Kind]
	at := bySubject[string(d.Subject)]
	switch {
	case at == d && d.before == nil:
		delete(bySubject, string(d.Subject))
	case at == d:
		bySubject[string(d.Subject)] = d.before
	default:
		for at.before != d {
			at = at.before
		}
		at.before = d.before
	}
	d.before = nil
}

// Latest returns the last decision about a subject; nil without one.
func (l *DecisionLog) Latest(k Kind, subject []byte) *Decision {
	if k >= NumKinds {
		return nil
	}
	return l.latest[k][string(subject)]
}

// InForce returns the last decision about a subject that takes effect before the record at
// offset or earlier; nil without one.
func (l *DecisionLog) InForce(k Kind, subject []byte, offset int64) *Decision {
	d := l.Latest(k, subject)
	for d != nil && d.Offset > offset {
		d = d.before
	}
	return d
}

// Subjects returns the number of subjects with a decision of a kind that a replay may need.
func (l *DecisionLog) Subjects(k Kind) int { return len(l.latest[k]) }

// at returns the decision of the same kind, subject and offset.
func (l *DecisionLog) at(d *Decision) *Decision {
	for e := l.Latest(d.Kind, d.Subject); e != nil; e = e.before {
		if e.Offset == d.Offset {
			return e
		}
	}
	return nil
}

// after returns the next decision of the subject.
func (l *DecisionLog) after(d *Decision) (next *Decision) {
	for at := l.latest[d.Kind][string(d.Subject)]; at != nil && at != d; at = at.before {
		next = at
	}
	return next
}

// overwritten reports whether a later decision has overwritten the record of this one:
// the log has one eviction of a key, and one decision at an offset.
func (l *DecisionLog) overwritten(d *Decision) bool {
	next := l.after(d)
	return next != nil && (d.Kind == KindEviction || next.Offset == d.Offset)
}

// superseded returns the floor from which no replay needs the decision because of
// the next one of its subject.
func (l *DecisionLog) superseded(d *Decision) int64 {
	if next := l.after(d); next != nil {
		return next.Offset + 1
	}
	return never
}

// Acting reports whether Next has more to return.
func (l *DecisionLog) Acting() bool { return l.acted < len(l.acts) }

// Next returns the next loaded decision that acts on the state, if it takes effect up to
// the record at offset, and advances past it; nil without one.
func (l *DecisionLog) Next(offset int64) *Decision {
	if l.acted == len(l.acts) || l.acts[l.acted].Offset > offset {
		return nil
	}
	l.acted++
	return l.acts[l.acted-1]
}

// NextBetween is Next for a decision that was made between records, up to offset.
func (l *DecisionLog) NextBetween(offset int64) *Decision {
	if l.acted == len(l.acts) || !l.acts[l.acted].Kind.BetweenRecords() {
		return nil
	}
	return l.Next(offset)
}
