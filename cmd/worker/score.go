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

	"odradek/cmd/worker/quality"
	"odradek/cmd/worker/replay"
)

const scoreAbout = `Replays a labelled data set through the worker's own state, executor, thresholds and
anomalies, and says how well they agree with the labels. The detectors are those of
ODRADEK_DETECTORS and ODRADEK_DETECTOR_<NAME>_...; every series gets the same ones.
Data sets: NAB (a folder with combined_windows.json), TCPD (with annotations.json), the
UCR Anomaly Archive (<name>_<train>_<begin>_<end>.txt), and pairs of tables <name>_train.csv, <name>_test.csv with a column "label" in the latter
(SMD, ASD, SMAP, MSL). docs/quality.md says what the figures mean.`

const scoreExamples = `  ODRADEK_DETECTORS=lof ODRADEK_DETECTOR_LOF_OP=lof ODRADEK_DETECTOR_LOF_WINDOW=1024 worker score -data nab
  worker score -data smd -json`

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
	lines, err := replay.Score(ctx, t.environ, filepath.Base(filepath.Clean(*dir)), format, keepMatching(set, *match))
	var bad *replay.ConfigError
	switch {
	case errors.As(err, &bad):
		printFaults(t.err, bad.Faults)
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

func printScores(out io.Writer, lines []replay.Result) {
	for _, l := range lines {
		fmt.Fprintf(out, "%s: %d series, %d samples, %d measured; detector %s (%s), %.0f s\n", l.Set, l.Series, l.Samples, l.Measured, l.Detector,
			l.Settings, l.Seconds)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		row := func(name, format string, args ...any) {
			fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
		}
		for _, p := range quality.Profiles {
			if m, ok := l.NAB[p.Name]; ok {
				row("NAB "+strings.ReplaceAll(p.Name, "_", " "), "%.1f from severity %.0f on (%d of %d windows, %d false); %.1f with all", m.Score,
					m.Severity, m.Found, m.Windows, m.False, m.Configured)
			}
		}
		if m := l.LabelMeasures; m != nil {
			if l.UCR != nil {
				row("highest score", "at the anomaly of %d of %d series, %.3f", *l.UCR, l.Series, float64(*l.UCR)/float64(l.Series))
			}
			row("anomalies", "%d opened; %d of %d labelled ones found, %d false", l.Opened, m.Found, m.Runs, m.False)
			row("by sample", "precision %.3f, recall %.3f, F1 %.3f; point-adjusted F1 %.3f", m.Precision, m.Recall, m.F1, m.AdjustedF1)
			row("ranks", "AUC-ROC %.3f, average precision %.3f, means of %d series", m.AUC, m.AP, m.Ranked)
		}
		if l.Rates != nil {
			printRates(w, l.Rates)
		}
		if m := l.ChangeMeasures; m != nil {
			row("change points", "%d found; covering %.3f (%.3f for none), F1 %.3f (%.3f for none)", l.Opened, m.Covering,
				m.NoneCovering, m.ChangeF1, m.NoneF1)
		}
		w.Flush()
	}
}

func printRates(w io.Writer, m *replay.RateMeasures) {
	first, firstRuns := m.First.Times(m.Asked)
	after, afterRuns := m.After.Times(m.Asked)
	fmt.Fprintf(w,
		"  false alarms\t%.2f times the rate of %v in the first %d scores of a series, %.2f times after; counting runs %.2f and %.2f\n",
		first, m.Asked, replay.FirstScores, after, firstRuns, afterRuns)
}
