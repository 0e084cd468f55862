package keystate

import (
	"bytes"
	"slices"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/events"
)

// Scores are judged in Apply, in the order of the samples, by the detector's
// threshold and then by its rule for anomalies. What both remember of a key is
// state like any other: it is in the journal, in the head and in Export, and a
// replay judges again. A replay tells of no change (events.State.Step): a change
// puts its key's head into the same cycle (Snapshot), so that no sample after that
// head has changed anything, unless a replay's scores are another executor's.

// alerts are what thresholds, anomalies and silence remember of a key, and the
// summaries of what has left its windows.
type alerts struct {
	dets    []alert         // one for each of the set's judged detectors
	silent  *events.Anomaly // while the key is silent; replaced, never changed
	orphans []orphan        // open anomalies to be closed with the next live sample; replaced

	summaries map[int]*summary // by mark; see summary.go
}

// alert is one detector's.
type alert struct {
	history []float32       // of the threshold; nil before the first score
	rule    *threshold.Rule // as whose the history is; nil as long as there is none
	events  events.State
	unit    uint64 // the undo unit that has a copy of events
}

// orphan is an open anomaly of a detector that cannot go on with it.
type orphan struct {
	name    string // of the detector
	silence bool   // it is no detector's
	reason  events.Reason
	events.Anomaly
}

// Sizes for State.Bytes; TestSizes compares them.
const (
	alertsBytes = 64
	alertBytes  = 48
)

func newAlerts(dets int) *alerts {
	if dets == 1 {
		one := &struct {
			alerts
			a [1]alert
		}{}
		one.dets = one.a[:]
		return &one.alerts
	}
	return &alerts{dets: make([]alert, dets)}
}

func (a *alerts) size() int64 {
	n := int64(alertsBytes + alertBytes*len(a.dets))
	for i := range a.dets {
		n += 4 * int64(cap(a.dets[i].history))
	}
	for _, m := range a.summaries {
		n += m.size()
	}
	return n
}

// empty reports whether there is nothing to remember.
func (a *alerts) empty() bool {
	if a == nil {
		return true
	}
	for i := range a.dets {
		if a.dets[i].used() {
			return false
		}
	}
	return a.silent == nil && len(a.orphans) == 0
}

// used reports whether there is anything to remember: a threshold begins with the
// number of its scores.
func (a *alert) used() bool {
	if !a.events.Idle() {
		return true
	}
	for _, v := range a.history {
		if v != 0 {
			return true
		}
	}
	return false
}

// judgeRows makes the rows of a task of a detector with a threshold; while
// replaying, they are only judged.
func (s *State) judgeRows(p *pending, b *detectors.Batch) {
	d := p.det
	end := int(p.at) + int(p.times)
	times, words := s.tasks.ptimes[p.at:end], s.tasks.ptimes[end:][:d.stride]
	a := s.alertOf(p.key, d)
	t := &b.Tasks[p.task]
	if p.steady {
		fresh, about, until := d.rowTimes(times)
		scores := b.Out[t.Scores.Off:][:len(words)].F32()
		for i, word := range words {
			r := Row{
				Key: p.key, Detector: d.index, State: RowState(word&1) * RowImputed, Score: scores[i],
				Offset: int64(word >> 1), Time: int64(fresh[i]), About: int64(about[i]), Until: int64(until[i]),
			}
			s.judgeRow(p, b, a, i, &r, nil)
		}
		return
	}
	fresh := times[len(times)-len(words):]
	s.tasks.finds = d.Detector.AppendFindings(s.tasks.finds[:0], b.Rows(int(p.task)))
	finds := highest(s.tasks.finds)
	for i, word := range words {
		r := Row{
			Key: p.key, Detector: d.index, State: RowState(word&1) * RowImputed, Score: nan,
			Offset: int64(word >> 1), Time: int64(fresh[i]), About: int64(fresh[i]), Until: int64(fresh[i]),
		}
		var f *detectors.Finding
		if len(finds) > 0 && finds[0].Fresh == i {
			f, finds = &finds[0], finds[1:]
			r.setFinding(f, times)
		}
		s.judgeRow(p, b, a, i, &r, f)
	}
}

// alertOf is what a detector remembers of a key, with a history of the rule in force.
// A key that was evicted after the sample is judged like any other.
func (s *State) alertOf(k *Key, d *keyDetector) *alert {
	a := &k.alerts.dets[d.alert]
	switch {
	case a.history == nil:
		a.rule = d.rule
		s.setHistory(k, a, make([]float32, d.rule.Size()))
	case a.rule != d.rule:
		s.follow(k, d, a)
	}
	return a
}

// saveEvents keeps what events remember as it is at first in the open unit. Of the
// history, each judgement is saved by itself: it is much, and little of it changes.
func (s *State) saveEvents(k *Key, i int, a *alert) {
	if a.unit == s.journal.unit {
		return
	}
	a.unit = s.journal.unit
	if !s.restore.replaying {
		s.journal.cur.alerts = append(s.journal.cur.alerts, a.events.Clone())
		s.journal.cur.add(opAlert, k, i, 0)
	}
}

// judgeRow judges the score of r, of the task's i-th fresh row; f is its finding, nil
// for none.
func (s *State) judgeRow(p *pending, b *detectors.Batch, a *alert, i int, r *Row, f *detectors.Finding) {
	d := p.det
	var v threshold.Verdict
	if r.Threshold = nan; r.Score == r.Score {
		if !s.restore.replaying {
			s.journal.cur.floats = a.rule.Save(s.journal.cur.floats, a.history)
			s.journal.cur.add(opJudged, p.key, d.alert, threshold.Saved)
		}
		v = a.rule.Judge(a.history, r.Score)
		r.Exceeds, r.Severity, r.Threshold = v.Exceeds, v.Severity, v.Threshold
	}
	if !s.restore.replaying {
		s.Rows = append(s.Rows, *r)
	}
	if d.Events == nil || !v.Exceeds && a.events.Idle() {
		return
	}
	in := events.Input{
		Time: r.Time, Offset: r.Offset, About: r.About, Until: r.Until, Score: r.Score, Threshold: v.Threshold,
		Rank: v.Tail, Exceeds: v.Exceeds, Severity: v.Severity, Detector: d.Name, Key: p.key.name, Source: s.source,
	}
	s.saveEvents(p.key, d.alert, a)
	if d.valued && v.Exceeds && a.events.Peak(r.Score) {
		s.tasks.explain(p, b, i, f, &in)
	}
	if c, ok := a.events.Step(d.Events, &in, !s.restore.replaying); ok {
		s.addEvent(&EventRow{p.key, d.index, d.Name, c})
	}
}

// explain takes what was expected of the i-th fresh row from its finding or, where that
// does not say, asks the detector. The rows of the
// task were centred and rounded to float32 when they were packed; what was measured
// is taken from the values that pack has kept beside them.
func (q *taskQueue) explain(p *pending, b *detectors.Batch, i int, f *detectors.Finding, in *events.Input) {
	d := p.det
	v := make([]float64, 3*d.dim)
	expected, actual, share := v[:d.dim:d.dim], v[d.dim:2*d.dim:2*d.dim], v[2*d.dim:]
	switch {
	case f != nil && f.Expected != nil:
		copy(expected, f.Expected)
		copy(share, f.Contribution)
	case d.explain == nil || !d.explain.Explain(b.Rows(int(p.task)), i, expected, share):
		return
	}
	kept := q.ptimes[int(p.at)+int(p.times)+int(d.stride):]
	row := kept[(1+i)*d.dim:]
	for c := range d.dim {
		expected[c] += floatOf(kept[c])
		actual[c] = floatOf(row[c])
	}
	in.Expected, in.Actual, in.Contribution = expected, actual, share
}

// addEvent hands a change out and has its key snapshotted in the same cycle. An
// evicted key's is in the record of its eviction.
func (s *State) addEvent(e *EventRow) {
	s.Events = append(s.Events, *e)
	if !e.Key.dead {
		s.changed.add(e.Key, s.journal.cur.start)
	}
}

// changedKeys lists the keys with an anomaly that has changed since the last Snapshot: the
// next one must contain them.
type changedKeys struct {
	list  []*Key
	since int64 // in the unit that began there
}

// add adds a key that has changed in the unit that began at since.
func (c *changedKeys) add(k *Key, since int64) {
	if k.changed {
		return
	}
	if len(c.list) == 0 {
		c.since = since
	}
	k.changed = true
	c.list = append(c.list, k)
}

// reset empties the list.
func (c *changedKeys) reset() {
	for _, k := range c.list {
		k.changed = false
	}
	clear(c.list)
	c.list = c.list[:0]
}

// inTurn hands an event out after those of the tasks that were packed before it.
func (s *State) inTurn(e EventRow) {
	if len(s.tasks.pend) == 0 {
		s.addEvent(&e)
		return
	}
	s.tasks.pend = append(s.tasks.pend, pending{key: e.Key, task: pendingEvent, at: uint32(len(s.tasks.later))})
	s.tasks.later = append(s.tasks.later, e)
}

// endKey closes what is open of a key that is evicted at offset.
func (s *State) endKey(k *Key, reason events.Reason, offset int64) {
	a := k.alerts
	if a == nil {
		return
	}
	wm := s.watermark()
	if len(a.dets) > 0 {
		if len(s.tasks.pend) == 0 {
			s.endAlerts(k, reason, wm, offset)
		} else {
			s.tasks.pend = append(s.tasks.pend, pending{key: k, task: pendingEnd, at: uint32(len(s.tasks.ptimes)), reason: reason})
			s.tasks.ptimes = append(s.tasks.ptimes, uint64(wm), uint64(offset))
		}
	}
	if a.silent != nil {
		s.closeSilence(k, reason, wm, offset)
	}
}

// endAlerts closes what the key's detectors have open.
func (s *State) endAlerts(k *Key, reason events.Reason, time, offset int64) {
	for i := range k.set.wins {
		for j := range k.set.wins[i].dets {
			d := &k.set.wins[i].dets[j]
			if !d.judged {
				continue
			}
			a := &k.alerts.dets[d.alert]
			if a.events.Idle() {
				continue
			}
			s.saveEvents(k, d.alert, a)
			if c, ok := a.events.End(reason, time, offset); ok {
				s.addEvent(&EventRow{k, d.index, d.Name, c})
			}
		}
	}
}

// closeOrphans closes, with the first live sample after a restore, the anomalies
// that nothing continues. A key that is there for nothing else is forgotten.
func (s *State) closeOrphans(sm *Sample) {
	list := s.orphaned
	slices.SortFunc(list, func(a, b *Key) int { return bytes.Compare(a.name, b.name) })
	for _, k := range list {
		s.closeOrphansOf(k, sm.Time, sm.Offset)
		if k.set == emptySet {
			s.evict(k, sm.Offset, events.DetectorRemoved)
		}
	}
	clear(list)
	s.orphaned = list[:0]
}

func (s *State) closeOrphansOf(k *Key, time, offset int64) {
	if k.unit != uint32(s.journal.unit) {
		s.touch(k)
	}
	a := k.alerts
	s.journal.cur.orphans = append(s.journal.cur.orphans, a.orphans)
	s.journal.cur.add(opOrphans, k, 0, 0)
	for _, o := range a.orphans {
		o.Revision++
		s.addEvent(&EventRow{k, s.cfg.detectorOf(&o), o.name, events.Change{
			Kind: events.Close, Reason: o.reason, Time: time, Offset: offset, Anomaly: o.Anomaly,
		}})
	}
	a.orphans = nil
}

// detectorOf returns EventRow.Detector for an orphan.
func (c *Config) detectorOf(o *orphan) int32 {
	if o.silence {
		return SilenceDetector
	}
	for i := range c.Detectors {
		if c.Detectors[i].Name == o.name {
			return int32(i)
		}
	}
	return RemovedDetector
}
