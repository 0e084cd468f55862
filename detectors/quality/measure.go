package quality

import (
	"fmt"
	"slices"
	"strings"
)

// Result has the measures of one detector on one data set. Shares are from 0 to 1, NAB's
// scores from 0 to 100.
type Result struct {
	Set      string  `json:"set"`
	Format   string  `json:"format"`
	Series   int     `json:"series"`
	Samples  int     `json:"samples"`
	Measured int     `json:"measured"` // samples after training or probation
	Detector string  `json:"detector"`
	Settings string  `json:"settings"`
	Opened   int     `json:"anomalies_opened"` // in the measured part
	Seconds  float64 `json:"seconds"`          // of the replay

	// Labels by sample. At the configured threshold over all series together; ranks
	// are means over the Ranked series that have samples of both kinds.
	*LabelMeasures

	Rates *RateMeasures `json:"false_alarms,omitempty"` // of a conformal threshold

	NAB map[string]NABMeasure `json:"nab,omitempty"` // by profile

	*ChangeMeasures

	// NotJudged says which series the detector has not judged, and why.
	NotJudged string `json:"not_judged,omitempty"`

	// UCR are the series whose highest score lies at the anomaly (Series.UCRFinds); nil for
	// other sets.
	UCR *int `json:"ucr_found,omitempty"`
}

// Rows returns the measures as text, each with its name.
func (r *Result) Rows() (rows [][2]string) {
	row := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	if r.NotJudged != "" {
		row("not judged", "%s", r.NotJudged)
	}
	for _, p := range Profiles {
		if m, ok := r.NAB[p.Name]; ok {
			row("NAB "+strings.ReplaceAll(p.Name, "_", " "), "%.1f from severity %.0f on (%d of %d windows, %d false); %.1f with all", m.Score,
				m.Severity, m.Found, m.Windows, m.False, m.Configured)
		}
	}
	if m := r.LabelMeasures; m != nil {
		if r.UCR != nil {
			row("highest score", "at the anomaly of %d of %d series, %.3f", *r.UCR, r.Series, float64(*r.UCR)/float64(r.Series))
		}
		row("anomalies", "%d opened; %d of %d labelled ones found, %d false", r.Opened, m.Found, m.Runs, m.False)
		row("by sample", "precision %.3f, recall %.3f, F1 %.3f; point-adjusted F1 %.3f", m.Precision, m.Recall, m.F1, m.AdjustedF1)
		if m.Ranked > 0 {
			row("ranks", "AUC-ROC %.3f, average precision %.3f, VUS-PR %.3f%s, means of %d series", m.AUC, m.AP, m.Volume,
				m.interval("vus_pr", 1), m.Ranked)
		}
		row("by anomaly", "precision %.3f%s, recall %.3f%s%s", m.EventPrecision,
			m.interval("event_precision", 1), m.EventRecall, m.interval("event_recall", 1), m.delay())
		if m.FalsePerDay != nil {
			row("false anomalies", "%.3f%s a day and series", *m.FalsePerDay, m.interval("false_per_series_day", 1))
		} else {
			row("false anomalies", "%.3f%s in 10,000 samples", 1e4*m.FalsePerSample, m.interval("false_per_sample", 1e4))
		}
	}
	if m := r.Rates; m != nil {
		first, firstRuns := m.First.Times(m.Asked)
		after, afterRuns := m.After.Times(m.Asked)
		row("false alarms", "%.2f times the rate of %v in the first %d scores of a series, %.2f times after; counting runs %.2f and %.2f",
			first, m.Asked, FirstScores, after, firstRuns, afterRuns)
		if e := m.Each; e.Series > 0 {
			row("by series", "%.2f times the rate in the median of %d series, by runs after the first scores; 0.5 to 2 times in %.2f of them,"+
				" %.2f by chance, more in %.2f", e.Median, e.Series, e.Within, e.Chance, e.Above)
		}
	}
	if m := r.ChangeMeasures; m != nil {
		row("change points", "%d found; covering %.3f (%.3f for none), F1 %.3f (%.3f for none)", r.Opened, m.Covering,
			m.NoneCovering, m.ChangeF1, m.NoneF1)
	}
	return rows
}

// LabelMeasures compare results with labels by sample and by labelled anomaly.
type LabelMeasures struct {
	Precision  float64 `json:"precision"`
	Recall     float64 `json:"recall"`
	F1         float64 `json:"f1"`
	AdjustedF1 float64 `json:"f1_point_adjusted"`
	AUC        float64 `json:"auc_roc"`
	AP         float64 `json:"average_precision"`
	Ranked     int     `json:"ranked_series"`
	Runs       int     `json:"labelled_anomalies"`
	Found      int     `json:"found_anomalies"` // with a detected sample, which exceeds the threshold while an anomaly is open
	False      int     `json:"false_anomalies"` // opened outside of the labelled ones

	// Volume is the mean of VolumePR over the Ranked series, with buffers up to each one's
	// Period.
	Volume float64 `json:"vus_pr"`
	// EventPrecision is the share of the anomalies opened that opened at a labelled sample,
	// EventRecall the share of the labelled ones that were found.
	EventPrecision float64 `json:"event_precision"`
	EventRecall    float64 `json:"event_recall"`
	// Delay is the median number of samples from the first one of a labelled anomaly to its
	// first detected one, of those found; -1 where none is.
	Delay float64 `json:"median_delay"`
	// FalsePerDay is the number of false anomalies a day of a series' unlabelled samples; nil
	// for a set without times. FalsePerSample is a sample.
	FalsePerDay    *float64 `json:"false_per_series_day,omitempty"`
	FalsePerSample float64  `json:"false_per_sample"`
	// Intervals are bootstrap intervals of some of the measures, by their JSON names; nil for fewer than three series.
	Intervals map[string]Interval `json:"intervals_90,omitempty"`
}

// NABMeasure is the score of one of NAB's profiles.
type NABMeasure struct {
	Score      float64 `json:"score"`      // with the best severity for the corpus
	Severity   float64 `json:"severity"`   // the best severity
	Configured float64 `json:"configured"` // with every anomaly that was opened
	Found      int     `json:"found"`      // windows, of Windows
	Windows    int     `json:"windows"`
	False      int     `json:"false"` // anomalies outside of windows
}

// ChangeMeasures compare anomalies with annotated change points, as means over the series.
type ChangeMeasures struct {
	Covering     float64 `json:"covering"`
	ChangeF1     float64 `json:"change_f1"`
	NoneCovering float64 `json:"covering_of_none"` // of a detector that finds nothing
	NoneF1       float64 `json:"change_f1_of_none"`
}

// Results are what one detector gives on one series. Scores, Exceeds, Detected and Opened are by
// sample, Opens and Peaks by anomaly.
type Results struct {
	Scores   []float64 // Never where there is none; nil: of several detectors
	Exceeds  []bool    // the score is above the threshold
	Detected []bool    // it is, and an anomaly is open
	Opened   []float64 // severity where an anomaly opened; Never elsewhere
	Opens    []int     // samples at which anomalies opened
	Warmup   int       // scores at the start that no threshold judges
	Peaks    []int     // sample that each closed or still open anomaly's highest score covers

	// Place is the middle of the samples of the highest score, among the scores that
	// cover no sample of the training part; -1 without any.
	Place int
}

// NewResults returns the results of a detector without scores for n samples.
func NewResults(n int) Results {
	none := slices.Repeat([]float64{Never}, n)
	return Results{Place: -1, Scores: none, Exceeds: make([]bool, n), Detected: make([]bool, n), Opened: slices.Clone(none)}
}

// Detect marks the samples from the one at which an anomaly opened to the one at which it closed as detected where they exceed the
// threshold.
func (r *Results) Detect(opened, closed int) {
	copy(r.Detected[opened:closed+1], r.Exceeds[opened:closed+1])
}

// Together returns the results of several detectors on one series as one: their anomalies, and the
// samples at which any of them exceeds its threshold. Their scores have no common scale, so it has none.
func Together(list []Results) Results {
	all := NewResults(len(list[0].Exceeds))
	all.Scores = nil
	for i := range list {
		v := &list[i]
		all.Opens, all.Peaks = append(all.Opens, v.Opens...), append(all.Peaks, v.Peaks...)
		for at, exceeds := range v.Exceeds {
			all.Exceeds[at] = all.Exceeds[at] || exceeds
			all.Detected[at] = all.Detected[at] || v.Detected[at]
			all.Opened[at] = max(all.Opened[at], v.Opened[at])
		}
	}
	slices.Sort(all.Opens)
	slices.Sort(all.Peaks)
	return all
}

// Tally collects the results of one detector on the series of a set.
type Tally struct {
	line     Result
	all, adj Confusion
	label    LabelMeasures
	change   ChangeMeasures
	nab      []Scored
	ucr      int
	series   []eventCounts
	delays   []float64
	unranked bool // there are no scores
}

// NewTally begins with no series. The format of the set is one that Read knows. asked is
// the rate of a conformal threshold, else 0.
func NewTally(format, detector string, asked float64) *Tally {
	t := &Tally{line: Result{Format: format, Detector: detector}}
	if asked > 0 && format != TCPDFormat {
		t.line.Rates = &RateMeasures{Asked: asked}
	}
	return t
}

// Add adds a series.
func (t *Tally) Add(s *Series, r *Results) {
	from := min(s.Train, s.Len())
	t.line.Series++
	t.line.Samples += s.Len()
	t.line.Measured += s.Len() - from
	events := eventCounts{volume: -1}
	for _, at := range r.Opens {
		if at >= from {
			t.line.Opened++
			events.opened++
			if s.Labels != nil && !s.Labels[at] {
				events.wrong++
			}
		}
	}
	t.label.False += events.wrong
	if s.Changes != nil {
		found, none := ChangeOf(s.Changes, r.Peaks, s.Len()), ChangeOf(s.Changes, nil, s.Len())
		t.change.Covering += found.Covering
		t.change.ChangeF1 += found.F1
		t.change.NoneCovering += none.Covering
		t.change.NoneF1 += none.F1
		return
	}
	if m := t.line.Rates; m != nil {
		m.add(s, r)
	}
	labels, exceeds, detected := s.Labels[from:], r.Exceeds[from:], r.Detected[from:]
	adjusted := Adjust(exceeds, labels)
	if r.Place >= 0 && t.line.Format == UCRFormat && s.UCRFinds(r.Place) {
		t.ucr++
	}
	for i, l := range labels {
		t.all.Add(exceeds[i], l)
		t.adj.Add(adjusted[i], l)
	}
	for _, run := range Runs(labels) {
		events.runs++
		if first := slices.Index(detected[run.From:run.To+1], true); first >= 0 {
			events.found++
			t.delays = append(t.delays, float64(first))
		}
	}
	t.label.Runs += events.runs
	t.label.Found += events.found
	events.count(s, from)
	if r.Scores == nil {
		t.unranked = true
	} else if rank, ok := RankOf(r.Scores[from:], labels); ok {
		t.label.AUC += rank.AUC
		t.label.AP += rank.AP
		t.label.Ranked++
		events.volume, _ = VolumePR(r.Scores[from:], labels, s.Period())
	}
	t.series = append(t.series, events)
	t.nab = append(t.nab, Scored{Scores: r.Opened, Windows: s.Windows})
}

// Result measures the series so far. Set, Settings and Seconds are the caller's to fill.
func (t *Tally) Result() Result {
	l := &t.line
	if l.Format == TCPDFormat {
		n := float64(l.Series)
		c := t.change
		l.ChangeMeasures = &ChangeMeasures{c.Covering / n, c.ChangeF1 / n, c.NoneCovering / n, c.NoneF1 / n}
		return *l
	}
	m := t.label
	m.Precision, m.Recall, m.F1, m.AdjustedF1 = t.all.Precision(), t.all.Recall(), t.all.F1(), t.adj.F1()
	if m.Ranked > 0 {
		m.AUC /= float64(m.Ranked)
		m.AP /= float64(m.Ranked)
	}
	m.events(t.series, t.delays)
	l.LabelMeasures = &m
	if l.Format == UCRFormat && !t.unranked {
		l.UCR = &t.ucr
	}
	if l.Format == NABFormat {
		l.NAB = map[string]NABMeasure{}
		for _, p := range Profiles {
			best, as := NAB(p, t.nab), NABAt(p, t.nab, 0)
			severity := best.Threshold
			if best.Found+best.False == 0 {
				severity = 101 // no detection is best
			}
			l.NAB[p.Name] = NABMeasure{best.Score, severity, as.Score, best.Found, best.Windows, best.False}
		}
	}
	return *l
}
