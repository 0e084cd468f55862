// Package why explains why an anomaly was published. It finds the anomaly's records by its id, reads the source partition
// that they name again, and folds the samples of the series through the worker's state, executor and thresholds up to the
// anomaly's peak. It shows what the score of that task was computed from, and compares the score with the published one:
//
//   - equal, bit for bit: if everything that the score depends on is still in the topic, and the executor is of the same
//     class (CPU, or a GPU of the same generation). A method without a carry and without a summary depends on its window, and on
//     the number of samples before it modulo a small number; if that is not known, align searches for it.
//   - within the op's tolerance: on another class of executor, or if a carry has forgotten the samples that retention deleted.
//   - different: if it has not, or under other settings.
//
// It writes nothing and joins no group.
package why

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas"
	"odradek/schemas/output"
)

// Config has the settings of a worker that Explain needs.
type Config struct {
	// Select sets what depends on the topic of the anomaly's samples: Decoder, Series, State, Settings, Fields and
	// MaxFuture. nil: they are set.
	Select func(c *Config, topic string) error
	// Earlier returns the settings of a detector that were in force on the partition before the present ones, the latest
	// first; nil: only the present ones are tried.
	Earlier   func(ctx context.Context, tp kafka.TP, detector, key string) ([]Earlier, error)
	Client    *kafka.Client
	Fetch     kafka.FetchConfig
	Decoder   schemas.Decoder
	Series    []string // names of the values of a reading that are series of their own; nil: a reading is one sample
	State     *state.Config
	Executor  detectors.Executor
	Settings  func(detector int) string // of a detector, for people
	Fields    []string                  // names of the values of a sample
	Anomalies string                    // topic
	Partition int32                     // of the anomalies topic, -1: all
	From      time.Time                 // earliest record of the anomalies topic to search; zero: the first
	// MaxRecords and MaxBytes bound what is read of the source before the anomaly; the bytes by the size of the records just before it.
	MaxRecords, MaxBytes int64
	MaxFuture            time.Duration // as in the worker; 0: no bound
	Patience             time.Duration // bounds the wait for a schema that the registry does not have
}

// Earlier holds settings of a detector that were in force before the present ones.
type Earlier struct {
	Changed string                // what differs from the present ones
	Select  func(c *Config) error // sets what Config.Select does; nil: they cannot be rebuilt
	Why     string                // the reason why they cannot
}

// Explain explains the anomaly whose id begins with the given digits. It returns an *UnknownError if there is none.
func (c *Config) Explain(ctx context.Context, id string) (*Report, error) {
	if fault := CheckID(id); fault != "" {
		return nil, errors.New("why: " + fault)
	}
	f := kafka.NewFetcher(c.Client, c.Fetch)
	defer f.Close()
	anomaly, err := c.find(ctx, f, id)
	if err != nil {
		return nil, err
	}
	own := *c
	if c.Select != nil {
		if err := own.Select(&own, anomaly.last().Topic); err != nil {
			return nil, err
		}
	}
	r, err := own.explain(ctx, f, anomaly)
	if err != nil || r.agrees() || c.Earlier == nil || r.Read.Records == 0 {
		return r, err
	}
	return c.explainEarlier(ctx, f, anomaly, r)
}

// agrees reports whether the recomputed score agrees with the published one.
func (r *Report) agrees() bool { return r.Verdict == Equal || r.Verdict == Within }

// explainEarlier explains an anomaly by the latest earlier settings that give the published score. If there are none, it
// returns now, the report by the present settings, with notes that say why.
func (c *Config) explainEarlier(ctx context.Context, f *kafka.Fetcher, anomaly *found, now *Report) (*Report, error) {
	a := anomaly.last()
	tp := kafka.TP{Topic: a.Topic, Partition: a.Partition}
	list, err := c.Earlier(ctx, tp, a.Detector, string(anomaly.key))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		now.note("the earlier settings of %s are not known: %v", a.Detector, err)
		return now, nil
	}
	for _, e := range list {
		if e.Select == nil {
			continue
		}
		own := *c
		if err := e.Select(&own); err != nil {
			return nil, err
		}
		then, err := own.explain(ctx, f, anomaly)
		if err != nil {
			return nil, err
		}
		if then.agrees() {
			then.note("recomputed by earlier settings, which the changelog has recorded; the change: %s", e.Changed)
			return then, nil
		}
	}
	if len(list) == 0 {
		now.note("the changelog has recorded no other window, parameters or mapping for %s", a.Detector)
	}
	for _, e := range list {
		why := cmp.Or(e.Why, "they do not give the published score either")
		now.note("the changelog has recorded other settings of %s (%s), but %s", a.Detector, e.Changed, why)
	}
	return now, nil
}

// explain explains an anomaly by the settings of c.
func (c *Config) explain(ctx context.Context, f *kafka.Fetcher, anomaly *found) (*Report, error) {
	r := c.reportOf(anomaly)
	detector := slices.IndexFunc(c.State.Detectors, func(d series.DetectorConfig) bool { return d.Name == anomaly.last().Detector })
	if detector < 0 && anomaly.last().Detector != series.SilenceName {
		r.note("detector %s is not in the settings: they have changed since, or are another group's", anomaly.last().Detector)
		return r, nil
	}
	further := 1
	for i := range c.State.Detectors {
		further = max(further, c.State.Detectors[i].Stride)
	}
	s, err := c.read(ctx, f, anomaly, further)
	if err != nil {
		return nil, err
	}
	r.noteRead(s, c)
	if s.records == 0 {
		return r, nil
	}
	if detector < 0 {
		return r, c.explainSilence(ctx, r, anomaly, s)
	}
	r.Anomaly.Settings = c.Settings(detector)
	return r, c.explainScore(ctx, r, anomaly, s, detector)
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// reportOf returns the report of an anomaly from its records alone.
func (c *Config) reportOf(anomaly *found) *Report {
	a := anomaly.last()
	r := &Report{Verdict: Absent, Score: none, Threshold: none, Anomaly: Anomaly{
		ID: hex.EncodeToString(a.ID[:]), Series: text(anomaly.key), Detector: a.Detector, Op: "", Revision: a.Revision,
		Kind: output.AnomalyKinds[a.Kind], Severity: int(a.Severity), Band: output.SeverityBands[a.Band],
		Start: at(a.Start), End: at(a.End), PeakTime: at(a.PeakTime), OpenedAt: at(a.OpenedAt),
		PeakScore: Number(a.PeakScore), Threshold: Number(a.Threshold), Rank: Number(a.Rank), Samples: a.Samples, Field: a.Field,
		Topic: a.Topic, Partition: a.Partition, OpenedOffset: -1, LastOffset: a.Offset,
	}}
	r.Anomaly.Summary = a.Summary
	if a.Recurs != nil {
		r.Anomaly.Recurs = a.Recurs.Text
	}
	if e := a.Escalation; e != nil {
		since := at(e.Start)
		r.Anomaly.Escalated = &since
	}
	if r.Anomaly.Kind == "close" {
		r.Anomaly.Reason = output.CloseReasons[a.Reason]
	}
	if first := &anomaly.revisions[0]; first.Revision == 1 {
		r.Anomaly.OpenedOffset = first.Offset
	} else {
		r.note("the topic has the anomaly's records from revision %d on: retention has deleted those before", first.Revision)
	}
	if g := a.Region; g != nil {
		r.Anomaly.Region = &Region{Columns: [2]int{int(g.ColumnFrom), int(g.ColumnTo)}, Rows: [2]int{int(g.RowFrom), int(g.RowTo)},
			Corners: &[4]Number{Number(g.X0), Number(g.Y0), Number(g.X1), Number(g.Y1)}, Observed: g.Observed, Expected: Number(g.Expected),
			Ratio: Number(g.Ratio), P: Number(g.P)}
	}
	for i := range c.State.Detectors {
		if d := &c.State.Detectors[i]; d.Name == a.Detector {
			r.Anomaly.Op = opName(d)
		}
	}
	return r
}

// noteRead notes what was read, and what was not.
func (r *Report) noteRead(s *source, c *Config) {
	r.Read = Read{First: s.first, From: s.from, Until: s.until, Records: s.records, Bytes: s.bytes, Samples: s.own, Left: s.left,
		Why: s.unreadable}
	switch last := r.Anomaly.LastOffset; {
	case s.until <= s.from && last < s.first:
		r.note("the records of the anomaly are gone: retention has deleted offsets up to %d of %s, and its last one was %d", s.first-1,
			s.tp, last)
	case s.until <= s.from:
		r.note("%s ends before offset %d of the anomaly: the topic was created again since", s.tp, last)
	case s.limited:
		r.note("offsets %d to %d of %s were not read: -max-records %d, -max-bytes %d", s.first, s.from-1, s.tp, c.MaxRecords, c.MaxBytes)
	case s.first > 0:
		r.note("retention has deleted offsets 0 to %d of %s", s.first-1, s.tp)
	}
	if s.left > 0 {
		r.note("%d records could not be read, as dead letters cannot: they are left out", s.left)
	}
}

// explainScore folds the series' samples and explains the highest score of its anomaly.
func (c *Config) explainScore(ctx context.Context, r *Report, anomaly *found, s *source, detector int) error {
	a, d := anomaly.last(), &c.State.Detectors[detector]
	concerned := []int{detector}
	if d.Ensemble != nil {
		concerned = append(concerned, d.Ensemble.Members...)
		for _, g := range d.Ensemble.Gates {
			concerned = append(concerned, g.Detector)
		}
	}
	reads := func(i int) bool { return slices.Contains(concerned, i) }
	f, err := c.fold(ctx, c.foldConfig(anomaly.key, reads, nil), s, s.samples, s.from)
	if err != nil {
		return err
	}
	rows := f.rows[detector]
	if len(rows) == 0 {
		r.note("detector %s scores none of the %d samples of the series that were read: it reads other series under the present settings, or "+
			"each sample lacks a value", d.Name, s.own)
		return nil
	}
	r.Reproduced = slices.ContainsFunc(f.events, func(e state.EventRow) bool { return e.Change.Anomaly.ID == a.ID })
	i, same := c.peak(d, rows, a, a.Offset)
	x := &explainer{c: c, anomaly: anomaly, s: s, samples: s.samples, first: s.from, folded: f, reads: reads, offsets: true}
	memory := d.Ensemble != nil || remembers(d, c.dim(d))
	if !same && !memory {
		from, to := c.candidates(rows, a, i)
		if _, steady := d.Detector.(series.Steady); i < 0 || !steady { // somewhere in the anomaly
			from, to = slices.IndexFunc(rows, func(r state.Row) bool { return r.Time >= a.Start }), c.after(rows, a)
		}
		w, err := c.align(ctx, s, detector, rows, from, to, a)
		if err != nil {
			return err
		}
		if w != nil {
			r.note("the score depends on how many samples the series had before, modulo %d, which is not known of those that were read; "+
				"one of these alignments gives the published score", period(d))
			x.narrow(w, rows, detector)
			i, same, rows = w.row, true, w.rows[detector]
		}
	}
	if i < 0 {
		r.note("no sample that was read completes a score about the anomaly's peak: its window needs %d samples, and %d are there up to then",
			c.window(d), c.countUntil(rows, a))
		r.History = c.history(f.rows[detector], len(f.rows[detector])-1, d)
		return nil
	}
	row := rows[i]
	r.Score, r.Threshold = Number(row.Judged), Number(threshold.Published(row.Threshold))
	if d.Threshold != nil {
		r.Origin = d.Threshold.Origin()
	}
	if r.Explanation, err = x.explain(ctx, detector, row.Offset); err != nil {
		return err
	}
	r.History = c.history(f.rows[detector], c.after(f.rows[detector], a), d)
	r.judge(c, d, x, same, memory, i+1)
	if r.agrees() && r.Threshold != r.Anomaly.Threshold && r.Anomaly.Threshold.known() {
		r.note("the published threshold is %s, and these settings give %s for the scores that were read: THRESHOLD, HISTORY or another "+
			"setting of thresholds has changed since, or the worker had other scores before; the thresholds shown for other scores are by "+
			"these settings, too", exact(r.Anomaly.Threshold), exact(r.Threshold))
	}
	return nil
}

// judge sets the verdict on the recomputed score, and notes the reasons for a difference.
func (r *Report) judge(c *Config, d *series.DetectorConfig, x *explainer, same, memory bool, samples int) {
	missing := ""
	if x.s.from > 0 && samples < c.window(d) {
		missing = fmt.Sprintf("the window has %d samples, and %d are there of those before: retention or the limits excluded the others, or the "+
			"series began then", c.window(d), samples)
	}
	switch {
	case same:
		r.Verdict = Equal
		return
	case x.within(d, r.Anomaly.PeakScore):
		r.Verdict = Within
	default:
		r.Verdict = Differ
	}
	if missing != "" {
		r.note("%s", missing)
	}
	switch {
	case d.Ensemble != nil && d.Ensemble.Any && x.s.from > 0:
		r.note("an ensemble of any compares its members' scores with their thresholds, of the scores before, which begin with what was read")
	case d.Ensemble != nil && x.s.from > 0:
		r.note("an ensemble compares its members' scores with the means of their scores before, which begin with what was read")
	case memory && x.s.from > 0:
		r.note("%s remembers more than its window (a carry or a summary), and what it remembered at offset %d is not known", d.Name, x.s.from)
	case memory:
		r.note("%s remembers more than its window (a carry or a summary), from the offset at which the group began to read", d.Name)
	}
	if r.Verdict == Differ && missing == "" {
		r.note("these settings of %s give the recomputed score for the records that were read: at the time other settings were in force, "+
			"or the worker read the values in another order", d.Name)
	}
}

// history returns the scores up to row i, of twice as many samples as a window has.
func (c *Config) history(rows []state.Row, i int, d *series.DetectorConfig) (h []Judged) {
	for k := max(0, i-2*max(c.window(d), 256)); k <= i; k++ {
		r := &rows[k]
		h = append(h, Judged{Offset: c.State.Record(r.Offset), Time: at(r.Time), Score: Number(r.Judged),
			Threshold: Number(threshold.Published(r.Threshold)),
			Exceeds:   r.Exceeds})
	}
	return h
}

// after returns the last row of the samples up to an anomaly's last change.
func (c *Config) after(rows []state.Row, a *output.Anomaly) int {
	for i := len(rows) - 1; i > 0; i-- {
		if c.State.Record(rows[i].Offset) <= a.Offset {
			return i
		}
	}
	return 0
}

// countUntil returns how many rows are of times up to an anomaly's peak.
func (c *Config) countUntil(rows []state.Row, a *output.Anomaly) (n int) {
	for i := range rows {
		if rows[i].Time <= a.PeakTime {
			n++
		}
	}
	return n
}

// window returns the samples that a score of the detector reads, of an ensemble's the largest of its members'.
func (c *Config) window(d *series.DetectorConfig) int {
	if d.Ensemble == nil {
		return d.Detector.Window()
	}
	n := 0
	for _, i := range d.Ensemble.Members {
		n = max(n, c.State.Detectors[i].Detector.Window())
	}
	return n
}

func (c *Config) dim(d *series.DetectorConfig) int { return len(c.State.Windows[d.Window].Columns) }

// explainSilence folds all samples of the partition, since samples of other series move the watermark.
func (c *Config) explainSilence(ctx context.Context, r *Report, anomaly *found, s *source) error {
	a := anomaly.last()
	r.Anomaly.Op = series.SilenceName
	f, err := c.fold(ctx, c.foldConfig(anomaly.key, func(int) bool { return true }, nil), s, s.samples, s.from)
	if err != nil {
		return err
	}
	for i := range f.events {
		if e := &f.events[i].Change.Anomaly; e.ID == a.ID {
			r.Reproduced = true
			if e.Revision == a.Revision {
				r.Score, r.Threshold = Number(e.PeakScore), Number(threshold.Published(e.Threshold))
			}
		}
	}
	silence := &Silence{Limit: time.Duration(c.State.Silence) * time.Microsecond, Watermark: at(a.OpenedAt)}
	var own []*sample // in the order of their times
	for i := range s.samples {
		sm := &s.samples[i]
		if offset := c.State.Record(sm.offset); offset == r.Anomaly.OpenedOffset && silence.OpenedBy.Time.IsZero() {
			silence.OpenedBy = Sample{Offset: offset, Time: at(sm.time)}
		}
		if sm.key == 0 {
			own = append(own, sm)
		}
	}
	slices.SortStableFunc(own, func(a, b *sample) int { return cmp.Compare(a.time, b.time) })
	n, _ := slices.BinarySearchFunc(own, a.Start+1, func(sm *sample, t int64) int { return cmp.Compare(sm.time, t) })
	if n > 0 {
		silence.Last = c.sample(own[n-1])
	}
	if n < len(own) {
		silence.Next = c.sample(own[n])
	}
	for _, sm := range own[max(0, n-aroundSilence):min(len(own), n+aroundSilence/4)] {
		silence.Around = append(silence.Around, *c.sample(sm))
	}
	silence.Fields = c.Fields
	var gaps []int64
	for i := 1; i < n; i++ {
		gaps = append(gaps, own[i].time-own[i-1].time)
	}
	if len(gaps) > 1 {
		slices.Sort(gaps)
		silence.Usual = time.Duration(gaps[len(gaps)/2]) * time.Microsecond
	}
	r.Silence = silence
	switch {
	case r.Score == r.Anomaly.PeakScore:
		r.Verdict = Equal
	case r.Score.known():
		r.Verdict = Differ
	case c.State.Silence == 0:
		r.note("ODRADEK_SILENCE is off now: the settings have changed since")
	default:
		r.note("the samples that were read make no silence of that id: the settings have changed since, or the sample before it is gone")
	}
	return nil
}

// aroundSilence is the number of samples before a silence that are shown; of those after it a quarter.
const aroundSilence = 200

func (c *Config) sample(sm *sample) *Sample {
	return &Sample{Offset: c.State.Record(sm.offset), Time: at(sm.time), Values: numbers(sm.values)}
}

func opName(d *series.DetectorConfig) string {
	if d.Ensemble != nil {
		return "ensemble"
	}
	return d.Detector.Op().String()
}

func at(us int64) time.Time { return time.UnixMicro(us).UTC() }

func numbers(v []float64) []Number {
	if v == nil {
		return nil
	}
	n := make([]Number, len(v))
	for i, f := range v {
		n[i] = Number(f)
	}
	return n
}

// positive returns a number that is none where it is 0.
func positive(v float32) Number {
	return cmp.Or(Number(v), none)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
