package rules

import (
	"cmp"
	"slices"
)

// DecisionLog holds the decisions in the changelog, and those to be written to it or
// deleted from it.
type DecisionLog struct {
	schedule
	actions
	writer
	step     func(DecisionStep, *Decision)
	unlogged []*Decision // not emitted yet
	leftover []*Decision // emitted, but their series' records are in the log again
	revoked  []*Decision // emitted and undone: their records are to be deleted
	relog    []*Decision // forgotten and undone: their records are to be emitted again
	seq      uint64
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

// NewDecisionLog returns an empty Log. step is called with each step that Undo may have to revert.
func NewDecisionLog(kinds *KindTable, step func(DecisionStep, *Decision)) *DecisionLog {
	return &DecisionLog{schedule: schedule{kinds: *kinds}, step: step}
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
	l.rewind(next)
}

// MaxMissingSchemas is the number of missing schemas that may wait for the floor before it has to rise.
const MaxMissingSchemas = 10_000

// Crowded reports whether the floor has to rise so that missing schemas can be
// forgotten: they come as fast as records of unknown schemas do.
func (l *DecisionLog) Crowded() bool { return len(l.subjects[KindMissingSchema]) > MaxMissingSchemas }

// Resume takes a loaded eviction that was cut off before it had deleted the records of its
// series: the next Emit writes it again and deletes them. It comes before Begin.
func (l *DecisionLog) Resume(d *Decision) { l.leftover = append(l.leftover, d) }

// EndLoading ends the loading of decisions, for a replay from floor on, and returns the one with
// the largest offset, of several at that offset one that is not made between records; nil without one.
func (l *DecisionLog) EndLoading(floor int64) (top *Decision) {
	for k := range l.subjects {
		for _, d := range l.subjects[k] {
			for ; d != nil; d = d.before {
				if top == nil || d.Offset > top.Offset || d.Offset == top.Offset && top.Kind.BetweenRecords() {
					top = d
				}
				d.due = l.end(d)
				l.seq = max(l.seq, d.seq)
				l.queue = append(l.queue, d)
				if l.kinds[k].Acts && d.Offset >= floor {
					l.actions.list = append(l.actions.list, d)
				}
			}
		}
	}
	slices.SortFunc(l.leftover, func(a, b *Decision) int { return cmp.Compare(a.Offset, b.Offset) })
	slices.SortFunc(l.queue, byDue)
	l.order()
	return top
}
