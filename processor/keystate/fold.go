package keystate

import (
	"fmt"
	"math"
	"slices"

	"odradek/detectors"
)

// minTime is the time of the last sample of a key that has none.
const minTime = math.MinInt64

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
		if uint64(sm.Time)-uint64(s.maxTime) > s.jury.reach {
			return s.foldSlow(sm, b) // a suspect
		}
		s.maxTime = sm.Time
		if sm.Time >= s.nextSweep {
			s.sweep(sm.Offset)
		}
	}
	k := s.keys.get(sm.Key)
	if k == nil {
		if k = s.create(sm); k == nil {
			s.Counts[Filtered]++
			return Filtered
		}
	} else if sm.Time <= k.lastTime {
		if sm.Time < k.lastTime {
			s.Counts[Late]++
			return Late
		}
		if s.cfg.DropDuplicates {
			s.Counts[Duplicate]++
			return Duplicate
		}
	}
	if k.unit != uint32(s.journal.unit) {
		s.touch(k)
	}
	k.lastOffset = sm.Offset
	if s.silence.n > 0 {
		s.heard(k, sm)
	}
	out := s.foldRow(k, sm.Time, sm.Offset, sm.Values, b)
	s.Counts[out]++
	return out
}

// foldSlow is Fold where something is held, replayed or ahead, or may be. With
// each sample whose turn it is the watermark moves first, then held samples are
// released, keys past their TTL evicted, and last the sample itself is accepted.
func (s *State) foldSlow(sm *Sample, b *detectors.Batch) Outcome {
	if !s.journal.started {
		s.begin(Floor{Offset: sm.Offset, MaxTime: NoTime})
		s.journal.implicit = true
	}
	s.release(b, false) // nothing is left to do where Fits was asked
	if s.restore.replaying {
		s.replayStep(sm)
	}
	s.applyDecisions(sm.Offset)
	if s.unruled && !s.restore.replaying {
		s.decideRules(sm.Offset)
	}
	s.next = sm.Offset + 1
	s.held.Pass(sm.Offset)
	held := false
	if len(s.jury.list) > 0 || s.jury.beyond(sm.Time, s.maxTime) {
		held = s.weigh(sm)
	} else {
		s.line = append(s.line, turn{Sample: *sm, out: s.judge(sm)})
	}
	if len(s.orphaned) > 0 && !s.restore.replaying && !held {
		s.closeOrphans(sm)
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
	if !accept && !s.restore.replaying {
		s.Counts[t.out]++
	}
	if t.out == Late && t.Offset < s.next-1 {
		s.refuse(&t.Sample, t.record, Late)
	}
	if t.Time > s.maxTime {
		s.maxTime = t.Time
		s.sweepDue = s.watermark() >= s.nextSweep
	}
	s.waiting, s.accept, s.deferred = true, accept, t
}

// judge says what becomes of a sample: Held and Scored are accepted, Scored
// stands for what foldRow will say.
func (s *State) judge(sm *Sample) Outcome {
	k := s.keys.get(sm.Key)
	if (k == nil || k.set == emptySet) && s.setFor(sm.Key) == nil {
		return Filtered
	}
	if at := s.next - 1; s.restore.replaying || at < s.restore.ahead {
		if k != nil && (at < k.asOf || k.dropped) {
			return Duplicate // it is in the key's snapshot, or goes with the key
		}
		if d := s.decisions.latest(Eviction, sm.Key); d != nil && at < d.offset {
			return Duplicate // it was forgotten with the key
		}
	}
	if s.cfg.Lateness > 0 {
		switch {
		case sm.Time < s.watermark() || k != nil && sm.Time < k.lastTime:
			return Late
		case s.cfg.DropDuplicates && k != nil && (k.lastTime == sm.Time || k.held.Has(sm.Time)):
			return Duplicate
		case k != nil && k.lastTime == sm.Time:
			return Scored // what it holds is later
		}
		return Held
	}
	switch {
	case k != nil && sm.Time < k.lastTime:
		return Late
	case k != nil && sm.Time == k.lastTime && s.cfg.DropDuplicates:
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
	return s.tasks.room(b, s.need)
}

// release folds the held samples that the watermark has reached, then does what
// else the sample being folded asks for, and then folds those that are overdue. False: b has no room for more.
func (s *State) release(b *detectors.Batch, limited bool) bool {
	for {
		wm := s.watermark()
		for {
			k, due := s.held.Due(wm)
			if !due {
				break
			}
			if limited && !s.tasks.room(b, s.need) {
				s.waiting = true
				return false
			}
			s.releaseFirst(k, b)
		}
		if !s.waiting {
			if len(s.line) > 0 {
				if limited && !s.tasks.room(b, s.need) {
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
			s.sweep(s.next - 1)
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
	k := s.keys.get(sm.Key)
	if k == nil {
		k = s.create(sm)
	}
	if k.unit != uint32(s.journal.unit) {
		s.touch(k)
	}
	k.lastOffset = s.next - 1
	if s.silence.n > 0 && !s.restore.replaying {
		s.heard(k, sm)
	}
	if t.out == Held {
		s.hold(k, sm)
		return
	}
	out := s.foldRow(k, sm.Time, sm.Offset, sm.Values, b)
	if sm.Offset == s.next-1 {
		s.outcome = out
	}
	if !s.restore.replaying {
		s.Counts[out]++
	}
}

// foldRow folds a sample in its turn: into the key's windows, and from there
// into tasks.
func (s *State) foldRow(k *Key, time, offset int64, values []float64, b *detectors.Batch) Outcome {
	k.lastTime = time
	out := Missing
	set := k.set
	if set.simple {
		sw := &set.wins[0]
		if v := values[sw.cols[0]]; v-v == 0 {
			return s.foldOne(k, sw, time, offset, v, b)
		}
	}
	for i := range set.wins {
		sw, w := &set.wins[i], &k.wins[i]
		word := uint64(offset) << 1 // with the lowest bit for imputed
		if missing := sw.missing(values); missing > 0 {
			switch {
			case s.cfg.Hold && w.rows > 0:
				word |= 1
			case s.cfg.Hold || !sw.incomplete || missing == len(sw.cols):
				continue
			}
		}
		if w.rows == sw.need && !s.restore.replaying {
			s.journal.cur.saveRow(k, i, sw, w)
		}
		s.pushRow(sw, w, time, values, word&1 != 0)
		if out == Missing {
			out = WarmingUp
		}
		for j := range sw.dets {
			d := &sw.dets[j]
			if w.rows < d.minRows {
				s.warm(k, d, time, offset)
				continue
			}
			out = Scored
			m := &k.marks[d.mark]
			if m.n+1 < d.stride {
				w.fresh(sw, d)[m.n] = word
				m.n++
				continue
			}
			s.pack(k, sw, w, d, m, word, b)
			m.n = 0
		}
	}
	return out
}

// foldOne is foldRow for the usual key of one window with one column and one
// detector, where the value is not missing: the same without the loops.
func (s *State) foldOne(k *Key, sw *keyWindow, time, offset int64, v float64, b *detectors.Batch) Outcome {
	w := &k.wins[0]
	if w.rows == sw.need {
		if !s.restore.replaying {
			u, at := s.journal.cur, int(w.pos)
			u.words = append(u.words, w.slab[at], w.slab[int(w.cap)+at])
			u.add(opRow, k, 0, 2)
		}
	} else {
		if w.rows == w.cap {
			s.grow(sw, w, 0)
		}
		w.rows++
	}
	at := int(w.pos)
	if w.pos++; w.pos == w.cap {
		w.pos = 0
	}
	w.count++
	w.slab[at] = uint64(time)
	w.slab[int(w.cap)+at] = math.Float64bits(v)
	d := &sw.dets[0]
	if w.rows < d.minRows {
		s.warm(k, d, time, offset)
		return WarmingUp
	}
	m := &k.marks[0]
	if word := uint64(offset) << 1; m.n+1 < d.stride {
		w.fresh(sw, d)[m.n] = word
		m.n++
	} else {
		s.pack(k, sw, w, d, m, word, b)
		m.n = 0
	}
	return Scored
}

// pushRow writes a row into the ring.
func (s *State) pushRow(sw *keyWindow, w *win, time int64, values []float64, imputed bool) {
	nc := len(sw.cols)
	at := int(s.push(sw, w))
	w.slab[at] = uint64(time)
	ring := w.slab[w.cap:]
	row := ring[at*nc : at*nc+nc]
	if nc == 1 && !imputed {
		row[0] = math.Float64bits(values[sw.cols[0]])
		return
	}
	if at == 0 {
		at = int(w.cap)
	}
	last := ring[(at-1)*nc:]
	for j, c := range sw.cols {
		switch v := values[c]; {
		case v-v == 0:
			row[j] = math.Float64bits(v)
		case imputed:
			row[j] = last[j]
		default:
			row[j] = missingValue
		}
	}
}

// missing is how many of the window's values a sample lacks: NaN and infinite ones.
func (sw *keyWindow) missing(values []float64) int {
	n := 0
	for _, c := range sw.cols {
		if v := values[c]; v-v != 0 {
			n++
		}
	}
	return n
}

// missingValue stands for a missing value in a row of an incomplete window.
var missingValue = math.Float64bits(math.NaN())

// takesIncomplete reports whether a detector scores rows with missing values.
func takesIncomplete(d detectors.Detector, columns int) bool {
	if z, ok := d.(detectors.Summarizer); ok && z.Summary(columns) != nil {
		return false // of whole rows
	}
	_, ok := d.(detectors.Incomplete)
	return ok && d.Op().Elem() != detectors.I64
}
