package state

import (
	"cmp"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/detectors/ensemble"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// Scores are judged in Apply, in the order of the samples, by the detector's
// threshold and then by its policy for anomalies. What both store for a key is
// state like any other: it is in the journal, in the head and in Export, and a
// replay judges again. A replay publishes no change (anomaly.State): a change
// puts its key's head into the same cycle (Snapshot), so no sample after that
// head has changed an anomaly, unless another executor computes a replay's scores.

// judge makes the rows of scored tasks, judges their scores, and makes anomalies of those that exceed.
type judge struct {
	finds []detectors.Finding
	watch func(*Watched) // nil: none

	maxGap     int64       // of the reading in force for the score that Apply judges next
	configured bool        // the reading in force is the configured one
	replacing  []replacing // of another one

	terms, shares [ensemble.MaxMembers]float64 // of an ensemble's members
	counted       [ensemble.MaxMembers]float32
	carriers      []anomaly.Term
}

var nan = float32(math.NaN())

// noneRemain is in place of the samples that remain before the first score of a detector that has ended: its samples have no row, but
// ensembles do not wait for one.
const noneRemain = math.MaxInt32

// warm makes the row of a sample for which the detector has too little history, remaining samples before the first score.
func (s *State) warm(k *Key, d *series.SetDetector, time, offset int64, remaining int32) {
	if s.withholds(offset) && len(d.Feeds) == 0 {
		return
	}
	if !s.tasks.Empty() {
		s.tasks.WarmUp(k, d, time, offset, remaining)
		return
	}
	s.addWarmRow(k, d, time, offset, remaining)
}

func (s *State) addWarmRow(k *Key, d *series.SetDetector, time, offset int64, remaining int32) {
	r := Row{Key: k, Detector: d.Index, State: RowWarmingUp, Remaining: remaining, Score: nan, Judged: nan, Threshold: nan,
		Offset: offset, Time: time, About: time, Until: time, Behind: s.behind(offset)}
	if !s.withholds(offset) && remaining != noneRemain {
		s.Rows = append(s.Rows, r)
	}
	if len(d.Feeds) > 0 {
		s.feed(k, d, &r, nil)
	}
}

// addRows makes the rows of a task: one for each fresh sample, without a score where
// nothing was found; of a series.Spaced one for each that is scored.
func (s *State) addRows(p *pendingTask, b *detectors.Batch) {
	d := p.Detector
	t := &b.Tasks[p.Index]
	fresh := s.tasks.copies.Fresh(p)
	if p.Steady {
		scores := b.Out[t.Scores.Off:][:t.Scores.Len].F32()
		rows := s.Rows
		for i := range fresh {
			at, ok := d.Scored(i)
			if !ok {
				continue
			}
			rows = append(rows, Row{})
			r := &rows[len(rows)-1]
			r.Key, r.Detector, r.State = p.Key, d.Index, stateOf(d, &fresh[i], scores[at])
			if r.State == RowWarmingUp {
				r.Remaining = p.Remaining(b, scores, at)
			}
			r.Score, r.Judged, r.Threshold = scores[at], scores[at], nan
			if left := s.tasks.gaps.after(p, i); left > 0 {
				r.State, r.Remaining, r.Score, r.Judged = RowWarmingUp, left, nan, nan
			}
			if d.Predict != nil {
				r.predict(p, b, i)
			}
			r.Offset, r.Time = fresh[i].Offset, fresh[i].Time
			r.About, r.Until = s.tasks.copies.Covered(p, i)
			r.Behind = s.behind(r.Offset)
		}
		if s.withholdsSome() {
			made := rows[len(s.Rows):]
			kept := slices.DeleteFunc(made, func(r Row) bool { return s.withholds(r.Offset) })
			rows = rows[:len(rows)-len(made)+len(kept)]
		}
		s.Rows = rows
		return
	}
	times := s.tasks.copies.Times(p)
	s.judge.finds = d.Detector.AppendFindings(s.judge.finds[:0], b.Rows(int(p.Index)))
	finds := highest(s.judge.finds)
	for i := range fresh {
		f := &fresh[i]
		r := Row{
			Key: p.Key, Detector: d.Index, State: f.State, Score: nan, Judged: nan, Threshold: nan,
			Offset: f.Offset, Time: f.Time, About: f.Time, Until: f.Time,
		}
		if len(finds) > 0 && finds[0].Fresh == i {
			if s.across(d, times, finds[0].From, finds[0].To) {
				r.State, r.Remaining = RowWarmingUp, 1
			} else {
				r.setFinding(&finds[0], times)
				r.Judged = r.Score
			}
			finds = finds[1:]
		}
		if r.inGrid(d); !s.withholds(r.Offset) {
			r.Behind = s.behind(r.Offset)
			s.Rows = append(s.Rows, r)
		}
	}
}

// stateOf returns the state of a row of a steady detector, from its score.
func stateOf(d *series.SetDetector, f *freshRow, score float32) RowState {
	if d.Learner != nil && score != score {
		return RowWarmingUp
	}
	return f.State
}

// setFinding sets the score of a finding and the times that it is about.
func (r *Row) setFinding(f *detectors.Finding, times []int64) {
	r.Score, r.About, r.Until = float32(f.Score), times[f.From], times[f.To]
}

// predict sets what the detector expected of the i-th fresh row of a task.
func (r *Row) predict(p *pendingTask, b *detectors.Batch, i int) {
	if r.Score != r.Score {
		return
	}
	expected, spread := p.Detector.Predict.Predict(b.Rows(int(p.Index)), i)
	r.Predicted, r.Expected, r.Spread = expected == expected, expected, float32(spread)
}

// inGrid sets the times of a row of a grid, whose rows have the time of the window's start: the score is
// about the window, and has its last microsecond.
func (r *Row) inGrid(d *series.SetDetector) {
	if d.Grid != nil {
		r.Until = r.About + d.Grid.Span - 1
		r.Time = r.Until
	}
}

// highest reduces the findings to one of each fresh row, in their order: that with the highest
// score, the first of equal ones. Consumers know a score by its sample and its detector,
// so a sample has one score of a detector, however many lengths or ranks the method has.
func highest(f []detectors.Finding) []detectors.Finding {
	slices.SortStableFunc(f, func(a, b detectors.Finding) int {
		return cmp.Or(cmp.Compare(a.Fresh, b.Fresh), cmp.Compare(b.Score, a.Score))
	})
	return slices.CompactFunc(f, func(a, b detectors.Finding) bool { return a.Fresh == b.Fresh })
}

// judgeRows makes the rows of a task of a detector whose scores are judged, or change a ScoreState. It judges those, too, whose
// rows are withheld.
func (s *State) judgeRows(p *pendingTask, b *detectors.Batch) {
	d := p.Detector
	fresh := s.tasks.copies.Fresh(p)
	a := s.alertOf(p.Key, d)
	t := &b.Tasks[p.Index]
	if p.Steady {
		scores := b.Out[t.Scores.Off:][:t.Scores.Len].F32()
		for i := range fresh {
			at, ok := d.Scored(i)
			if !ok {
				continue
			}
			j := judgement{key: p.Key, detector: d, alert: a}
			j.why.p, j.why.b, j.why.i = p, b, i
			r := &j.row
			r.Key, r.Detector, r.State, r.Score = p.Key, d.Index, stateOf(d, &fresh[i], scores[at]), scores[at]
			r.Offset, r.Time = fresh[i].Offset, fresh[i].Time
			r.About, r.Until = s.tasks.copies.Covered(p, i)
			if r.State == RowWarmingUp {
				r.Remaining = p.Remaining(b, scores, at)
			}
			if left := s.tasks.gaps.after(p, i); left > 0 {
				r.State, r.Remaining, r.Score = RowWarmingUp, left, nan
				s.forgetSmooth(p.Key, d)
			}
			if d.Predict != nil {
				r.predict(p, b, i)
			}
			s.judgeRow(&j)
			if len(d.Feeds) > 0 {
				s.feed(p.Key, d, r, &j.why)
			}
		}
		return
	}
	times := s.tasks.copies.Times(p)
	s.judge.finds = d.Detector.AppendFindings(s.judge.finds[:0], b.Rows(int(p.Index)))
	finds := highest(s.judge.finds)
	for i := range fresh {
		j := judgement{key: p.Key, detector: d, alert: a}
		j.why.p, j.why.b, j.why.i = p, b, i
		r := &j.row
		r.Key, r.Detector, r.State, r.Score = p.Key, d.Index, fresh[i].State, nan
		r.Offset, r.Time = fresh[i].Offset, fresh[i].Time
		r.About, r.Until = r.Time, r.Time
		if len(finds) > 0 && finds[0].Fresh == i {
			f := &finds[0]
			finds = finds[1:]
			if s.across(d, times, f.From, f.To) {
				r.State, r.Remaining = RowWarmingUp, 1
				s.forgetSmooth(p.Key, d)
			} else {
				r.setFinding(f, times)
				j.why.finding = f
			}
		}
		r.inGrid(d)
		s.judgeRow(&j)
		if len(d.Feeds) > 0 {
			s.feed(p.Key, d, r, &j.why)
		}
	}
}

// forgetSmooth has the mean of a detector's scores of a series begin anew.
func (s *State) forgetSmooth(k *Key, d *series.SetDetector) {
	if d.Smooth > 1 {
		_, state := d.Split(s.scoreState(k, d).State)
		clear(state)
	}
}

// reasons is what a score is explained from: a task's i-th fresh row with its finding, nil
// for none, or for an ensemble the members' contributions.
type reasons struct {
	p       *pendingTask
	b       *detectors.Batch
	i       int
	finding *detectors.Finding
	shares  []float64 // of a score of an ensemble; nil: none has any
	// Of an ensemble of any: whether a member's score exceeds, the highest severity of such members, and what they say.
	found    bool
	severity uint8
	said     []anomaly.MemberScore
	// Likewise: the members, by their bits, whose scores over their thresholds a gate has turned away.
	turnedAway uint64
	// Of an ensemble that sums: what the member says that carries the score; nil: none says anything.
	carrier *anomaly.MemberScore
}

// explain takes the reading that the score of the i-th fresh row is about, and what was expected in its place, from the row's finding
// or, where the finding has none, from the detector. The rows of the
// task were centred and rounded to float32 when they were packed, so the measured values
// are those that the queue has copied.
func (s *State) explain(why *reasons, events *anomaly.State, in *anomaly.Input) {
	p, i, f := why.p, why.i, why.finding
	d, rows := p.Detector, why.b.Rows(int(p.Index))
	if d.Grid != nil {
		return
	}
	v := make([]float64, 3*d.Dim)
	expected, actual, contribution := v[:d.Dim:d.Dim], v[d.Dim:2*d.Dim:2*d.Dim], v[2*d.Dim:]
	var part detectors.Location
	newest, since, ok := rows.Len()-1, 0, false
	if start, begun := events.Since(); begun {
		since = newest - s.tasks.copies.Since(p, start)
	}
	switch {
	case f != nil && f.Expected != nil:
		copy(expected, f.Expected)
		copy(contribution, f.Contribution)
		part, ok = detectors.Location{Row: f.To, From: f.From, To: f.To}, true
	case d.Explain != nil:
		part, ok = d.Explain.Explain(rows, i, since, expected, contribution)
	case d.Locate != nil:
		part, ok = d.Locate.Locate(rows, i, contribution)
		expected = nil
	}
	if !ok {
		return
	}
	at, row := s.tasks.copies.Row(p, newest-part.Row)
	from, _ := s.tasks.copies.Row(p, newest-part.From)
	columns := s.tasks.copies.Columns(p)
	copy(actual, row)
	if expected != nil {
		for c := range columns {
			expected[c] = expected[c]*columns[c].Scale + columns[c].Center
		}
	}
	if anomaly.Largest(contribution) < 0 {
		contribution = nil
	}
	in.Expected, in.Actual, in.Contribution, in.Deviation = expected, actual, contribution, &anomaly.Deviation{From: from, At: at}
	if d.Explain != nil && d.From > 0 && (!events.Open() || events.Anomaly().Like != nil) {
		in.Deviation.Side = s.newestSide(p, rows, i, &part, contribution)
	}
	if field := anomaly.Largest(contribution); field >= 0 && expected != nil {
		if spread := part.Spread * columns[field].Scale; spread-spread == 0 {
			in.Deviation.Spread = spread
		}
	}
}

// newestSide returns the side on which the last row of a score is of what the rows before it let expect; 0: it is not known. Learned rules
// compare anomalies by it: the reading that deviates most may be an old one, on either side of a shape.
// part and contribution belong to the score.
func (s *State) newestSide(p *pendingTask, rows detectors.Rows, i int, part *detectors.Location, contribution []float64) anomaly.Side {
	d, last := p.Detector, rows.Row(i)
	field, newest := anomaly.Largest(contribution), part.Newest
	if !part.HasNewest {
		v := make([]float64, 2*d.Dim)
		expected, contribution := v[:d.Dim:d.Dim], v[d.Dim:]
		part, ok := d.Explain.Explain(rows, i, last, expected, contribution)
		if field = anomaly.Largest(contribution); !ok || part.Row != last || field < 0 {
			return 0
		}
		newest = expected[field]
	}
	if field < 0 {
		return 0
	}
	column := s.tasks.copies.Columns(p)[field]
	e, a := newest*column.Scale+column.Center, s.tasks.copies.Values(p, i)[field]
	switch {
	case a > e:
		return anomaly.Above
	case a < e:
		return anomaly.Below
	case a == e:
		return anomaly.Neither
	}
	return 0
}

// values returns the function that Input.Values is; nil where the detector's scores cover one sample, or no expected value is known.
func (r *reasons) values(tasks *taskQueue) func(int, *anomaly.Range) anomaly.Range {
	if p := r.p; p == nil || !p.Valued || !p.Steady || p.Detector.From == 0 || p.Detector.Explain == nil {
		return nil
	}
	own := *r // so that the reasons do not escape
	return func(field int, last *anomaly.Range) anomaly.Range { return own.covered(tasks, field, last) }
}

// covered returns the range of a field's values in the rows that the score of the i-th fresh row covers, and in that row.
func (r *reasons) covered(tasks *taskQueue, field int, last *anomaly.Range) anomaly.Range {
	p := r.p
	rows := r.b.Rows(int(p.Index))
	column := tasks.copies.Columns(p)[field]
	to := rows.Row(r.i)
	// Older rows are in the task for the sake of other fresh ones.
	first := max(0, to+1-p.Detector.Detector.Window())
	return anomaly.Cover(field, first, max(0, to-p.Detector.From), to, func(row int) float64 {
		return rows.Value(row, field)*column.Scale + column.Center
	}, last)
}

// feed passes a detector's row to the ensembles that it is a member or a gate of, and makes their
// rows of the samples for which all members have rows. An ensemble has no tasks: it scores the rows of its members,
// warming-up ones included, in the order in which Apply makes them. That order does not depend on the batches, so its
// rows do not either. Its state of a series is a ScoreState, which a replay computes again from the members' scores. why is nil
// for a row without a score.
func (s *State) feed(k *Key, d *series.SetDetector, r *Row, why *reasons) {
	for _, f := range d.Feeds {
		e := &k.Set.Ensembles[f.Ensemble]
		if e.Skips(k.Name()) {
			continue
		}
		state, _ := e.Split(s.scoreState(k, e).State)
		said := ensemble.Row{
			Time: r.Time, Offset: r.Offset, About: r.About, Until: r.Until, Imputed: r.State == RowImputed, Score: r.Judged,
		}
		gate := f.Member >= e.Dim
		switch {
		case gate:
			if said.Score = nan; why.inSeason() {
				said.Score = r.Judged
			}
		case e.Combined.Any:
			said.Score, said.Severity, said.OpenAfter = ratio(r), r.Severity, 1
			if d.Judged && d.Alarm.Events != nil {
				said.OpenAfter = d.Alarm.Events.OpenAfter
			}
		}
		if said.Score != said.Score && !gate {
			said.Remaining = k.Awaited(d, r.Remaining, e.Combined.Any)
		}
		carries := e.Carriers != nil && mayCarry(k, e, e.Combined.Reach(state, f.Member, &said))
		if (e.Combined.Add(state, f.Member, &said) || carries) && e.Judged && e.Alarm.Events != nil {
			s.keepMember(k, e, &anomaly.MemberScore{Member: d.Name, Ratio: said.Score}, r, why)
		}
		terms, shares, counted := s.judge.terms[:e.Dim], s.judge.shares[:e.Dim], s.judge.counted[:e.Dim]
		for out := (ensemble.Row{}); e.Combined.Next(state, &out, terms, counted); {
			a := s.alertOf(k, e)
			j := judgement{key: k, detector: e, alert: a}
			row, why := &j.row, &j.why
			row.Key, row.Detector, row.Score = k, e.Index, out.Score
			row.Offset, row.Time, row.About, row.Until = out.Offset, out.Time, out.About, out.Until
			switch {
			case out.WarmingUp:
				row.State, row.Remaining = RowWarmingUp, out.Remaining
			case out.Imputed:
				row.State = RowImputed
			}
			why.found, why.severity, why.turnedAway = e.Combined.Any && out.Score > 1, out.Severity, out.TurnedAway
			if e.Combined.Shares(shares, terms) {
				why.shares = shares
			}
			if a != nil && a.Events.Waiting() {
				s.saveAlerts(k, e.Alert, a)
				if e.Combined.Any {
					why.said = a.Events.MembersUntil(row.Time, row.Offset)
					if out.TurnedAway != 0 {
						why.said = slices.DeleteFunc(why.said, func(m anomaly.MemberScore) bool {
							i := slices.Index(e.Gated, m.Member)
							return i >= 0 && out.TurnedAway>>i&1 != 0
						})
						if len(why.said) == 0 {
							why.said = nil // no member speaks for the score, which says who contributed
						}
					}
				} else {
					why.carrier = a.Events.Carrier(row.Time, row.Offset, row.About, s.judge.carriersOf(e, terms, counted))
				}
			}
			s.judgeRow(&j)
		}
	}
}

// mayCarry reports whether a member's score could carry a score of the ensemble above the threshold. Reach (ensemble.Params) may fall
// short of it by a twentieth, for the means and the threshold change until the sample is scored. To say what a member expects costs more
// than its score, so few scores should pass that do not carry.
func mayCarry(k *Key, e *series.SetDetector, reach float64) bool {
	if !(reach > 0) || k.Alerts == nil {
		return false
	}
	a := &k.Alerts.Detectors[e.Alert]
	history := a.History
	if history != nil && !a.Threshold.Like(e.ThresholdInForce) { // the next score converts it
		history = nil
	}
	return 1.05*reach > float64(e.ThresholdInForce.Least(history))
}

// carriersOf returns the members' parts in a sum, until the next call.
func (j *judge) carriersOf(e *series.SetDetector, terms []float64, counted []float32) []anomaly.Term {
	j.carriers = append(j.carriers[:0], e.Carriers...)
	for i := range j.carriers {
		j.carriers[i].Value, j.carriers[i].Score = terms[i], counted[i]
	}
	return j.carriers
}

// keepMember keeps what a member of an ensemble says with a score over its threshold, or one that may carry a sum, for when the ensemble
// scores the sample.
func (s *State) keepMember(k *Key, e *series.SetDetector, said *anomaly.MemberScore, r *Row, why *reasons) {
	// Without either, only a guard, of now or of before, has the values queued.
	if p := why.p; p.Valued && (e.Carriers != nil || p.Detector.Alarm.Events != nil) {
		var in anomaly.Input
		s.explain(why, &k.Alerts.Detectors[e.Alert].Events, &in)
		said.Expected, said.Actual, said.Contribution = in.Expected, in.Actual, in.Contribution
		said.Deviation = in.Deviation
	}
	said.Time, said.Offset, said.Until, said.Score, said.Threshold = r.Time, r.Offset, r.Until, r.Judged, r.Threshold
	a := &k.Alerts.Detectors[e.Alert]
	s.saveAlerts(k, e.Alert, a)
	a.Events.KeepMember(said, why.values(&s.tasks))
}

// inSeason reports whether the detector of a score, a detectors.Seasonal, has a season in use: of each task the one that it has left.
func (r *reasons) inSeason() bool {
	if r == nil {
		return false
	}
	next := r.b.Tasks[r.p.Index].Next
	return r.p.InSeason || next.Len > 0 && r.p.Detector.Seasonal.InSeason(r.b.Out[next.Off:][:next.Len])
}

// ratio returns the ratio of a member's score and its threshold; NaN for none, and for a score above the threshold that
// a guard or a mute rule has turned away.
func ratio(r *Row) float32 {
	if r.Exceeds != (r.Judged > r.Threshold) {
		return nan
	}
	return ensemble.Ratio(r.Judged, r.Threshold)
}

// endAlerts closes the open anomalies of the key's detectors.
func (s *State) endAlerts(k *Key, reason anomaly.Reason, time, offset int64) {
	for d := range k.Set.All {
		if !d.Judged {
			continue
		}
		a := &k.Alerts.Detectors[d.Alert]
		if a.Events.Idle() {
			continue
		}
		s.saveAlerts(k, d.Alert, a)
		if c, ok := a.Events.End(reason, time, offset); ok {
			s.addEvent(&EventRow{Key: k, Detector: d.Index, Name: d.Name, Change: c})
		}
	}
}

// closeOrphans closes the anomalies of a key that nothing continues.
func (s *State) closeOrphans(k *Key, detector func(*series.Orphan) int32, time, offset int64) {
	a := k.Alerts
	s.journal.Open.PushValues(opOrphans, k, 0, 0, a.Orphans)
	for _, o := range a.Orphans {
		o.Anomaly.Revision++
		s.addEvent(&EventRow{Key: k, Detector: detector(&o), Name: o.Name, Change: anomaly.Change{
			Kind: anomaly.Close, Reason: o.Reason, Time: time, Offset: offset, Anomaly: o.Anomaly,
		}})
	}
	a.Orphans = nil
}

// alertOf returns the alert state of a detector for a key, with a history of the threshold in force.
// It is nil without a threshold. A key that was evicted after the sample is judged like any other.
func (s *State) alertOf(k *Key, d *series.SetDetector) *series.Alert {
	if !d.Judged {
		return nil
	}
	a := &k.Alerts.Detectors[d.Alert]
	switch {
	case a.History == nil:
		a.Threshold = d.ThresholdInForce
		s.setHistory(k, a, make([]float32, d.ThresholdInForce.Size()))
	case a.Threshold != d.ThresholdInForce:
		s.followHistory(k, d, a)
	}
	return a
}

// behind returns how many records the sample at offset is behind the newest one of the turn in which it is scored.
func (s *State) behind(offset int64) uint32 {
	turn := s.newest
	if s.applied != nil {
		turn = s.applied.Turn
	}
	if turn <= offset {
		return 0
	}
	return uint32(min(turn>>s.bits-offset>>s.bits, math.MaxUint32))
}
