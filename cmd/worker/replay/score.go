package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/cmd/worker/quality"
	"odradek/detectors"
)

// Result is how one detector does on one data set. Shares are from 0 to 1, NAB's
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

	// UCR are the series whose highest score lies at the anomaly (quality.Series.UCRFinds);
	// nil for other sets.
	UCR *int `json:"ucr_found,omitempty"`
}

// LabelMeasures compare verdicts with labels by sample and by labelled anomaly.
type LabelMeasures struct {
	Precision  float64 `json:"precision"`
	Recall     float64 `json:"recall"`
	F1         float64 `json:"f1"`
	AdjustedF1 float64 `json:"f1_point_adjusted"`
	AUC        float64 `json:"auc_roc"`
	AP         float64 `json:"average_precision"`
	Ranked     int     `json:"ranked_series"`
	Runs       int     `json:"labelled_anomalies"`
	Found      int     `json:"found_anomalies"` // with a detected sample
	False      int     `json:"false_anomalies"` // opened outside of the labelled ones
}

// NABMeasure is the score of one of NAB's profiles.
type NABMeasure struct {
	Score      float64 `json:"score"`      // with the severity that suits the corpus best
	Severity   float64 `json:"severity"`   // that one
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

// tally collects what one detector said of a set.
type tally struct {
	line     Result
	all, adj quality.Confusion
	label    LabelMeasures
	change   ChangeMeasures
	warmup   int
	nab      []quality.Scored
	ucr      int
}

// Score replays the series of a data set on one core and measures what each detector
// says of them against their labels. The name of the set is that of the results, its
// format what quality.Read says; environ are the lines of the environment that Settings
// takes.
func Score(ctx context.Context, environ []string, name, format string, set []quality.Series) ([]Result, error) {
	if len(set) == 0 {
		return nil, errors.New("no series matches")
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	var tallies []tally
	for i := range set {
		s := &set[i]
		c, err := Settings(environ, s.Dim)
		if err != nil {
			return nil, err
		}
		if tallies == nil {
			tallies = make([]tally, len(c.Detectors))
			for d := range tallies {
				det := &c.Detectors[d]
				tallies[d].line = Result{Set: name, Format: format, Detector: det.Name, Settings: c.Changed(det)}
				if format != quality.TCPDFormat {
					tallies[d].line.Rates = ratesOf(det)
				}
				tallies[d].warmup = det.Alarm.Warmup
			}
		}
		begin := time.Now()
		said, err := Series(ctx, c, exec, s)
		if err != nil {
			return nil, fmt.Errorf("series %s: %w", s.Name, err)
		}
		for d := range said {
			tallies[d].add(s, &said[d])
			tallies[d].line.Seconds += time.Since(begin).Seconds()
		}
	}
	var lines []Result
	for d := range tallies {
		lines = append(lines, tallies[d].finish(format))
	}
	return lines, nil
}

func (t *tally) add(s *quality.Series, r *Verdicts) {
	from := min(s.Train, s.Len())
	t.line.Series++
	t.line.Samples += s.Len()
	t.line.Measured += s.Len() - from
	for _, at := range r.Opens {
		if at >= from {
			t.line.Opened++
			if s.Labels != nil && !s.Labels[at] {
				t.label.False++
			}
		}
	}
	if s.Changes != nil {
		found, none := quality.ChangeOf(s.Changes, r.Peaks, s.Len()), quality.ChangeOf(s.Changes, nil, s.Len())
		t.change.Covering += found.Covering
		t.change.ChangeF1 += found.F1
		t.change.NoneCovering += none.Covering
		t.change.NoneF1 += none.F1
		return
	}
	if m := t.line.Rates; m != nil {
		m.add(s, r, t.warmup)
	}
	labels, exceeds := s.Labels[from:], r.Exceeds[from:]
	adjusted := quality.Adjust(exceeds, labels)
	if r.Place >= 0 && t.line.Format == quality.UCRFormat && s.UCRFinds(r.Place) {
		t.ucr++
	}
	for i, l := range labels {
		t.all.Add(exceeds[i], l)
		t.adj.Add(adjusted[i], l)
	}
	for _, run := range quality.Runs(labels) {
		t.label.Runs++
		if adjusted[run.From] {
			t.label.Found++
		}
	}
	if rank, ok := quality.RankOf(r.Scores[from:], labels); ok {
		t.label.AUC += rank.AUC
		t.label.AP += rank.AP
		t.label.Ranked++
	}
	t.nab = append(t.nab, quality.Scored{Scores: r.Opened, Windows: s.Windows})
}

func (t *tally) finish(format string) Result {
	l := &t.line
	if format == quality.TCPDFormat {
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
	l.LabelMeasures = &m
	if format == quality.UCRFormat {
		l.UCR = &t.ucr
	}
	if format == quality.NABFormat {
		l.NAB = map[string]NABMeasure{}
		for _, p := range quality.Profiles {
			best, as := quality.NAB(p, t.nab), quality.NABAt(p, t.nab, 0)
			severity := best.Threshold
			if best.Found+best.False == 0 {
				severity = 101 // nothing at all is best
			}
			l.NAB[p.Name] = NABMeasure{best.Score, severity, as.Score, best.Found, best.Windows, best.False}
		}
	}
	return *l
}
