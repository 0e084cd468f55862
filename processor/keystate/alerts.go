package keystate

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/events"
	"odradek/processor/keystate/keys"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/tasks"
)

// Scores are judged in Apply, in the order of the samples, by the detector's
// threshold and then by its rule for anomalies. What both remember of a key is
// state like any other: it is in the journal, in the head and in Export, and a
// replay judges again. A replay publishes no change (events.State.Step): a change
// puts its key's head into the same cycle (Snapshot), so that no sample after that
// head has changed anything, unless a replay's scores are another executor's.

// judgeRows makes the rows of a task of a detector whose scores are judged or traced; while
// replaying, they are only that.
func (s *State) judgeRows(p *pending, b *detectors.Batch) {
	d := p.Detector
	times, words := s.tasks.Times(&p.Task)
	a := s.alertOf(p.Key, d)
	t := &b.Tasks[p.Index]
	if p.Steady {
		fresh, about, until := tasks.RowTimes(d, times)
		scores := b.Out[t.Scores.Off:][:len(words)].F32()
		for i, word := range words {
			r := Row{
				Key: p.Key, Detector: d.Index, State: stateOf(d, word, scores[i]), Score: scores[i],
				Offset: int64(word >> 1), Time: int64(fresh[i]), About: int64(about[i]), Until: int64(until[i]),
			}
			s.judgeRow(p.Key, d, a, &r, &reasons{p: p, b: b, i: i})
			s.feed(p.Key, d, &r)
		}
		return
	}
	fresh := times[len(times)-len(words):]
	s.finds = d.Detector.AppendFindings(s.finds[:0], b.Rows(int(p.Index)))
	finds := highest(s.finds)
	for i, word := range words {
		r := Row{
			Key: p.Key, Detector: d.Index, State: RowState(word&1) * RowImputed, Score: nan,
			Offset: int64(word >> 1), Time: int64(fresh[i]), About: int64(fresh[i]), Until: int64(fresh[i]),
		}
		var f *detectors.Finding
		if len(finds) > 0 && finds[0].Fresh == i {
			f, finds = &finds[0], finds[1:]
			r.setFinding(f, times)
		}
		r.inGrid(d)
		s.judgeRow(p.Key, d, a, &r, &reasons{p: p, b: b, i: i, finding: f})
		s.feed(p.Key, d, &r)
	}
}

// alertOf is what a detector remembers of a key, with a history of the rule in force.
// It is nil without a threshold. A key that was evicted after the sample is judged like any other.
func (s *State) alertOf(k *Key, d *series.SetDetector) *series.Alert {
	if !d.Judged {
		return nil
	}
	a := &k.Alerts.Detectors[d.Alert]
	switch {
	case a.History == nil:
		a.Rule = d.Rule
		s.setHistory(k, a, make([]float32, d.Rule.Size()))
	case a.Rule != d.Rule:
		s.follow(k, d, a)
	}
	return a
}

// saveEvents saves what events remember before its first change in the open unit. Of the
// history, each judgement is saved by itself: it is much, and little of it changes.
func (s *State) saveEvents(k *Key, i int, a *series.Alert) {
	if a.Unit == s.journal.Number {
		return
	}
	a.Unit = s.journal.Number
	if !s.restore.replaying {
		s.journal.Open.PushValues(opAlert, k, i, 0, a.Events.Clone())
	}
}

// reasons is where the parts of a score come from: a task's i-th fresh row with its finding, nil
// for none, or of an ensemble the members' shares.
type reasons struct {
	p       *pending
	b       *detectors.Batch
	i       int
	finding *detectors.Finding
	shares  []float64 // of a score of an ensemble; nil: none has any
}

// judgeRow judges the score of r, smoothed if the detector asks for that, and hands r out.
func (s *State) judgeRow(k *Key, d *series.SetDetector, a *series.Alert, r *Row, why *reasons) {
	var v threshold.Verdict
	var region *detectors.Region
	if why.finding != nil {
		region = why.finding.Region
	}
	chance := false // explains the score
	if r.Judged = r.Score; d.Smooth > 1 && r.Score == r.Score {
		_, state := d.Split(s.traceOf(k, d).State)
		r.Judged = d.Smooth.Add(state, r.Score)
	}
	if r.Threshold = nan; d.Judged && r.Judged == r.Judged {
		if !s.restore.replaying {
			s.journal.Open.Floats = a.Rule.Save(s.journal.Open.Floats, a.History)
			s.journal.Open.Push(opJudged, k, d.Alert, threshold.Saved)
		}
		v = a.Rule.Judge(a.History, r.Judged)
		if region != nil && v.Exceeds && d.MaxP > 0 && d.MaxP < 1 && !(region.P <= d.MaxP) {
			v.Exceeds, v.Severity = false, 0
			chance = true
		}
		r.Exceeds, r.Severity, r.Threshold = v.Exceeds, v.Severity, v.Threshold
	}
	if !s.restore.replaying {
		s.Rows = append(s.Rows, *r)
	}
	if !d.Judged || d.Events == nil || !v.Exceeds && a.Events.Idle() {
		return
	}
	in := events.Input{
		Time: r.Time, Offset: r.Offset, About: r.About, Until: r.Until, Score: r.Judged, Threshold: v.Threshold,
		Rank: v.Tail, Exceeds: v.Exceeds, Severity: v.Severity, Detector: d.Name, Key: k.Name(), Source: s.source,
		Ordinary: chance, Region: d.Region(region),
	}
	s.saveEvents(k, d.Alert, a)
	if c, ok := a.Events.Leave(&in, !s.restore.replaying); ok {
		s.addEvent(&EventRow{k, d.Index, d.Name, c})
	}
	if v.Exceeds && a.Events.Peak(r.Judged) {
		switch {
		case d.Ensemble != nil:
			in.Contribution = slices.Clone(why.shares)
		case d.Valued:
			s.explain(why, &in)
		}
	}
	if c, ok := a.Events.Step(d.Events, &in, !s.restore.replaying); ok {
		s.addEvent(&EventRow{k, d.Index, d.Name, c})
	}
}

// traceOf returns a detector's trace, which is saved before its first change in the open unit.
func (s *State) traceOf(k *Key, d *series.SetDetector) *series.Trace {
	t, added := k.Trace(d)
	if !k.Dead {
		s.keys.Bytes += added
	}
	if t.Unit != s.journal.Number {
		t.Unit = s.journal.Number
		if u := s.journal.Open; !s.restore.replaying {
			u.Words = append(u.Words, t.State...)
			u.Push(opTrace, k, d.Trace, len(t.State))
		}
	}
	return t
}

// explain takes what was expected of the i-th fresh row from its finding or, where that
// does not say, asks the detector. The rows of the
// task were centred and rounded to float32 when they were packed; what was measured
// is taken from the values that the queue has copied.
func (s *State) explain(why *reasons, in *events.Input) {
	p, b, i, f := why.p, why.b, why.i, why.finding
	d := p.Detector
	v := make([]float64, 3*d.Dim)
	expected, actual, contribution := v[:d.Dim:d.Dim], v[d.Dim:2*d.Dim:2*d.Dim], v[2*d.Dim:]
	switch {
	case f != nil && f.Expected != nil:
		copy(expected, f.Expected)
		copy(contribution, f.Contribution)
	case d.Explain == nil || !d.Explain.Explain(b.Rows(int(p.Index)), i, expected, contribution):
		return
	}
	centers, row := s.tasks.Values(&p.Task, i)
	for c := range d.Dim {
		expected[c] += math.Float64frombits(centers[c])
		actual[c] = math.Float64frombits(row[c])
	}
	in.Expected, in.Actual, in.Contribution = expected, actual, contribution
}

// addEvent hands a change out and has its key snapshotted in the same cycle. An
// evicted key's is in the record of its eviction.
func (s *State) addEvent(e *EventRow) {
	s.Events = append(s.Events, *e)
	if !e.Key.Dead {
		s.changed.Add(e.Key, s.journal.Open.Start())
	}
}

// inTurn hands an event out after those of the tasks that were packed before it.
func (s *State) inTurn(e EventRow) {
	if s.tasks.Empty() {
		s.addEvent(&e)
		return
	}
	s.tasks.Defer(func() { s.addEvent(&e) })
}

// endKey closes what is open of a key that is evicted at offset.
func (s *State) endKey(k *Key, reason events.Reason, offset int64) {
	a := k.Alerts
	if a == nil {
		return
	}
	wm := s.watermark()
	if len(a.Detectors) > 0 {
		if s.tasks.Empty() {
			s.endAlerts(k, reason, wm, offset)
		} else {
			s.tasks.Defer(func() { s.endAlerts(k, reason, wm, offset) })
		}
	}
	if a.Silent != nil {
		s.closeSilence(k, reason, wm, offset)
	}
}

// endAlerts closes what the key's detectors have open.
func (s *State) endAlerts(k *Key, reason events.Reason, time, offset int64) {
	for d := range k.Set.All {
		if !d.Judged {
			continue
		}
		a := &k.Alerts.Detectors[d.Alert]
		if a.Events.Idle() {
			continue
		}
		s.saveEvents(k, d.Alert, a)
		if c, ok := a.Events.End(reason, time, offset); ok {
			s.addEvent(&EventRow{k, d.Index, d.Name, c})
		}
	}
}

// closeOrphans closes, with the first live sample after a restore, the anomalies
// that nothing continues. A key that is there for nothing else is forgotten.
func (s *State) closeOrphans(sm *Sample) {
	list := s.orphaned
	slices.SortFunc(list, keys.ByName)
	for _, k := range list {
		s.closeOrphansOf(k, sm.Time, sm.Offset)
		if k.Set == series.None {
			s.evict(k, sm.Offset, events.DetectorRemoved)
		}
	}
	clear(list)
	s.orphaned = list[:0]
}

func (s *State) closeOrphansOf(k *Key, time, offset int64) {
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	a := k.Alerts
	s.journal.Open.PushValues(opOrphans, k, 0, 0, a.Orphans)
	for _, o := range a.Orphans {
		o.Revision++
		s.addEvent(&EventRow{k, s.cfg.detectorOf(&o), o.Name, events.Change{
			Kind: events.Close, Reason: o.Reason, Time: time, Offset: offset, Anomaly: o.Anomaly,
		}})
	}
	a.Orphans = nil
}

// detectorOf returns EventRow.Detector for an orphan.
func (c *Config) detectorOf(o *series.Orphan) int32 {
	if o.Silence {
		return SilenceDetector
	}
	for i := range c.Detectors {
		if c.Detectors[i].Name == o.Name {
			return int32(i)
		}
	}
	return RemovedDetector
}
