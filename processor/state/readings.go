package state

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// readings knows how records are read: the configured reading, and the one in force. Package rules says why that is a
// decision, and when one is made.
type readings struct {
	// missing: the configured reading is not in force.
	missing bool

	configured rules.Reading
	inForce    *rules.Reading
	foreign    bool // samples of the reading in force are of other series
	// unread reports the keys that no detector of the reading in force reads, unless they may fall silent; nil: the keys of the
	// configuration.
	unread func(key []byte) bool
	// unreadThen reports the same without regard to the configuration; nil: a detector of the reading in force reads all keys,
	// or each may fall silent.
	unreadThen func(key []byte) bool
	// unjudged reports the keys that no detector of the reading in force reads, also where they may fall silent: their values were
	// not transformed. nil: the configured reading is in force, or a detector reads all keys.
	unjudged func(key []byte) bool
	// lost are the values that samples of the reading in force have lost since: a reading between it and the configured one
	// had no such field. So samples that were held then had none either.
	lost []int
	// unprepared are the transforms and aggregates of the configured reading (rules.ColumnTransform.ID, rules.ColumnAggregate.ID) that
	// the reading in force has not.
	unprepared []uint64
	// otherIntervals: the reading in force has other intervals than the configured one, or none.
	otherIntervals bool

	masked Sample
	values []float64
}

// decided returns the content of the decision on the configured reading, without a watermark.
func (c *Config) decided() *rules.Decided {
	r := c.Reading
	r.Windows, r.Detectors, r.Silences = nil, nil, c.knowsUnread()
	for i := range c.Windows {
		w := &c.Windows[i]
		if !slices.ContainsFunc(c.Detectors, func(d series.DetectorConfig) bool { return d.Ensemble == nil && d.Window == i }) {
			continue
		}
		r.Windows = append(r.Windows, rules.WindowReading{Fingerprint: w.Fingerprint, Grid: w.Grid != nil})
	}
	for i := range c.Detectors {
		d := &c.Detectors[i]
		reading := rules.DetectorReading{Name: d.Name, Fingerprint: d.Fingerprint, Keys: d.Patterns}
		switch e := d.Ensemble; {
		case e != nil:
			for _, m := range e.Members {
				if m >= 0 && m < len(c.Detectors) {
					reading.Members = append(reading.Members, c.Detectors[m].Name)
				}
			}
			for _, g := range e.Gates {
				if g.Detector >= 0 && g.Detector < len(c.Detectors) {
					reading.Gates = append(reading.Gates, c.Detectors[g.Detector].Name)
				}
			}
			reading.Replaces = e.Any && d.Threshold != nil && d.Events != nil
		case d.Window < 0 || d.Window >= len(c.Windows) || d.Detector == nil:
			continue
		default:
			reading.Window, reading.Rows = c.Windows[d.Window].Fingerprint, detectors.TaskRows(d.Detector, d.Stride)
		}
		r.Detectors = append(r.Detectors, reading)
	}
	return &rules.Decided{Reading: r, Watermark: NoTime}
}

// OtherwiseRead returns the names of the fields of rules.Reading in which the configured reading differs from the reading in
// force. The latter holds until the next live record, with which the state decides on the configured one. It returns nil
// where the two are equal, and where no reading was decided on so far.
func (s *State) OtherwiseRead() []string {
	r := &s.readings
	if !r.missing || s.decisions.InForce(rules.KindReading, nil, s.turn()) == nil {
		return nil
	}
	return r.configured.Differences(r.inForce)
}

// readingAt returns the reading in force behind the record at offset next-1, the configured one without a decision.
func (s *State) readingAt(next int64) *rules.Reading {
	if d := s.decisions.InForce(rules.KindReading, nil, next-1); d != nil {
		return &d.Value.(*rules.Decided).Reading
	}
	return &s.readings.configured
}

// decideReading decides on the configured reading, before the next record.
func (s *State) decideReading() {
	content := &rules.Decided{Reading: s.readings.configured, Watermark: s.watermark()}
	offset := s.next
	if last := s.decisions.Latest(rules.KindReading, nil); last != nil {
		offset = max(offset, last.Offset)
	}
	d := &rules.Decision{Kind: rules.KindReading, Offset: offset, Content: content.Encode(), Value: content}
	s.decisions.Add(d)
	s.forceReading(d)
}

// forceReading puts the reading of a decision in force. What a higher watermark reaches is released next, as after an advance.
func (s *State) forceReading(d *rules.Decision) {
	if s.replaying {
		s.limitRows(d.Offset)
	}
	s.enforceReading(d)
	s.gate.advancing, s.gate.decided = true, d.Offset
	s.route()
}

// rebuildReading derives the reading in force for the next sample.
func (s *State) rebuildReading(next int64) {
	if d := s.decisions.InForce(rules.KindReading, nil, next-1); d != nil {
		s.enforceReading(d)
		return
	}
	s.readings.missing, s.readings.lost = true, nil
	s.followReading(&s.readings.configured, NoTime)
}

// lostSince returns the values of a sample for which a reading that was decided on at offset or later has no field.
func (s *State) lostSince(offset int64) (lost []int) {
	for d := s.decisions.Latest(rules.KindReading, nil); d != nil && d.Offset >= offset; d = d.Before() {
		t, _ := s.readings.configured.Translate(&d.Value.(*rules.Decided).Reading)
		for i, from := range t {
			if from < 0 && !slices.Contains(lost, i) {
				lost = append(lost, i)
			}
		}
	}
	return lost
}

// without returns a sample without some of its values. It is valid until the next call.
func (r *readings) without(sm *Sample, lost []int) *Sample {
	if len(lost) == 0 {
		return sm
	}
	r.masked = *sm
	r.masked.Values = append(r.values[:0], sm.Values...)
	for _, i := range lost {
		r.masked.Values[i] = math.NaN()
	}
	r.values = r.masked.Values
	return &r.masked
}

// forgetSince has keys that were loaded forget what transforms and aggregates remembered at their snapshots, where a reading that was
// decided on since has no such one. Such a key is to be written again.
func (s *State) forgetSince(rewrite func(*Key)) {
	type other struct {
		since     int64
		ids       []uint64
		intervals bool
	}
	var others []other // the newest first
	for d := s.decisions.Latest(rules.KindReading, nil); d != nil; d = d.Before() {
		in := &d.Value.(*rules.Decided).Reading
		others = append(others, other{d.Offset, s.readings.configured.PreparedOtherwise(in), !s.readings.configured.SameIntervals(in)})
	}
	without := func(k *Key) (ids []uint64, intervals bool) {
		for i := 0; i < len(others) && others[i].since >= k.AsOf; i++ {
			ids, intervals = append(ids, others[i].ids...), intervals || others[i].intervals
		}
		return ids, intervals
	}
	for k := range s.Keys.All {
		if (k.Former.Any() || k.Interval.Any()) && k.ForgetAll(without(k)) {
			rewrite(k)
		}
	}
}

// loseHeld takes the values out of loaded held samples that they have lost since their keys' snapshots. Such a key is to be
// written again.
func (s *State) loseHeld(rewrite func(*Key)) {
	for k := range s.Keys.All {
		if k.Held.Len() == 0 {
			continue
		}
		lost := s.lostSince(k.AsOf)
		for i := range k.Held.Len() {
			w := k.Held.At(i)
			for _, j := range lost {
				w[2+j] = math.Float64bits(math.NaN())
			}
		}
		if len(lost) > 0 {
			rewrite(k)
		}
	}
}

// enforceReading has the state follow a decision. Its watermark does not count where a repair has set the largest event time back
// since: then another decision follows, with the present one.
func (s *State) enforceReading(d *rules.Decision) {
	value := d.Value.(*rules.Decided)
	watermark, repaired := value.Watermark, d.Offset < s.Suspects.votes.Repaired().Until
	if repaired {
		watermark = NoTime
	}
	s.followReading(&value.Reading, watermark)
	if len(s.readings.unprepared) > 0 {
		for k := range s.Keys.All {
			if k.AsOf <= d.Offset { // else it was written under a later reading
				k.ForgetAll(s.readings.unprepared, s.readings.otherIntervals)
			}
		}
	}
	s.readings.lost = s.lostSince(d.Offset + 1)
	s.readings.missing = repaired || !s.readings.inForce.Equal(&s.readings.configured)
}

// followReading has the parts of the state follow a reading.
func (s *State) followReading(in *rules.Reading, watermark int64) {
	s.readings.inForce = in
	s.order, s.released = in.Order, watermark
	s.setMaxHeld(in.MaxHeld << s.bits)
	s.tasks.gaps.maxGap = in.MaxGap
	s.Suspects.votes.SetJump(in.MaxJump)
	_, alike := s.readings.configured.Translate(in)
	s.readings.foreign = !alike
	s.readings.unprepared = s.readings.configured.PreparedOtherwise(in)
	s.readings.otherIntervals = !s.readings.configured.SameIntervals(in)
	for _, d := range s.dets {
		was := in.Detector(d.Name)
		absent := was == nil || was.Fingerprint != d.Fingerprint || was.Ensemble() != (d.Ensemble != nil)
		if d.Ensemble != nil {
			s.tasks.After(func() { d.Absent = absent })
			continue
		}
		window := s.cfg.Windows[d.DetectorConfig.Window].Fingerprint
		d.WindowAbsent = !in.HasWindow(window)
		d.Absent = absent || was.Window != window
	}
	configured := in.Equal(&s.readings.configured)
	s.followKeys(in, configured)
	s.Grids.follow(in, configured)
	var replacing []replacing
	if !configured {
		replacing = s.replacingBy(in)
	}
	s.tasks.After(func() { s.judge.configured, s.judge.replacing, s.judge.maxGap = configured, replacing, in.MaxGap })
}

// replacingBy returns the ensembles of a reading that make the anomalies of their members' scores.
func (s *State) replacingBy(in *rules.Reading) (list []replacing) {
	for i := range in.Detectors {
		d := &in.Detectors[i]
		if !d.Replaces {
			continue
		}
		e := replacing{reading: d, unread: ensembleUnread(in, d)}
		for _, det := range s.dets {
			if det.Name == d.Name && det.Judged && det.Events != nil {
				e.setup = det
			}
		}
		list = append(list, e)
	}
	return list
}

// followKeys has detectors read the series that the detectors of a reading read.
func (s *State) followKeys(in *rules.Reading, configured bool) {
	none := unreadBy(in, func(d *rules.DetectorReading) bool { return !d.Ensemble() })
	s.readings.unreadThen, s.readings.unread, s.readings.unjudged = nil, nil, nil
	if !in.Silences {
		s.readings.unreadThen = none
	}
	if !configured {
		s.readings.unread, s.readings.unjudged = s.readings.unreadThen, none
	}
	for _, d := range s.dets {
		var unread func(key []byte) bool
		if d.Ensemble != nil {
			if !configured {
				unread = ensembleUnread(in, in.Detector(d.Name))
			}
			s.tasks.After(func() { d.Unread = unread })
			continue
		}
		if d.Unread, d.WindowUnread = nil, nil; configured {
			continue
		}
		window := s.cfg.Windows[d.DetectorConfig.Window].Fingerprint
		d.Unread = unreadBy(in, func(o *rules.DetectorReading) bool { return o.Name == d.Name })
		d.WindowUnread = unreadBy(in, func(o *rules.DetectorReading) bool { return o.Window == window })
	}
}

// ensembleUnread returns a test of the keys that an ensemble of a reading does not read; nil: it is not in the reading.
func ensembleUnread(in *rules.Reading, e *rules.DetectorReading) func(key []byte) bool {
	if e == nil {
		return nil
	}
	var unread []func(key []byte) bool
	for _, name := range slices.Concat([]string{e.Name}, e.Members, e.Gates) {
		if test := unreadBy(in, func(o *rules.DetectorReading) bool { return o.Name == name }); test != nil {
			unread = append(unread, test)
		}
	}
	return func(key []byte) bool {
		return slices.ContainsFunc(unread, func(test func([]byte) bool) bool { return test(key) })
	}
}

// readBefore reports whether a replay folds the samples of a key that no configured detector reads: whether a detector read them
// that has been removed since, or reads other keys now. Such a key has no windows, but its anomalies are to be closed, and the
// end of its silence and the order of evictions follow from its last sample.
func (s *State) readBefore(key []byte) bool {
	return s.replaying && s.readings.inForce != &s.readings.configured && (s.readings.unreadThen == nil || !s.readings.unreadThen(key))
}

// limitRows limits the rows of the windows to those that the detectors of the reading in force needed, where a replay leaves it at an
// offset: one that needs more finds as many as after a drain.
func (s *State) limitRows(offset int64) {
	if !s.readings.missing {
		return
	}
	type reader struct {
		rows int
		keys func(key []byte) bool
	}
	readers := map[uint64][]reader{}
	for i := range s.readings.inForce.Detectors {
		d := &s.readings.inForce.Detectors[i]
		if keys, err := rules.Selection(d.Keys); err == nil {
			readers[d.Window] = append(readers[d.Window], reader{d.Rows, keys})
		}
	}
	for k := range s.Keys.All {
		if k.AsOf > offset {
			continue // it was written under a later reading
		}
		for i := range k.Windows {
			sw, need := &k.Set.Windows[i], 0
			if sw.Grid != nil {
				continue
			}
			for _, d := range readers[sw.Fingerprint] {
				if d.keys == nil || d.keys(k.Name()) {
					need = max(need, d.rows)
				}
			}
			if w := &k.Windows[i]; need > 0 {
				w.Rows = min(w.Rows, int32(need))
			}
		}
	}
}

// unreadBy returns a test of the keys that none of some detectors of a reading reads; nil where one of them reads all.
func unreadBy(in *rules.Reading, selects func(*rules.DetectorReading) bool) func(key []byte) bool {
	var read []func(key []byte) bool
	for i := range in.Detectors {
		d := &in.Detectors[i]
		if !selects(d) {
			continue
		}
		keys, err := rules.Selection(d.Keys)
		if keys == nil && err == nil {
			return nil
		}
		if err == nil { // else it was not written by a worker
			read = append(read, keys)
		}
	}
	return func(key []byte) bool {
		return !slices.ContainsFunc(read, func(keys func([]byte) bool) bool { return keys(key) })
	}
}

// mismatches says what a replay from an offset to the committed one cannot do. A detector whose samples were read for another
// window, or scored by other parameters, begins empty, which is a mismatch, also where no key has been snapshotted. Records
// that a grid has refused which is not configured any more cannot be told from others.
func (s *State) mismatches(from, committed int64) (list []checkpoint.Mismatch, unreadable bool) {
	last := s.decisions.InForce(rules.KindReading, nil, committed-1)
	if from >= committed || last == nil {
		return nil, false
	}
	in := &last.Value.(*rules.Decided).Reading
	for i := range s.readings.configured.Detectors {
		now := &s.readings.configured.Detectors[i]
		if was := in.Detector(now.Name); was != nil &&
			(was.Window != now.Window || was.Fingerprint != now.Fingerprint) {
			list = append(
				list,
				checkpoint.Mismatch{Detector: now.Name, Fields: was.Window != now.Window, Window: was.Window, Params: was.Fingerprint},
			)
		}
	}
	for d := last; d != nil; d = d.Before() {
		for _, w := range d.Value.(*rules.Decided).Reading.Windows {
			unreadable = unreadable || w.Grid && !s.readings.configured.HasWindow(w.Fingerprint)
		}
		if d.Offset <= from {
			break
		}
	}
	return list, unreadable
}

// heldFormat says how held samples of a layout become samples of the configured reading; see checkpoint.LoadTarget.
func (s *State) heldFormat(layout uint64) (from checkpoint.HeldFormat, t rules.Translation, ok bool) {
	for d := s.decisions.Latest(rules.KindReading, nil); d != nil; d = d.Before() {
		in := &d.Value.(*rules.Decided).Reading
		if in.Layout() != layout {
			continue
		}
		t, ok = s.readings.configured.Translate(in)
		return checkpoint.HeldFormat{Layout: layout, Dim: in.Dim()}, t, ok && t != nil
	}
	return from, nil, false
}
