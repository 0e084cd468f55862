package state

import (
	"bytes"
	"cmp"
	"slices"

	"odradek/detectors"
)

// gate orders the steps of a sample where Fold takes its slow path. A sample's turn begins when it is folded or, for a
// suspect, when the votes have decided. In its turn the watermark moves first, then held samples are released, then
// keys past their TTL are evicted, and last the sample itself is accepted. A batch without room interrupts the turn;
// release continues it.
//
// The gate is not held, which has the samples that wait for the watermark: those are part of their keys' states, stored in
// snapshots and evicted with the keys, and wait for event time. The gate has samples whose time has come, for as long as a batch
// has no room. It is empty at each mark, so no format knows it, and a rollback drops it.
type gate struct {
	line        []turn // samples whose turn it is, from next on
	next        int
	begun       bool // the turn of line[next] has begun: it is accepted when all releases before it are done
	interrupted bool // a batch had no room for a release
	sweepDue    bool
	// advancing: the largest event time comes from a decision, and what it reaches is being released.
	advancing bool
	decided   int64   // the offset of that decision
	passed    bool    // it is an advance, which closes intervals of all series
	outcome   Outcome // of the newest sample
	closed    bool    // that is held, and an advance has closed its interval
}

// turn is a sample whose turn has come.
type turn struct {
	sample attached
	out    Outcome // of admit
	// closed: it is held, by the order of its series, but an advance has closed its interval, so that it is late when it is
	// released. It is held all the same: after another reading came between, its interval may be an open one.
	closed bool
	key    *Key // which admit was given; nil: the series had none
}

// detach copies the sample of a turn that outlives its Fold.
func (t *turn) detach() { t.sample.Sample = t.sample.clone() }

// idle reports whether no sample waits for room in a batch.
func (g *gate) idle() bool { return len(g.line) == 0 && !g.interrupted && !g.advancing }

// reset drops the samples that wait for room in a batch.
func (g *gate) reset() { *g = gate{line: g.line[:0]} }

// enter takes the next sample, as far as b has room, and returns its outcome.
func (s *State) enter(sm *Sample, b *detectors.Batch) Outcome {
	s.held.Pass(sm.Offset)
	suspect := false
	if s.Suspects.Len() > 0 || s.Suspects.votes.Beyond(sm.Time+sm.Ahead, s.maxTime) {
		suspect = s.weigh(sm)
	} else {
		k := s.Keys.Get(sm.Key)
		out := s.admit(sm, k)
		s.gate.line = append(s.gate.line, turn{attached{Sample: *sm}, out, out == Held && s.closedBefore(k, sm.Time), k})
	}
	if len(s.orphans.orphaned) > 0 && s.publishes() && !suspect {
		s.closeAllOrphans(sm)
	}
	s.gate.outcome, s.gate.closed = Held, false
	for i := range s.gate.line {
		if t := &s.gate.line[i]; t.sample.Offset == sm.Offset {
			s.gate.outcome, s.gate.closed = t.out, t.closed
		}
	}
	if !s.release(b, true) {
		for i := s.gate.next; i < len(s.gate.line); i++ {
			s.gate.line[i].detach()
		}
	}
	return s.gate.outcome
}

// weigh counts the vote of sm on each suspect and puts the samples whose turn it
// is, judged, into gate.line. It reports whether sm is a suspect from now on.
func (s *State) weigh(sm *Sample) (held bool) {
	held = s.vote(sm, func(a *attached) { s.gate.line = append(s.gate.line, turn{sample: *a}) })
	slices.SortFunc(s.gate.line, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.sample.Time, b.sample.Time), cmp.Compare(a.sample.Offset, b.sample.Offset))
	})
	s.Keys.refusing = refusing{turn: s.turn()}
	for i := range s.gate.line {
		t := &s.gate.line[i]
		t.key = s.Keys.Get(t.sample.Key)
		t.out = s.admit(&t.sample.Sample, t.key)
		t.closed = t.out == Held && s.closedBefore(t.key, t.sample.Time)
		if !t.out.accepted() {
			s.Keys.refusing.add(t.key)
			continue
		}
		for j := i - 1; s.order.DropDuplicates && j >= 0 && s.gate.line[j].sample.Time == t.sample.Time; j-- {
			if bytes.Equal(s.gate.line[j].sample.Key, t.sample.Key) {
				t.out = Duplicate
			}
		}
	}
	return held
}

// admit decides the outcome of a sample of a key, which may be nil: samples with Held or Scored are accepted, and Scored stands
// for the outcome that foldSample will return.
func (s *State) admit(sm *Sample, k *Key) Outcome {
	if s.sets.For(sm.Key) == nil && (k == nil || !s.readBefore(sm.Key)) {
		return Filtered
	}
	if s.readings.foreign || s.readings.unread != nil && s.readings.unread(sm.Key) {
		return Filtered
	}
	if at := s.turn(); at < s.ahead {
		if k != nil && (at < k.AsOf || k.Dropped) {
			return Duplicate // it is in the key's snapshot, or goes with the key
		}
		if d := s.decisions.Latest(Eviction, sm.Key); d != nil && at < d.Offset {
			return Duplicate // it was forgotten with the key
		}
	}
	if s.order.Lateness > 0 {
		switch {
		case s.tooLate(k, sm.Time) || k != nil && sm.Time < k.LastTime ||
			s.closedIn(sm.Key, sm.Time, s.watermark()):
			return Late
		case s.order.DropDuplicates && k != nil && (k.LastTime == sm.Time || k.Held.Has(sm.Time)):
			return Duplicate
		case k != nil && k.LastTime == sm.Time:
			return Scored // what it holds is later
		}
		return Held
	}
	if s.closedIn(sm.Key, sm.Time, s.watermark()) {
		return Late
	}
	return s.inOrder(k, sm.Time)
}

// closedBefore reports whether the interval of a key's sample is closed.
func (s *State) closedBefore(k *Key, time int64) bool {
	return s.intervals.any && k != nil && k.Interval != nil && time < k.Interval.Start
}

// HeldLate reports whether the sample for which Fold has just returned Held will be late when it is released, because an advance has
// closed its interval.
func (s *State) HeldLate() bool { return s.gate.closed }

// tooLate reports whether a sample of a key, which may be nil, is further behind than the lateness allows.
func (s *State) tooLate(k *Key, time int64) bool {
	if s.order.BySeries {
		return k != nil && time < timeBefore(k.Newest(), s.order.Lateness)
	}
	return time < s.bound()
}

// release folds the held samples that the watermark has reached, then continues the turn of
// the sample being folded, and then folds those that are overdue. It returns false if b has no room for more.
func (s *State) release(b *detectors.Batch, limited bool) bool {
	g := &s.gate
	for {
		wm := s.watermark()
		k, due := s.held.Due(wm)
		if s.Grids.any {
			if open, end, closing := s.Grids.due(wm); closing && (!due || end <= k.Held.First()) {
				if limited && !s.tasks.Fits(b) {
					g.interrupted = true
					return false
				}
				s.closeGrids(open, end, b)
				continue
			}
		}
		if s.intervals.any {
			if open, end, closing := s.dueInterval(wm); closing && (!due || s.byPartition() && end <= k.Held.Due()) {
				if limited && !s.tasks.Fits(b) {
					g.interrupted = true
					return false
				}
				s.closeInterval(open, b)
				continue
			}
		}
		switch {
		case due:
			if limited && !s.tasks.Fits(b) {
				g.interrupted = true
				return false
			}
			if s.closes(k, k.Held.First()) {
				s.closeInterval(k, b)
				continue
			}
			s.releaseFirst(k, b, true)
		case g.advancing:
			s.endAdvance()
		case len(g.line) == 0:
			// Last, so that it does not depend on the sample's own outcome and the
			// next one is judged by what it leaves.
			g.interrupted = !s.releaseOverdue(b, limited)
			return !g.interrupted
		case g.begun:
			if !s.endTurn(b, limited) {
				return false
			}
		case limited && !s.tasks.Fits(b):
			return false
		default:
			s.beginTurn()
		}
	}
}

// beginTurn begins the next turn of the line.
func (s *State) beginTurn() {
	t := &s.gate.line[s.gate.next]
	s.gate.begun = true
	if (t.out == Late || t.closed) && t.sample.Offset < s.turn() {
		s.refuse(&t.sample, Late)
	}
	s.gate.sweepDue = s.raise(t.sample.Time)
}

// endTurn ends the turn of which everything is released. It returns false if b has no room for all intervals that its sample closes.
func (s *State) endTurn(b *detectors.Batch, limited bool) bool {
	g := &s.gate
	if g.sweepDue {
		g.sweepDue = false
		s.sweep(s.turn())
	}
	t := &g.line[g.next]
	out, done := s.accept(&t.sample.Sample, s.keyOf(t), t.out, b, limited)
	if !done {
		return false
	}
	if t.sample.Offset == s.turn() {
		g.outcome = out
	}
	g.begun = false
	if g.next++; g.next == len(g.line) {
		g.line, g.next = g.line[:0], 0
	}
	return true
}

// interrupt has a sample whose turn has begun wait for room in a batch.
func (s *State) interrupt(sm *Sample, k *Key, out Outcome) {
	s.gate.line = append(s.gate.line, turn{sample: attached{Sample: sm.clone()}, out: out, key: k})
	s.gate.begun = true
	s.route()
}

// keyOf returns the key of a turn; nil: the series has none. Since admit, another turn may have created it, and an eviction removed it.
func (s *State) keyOf(t *turn) *Key {
	if t.key != nil && !t.key.Dead {
		return t.key
	}
	return s.Keys.Get(t.sample.Key)
}

// releaseFirst folds a key's earliest held sample. due says that held.Due has returned the key last.
func (s *State) releaseFirst(k *Key, b *detectors.Batch, due bool) {
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	sm := s.popHeld(k, due)
	s.countSample(s.foldSample(k, &sm, b), sm.Offset)
}

// releaseOverdue releases the samples whose offset is overdue. It returns false if b has
// no room for more.
func (s *State) releaseOverdue(b *detectors.Batch, limited bool) bool {
	for {
		k, time, ok := s.held.Overdue()
		if !ok {
			return true
		}
		if k.AsOf > s.next {
			// The key was restored as of a later turn, where the sample was held: here it was a suspect. Another reading came
			// between, whose MaxHeld lists the held samples anew.
			s.held.PopOverdue()
			continue
		}
		for !k.Dead && k.Held.Len() > 0 && k.Held.First() <= time {
			if limited && !s.tasks.Fits(b) {
				return false
			}
			if s.closes(k, k.Held.First()) {
				s.closeInterval(k, b)
				continue
			}
			s.releaseFirst(k, b, false)
			s.Tally.Early++
		}
		s.held.PopOverdue()
	}
}
