package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/quality"
	"odradek/processor/state"
)

const scoreAbout = `Replays a labelled data set through the worker's own state, executor, thresholds and
anomalies, and prints how well they agree with the labels. The detectors are given by
ODRADEK_DETECTORS and ODRADEK_DETECTOR_<NAME>_...; every series gets the same ones, and is
scored on the CPU. It is worker backtest -data without a report.
Data sets: NAB (a folder with combined_windows.json), TCPD (with annotations.json), the UCR
Anomaly Archive (<name>_<train>_<begin>_<end>.txt), and pairs of tables <name>_train.csv,
<name>_test.csv with a column "label" in the latter (SMD, ASD, SMAP, MSL). docs/quality.md
says what the figures mean.`

const scoreExamples = `  ODRADEK_DETECTORS=lof ODRADEK_DETECTOR_LOF_OP=lof ODRADEK_DETECTOR_LOF_WINDOW=1024 worker score -data nab
  worker score -data smd -json
  worker score -rates -data smd
  worker score -data nab -scores peers   # peers/<series>.csv with a column for each program`

func (t terminal) score(ctx context.Context, args []string) int {
	fs := t.flags("score", scoreAbout, scoreExamples)
	dir := fs.String("data", "", "folder of the data set; needed")
	match := fs.String("series", "*", "replay only series whose name, or last part of it, matches this pattern")
	rates := fs.Bool("rates", false, "print how often scores of unlabelled samples exceed conformal thresholds of several rates,\n"+
		"over the rate: of the first 256 scores of a series, and of those after; in brackets, counting scores in a row once.\n"+
		"Then the same of single series. Without -data, of synthetic series")
	scores := fs.String("scores", "", "folder of tables <series>.csv with the scores of other programs, a named column each:\n"+
		"they are judged by ODRADEK_DETECTOR_<NAME>_THRESHOLD and the like, and measured, in place of the detectors' scores")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	labels := fs.Int("feedback", 0, "print what this number of labelled false alarms of a kind teaches: the share of later ones that is\n"+
		"removed, and the share of labelled anomalies that are lost. Known events are planted into the series, a run for\n"+
		"each shape, and labelled as false alarms; 0: do not")
	fields := fs.Bool("fields", false, "with -feedback, make each field of the data set a series of its own, as ODRADEK_SERIES_FIELDS does.\n"+
		"A labelled anomaly is of all fields of its series, and lost if no field finds it")
	if code, done := parse(fs, args); done {
		return code
	}
	if *dir == "" && !*rates {
		fmt.Fprintln(t.err, "worker score: -data is needed; worker score -h says what it may hold")
		return exitUsage
	}
	if _, err := path.Match(*match, ""); err != nil {
		fmt.Fprintf(t.err, "worker score: -series %q: %v\n", *match, err)
		return exitUsage
	}
	if *fields && *labels == 0 {
		fmt.Fprintln(t.err, "worker score: -fields is for -feedback")
		return exitUsage
	}
	if *rates && *scores != "" {
		fmt.Fprintln(t.err, "worker score: -rates is of detectors; leave out -scores")
		return exitUsage
	}
	if *rates {
		if err := t.rates(ctx, *dir, *match, *asJSON); err != nil {
			return t.failSettings(err)
		}
		return exitOK
	}
	if *labels != 0 {
		if *labels < 0 || *labels > 100 || *scores != "" || *asJSON {
			fmt.Fprintln(t.err, "worker score: -feedback is of 1 to 100 labels and prints a table, of detectors: leave out -scores and -json")
			return exitUsage
		}
		if err := t.lessons(ctx, *dir, *match, *labels, *fields); err != nil {
			return t.failSettings(err)
		}
		return exitOK
	}
	set, err := openScored(t.environ, *dir, *match, *scores)
	if err != nil {
		return t.failSettings(err)
	}
	exec := detectors.NewCPU(runtime.GOMAXPROCS(0))
	defer exec.Close()
	began := time.Now()
	s, err := backtest.Run(ctx, &backtest.Config{State: set.state, Executor: exec, Source: set.source})
	if err == nil && s.Partial != "" {
		err = fmt.Errorf("score: %s", s.Partial)
	}
	if err != nil {
		return t.fail(err)
	}
	lines := set.results(s, time.Since(began))
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

// dataSet is a labelled data set with the settings of its runs.
type dataSet struct {
	source  *backtest.DataSet
	name    string
	dim     int            // the most values of a sample
	config  *config.Config // of its first series, as is state
	state   *state.Config
	states  map[int]*state.Config // by the values of a series, as configs
	configs map[int]*config.Config
}

// settingsError has the faults of settings.
type settingsError []config.Fault

func (e settingsError) Error() string {
	return fmt.Sprintf("the configuration has %d fault(s)", len(e))
}

// failSettings prints an error, every fault of a settingsError on a line, and returns the
// exit code.
func (t terminal) failSettings(err error) int {
	var bad settingsError
	if !errors.As(err, &bad) {
		return t.fail(err)
	}
	printFaults(t.err, bad)
	return exitUsage
}

// openDataSet reads the series of a data set whose names match the pattern, and the settings
// in the lines of environ for each number of values that the series have. Beside the
// settings of detectors it checks those that begin with also.
func openDataSet(environ []string, dir, match, topic string, also ...string) (*dataSet, error) {
	name, format, kept, err := readSeries(dir, match)
	if err != nil {
		return nil, err
	}
	return newDataSet(environ, name, format, kept, topic, also...)
}

// openScored reads a data set as openDataSet does. With a folder of scores, its detectors are of
// op value, one for each program that the folder has scores of.
func openScored(environ []string, dir, match, scores string) (*dataSet, error) {
	name, format, kept, err := readSeries(dir, match)
	if err != nil {
		return nil, err
	}
	if scores != "" {
		programs, err := quality.ReadScores(scores, kept)
		if err != nil {
			return nil, err
		}
		environ = append(slices.Clone(environ), config.Prefix+"DETECTORS="+strings.Join(programs, ","))
		for i, program := range programs {
			prefix := config.DetectorPrefix(program)
			environ = append(environ, prefix+"OP=value", prefix+"FIELDS="+config.SeriesField(i))
		}
	}
	return newDataSet(environ, name, format, kept, "backtest")
}

// readSeries reads the series of a data set whose names match the pattern.
func readSeries(dir, match string) (name, format string, kept []quality.Series, err error) {
	format, all, err := quality.Read(dir)
	if err != nil {
		return "", "", nil, err
	}
	if kept = keepMatching(all, match); len(kept) == 0 {
		return "", "", nil, errors.New("no series matches")
	}
	return filepath.Base(filepath.Clean(dir)), format, kept, nil
}

func newDataSet(environ []string, name, format string, kept []quality.Series, topic string, also ...string) (*dataSet, error) {
	return newDataSetBy(func(int) []string { return environ }, name, format, kept, topic, also...)
}

// newDataSetBy is newDataSet with the environment of series by the number of their values.
func newDataSetBy(
	environOf func(dim int) []string,
	name, format string,
	kept []quality.Series,
	topic string,
	also ...string,
) (*dataSet, error) {
	states := map[int]*state.Config{}
	d := &dataSet{name: name, states: states, configs: map[int]*config.Config{}}
	var err error
	for i := range kept {
		dim := kept[i].Dim
		environ := environOf(dim)
		given, _, _ := config.Parse(environ)
		if dim > 1 && len(given.Mapping.SeriesFields) > 0 {
			return nil, fmt.Errorf("score: %sSERIES_FIELDS makes each field a series of its own, and the %d values of a sample of %s have their "+
				"labels together: unset it, or choose series of one value (-series)", config.Prefix, dim, kept[i].Name)
		}
		d.dim = max(d.dim, dim)
		if states[dim] != nil {
			continue
		}
		c, faults := config.ParseSeries(environ, dim, also...)
		if len(faults) > 0 {
			return nil, settingsError(faults)
		}
		if states[dim], err = c.KeystateConfig(); err != nil {
			return nil, err
		}
		d.configs[dim] = c
		if d.config == nil {
			d.config, d.state = c, states[dim]
		}
	}
	d.source = backtest.NewDataSet(kept, format, topic, states)
	return d, nil
}

// makeBlocks sets whether detectors make blocks of their windows.
func (d *dataSet) makeBlocks(yes bool) {
	for _, s := range d.states {
		s.Blocks = yes
	}
}

// fields returns the names of the values of a sample.
func (d *dataSet) fields() []string {
	var names []string
	for i := range d.dim {
		names = append(names, config.SeriesField(i))
	}
	return names
}

// changed returns the settings of a detector that are not their defaults, for each number of values whose series have
// others.
func (d *dataSet) changed(detector string) string {
	if d == nil {
		return ""
	}
	var all, texts []string
	for _, dim := range slices.Sorted(maps.Keys(d.configs)) {
		if s := d.configs[dim].ChangedOf(detector); s != "" {
			all, texts = append(all, fmt.Sprintf("of %d values: %s", dim, s)), append(texts, s)
		}
	}
	if texts = slices.Compact(texts); len(texts) == 1 {
		return texts[0]
	}
	return strings.Join(all, "; ")
}

// results returns the measures of a run and the time that it took.
func (d *dataSet) results(s *backtest.Summary, took time.Duration) []quality.Result {
	lines := d.source.Measures()
	for i := range lines {
		l := &lines[i]
		l.Set, l.Seconds = d.name, took.Seconds()
		if i < len(s.Detectors) {
			l.Settings, l.NotJudged = d.changed(s.Detectors[i].Name), s.Detectors[i].NotJudged()
		} else if preset, _ := d.config.Expanded(); preset != "" {
			l.Settings = "PRESET=" + preset
		}
	}
	return lines
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

func printScores(out io.Writer, lines []quality.Result) {
	for _, l := range lines {
		fmt.Fprintf(out, "%s: %d series, %d samples, %d measured; detector %s (%s), %.0f s\n", l.Set, l.Series, l.Samples, l.Measured, l.Detector,
			l.Settings, l.Seconds)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range l.Rows() {
			fmt.Fprintf(w, "  %s\t%s\n", row[0], row[1])
		}
		w.Flush()
	}
}
