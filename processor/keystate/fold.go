package keystate

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"odradek/detectors"
	"odradek/processor/keystate/series"
)

// Fold takes the next sample. Tasks that become due are packed into b; rows of
// samples without a score go to Rows. It returns what became of the record:
// where samples are held for order, that is Held, and the sample is counted as
// something else when it is released. Fits must have returned true before.
//
// While Replaying, only offsets below the committed one are taken, no rows are
// made, nothing is counted, and the result means nothing.
func (s *State) Fold(sm *Sample, b *detectors.Batch) Outcome {
	if sm.Offset < s.next {
		panic(fmt.Sprintf("keystate: offset %d is folded after %d", sm.Offset, s.next-1))
	}
	if s.slow {
		return s.foldSlow(sm, b)
	}
	s.next = sm.Offset + 1
	if sm.Time > s.maxTime {
		if s.Suspects.jury.Far(sm.Time, s.maxTime) {
			return s.foldSlow(sm, b) // a suspect
		}
		s.maxTime = sm.Time
		if sm.Time >= s.sweepAt {
			s.sweeps.sweep(sm.Offset)
		}
	}
	k := s.Keys.Get(sm.Key)
	if k == nil {
		if k = s.Keys.create(sm); k == nil {
			s.Counts[Filtered]++
			return Filtered
		}
	} else if sm.Time <= k.LastTime {
		if sm.Time < k.LastTime {
			s.Counts[Late]++
			return Late
		}
		if s.cfg.DropDuplicates {
			s.Counts[Duplicate]++
			return Duplicate
		}
	}
	if k.Unit != uint32(s.journal.Number) {
		s.folder.edits.touch(k)
	}
	k.LastOffset = sm.Offset
	if s.silences.n > 0 {
		s.silences.heard(k, sm)
	}
	out := s.folder.fold(k, sm.Time, sm.Offset, sm.Values, b)
	s.Counts[out]++
	return out
}

// foldSlow is Fold where something is held, replayed or ahead, or may be. With
// each sample whose turn it is the watermark moves first, then held samples are
// released, keys past their TTL evicted, and last the sample itself is accepted.
func (s *State) foldSlow(sm *Sample, b *detectors.Batch) Outcome {
	if !s.journal.Started() {
		s.begin(Floor{Offset: sm.Offset, MaxTime: NoTime}, true)
	}
	s.release(b, false) // nothing is left to do where Fits was asked
	if s.journal.Replaying {
		s.replayStep(sm)
	}
	s.applyDecisions(sm.Offset)
	if s.rules.missing && !s.journal.Replaying {
		s.rules.decide(sm.Offset)
	}
	s.next = sm.Offset + 1
	s.held.Pass(sm.Offset)
	held := false
	if s.Suspects.Len() > 0 || s.Suspects.jury.Beyond(sm.Time, s.maxTime) {
		held = s.weigh(sm)
	} else {
		s.line = append(s.line, turn{attached{Sample: *sm}, s.admit(sm)})
	}
	if len(s.orphans.list) > 0 && !s.journal.Replaying && !held {
		s.orphans.closeAll(sm)
	}
	s.outcome = Held
	for i := range s.line {
		if t := &s.line[i]; t.Offset == sm.Offset {
			s.outcome = t.out
		}
	}
	if !s.release(b, true) {
		s.deferred.detach()
		for i := range s.line {
			s.line[i].detach()
		}
	}
	s.route()
	return s.outcome
}

// step begins the next turn of the line.
func (s *State) step() {
	t := s.line[0]
	s.line = slices.Delete(s.line, 0, 1)
	accept := t.out == Held || t.out == Scored
	if !accept && !s.journal.Replaying {
		s.Counts[t.out]++
	}
	if t.out == Late && t.Offset < s.next-1 {
		s.Suspects.refuse(&t.attached, Late)
	}
	if t.Time > s.maxTime {
		s.maxTime = t.Time
		s.sweepDue = s.watermark() >= s.sweepAt
	}
	s.waiting, s.accept, s.deferred = true, accept, t
}

// admit says what becomes of a sample: Held and Scored are accepted, Scored
// stands for what folder.fold will say.
func (s *State) admit(sm *Sample) Outcome {
	k := s.Keys.Get(sm.Key)
	if (k == nil || k.Set == series.None) && s.sets.For(sm.Key) == nil {
		return Filtered
	}
	if at := s.next - 1; s.journal.Replaying || at < s.restore.ahead {
		if k != nil && (at < k.AsOf || k.Dropped) {
			return Duplicate // it is in the key's snapshot, or goes with the key
		}
		if d := s.decisions.Latest(Eviction, sm.Key); d != nil && at < d.Offset {
			return Duplicate // it was forgotten with the key
		}
	}
	if s.cfg.Lateness > 0 {
		switch {
		case sm.Time < s.watermark() || k != nil && sm.Time < k.LastTime:
			return Late
		case s.cfg.DropDuplicates && k != nil && (k.LastTime == sm.Time || k.Held.Has(sm.Time)):
			return Duplicate
		case k != nil && k.LastTime == sm.Time:
			return Scored // what it holds is later
		}
		return Held
	}
	switch {
	case k != nil && sm.Time < k.LastTime || s.gridded && s.sets.For(sm.Key).Closed(sm.Time, s.watermark()):
		return Late
	case k != nil && sm.Time == k.LastTime && s.cfg.DropDuplicates:
		return Duplicate
	}
	return Scored
}

// Fits reports whether b has room for whatever the next Fold packs. While it is
// false, execute b, Apply and Reset, and ask again: held samples that the last
// Fold had no room to release are released by Fits. It must have returned true
// before Mark, too. One sample's tasks always fit an empty batch; where they
// are more than its limits (see Need) its arenas grow past them.
func (s *State) Fits(b *detectors.Batch) bool {
	if s.slow {
		done := s.release(b, true)
		s.route()
		if !done {
			return false
		}
	}
	return s.folder.tasks.Fits(b)
}

// release folds the held samples that the watermark has reached, then does what
// else the sample being folded asks for, and then folds those that are overdue. False: b has no room for more.
func (s *State) release(b *detectors.Batch, limited bool) bool {
	for {
		wm := s.watermark()
		for {
			k, due := s.held.Due(wm)
			if s.gridded {
				if g, end, closing := s.folder.gridDue(wm); closing && (!due || end <= k.Held.First()) {
					if limited && !s.folder.tasks.Fits(b) {
						s.waiting = true
						return false
					}
					s.folder.closeGrids(g, end, b)
					continue
				}
			}
			if !due {
				break
			}
			if limited && !s.folder.tasks.Fits(b) {
				s.waiting = true
				return false
			}
			s.releaseFirst(k, b, true)
		}
		if !s.waiting {
			if len(s.line) > 0 {
				if limited && !s.folder.tasks.Fits(b) {
					return false
				}
				s.step()
				continue
			}
			// Last, so that it does not depend on the sample's own outcome and the
			// next one is judged by what it leaves.
			s.waiting = !s.releaseOverdue(b, limited)
			return !s.waiting
		}
		s.waiting = false
		if s.sweepDue {
			s.sweepDue = false
			s.sweeps.sweep(s.next - 1)
		}
		if s.accept {
			s.accept = false
			s.acceptSample(&s.deferred, b)
		}
	}
}

// acceptSample folds or holds a sample.
func (s *State) acceptSample(t *turn, b *detectors.Batch) {
	sm := &t.Sample
	k := s.Keys.Get(sm.Key)
	if k == nil {
		k = s.Keys.create(sm)
	}
	if k.Unit != uint32(s.journal.Number) {
		s.folder.edits.touch(k)
	}
	k.LastOffset = s.next - 1
	if s.silences.n > 0 && !s.journal.Replaying {
		s.silences.heard(k, sm)
	}
	if t.out == Held {
		if sm.Offset < s.turn() { // an accepted suspect
			s.records.Unblock(k, sm.Offset)
		}
		s.held.hold(k, sm)
		return
	}
	out := s.folder.fold(k, sm.Time, sm.Offset, sm.Values, b)
	if sm.Offset == s.next-1 {
		s.outcome = out
	}
	if !s.journal.Replaying {
		s.Counts[out]++
	}
}

// takesIncomplete reports whether a detector scores rows with missing values.
func takesIncomplete(d detectors.Detector, columns int) bool {
	if z, ok := d.(detectors.Summarizer); ok && z.Summary(columns) != nil {
		return false // of whole rows
	}
	_, ok := d.(detectors.Incomplete)
	return ok && d.Op().Elem() != detectors.I64
}

// releaseFirst folds a key's earliest held sample. due says that s.held.Due has returned the key last.
func (s *State) releaseFirst(k *Key, b *detectors.Batch, due bool) {
	if k.Unit != uint32(s.journal.Number) {
		s.folder.edits.touch(k)
	}
	time, offset, values := s.held.take(k, due)
	out := s.folder.fold(k, time, offset, values, b)
	if !s.journal.Replaying {
		s.Counts[out]++
	}
}

// releaseOverdue releases the samples whose offset is overdue. It returns false if b has
// no room for more.
func (s *State) releaseOverdue(b *detectors.Batch, limited bool) bool {
	for {
		k, time, ok := s.held.Overdue()
		if !ok {
			return true
		}
		for !k.Dead && k.Held.Len() > 0 && k.Held.First() <= time {
			if limited && !s.folder.tasks.Fits(b) {
				return false
			}
			s.releaseFirst(k, b, false)
			if !s.journal.Replaying {
				s.Early++
			}
		}
		s.held.PopOverdue()
	}
}

// weigh counts the vote of sm on each suspect and puts the samples whose turn it
// is, judged, into s.line. It reports whether sm is a suspect from now on.
func (s *State) weigh(sm *Sample) (held bool) {
	held = s.Suspects.vote(sm, func(a *attached) { s.line = append(s.line, turn{attached: *a}) })
	slices.SortFunc(s.line, func(a, b turn) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Offset, b.Offset)) })
	for i := range s.line {
		t := &s.line[i]
		t.out = s.admit(&t.Sample)
		if t.out != Held && t.out != Scored {
			continue
		}
		same := func(o turn) bool { return o.Time == t.Time && bytes.Equal(o.Key, t.Key) }
		if s.cfg.DropDuplicates && slices.ContainsFunc(s.line[:i], same) {
			t.out = Duplicate
		}
	}
	return held
}
