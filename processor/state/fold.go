package state

import (
	"fmt"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// Fold takes the next sample. Tasks that become due are packed into b; rows of samples without a score go to Rows. It
// returns what became of the record: where samples are held for order, that is Held, and the sample is counted as
// something else when it is released. Fits must have returned true before.
//
// In a replay Fold takes only offsets below the committed one, makes no rows and counts nothing, and its result has no
// meaning.
func (s *State) Fold(sm *Sample, b *detectors.Batch) Outcome {
	if sm.Offset < s.next {
		panic(fmt.Sprintf("state: offset %d is folded after %d", sm.Offset, s.next-1))
	}
	s.newest = sm.Offset
	if s.slow || !s.publishes() && sm.Offset >= s.backfill || s.Suspects.votes.Beyond(sm.Time+sm.Ahead, s.maxTime) {
		return s.foldSlow(sm, b)
	}
	s.next = sm.Offset + 1
	if s.raise(sm.Time) {
		s.sweep(sm.Offset)
	}
	k := s.Keys.Get(sm.Key)
	out, done := s.accept(sm, k, s.inOrder(k, sm.Time), b, true)
	if !done {
		s.interrupt(sm, k, out)
	}
	return out
}

// raise raises the largest event time to a sample's, where that is later, and reports whether a sweep is due.
func (s *State) raise(time int64) bool {
	if time <= s.maxTime {
		return false
	}
	s.maxTime = time
	return s.watermark() >= s.sweepAt
}

// inOrder returns the outcome of a sample of a key, nil for none, that need not wait: Scored if it is accepted.
func (s *State) inOrder(k *Key, time int64) Outcome {
	switch {
	case k == nil || time > k.LastTime:
		return Scored
	case time < k.LastTime:
		return Late
	case s.order.DropDuplicates:
		return Duplicate
	}
	return Scored
}

// accept ends the turn of a sample of a key, nil for none yet: it counts the sample, and folds or holds one that is accepted, as out
// says. It returns the outcome to report, and false where b has no room for all intervals that the sample closes: then it is
// to be called again.
func (s *State) accept(sm *Sample, k *Key, out Outcome, b *detectors.Batch, limited bool) (Outcome, bool) {
	if !out.accepted() {
		return s.countSample(out, sm.Offset), true
	}
	if k == nil {
		if k = s.createKey(sm); k == nil {
			return s.countSample(Filtered, sm.Offset), true
		}
	}
	for out == Scored && s.closes(k, sm.Time) {
		if limited && !s.tasks.Fits(b) {
			return out, false
		}
		s.closeInterval(k, b)
	}
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	k.LastOffset = s.turn()
	if s.silences.n > 0 && s.publishes() {
		s.endSilence(k, sm)
	}
	if out == Held {
		if sm.Offset < s.turn() { // an accepted suspect
			s.records.DropHeldFrom(k, sm.Offset)
		}
		s.hold(k, sm)
		return Held, true
	}
	return s.countSample(s.foldSample(k, sm, b), sm.Offset), true
}

// foldSlow is Fold where something is held, replayed or ahead, or may be, and at the end of a backfill.
func (s *State) foldSlow(sm *Sample, b *detectors.Batch) Outcome {
	if !s.journal.Started() {
		s.firstMark(Floor{Offset: sm.Offset, MaxTime: NoTime}, true)
	}
	s.release(b, false) // nothing is left to do where Fits was asked
	if s.replaying {
		s.replayAdvances(sm.Offset-1, b) // a mark before the sample includes them
		s.stepReplay(sm)
	}
	s.replayAdvances(sm.Offset, b)
	s.newest = sm.Offset
	if s.readings.missing && !s.replaying {
		s.decideReading()
		s.release(b, false)
	}
	sm = s.readings.without(sm, s.readings.lost)
	if s.Rulings.Missing && !s.replaying {
		s.Rulings.Decide(sm.Offset)
	}
	s.pass(sm.Offset + 1)
	out := s.enter(sm, b)
	s.route()
	return out
}

// Fits reports whether b has room for all that the next Fold packs. While it returns false, execute b, Apply and Reset,
// and call it again: it releases held samples that the last Fold had no room to release. It must have returned true
// before Mark, too. One sample's tasks always fit an empty batch; where they are more than its limits (see Need) its
// arenas grow past them.
func (s *State) Fits(b *detectors.Batch) bool {
	if s.slow {
		done := s.release(b, true)
		s.route()
		if !done {
			return false
		}
	}
	return s.tasks.Fits(b)
}

// foldSample folds a sample that waits for nothing any more, and whose intervals are closed: into the open interval of its series or, as
// transforms make it, into the windows.
func (s *State) foldSample(k *Key, sm *Sample, b *detectors.Batch) Outcome {
	set, values := k.Set, sm.Values
	if set.Prepared {
		if len(set.Transforms) > 0 {
			values = s.transform(k, sm.Time, sm.Offset, values)
		}
		if set.Every > 0 {
			return s.aggregate(k, sm.Time, values)
		}
	}
	sw := set.Only
	if sw == nil {
		return s.foldRow(k, sm.Time, sm.Offset, values, b)
	}
	d, v := &sw.Detectors[0], values[sw.Columns[0]]
	if v-v != 0 || d.Absent || d.Unread != nil {
		return s.foldRow(k, sm.Time, sm.Offset, values, b)
	}
	// The usual series: foldRow and foldDetector in one, without their loops, which take a tenth of Fold's time.
	w, m := &k.Windows[0], &k.Progress[0]
	k.LastTime = sm.Time
	if w.Rows == sw.Need {
		saveValue(s.journal.Open, k, w)
	} else {
		s.Keys.Bytes += w.Reserve(sw)
	}
	w.PushValue(sw, sm.Time, v)
	if w.Rows < d.MinRows {
		s.warm(k, d, sm.Time, sm.Offset, k.Remaining(d, w.Rows))
		return WarmingUp
	}
	if word := uint64(sm.Offset) << 1; m.Fresh+1 < d.Fresh {
		w.Fresh(sw, d)[m.Fresh] = word
		m.Fresh++
	} else {
		if d.Summary != nil {
			s.foldSummary(k, w, d)
		}
		if s.packs(d) {
			s.pack(k, 0, d, word, b)
		}
		m.Fresh = 0
	}
	if w.Count < d.Learnt {
		return WarmingUp
	}
	return Scored
}

// foldRow folds a row into the key's windows, and from there into tasks.
func (s *State) foldRow(k *Key, time, offset int64, values []float64, b *detectors.Batch) Outcome {
	k.LastTime = time
	set := k.Set
	if len(set.Windows) == 0 {
		return Filtered
	}
	out := Missing
	for i := range set.Windows {
		sw, w := &set.Windows[i], &k.Windows[i]
		if d := &sw.Detectors[0]; d.WindowAbsent || d.WindowUnread != nil && d.WindowUnread(k.Name()) {
			continue
		}
		if sw.Grid != nil {
			if o := s.foldCell(k, i, time, offset, values, b); out == Missing || o == Scored {
				out = o
			}
			continue
		}
		word := uint64(offset) << 1 // with the lowest bit for imputed
		if missing := sw.Missing(values); missing > 0 {
			switch {
			case s.order.Hold && w.Rows > 0:
				word |= 1
			case s.order.Hold || !sw.Incomplete || missing == len(sw.Columns):
				continue
			}
		}
		if w.Rows == sw.Need {
			saveRow(s.journal.Open, k, i, sw, w)
		}
		s.Keys.Bytes += w.Reserve(sw)
		w.PushRow(sw, time, values, word&1 != 0)
		if out == Missing {
			out = WarmingUp
		}
		for j := range sw.Detectors {
			if d := &sw.Detectors[j]; !d.Skips(k.Name()) && s.foldDetector(k, i, d, word, b) == Scored {
				out = Scored
			}
		}
	}
	return out
}

// foldDetector passes the newest row of the key's i-th window, with the offset and the imputed bit of word, to a detector, and packs
// the task that becomes due.
func (s *State) foldDetector(k *Key, i int, d *series.SetDetector, word uint64, b *detectors.Batch) Outcome {
	w, m := &k.Windows[i], &k.Progress[d.Place]
	if d.Ended(w.Count, m.Fresh) {
		if len(d.Feeds) > 0 {
			s.warm(k, d, k.LastTime, int64(word>>1), noneRemain)
		}
		return WarmingUp
	}
	if w.Rows < d.MinRows {
		s.warm(k, d, k.LastTime, int64(word>>1), k.Remaining(d, w.Rows))
		return WarmingUp
	}
	if m.Fresh+1 < d.Fresh {
		w.Fresh(&k.Set.Windows[i], d)[m.Fresh] = word
		m.Fresh++
	} else {
		if d.Summary != nil {
			s.foldSummary(k, w, d)
		}
		if s.packs(d) {
			s.pack(k, i, d, word, b)
			if d.Until > 0 && w.Count >= d.Until {
				time := k.LastTime
				s.tasks.Defer(func() { s.endDetector(k, d, time, int64(word>>1)) })
			}
		}
		m.Fresh = 0
	}
	if w.Count < d.Learnt {
		return WarmingUp
	}
	return Scored
}

// transform returns what a sample's values become before they enter windows. They are valid until the next call. A transform
// that the reading in force has not is left out: its value goes to no window. So are all where no detector of that reading reads
// the series.
func (s *State) transform(k *Key, time, offset int64, values []float64) []float64 {
	s.transformed = append(s.transformed[:0], values...)
	unjudged := s.readings.unjudged != nil && s.readings.unjudged(k.Name())
	for i := range k.Set.Transforms {
		t := &k.Set.Transforms[i]
		switch {
		case unjudged:
			k.Forget(t)
			continue
		case slices.Contains(s.readings.unprepared, t.ID):
			continue
		}
		v, reset := k.Transform(t, time, values[t.Column])
		if reset {
			s.Tally.count(t.ID, 1, 0, 0)
		}
		s.transformed[t.Column] = v
	}
	if tell := s.cfg.Transformed; tell != nil && !s.replaying {
		tell(offset, s.transformed)
	}
	return s.transformed
}

// packs reports whether a task of a detector that has become due is packed: where its results are withheld, only if something
// remembers it.
func (s *State) packs(d *series.SetDetector) bool { return d.Replays || s.publishes() }

// Misplaced returns why a sample of a key is no event of a grid that one of the key's detectors has;
// nil if it is one of each, or lacks a value. In a fold it counts as missing.
func (s *State) Misplaced(key []byte, values []float64) *series.PlaceError {
	if !s.Grids.any {
		return nil
	}
	for grid := range s.gridsOf(key) {
		if _, _, _, _, err := grid.Place(values); err != nil {
			return err
		}
	}
	return nil
}

// ReadingOf returns how the record at offset is to be read; the values of its samples are then to be the values of the
// configured reading (rules.Translation). It is called for each record, before it is decoded, also for suspects below the
// floor of a replay. Of a live record it decides on the configured reading where that is not in force. What another reading
// releases of held samples goes to b.
func (s *State) ReadingOf(offset int64, b *detectors.Batch) *rules.Reading {
	r := &s.readings
	if !r.missing && !s.replaying && !s.decisions.Acting() {
		return r.inForce
	}
	offset = s.first(offset)
	if !s.journal.Started() {
		s.firstMark(Floor{Offset: offset, MaxTime: NoTime}, true)
	}
	if offset < s.next { // a suspect
		return s.readingAt(offset + 1)
	}
	s.release(b, false)
	if s.replayAdvances(offset, b); r.missing && !s.replaying {
		s.decideReading()
		s.release(b, false)
	}
	s.route()
	return r.inForce
}
