package state

import (
	"bytes"
	"cmp"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/rules"
)

// gate orders the steps of a sample where Fold takes its slow path. A sample's turn begins when it is folded or, for a
// suspect, when the votes have decided. In its turn the watermark moves first, then held samples are released, then
// keys past their TTL are evicted, and last the sample itself is accepted. A batch without room interrupts the turn;
// release continues it.
type gate struct {
	line     []turn // samples whose turn it is, from next on
	next     int
	deferred turn // its turn has begun, but it is not accepted yet: releases come first
	waiting  bool // deferred is set, or Filtered, and releases are left
	accept   bool // deferred is to be accepted
	sweepDue bool
	// advancing: the largest event time comes from a decision, and what it reaches is being released.
	advancing bool
	outcome   Outcome // of the newest sample

	at        *position
	readings  *readings
	tally     *Tally
	journal   *journal
	keys      *Keys
	held      *held
	suspects  *Suspects
	orphans   *orphans
	silences  *silences
	sweeps    *sweeps
	grids     *Grids
	decisions *rules.DecisionLog
	records   *checkpoint.Writer
	folder    *folder
}

// turn is a sample whose turn has come.
type turn struct {
	attached
	out Outcome // of admit
}

// detach copies the sample of a turn that outlives its Fold.
func (t *turn) detach() { t.Sample = t.Sample.clone() }

// idle reports whether no sample waits for room in a batch.
func (g *gate) idle() bool { return !g.waiting && len(g.line) == 0 && !g.advancing }

// reset drops the samples that wait for room in a batch.
func (g *gate) reset() {
	g.line, g.next = g.line[:0], 0
	g.waiting, g.accept, g.sweepDue, g.advancing = false, false, false, false
}

// enter takes the next sample, as far as b has room, and returns its outcome.
func (g *gate) enter(sm *Sample, b *detectors.Batch) Outcome {
	g.held.Pass(sm.Offset)
	suspect := false
	if g.suspects.Len() > 0 || g.suspects.votes.Beyond(sm.Time+sm.Ahead, g.at.maxTime) {
		suspect = g.weigh(sm)
	} else {
		g.line = append(g.line, turn{attached{Sample: *sm}, g.admit(sm)})
	}
	if len(g.orphans.orphaned) > 0 && g.at.publishes() && !suspect {
		g.orphans.closeAll(sm)
	}
	g.outcome = Held
	for i := range g.line {
		if t := &g.line[i]; t.Offset == sm.Offset {
			g.outcome = t.out
		}
	}
	if !g.release(b, true) {
		g.deferred.detach()
		for i := g.next; i < len(g.line); i++ {
			g.line[i].detach()
		}
	}
	return g.outcome
}

// weigh counts the vote of sm on each suspect and puts the samples whose turn it
// is, judged, into g.line. It reports whether sm is a suspect from now on.
func (g *gate) weigh(sm *Sample) (held bool) {
	held = g.suspects.vote(sm, func(a *attached) { g.line = append(g.line, turn{attached: *a}) })
	slices.SortFunc(g.line, func(a, b turn) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Offset, b.Offset)) })
	g.keys.refusing = refusing{turn: g.at.turn()}
	for i := range g.line {
		t := &g.line[i]
		t.out = g.admit(&t.Sample)
		if t.out != Held && t.out != Scored {
			g.keys.refusing.add(g.keys.Get(t.Key))
			continue
		}
		for j := i - 1; g.at.order.DropDuplicates && j >= 0 && g.line[j].Time == t.Time; j-- {
			if bytes.Equal(g.line[j].Key, t.Key) {
				t.out = Duplicate
			}
		}
	}
	return held
}

// admit decides a sample's outcome: samples with Held or Scored are accepted, and Scored stands for the outcome that
// folder.fold will return.
func (g *gate) admit(sm *Sample) Outcome {
	k := g.keys.Get(sm.Key)
	if g.keys.sets.For(sm.Key) == nil && (k == nil || !g.readings.readBefore(sm.Key)) {
		return Filtered
	}
	if g.readings.foreign || g.readings.unread != nil && g.readings.unread(sm.Key) {
		return Filtered
	}
	if at := g.at.turn(); at < g.at.ahead {
		if k != nil && (at < k.AsOf || k.Dropped) {
			return Duplicate // it is in the key's snapshot, or goes with the key
		}
		if d := g.decisions.Latest(Eviction, sm.Key); d != nil && at < d.Offset {
			return Duplicate // it was forgotten with the key
		}
	}
	if g.at.order.Lateness > 0 {
		switch {
		case sm.Time < g.at.bound() || k != nil && sm.Time < k.LastTime ||
			g.grids.closed(sm.Key, sm.Time, g.at.watermark()):
			return Late
		case g.at.order.DropDuplicates && k != nil && (k.LastTime == sm.Time || k.Held.Has(sm.Time)):
			return Duplicate
		case k != nil && k.LastTime == sm.Time:
			return Scored // what it holds is later
		}
		return Held
	}
	switch {
	case k != nil && sm.Time < k.LastTime || g.grids.closed(sm.Key, sm.Time, g.at.watermark()):
		return Late
	case k != nil && sm.Time == k.LastTime && g.at.order.DropDuplicates:
		return Duplicate
	}
	return Scored
}

// release folds the held samples that the watermark has reached, then continues the turn of
// the sample being folded, and then folds those that are overdue. It returns false if b has no room for more.
func (g *gate) release(b *detectors.Batch, limited bool) bool {
	for {
		wm := g.at.watermark()
		for {
			k, due := g.held.Due(wm)
			if g.grids.any {
				if open, end, closing := g.grids.due(wm); closing && (!due || end <= k.Held.First()) {
					if limited && !g.folder.tasks.Fits(b) {
						g.waiting = true
						return false
					}
					g.folder.closeGrids(open, end, b)
					continue
				}
			}
			if !due {
				break
			}
			if limited && !g.folder.tasks.Fits(b) {
				g.waiting = true
				return false
			}
			g.releaseFirst(k, b, true)
		}
		if !g.waiting {
			if g.advancing {
				g.endAdvance()
			}
			if len(g.line) > 0 {
				if limited && !g.folder.tasks.Fits(b) {
					return false
				}
				g.step()
				continue
			}
			// Last, so that it does not depend on the sample's own outcome and the
			// next one is judged by what it leaves.
			g.waiting = !g.releaseOverdue(b, limited)
			return !g.waiting
		}
		g.waiting = false
		if g.sweepDue {
			g.sweepDue = false
			g.sweeps.sweep(g.at.turn())
		}
		if g.accept {
			g.accept = false
			g.acceptSample(&g.deferred, b)
		}
	}
}

// step begins the next turn of the line.
func (g *gate) step() {
	t := g.line[g.next]
	if g.next++; g.next == len(g.line) {
		g.line, g.next = g.line[:0], 0
	}
	accept := t.out == Held || t.out == Scored
	if !accept {
		g.tally.Counts[g.at.counted(t.out, t.Offset)]++
	}
	if t.out == Late && t.Offset < g.at.turn() {
		g.suspects.refuse(&t.attached, Late)
	}
	if t.Time > g.at.maxTime {
		g.at.maxTime = t.Time
		g.sweepDue = g.at.watermark() >= g.at.sweepAt
	}
	g.waiting, g.accept, g.deferred = true, accept, t
}

// acceptSample folds or holds a sample.
func (g *gate) acceptSample(t *turn, b *detectors.Batch) {
	sm := &t.Sample
	k := g.keys.Get(sm.Key)
	if k == nil {
		k = g.keys.create(sm)
	}
	if k.Unit != uint32(g.journal.Number) {
		g.folder.edits.touch(k)
	}
	k.LastOffset = g.at.turn()
	if g.silences.n > 0 && g.at.publishes() {
		g.silences.heard(k, sm)
	}
	if t.out == Held {
		if sm.Offset < g.at.turn() { // an accepted suspect
			g.records.Unblock(k, sm.Offset)
		}
		g.held.hold(k, sm)
		return
	}
	out := g.folder.fold(k, sm.Time, sm.Offset, sm.Values, b)
	if sm.Offset == g.at.turn() {
		g.outcome = out
	}
	g.tally.Counts[g.at.counted(out, sm.Offset)]++
}

// releaseFirst folds a key's earliest held sample. due says that g.held.Due has returned the key last.
func (g *gate) releaseFirst(k *Key, b *detectors.Batch, due bool) {
	if k.Unit != uint32(g.journal.Number) {
		g.folder.edits.touch(k)
	}
	time, offset, values := g.held.pop(k, due)
	out := g.folder.fold(k, time, offset, values, b)
	g.tally.Counts[g.at.counted(out, offset)]++
}

// releaseOverdue releases the samples whose offset is overdue. It returns false if b has
// no room for more.
func (g *gate) releaseOverdue(b *detectors.Batch, limited bool) bool {
	for {
		k, time, ok := g.held.Overdue()
		if !ok {
			return true
		}
		if k.AsOf > g.at.next {
			// The key was restored as of a later turn, where the sample was held: here it was a suspect. Another reading came
			// between, whose MaxHeld lists the held samples anew.
			g.held.PopOverdue()
			continue
		}
		for !k.Dead && k.Held.Len() > 0 && k.Held.First() <= time {
			if limited && !g.folder.tasks.Fits(b) {
				return false
			}
			g.releaseFirst(k, b, false)
			g.tally.Early++
		}
		g.held.PopOverdue()
	}
}
