package state

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// readings knows how records are read: the configured reading, and the one in force. Package reading says why that is a
// decision, and when one is made.
type readings struct {
	// missing: the configured reading is not in force.
	missing bool

	configured rules.Reading
	inForce    *rules.Reading
	foreign    bool // samples of the reading in force are of other series
	// unread reports the keys that no detector of the reading in force reads; nil: those of the configuration.
	unread func(key []byte) bool
	// unreadThen reports the same without regard to the configuration; nil: a detector of the reading in force reads all keys.
	unreadThen func(key []byte) bool
	// lost are the values that samples of the reading in force have lost since: a reading between it and the configured one
	// had no such field. So samples that were held then had none either.
	lost []int

	masked Sample
	values []float64
	s      *State
}

// decided returns the content of the decision on the configured reading, without a watermark.
func (c *Config) decided() *rules.Decided {
	r := c.Reading
	r.Windows, r.Detectors = nil, nil
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

func newReadings(cfg *Config, s *State) readings {
	return readings{configured: cfg.decided().Reading, s: s}
}

// ReadingOf returns how the record at offset is to be read; the values of its samples are then to be those of the
// configured reading (reading.Translation). It is called for each record, before it is decoded, also for suspects below the
// floor of a replay. Of a live record it decides on the configured reading where that is not in force. What another reading
// releases of held samples goes to b.
func (s *State) ReadingOf(offset int64, b *detectors.Batch) *rules.Reading {
	r := &s.readings
	if !r.missing && !s.replaying && !s.Decisions.log.Acting() {
		return r.inForce
	}
	offset = s.first(offset)
	if !s.journal.Started() {
		firstMark(s, Floor{Offset: offset, MaxTime: NoTime}, true)
	}
	if offset < s.next { // a suspect
		return r.at(offset + 1)
	}
	s.gate.release(b, false)
	if s.Advances.replay(offset, b); r.missing && !s.replaying {
		r.decide()
		s.gate.release(b, false)
	}
	s.route()
	return r.inForce
}

// OtherwiseRead returns the names of what is another in the configured reading than in the one in force, which holds up to
// the next live record. Without a decision so far there is nothing.
func (s *State) OtherwiseRead() []string {
	r := &s.readings
	if !r.missing || s.Decisions.log.InForce(rules.KindReading, nil, s.turn()) == nil {
		return nil
	}
	return r.configured.Differences(r.inForce)
}

// at returns the reading in force behind the record at offset next-1, the configured one without a decision.
func (r *readings) at(next int64) *rules.Reading {
	if d := r.s.Decisions.log.InForce(rules.KindReading, nil, next-1); d != nil {
		return &d.Value.(*rules.Decided).Reading
	}
	return &r.configured
}

// decide decides on the configured reading, before the next record.
func (r *readings) decide() {
	content := &rules.Decided{Reading: r.configured, Watermark: r.s.watermark()}
	offset := r.s.next
	if last := r.s.Decisions.log.Latest(rules.KindReading, nil); last != nil {
		offset = max(offset, last.Offset)
	}
	d := &rules.Decision{Kind: rules.KindReading, Offset: offset, Content: content.Encode(), Value: content}
	r.s.Decisions.log.Add(d)
	r.force(d)
}

// force puts the reading of a decision in force. What a higher watermark reaches is released next, as after an advance.
func (r *readings) force(d *rules.Decision) {
	if r.s.replaying {
		r.limitRows(d.Offset)
	}
	r.enforce(d)
	r.s.gate.advancing = true
	r.s.route()
}

// rebuild derives the reading in force for the next sample.
func (r *readings) rebuild(next int64) {
	if d := r.s.Decisions.log.InForce(rules.KindReading, nil, next-1); d != nil {
		r.enforce(d)
		return
	}
	r.missing, r.lost = true, nil
	r.follow(&r.configured, NoTime)
}

// lostSince returns the values of a sample for which a reading that was decided on at offset or later has no field.
func (r *readings) lostSince(offset int64) (lost []int) {
	for d := r.s.Decisions.log.Latest(rules.KindReading, nil); d != nil && d.Offset >= offset; d = d.Before() {
		t, _ := r.configured.Translate(&d.Value.(*rules.Decided).Reading)
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

// loseHeld takes the values out of loaded held samples that they have lost since their keys' snapshots. Such a key is to be
// written again.
func (r *readings) loseHeld(rewrite func(*Key)) {
	for k := range r.s.Keys.All {
		if k.Held.Len() == 0 {
			continue
		}
		lost := r.lostSince(k.AsOf)
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

// enforce has the state follow a decision. Its watermark does not count where a repair has set the largest event time back
// since: then another decision follows, with the present one.
func (r *readings) enforce(d *rules.Decision) {
	value := d.Value.(*rules.Decided)
	watermark, repaired := value.Watermark, d.Offset < r.s.Suspects.votes.Repaired().Until
	if repaired {
		watermark = NoTime
	}
	r.follow(&value.Reading, watermark)
	r.lost = r.lostSince(d.Offset + 1)
	r.missing = repaired || !r.inForce.Equal(&r.configured)
}

// follow has the parts of the state follow a reading.
func (r *readings) follow(in *rules.Reading, watermark int64) {
	s := r.s
	r.inForce = in
	s.order, s.released = in.Order, watermark
	s.held.wait(in.MaxHeld << s.bits)
	s.Suspects.votes.SetJump(in.MaxJump)
	_, alike := r.configured.Translate(in)
	r.foreign = !alike
	for _, d := range s.dets {
		was := in.Detector(d.Name)
		absent := was == nil || was.Fingerprint != d.Fingerprint || was.Ensemble() != (d.Ensemble != nil)
		if d.Ensemble != nil {
			r.afterTasks(func() { d.Absent = absent })
			continue
		}
		window := s.cfg.Windows[d.DetectorConfig.Window].Fingerprint
		d.WindowAbsent = !in.HasWindow(window)
		d.Absent = absent || was.Window != window
	}
	configured := in.Equal(&r.configured)
	r.followKeys(in, configured)
	s.Grids.follow(in, configured)
	var replacing []replacing
	if !configured {
		replacing = r.replacing(in)
	}
	r.afterTasks(func() { s.judge.configured, s.judge.replacing = configured, replacing })
}

// replacing returns the ensembles of a reading that make the anomalies of their members' scores.
func (r *readings) replacing(in *rules.Reading) (list []replacing) {
	for i := range in.Detectors {
		d := &in.Detectors[i]
		if !d.Replaces {
			continue
		}
		e := replacing{DetectorReading: d, unread: ensembleUnread(in, d)}
		for _, det := range r.s.dets {
			if det.Name == d.Name && det.Judged && det.Events != nil {
				e.setup = det
			}
		}
		list = append(list, e)
	}
	return list
}

// afterTasks does something behind the results of the tasks that are packed, which are of samples before.
func (r *readings) afterTasks(do func()) {
	if tasks := &r.s.folder.tasks; tasks.Empty() {
		do()
	} else {
		tasks.Defer(do)
	}
}

// followKeys has detectors read the series that those of a reading read.
func (r *readings) followKeys(in *rules.Reading, configured bool) {
	r.unreadThen = unreadBy(in, func(d *rules.DetectorReading) bool { return !d.Ensemble() })
	if r.unread = nil; !configured {
		r.unread = r.unreadThen
	}
	for _, d := range r.s.dets {
		var unread func(key []byte) bool
		if d.Ensemble != nil {
			if !configured {
				unread = ensembleUnread(in, in.Detector(d.Name))
			}
			r.afterTasks(func() { d.Unread = unread })
			continue
		}
		if d.Unread, d.WindowUnread = nil, nil; configured {
			continue
		}
		window := r.s.cfg.Windows[d.DetectorConfig.Window].Fingerprint
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
	for _, name := range append([]string{e.Name}, e.Members...) {
		if of := unreadBy(in, func(o *rules.DetectorReading) bool { return o.Name == name }); of != nil {
			unread = append(unread, of)
		}
	}
	return func(key []byte) bool {
		return slices.ContainsFunc(unread, func(of func([]byte) bool) bool { return of(key) })
	}
}

// readBefore reports whether a replay folds the samples of a key that no configured detector reads: whether a detector read them
// that has been removed since, or reads other keys now. Such a key has no windows, but its anomalies are to be closed, and the
// end of its silence and the order of evictions follow from its last sample.
func (r *readings) readBefore(key []byte) bool {
	return r.s.replaying && r.inForce != &r.configured && (r.unreadThen == nil || !r.unreadThen(key))
}

// limitRows limits the rows of the windows to those that the detectors of the reading in force needed, where a replay leaves it at an
// offset: one that needs more finds as many as after a drain.
func (r *readings) limitRows(offset int64) {
	if !r.missing {
		return
	}
	type reader struct {
		rows int
		keys func(key []byte) bool
	}
	readers := map[uint64][]reader{}
	for i := range r.inForce.Detectors {
		d := &r.inForce.Detectors[i]
		if keys, err := rules.Selection(d.Keys); err == nil {
			readers[d.Window] = append(readers[d.Window], reader{d.Rows, keys})
		}
	}
	for k := range r.s.Keys.All {
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
func unreadBy(in *rules.Reading, of func(*rules.DetectorReading) bool) func(key []byte) bool {
	var read []func(key []byte) bool
	for i := range in.Detectors {
		d := &in.Detectors[i]
		if !of(d) {
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
func (r *readings) mismatches(from, committed int64) (list []checkpoint.Mismatch, unreadable bool) {
	last := r.s.Decisions.log.InForce(rules.KindReading, nil, committed-1)
	if from >= committed || last == nil {
		return nil, false
	}
	in := &last.Value.(*rules.Decided).Reading
	for i := range r.configured.Detectors {
		now := &r.configured.Detectors[i]
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
			unreadable = unreadable || w.Grid && !r.configured.HasWindow(w.Fingerprint)
		}
		if d.Offset <= from {
			break
		}
	}
	return list, unreadable
}

// held says how held samples of a layout become those of the configured reading; see load.Target.
func (r *readings) held(layout uint64) (from checkpoint.HeldFormat, t rules.Translation, ok bool) {
	for d := r.s.Decisions.log.Latest(rules.KindReading, nil); d != nil; d = d.Before() {
		in := &d.Value.(*rules.Decided).Reading
		if in.Layout() != layout {
			continue
		}
		t, ok = r.configured.Translate(in)
		return checkpoint.HeldFormat{Layout: layout, Dim: in.Dim()}, t, ok && t != nil
	}
	return from, nil, false
}
