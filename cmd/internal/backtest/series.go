package backtest

import (
	"math"
	"slices"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state"
)

// Warmth says how far a score depends on the offset at which the run begins. A run that begins at the same offset as the worker
// has the same scores, to the bit. A run that begins later lacks the samples before: until windows and histories are full, its
// scores, and then its thresholds, cannot be compared with the worker's.
type Warmth uint8

// The degrees of warmth, in the order in which a series passes them.
const (
	ColdWindow  Warmth = iota // the score depends on samples before the run, of the window or by a carry
	ColdHistory               // the score does not; its threshold depends on scores of ColdWindow
	Warm                      // neither the score nor its threshold depends on samples before the run
)

func (w Warmth) String() string { return [...]string{"window", "history", "warm"}[w] }

// warmth is the number of rows of a series, and of judged scores after them, from which a
// detector is warm.
type warmth struct{ rows, scores int64 }

// warmthOf returns a window's rows, twice as many for a method with a carry or a summary, and
// the history of the threshold.
func warmthOf(cfg *state.Config, i int) (w warmth) {
	d := &cfg.Detectors[i]
	if d.Ensemble != nil {
		for _, m := range d.Ensemble.Members {
			w.rows = max(w.rows, warmthOf(cfg, m).rows)
		}
		w.rows += int64(d.Ensemble.MinPoints)
		if d.Threshold != nil {
			w.scores = historyOf(d.Threshold)
		}
		return w
	}
	w.rows = int64(detectors.TaskRows(d.Detector, d.Stride))
	dim := len(cfg.Windows[d.Window].Columns)
	if out, ok := d.Detector.Size(detectors.View{Dim: dim, Rows: int(w.rows), Fresh: d.Stride}); ok && out.Carry > 0 {
		w.rows *= 2
	} else if z, ok := d.Detector.(detectors.Summarizer); ok && z.Summary(dim) != nil {
		w.rows *= 2
	}
	if d.Threshold != nil {
		w.scores = historyOf(d.Threshold)
	}
	return w
}

// historyOf returns the scores after which a history has no trace of its beginning; of one that is spread over time
// that is not known.
func historyOf(r *threshold.Params) int64 {
	if r.Span > 0 {
		return 1 << 40
	}
	return int64(r.History)
}

// seriesTrack is the state of one series in a run.
type seriesTrack struct {
	name        []byte
	index       int // among the series of its lane
	samples     int64
	first, last int64 // event times
	dets        []track
	state       *state.Config // its detectors are the ones in dets
	plot        *plot         // nil: not drawn
	labels      []labelled
	labelOpen   bool // the last row was labelled
}

// track is the state of one detector on a series.
type track struct {
	judged         judged
	rows, warmed   int64 // rows, and scores after those that depend on the run's first row
	found, needs   int64 // rows with a score; of the sample with the first one, the number that was expected last
	anomalies      int
	worst          uint8 // severity
	spans          []Span
	hits, falsePos int
	beside         []besideSpan // published anomalies
	both, only     int          // anomalies that were published, too, and others
}

// labelled is a labelled anomaly, and the time at which each detector first found it.
type labelled struct {
	Span
	foundAt []int64 // by detector, and of any of them at the end; 0: not found
}

// plotSeries is the number of series of a lane with plots.
const plotSeries = 20_000

func newSeries(name []byte, c *Config, state *state.Config, before int) *seriesTrack {
	s := &seriesTrack{name: slices.Clone(name), index: before, state: state, dets: make([]track, len(state.Detectors))}
	if c.Plots > 0 && before < plotSeries {
		n := 1024
		if before >= 64 {
			n = 256
		}
		s.plot = newPlot(n, state.Dim, len(state.Detectors))
		if state.Blocks && before < heatSeries {
			s.plot.heat = make([]*heat, len(state.Detectors))
		}
	}
	for i := range s.dets {
		s.dets[i].beside = c.Published.baseline(state.Detectors[i].Name, string(name))
	}
	for _, span := range c.Labels[string(name)] {
		s.labels = append(s.labels, labelled{Span: span, foundAt: make([]int64, len(s.dets)+1)})
	}
	return s
}

// add takes a row into account before it is folded.
func (s *seriesTrack) add(sm *state.Sample, anomalous bool) {
	if s.samples == 0 {
		s.first, s.last = sm.Time, sm.Time
	}
	s.samples++
	s.first, s.last = min(s.first, sm.Time), max(s.last, sm.Time)
	if s.plot != nil {
		s.plot.values(sm.Time, sm.Values)
	}
	if anomalous {
		if !s.labelOpen {
			s.labels = append(s.labels, labelled{Span: Span{From: sm.Time, To: sm.Time}, foundAt: make([]int64, len(s.dets)+1)})
		}
		l := &s.labels[len(s.labels)-1]
		l.To = max(l.To, sm.Time)
	}
	s.labelOpen = anomalous
}

// Span is an interval of event time, both ends included, in microseconds.
type Span struct{ From, To int64 }

func (s Span) meets(o Span) bool { return s.From <= o.To && o.From <= s.To }

// Anomaly is an anomaly as it stood at the end of the run.
type Anomaly struct {
	state.EventRow
	Series    string
	Partition int32
	Warmth    Warmth // of the score that opened it, or later
	False     bool   // it meets no label, and there are labels
}

// Over reports whether the anomaly was closed.
func (a *Anomaly) Over() bool { return a.Change.Kind == anomaly.Close }

// tell takes finished rows and changes of anomalies; see NewLane.
func (l *lane) tell(rows []state.Row, changes []state.EventRow) error {
	if l.judge != nil {
		l.judge.add(rows, changes)
		if changed := l.partition.recorded.Changes; changed != nil {
			for i := range changes {
				if changes[i].Detector >= 0 {
					changed(int(l.partition.Number), &changes[i])
				}
			}
		}
	}
	for i := range rows {
		r := &rows[i]
		series := l.ofKey(r.Key)
		t, w := &series.dets[r.Detector], &l.warm[r.Detector]
		t.rows++
		if r.Remaining > 0 {
			t.needs = t.rows + int64(r.Remaining)
		}
		if r.Score == r.Score {
			t.found++
		}
		if r.Threshold <= math.MaxFloat32 { // neither off nor in its warm-up
			t.judged.add(r.Time)
		}
		if r.Judged == r.Judged && t.rows >= w.rows {
			t.warmed++
		}
		if series.plot != nil && r.Judged == r.Judged {
			series.plot.score(int(r.Detector), r)
		}
		if l.scores != nil {
			if err := l.scores.add(r, t.warm(w)); err != nil {
				return err
			}
		}
	}
	for i := range changes {
		e := changes[i]
		id := e.Change.Anomaly.ID
		if l.c.Out != nil && l.c.Out.publish != nil {
			if err := l.c.Out.publish.Anomaly(l.partition, &e); err != nil {
				return err
			}
		}
		if e.Change.Kind == anomaly.Close {
			delete(l.open, id)
			l.ended(&e)
			continue
		}
		l.open[id] = &e
	}
	return l.fault
}

// warm returns a detector's warmth after the rows so far.
func (t *track) warm(w *warmth) Warmth {
	switch {
	case t.rows < w.rows:
		return ColdWindow
	case t.warmed <= w.scores && w.scores > 0:
		return ColdHistory
	}
	return Warm
}

// ofKey finds the series of a key of the state; the key's tag refers to it.
func (l *lane) ofKey(k *state.Key) *seriesTrack {
	if k.Tag > 0 {
		return l.series[k.Tag-1]
	}
	series := l.seriesOf(k.Name())
	k.Tag = 1 + uint32(series.index)
	return series
}

// endOpen takes the anomalies that are open at the end.
func (l *lane) endOpen() {
	list := make([]*state.EventRow, 0, len(l.open))
	for _, e := range l.open {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *state.EventRow) int {
		return slices.Compare(a.Change.Anomaly.ID[:], b.Change.Anomaly.ID[:])
	})
	for _, e := range list {
		l.ended(e)
	}
}

// shownMost is the number of anomalies that the report lists.
const shownMost = 200

// spansMost is the number of anomalies of a series and detector that are drawn.
const spansMost = 1000

// ended takes an anomaly that is closed, or open at the end of the run.
func (l *lane) ended(e *state.EventRow) {
	series := l.ofKey(e.Key)
	a := &e.Change.Anomaly
	out := Anomaly{EventRow: *e, Series: string(series.name), Partition: l.partition.Number, Warmth: Warm}
	if e.Detector >= 0 {
		t := &series.dets[e.Detector]
		out.Warmth = t.warm(&l.warm[e.Detector])
		t.anomalies++
		if a.Fault == a.ID {
			l.faults++
		}
		t.worst = max(t.worst, a.Severity)
		span := Span{a.Start, max(a.End, a.OpenedAt)}
		if len(t.spans) < spansMost {
			t.spans = append(t.spans, Span{a.Start, a.End})
		}
		t.compare(span)
		out.False = l.match(series, int(e.Detector), span, a.OpenedAt)
	}
	if l.c.Out != nil {
		if err := l.c.Out.anomaly(&out, l.state); err != nil {
			l.fault = err
		}
	}
	l.shown = append(l.shown, out)
	if len(l.shown) >= 2*shownMost {
		l.shown = gravest(l.shown)
	}
}

// match compares an anomaly with the labels of its series.
func (l *lane) match(series *seriesTrack, d int, span Span, openedAt int64) (missed bool) {
	if len(series.labels) == 0 {
		series.dets[d].falsePos++
		return l.c.Labels != nil
	}
	missed = true
	for i := range series.labels {
		lb := &series.labels[i]
		if !lb.meets(span) {
			continue
		}
		missed = false
		for _, at := range []int{d, len(series.dets)} {
			if lb.foundAt[at] == 0 || openedAt < lb.foundAt[at] {
				lb.foundAt[at] = max(1, openedAt)
			}
		}
	}
	if missed {
		series.dets[d].falsePos++
	} else {
		series.dets[d].hits++
	}
	return missed
}

// gravest returns the gravest of the anomalies, in a fixed order.
func gravest(list []Anomaly) []Anomaly {
	slices.SortFunc(list, func(a, b Anomaly) int {
		x, y := &a.Change.Anomaly, &b.Change.Anomaly
		switch {
		case x.Severity != y.Severity:
			return int(y.Severity) - int(x.Severity)
		case x.Samples != y.Samples:
			return int(int64(y.Samples) - int64(x.Samples))
		}
		return slices.Compare(x.ID[:], y.ID[:])
	})
	return list[:min(len(list), shownMost)]
}
