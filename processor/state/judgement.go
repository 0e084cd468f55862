package state

import (
	"slices"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// judgement is a score on its way through the steps of judgeRow: what the threshold says of it, and what later steps make of that.
type judgement struct {
	key      *Key
	detector *series.SetDetector
	alert    *series.Alert // nil: the detector has no threshold
	row      Row
	why      reasons

	verdict  threshold.Judgement
	ordinary bool          // a step has turned the score away: it does not exceed, under any threshold
	withheld bool          // its results are left out
	in       anomaly.Input // of the anomaly step; a step before it may have explained the score
}

// judgeRow judges the score of a row and hands the row out. A score that exceeds its threshold may be turned away by the p-value of its
// region, by the detector's guard and by a mute rule. What is left changes the detector's anomaly, unless an ensemble makes the anomalies
// in its place. A detector in shadow mode goes the same way as any other, and so does an ensemble.
func (s *State) judgeRow(j *judgement) {
	d := j.detector
	s.smooth(j)
	if s.compare(j); j.verdict.Exceeds {
		s.requireP(j)
		s.guard(j)
		s.mute(j)
	}
	s.handOut(j)
	switch {
	case !d.Judged || d.Alarm.Events == nil || !j.verdict.Exceeds && j.alert.Events.Idle():
	case s.replaced(j.key, d, j.row.Offset):
		s.endReplaced(j)
	default:
		s.describe(j)
		s.learnedRule(j)
		s.changeAnomaly(j)
	}
}

// smooth makes the score that is judged: the detector's, or with DetectorConfig.Smooth the mean of the last ones.
func (s *State) smooth(j *judgement) {
	d, r := j.detector, &j.row
	if r.Judged = r.Score; d.Smooth > 1 && r.Score == r.Score {
		_, state := d.Split(s.scoreState(j.key, d).State)
		r.Judged = d.Smooth.Add(state, r.Score)
	}
}

// compare compares the score with the threshold, ranks it where the rank is asked for, and adds it to the history. A score of an ensemble
// of any that exceeds has the severity of its members.
func (s *State) compare(j *judgement) {
	d, a, r := j.detector, j.alert, &j.row
	if r.Threshold = nan; !d.Judged || r.Judged != r.Judged {
		return
	}
	u := s.journal.Open
	from := len(u.Floats)
	u.Floats = a.Threshold.Save(u.Floats, a.History, r.Judged)
	saved := u.Floats[from:] // Push drops it in a replay
	u.Push(opJudged, j.key, d.Alert, len(saved))
	j.verdict = a.Threshold.JudgeAt(a.History, r.Judged, r.Time, s.judge.watch != nil)
	if low := threshold.Risen(saved, a.History); low > 0 && !s.withholds(r.Offset) {
		s.Rises = append(s.Rises, Rise{Key: j.key, Detector: d.Name, Offset: r.Offset, From: low, To: j.verdict.Threshold})
	}
	if r.Threshold = j.verdict.Threshold; j.verdict.Exceeds && j.why.found {
		j.verdict.Severity = j.why.severity
	}
}

// turnAway says of a score above the threshold that it is ordinary.
func (j *judgement) turnAway() { j.verdict.Exceeds, j.verdict.Severity, j.ordinary = false, 0, true }

// region returns the region that the score is about; nil: none.
func (j *judgement) region() *detectors.Region {
	if j.why.finding == nil {
		return nil
	}
	return j.why.finding.Region
}

// requireP turns a score away whose region has a p-value above the detector's largest.
func (s *State) requireP(j *judgement) {
	most := j.detector.Alarm.MaxP
	if region := j.region(); region != nil && most > 0 && most < 1 && !(region.P <= most) {
		j.turnAway()
	}
}

// guard turns a score away that the detector's guard does not admit. It explains the score where the guard asks for what was expected.
func (s *State) guard(j *judgement) {
	guard, why := j.detector.Alarm.Guard, &j.why
	if !j.verdict.Exceeds || guard == nil || why.p == nil {
		return
	}
	row := s.tasks.copies.Values(why.p, why.i)
	if !guard.Open(func(field int) float64 { return row[field] }) {
		j.turnAway()
		return
	}
	if guard.Deviates() {
		s.explain(why, &j.alert.Events, &j.in)
	}
	if !guard.Admits(j.in.Expected, j.in.Actual, j.in.Contribution) {
		j.turnAway()
	}
}

// mute turns a score away that a mute rule covers. It explains the score where the rule asks for that.
func (s *State) mute(j *judgement) {
	if !j.verdict.Exceeds || len(s.mutes.Judged) == 0 {
		return
	}
	d, r, why, in := j.detector, &j.row, &j.why, &j.in
	explained := func() (expected, actual, contribution []float64) {
		// Only where the ruling in force has the values queued: a guard in the past may have, too.
		if in.Actual == nil && why.p != nil && why.p.Valued && (d.Alarm.Events != nil || d.Alarm.Guard != nil) {
			s.explain(why, &j.alert.Events, in)
		}
		said := anomaly.Highest(why.said)
		if why.carrier != nil {
			said = why.carrier
		}
		if said != nil {
			return said.Expected, said.Actual, said.Contribution
		}
		return in.Expected, in.Actual, in.Contribution
	}
	if s.mutes.Judged.Covers(d.Name, j.key.Name(), min(r.About, r.Time), max(r.Until, r.Time), explained) {
		j.turnAway()
	}
}

// handOut passes the judged score to Config.Watch, and its row to the caller.
func (s *State) handOut(j *judgement) {
	r := &j.row
	r.Exceeds, r.Severity = j.verdict.Exceeds, j.verdict.Severity
	if s.judge.watch != nil {
		s.watched(j.detector, j.alert, r, &j.why, j.verdict.Tail)
	}
	if j.withheld = s.withholds(r.Offset); !j.withheld {
		r.Behind = s.behind(r.Offset)
		s.Rows = append(s.Rows, *r)
	}
}

// describe describes the score to the detector's anomaly.
func (s *State) describe(j *judgement) {
	d, r, in := j.detector, &j.row, &j.in
	in.Time, in.Offset, in.About, in.Until = r.Time, r.Offset, r.About, r.Until
	in.Score, in.Threshold, in.Rank = r.Judged, j.verdict.Threshold, j.verdict.Tail
	in.Exceeds, in.Severity, in.Ordinary, in.Shadow = j.verdict.Exceeds, j.verdict.Severity, j.ordinary, d.Alarm.Shadow
	in.Detector, in.Key, in.Source = d.Name, j.key.Name(), s.source
	in.Located = d.Explain != nil || d.Locate != nil || d.Carriers != nil
	in.Region, in.Members = d.Region(j.region()), j.why.said
	if j.verdict.Exceeds {
		in.Values = j.why.values(&s.tasks)
	}
}

// learnedRule has an anomaly that the score opens compared with the false alarms that labels have taught.
func (s *State) learnedRule(j *judgement) {
	if d, k := j.detector, j.key; j.verdict.Exceeds && len(s.learned.Judged) > 0 {
		j.in.Like = func(a *anomaly.Anomaly) *anomaly.Like { return s.learned.Judged.LikeOf(d.Name, k.Name(), a) }
	}
}

// changeAnomaly changes the detector's anomaly as its policy says of the score. It explains a score that is the highest of the anomaly.
func (s *State) changeAnomaly(j *judgement) {
	k, d, a, why := j.key, j.detector, j.alert, &j.why
	s.saveAlerts(k, d.Alert, a)
	left, ended := a.Events.Leave(&j.in, !j.withheld)
	if ended {
		s.addEvent(&EventRow{Key: k, Detector: d.Index, Name: d.Name, Change: left})
	}
	if j.verdict.Exceeds && a.Events.Peak(j.row.Judged) {
		switch {
		case why.carrier != nil:
			j.in.Carry(why.carrier)
		case d.Ensemble != nil && why.said == nil:
			j.in.Contribution = slices.Clone(why.shares)
		case why.p != nil && why.p.Valued && j.in.Actual == nil:
			s.explain(why, &a.Events, &j.in)
		}
	}
	if c, ok := a.Events.Step(d.Alarm.Events, &j.in, !j.withheld); ok {
		if c.Kind == anomaly.Open {
			s.groups.opened(k, &a.Events, &c)
			opensInFault(k, &a.Events, &c, &left)
		}
		s.addEvent(&EventRow{Key: k, Detector: d.Index, Name: d.Name, Change: c})
	}
}

// replacing is an ensemble of any that makes the anomalies of its members' scores under another reading than the configured one.
type replacing struct {
	reading *rules.DetectorReading
	unread  func(key []byte) bool
	setup   *series.Setup // nil: the ensemble is not configured any more
}

// replaced reports whether an ensemble of any makes the anomalies of a detector's scores in its place. One in
// shadow mode does not.
func (s *State) replaced(k *Key, d *series.SetDetector, offset int64) bool {
	if !s.judge.configured {
		return slices.ContainsFunc(s.judge.replacing, func(e replacing) bool {
			return slices.Contains(e.reading.Members, d.Name) && !e.unread(k.Name()) && !s.shadowed(&e, offset)
		})
	}
	for _, f := range d.Feeds {
		e := &k.Set.Ensembles[f.Ensemble]
		if f.Member < e.Dim && e.Combined.Any && e.Judged && e.Alarm.Events != nil && !e.Alarm.Shadow {
			return true
		}
	}
	return false
}

// shadowed reports whether an ensemble was in shadow mode for the score of the sample at offset.
func (s *State) shadowed(e *replacing, offset int64) bool {
	if e.setup != nil {
		return e.setup.Alarm.Shadow
	}
	d := s.decisions.InForce(rules.KindThresholds, []byte(e.reading.Name), offset)
	return d != nil && d.Value.(*rules.Ruling).Alarm.Shadow
}

// endReplaced ends what a detector had open, or pending, when an ensemble took its place.
func (s *State) endReplaced(j *judgement) {
	k, d, a, r := j.key, j.detector, j.alert, &j.row
	if a.Events.Idle() || r.Judged != r.Judged || j.withheld && a.Events.Open() {
		return
	}
	s.saveAlerts(k, d.Alert, a)
	if c, ok := a.Events.End(anomaly.DetectorRemoved, r.Time, r.Offset); ok {
		s.addEvent(&EventRow{Key: k, Detector: d.Index, Name: d.Name, Change: c})
	}
}
