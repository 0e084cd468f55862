package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/cmd/worker/quality"
	"odradek/detectors"
)

const scoreAbout = `Replays a labelled data set through the worker's own state, executor, thresholds and
anomalies, and says how well they agree with the labels. The detectors are those of
ODRADEK_DETECTORS and ODRADEK_DETECTOR_<NAME>_...; every series gets the same ones.
Data sets: NAB (a folder with combined_windows.json), TCPD (with annotations.json), and
pairs of tables <name>_train.csv, <name>_test.csv with a column "label" in the latter
(SMD, ASD, SMAP, MSL). docs/quality.md says what the figures mean.`

const scoreExamples = `  ODRADEK_DETECTORS=lof ODRADEK_DETECTOR_LOF_OP=lof ODRADEK_DETECTOR_LOF_WINDOW=1024 worker score -data nab
  worker score -data smd -json`

// scoreLine is what the command says of one detector on one data set. Shares are
// from 0 to 1, NAB's scores from 0 to 100.
type scoreLine struct {
	Set      string  `json:"set"`
	Format   string  `json:"format"`
	Series   int     `json:"series"`
	Samples  int     `json:"samples"`
	Measured int     `json:"measured"` // samples after training or probation
	Detector string  `json:"detector"`
	Settings string  `json:"settings"`
	Opened   int     `json:"anomalies_opened"` // in the measured part
	Seconds  float64 `json:"seconds"`

	// Labels by sample. At the configured threshold over all series together; ranks
	// are means over the Ranked series that have samples of both kinds.
	*labelMeasures

	Rates *rateMeasures `json:"false_alarms,omitempty"` // of a conformal threshold

	NAB map[string]nabMeasure `json:"nab,omitempty"` // by profile

	*changeMeasures
}

type labelMeasures struct {
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

type nabMeasure struct {
	Score      float64 `json:"score"`      // with the severity that suits the corpus best
	Severity   float64 `json:"severity"`   // that one
	Configured float64 `json:"configured"` // with every anomaly that was opened
	Found      int     `json:"found"`      // windows, of
	Windows    int     `json:"windows"`    //
	False      int     `json:"false"`      // anomalies outside of windows
}

type changeMeasures struct {
	Covering     float64 `json:"covering"`
	ChangeF1     float64 `json:"change_f1"`
	NoneCovering float64 `json:"covering_of_none"` // of a detector that finds nothing
	NoneF1       float64 `json:"change_f1_of_none"`
}

func (t terminal) score(ctx context.Context, args []string) int {
	fs := t.flags("score", scoreAbout, scoreExamples)
	dir := fs.String("data", "", "folder of the data set; needed")
	match := fs.String("series", "*", "replay only series whose name, or last part of it, matches this pattern")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	if code, done := parse(fs, args); done {
		return code
	}
	if *dir == "" {
		fmt.Fprintln(t.err, "worker score: -data is needed; worker score -h says what it may hold")
		return exitUsage
	}
	if _, err := path.Match(*match, ""); err != nil {
		fmt.Fprintf(t.err, "worker score: -series %q: %v\n", *match, err)
		return exitUsage
	}
	format, set, err := quality.Read(*dir)
	if err != nil {
		return t.fail(err)
	}
	lines, err := t.scoreSet(ctx, filepath.Base(filepath.Clean(*dir)), format, keepMatching(set, *match))
	var bad *configError
	switch {
	case errors.As(err, &bad):
		printFaults(t.err, bad.faults)
		return exitUsage
	case err != nil:
		return t.fail(err)
	}
	if *asJSON {
		enc := json.NewEncoder(t.out)
		for i := range lines {
			if err := enc.Encode(&lines[i]); err != nil {
				return t.fail(err)
			}
		}
		return exitOK
	}
	printScores(t.out, lines)
	return exitOK
}

func keepMatching(set []quality.Series, pattern string) []quality.Series {
	var kept []quality.Series
	for _, s := range set {
		whole, _ := path.Match(pattern, s.Name)
		last, _ := path.Match(pattern, path.Base(s.Name))
		if pattern == "*" || whole || last {
			kept = append(kept, s)
		}
	}
	return kept
}

// scoreTally collects what one detector said of a set.
type scoreTally struct {
	line     scoreLine
	all, adj quality.Confusion
	label    labelMeasures
	change   changeMeasures
	warmup   int
	nab      []quality.Scored
}

func (t terminal) scoreSet(ctx context.Context, name, format string, set []quality.Series) ([]scoreLine, error) {
	if len(set) == 0 {
		return nil, errors.New("no series matches")
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	var tallies []scoreTally
	for i := range set {
		s := &set[i]
		c, ks, err := t.scoreConfig(s.Dim)
		if err != nil {
			return nil, err
		}
		if tallies == nil {
			tallies = make([]scoreTally, len(c.Detectors))
			for d := range tallies {
				det := &c.Detectors[d]
				tallies[d].line = scoreLine{Set: name, Format: format, Detector: det.Name, Settings: c.Changed(det)}
				if format != quality.TCPDFormat {
					tallies[d].line.Rates = ratesOf(det)
				}
				tallies[d].warmup = det.Alarm.Warmup
			}
		}
		begin := time.Now()
		said, err := replaySeries(ctx, ks, exec, s)
		if err != nil {
			return nil, fmt.Errorf("series %s: %w", s.Name, err)
		}
		for d := range said {
			tallies[d].add(s, &said[d])
			tallies[d].line.Seconds += time.Since(begin).Seconds()
		}
	}
	var lines []scoreLine
	for d := range tallies {
		lines = append(lines, tallies[d].finish(format))
	}
	return lines, nil
}

func (t *scoreTally) add(s *quality.Series, r *replayed) {
	from := min(s.Train, s.Len())
	t.line.Series++
	t.line.Samples += s.Len()
	t.line.Measured += s.Len() - from
	for _, at := range r.opens {
		if at >= from {
			t.line.Opened++
			if s.Labels != nil && !s.Labels[at] {
				t.label.False++
			}
		}
	}
	if s.Changes != nil {
		found, none := quality.ChangeOf(s.Changes, r.peaks, s.Len()), quality.ChangeOf(s.Changes, nil, s.Len())
		t.change.Covering += found.Covering
		t.change.ChangeF1 += found.F1
		t.change.NoneCovering += none.Covering
		t.change.NoneF1 += none.F1
		return
	}
	if m := t.line.Rates; m != nil {
		m.add(s, r, t.warmup)
	}
	labels, exceeds := s.Labels[from:], r.exceeds[from:]
	adjusted := quality.Adjust(exceeds, labels)
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
	if rank, ok := quality.RankOf(r.scores[from:], labels); ok {
		t.label.AUC += rank.AUC
		t.label.AP += rank.AP
		t.label.Ranked++
	}
	t.nab = append(t.nab, quality.Scored{Scores: r.opened, Windows: s.Windows})
}

func (t *scoreTally) finish(format string) scoreLine {
	l := &t.line
	if format == quality.TCPDFormat {
		n := float64(l.Series)
		c := t.change
		l.changeMeasures = &changeMeasures{c.Covering / n, c.ChangeF1 / n, c.NoneCovering / n, c.NoneF1 / n}
		return *l
	}
	m := t.label
	m.Precision, m.Recall, m.F1, m.AdjustedF1 = t.all.Precision(), t.all.Recall(), t.all.F1(), t.adj.F1()
	if m.Ranked > 0 {
		m.AUC /= float64(m.Ranked)
		m.AP /= float64(m.Ranked)
	}
	l.labelMeasures = &m
	if format == quality.NABFormat {
		l.NAB = map[string]nabMeasure{}
		for _, p := range quality.Profiles {
			best, as := quality.NAB(p, t.nab), quality.NABAt(p, t.nab, 0)
			severity := best.Threshold
			if best.Found+best.False == 0 {
				severity = 101 // nothing at all is best
			}
			l.NAB[p.Name] = nabMeasure{best.Score, severity, as.Score, best.Found, best.Windows, best.False}
		}
	}
	return *l
}

func printScores(out io.Writer, lines []scoreLine) {
	for _, l := range lines {
		fmt.Fprintf(out, "%s: %d series, %d samples, %d measured; detector %s (%s), %.0f s\n", l.Set, l.Series, l.Samples, l.Measured, l.Detector, l.Settings, l.Seconds)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		row := func(name, format string, args ...any) {
			fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
		}
		for _, p := range quality.Profiles {
			if m, ok := l.NAB[p.Name]; ok {
				row("NAB "+strings.ReplaceAll(p.Name, "_", " "), "%.1f from severity %.0f on (%d of %d windows, %d false); %.1f with all", m.Score, m.Severity, m.Found, m.Windows, m.False, m.Configured)
			}
		}
		if m := l.labelMeasures; m != nil {
			row("anomalies", "%d opened; %d of %d labelled ones found, %d false", l.Opened, m.Found, m.Runs, m.False)
			row("by sample", "precision %.3f, recall %.3f, F1 %.3f; point-adjusted F1 %.3f", m.Precision, m.Recall, m.F1, m.AdjustedF1)
			row("ranks", "AUC-ROC %.3f, average precision %.3f, means of %d series", m.AUC, m.AP, m.Ranked)
		}
		if l.Rates != nil {
			l.Rates.print(w)
		}
		if m := l.changeMeasures; m != nil {
			row("change points", "%d found; covering %.3f (%.3f for none), F1 %.3f (%.3f for none)", l.Opened, m.Covering, m.NoneCovering, m.ChangeF1, m.NoneF1)
		}
		w.Flush()
	}
}
