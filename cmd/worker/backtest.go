package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/cmd/internal/table"
	"odradek/detectors/quality"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/schemas/registry"

	"golang.org/x/term"
)

const backtestAbout = `Runs the configured detectors over recorded samples through the worker's own state, executor,
thresholds and anomalies, and writes a report: one HTML file without further files. It reads the samples from
CSV (.csv, .csv.gz), Parquet or Avro container files (.avro): columns and fields are named by
ODRADEK_KEY_FIELD, ODRADEK_TIME_FIELD and ODRADEK_VALUE_FIELDS, as for a topic. By default the key is the column
key, or the file's name where there is none, the time the column timestamp or time, the value the column value.

Rows are distributed by series key to -partitions lanes, as a producer would distribute them to a topic of that many
partitions, and a worker that read that topic would publish the same scores and anomalies, to the bit. Nothing is
published. An interrupt (Ctrl-C) ends the reading; tables and report have the results of the rows read before, and the
report says that it is partial. docs/backtest.md has an example.

-data reads a labelled data set instead (worker score -h says which), each series with a state of its own,
and measures the results against its labels by the rules of the set.`

const backtestExamples = `  ODRADEK_DETECTORS=level ODRADEK_DETECTOR_LEVEL_OP=zscore worker backtest -in readings.csv -report report.html
  worker backtest -in nab/data -labels nab/labels/combined_windows.json -anomalies anomalies.csv
  ODRADEK_KEY_FIELD=sensor worker backtest -in fleet/ -scores scores/ -anomalies anomalies.parquet
  worker backtest -data nab -series 'ec2_*' -report nab.html
  worker backtest -in-topic sensors -from 2026-11-01T00:00:00Z -to 2026-11-08T00:00:00Z`

// backtestOptions are the flags of `backtest`.
type backtestOptions struct {
	in                        stringList
	data, series              string
	labels, labelField        string
	report, scores, anomalies string
	topic                     string
	partitions, plots         int
	inTopic, from, to         string
	toTopic, published        string
	quiet                     bool
	numbered                  bool // published records have the number of their sample, as the worker's
}

// stringList is a flag that may be given several times.
type stringList []string

func (l *stringList) String() string { return strings.Join(*l, ", ") }

// Set appends a value.
func (l *stringList) Set(s string) error {
	*l = append(*l, s)
	return nil
}

func (t terminal) backtest(ctx context.Context, args []string) int {
	fs := t.flags("backtest", backtestAbout, backtestExamples)
	var o backtestOptions
	fs.Var(&o.in, "in", "file or folder to read; may be given several times; needed without -in-topic and -data")
	fs.StringVar(&o.data, "data", "", "folder of a labelled data set to read instead of files")
	fs.StringVar(&o.series, "series", "*", "with -data: read only series whose name, or last part of it, matches this pattern")
	fs.StringVar(&o.inTopic, "in-topic", "", "topic to read instead of files; no group is joined, nothing is committed")
	fs.StringVar(&o.from, "from", "earliest", "with -in-topic: where to begin: an offset of each partition, a time (RFC 3339), or earliest")
	fs.StringVar(&o.to, "to", "end", "with -in-topic: where to end, before an offset or the first record of a time (RFC 3339), or end")
	fs.StringVar(&o.toTopic, "to-topic", "", "publish, too, as the stream does: to the topics <name>-scores and <name>-anomalies")
	fs.StringVar(&o.published, "published", "", "with -in-topic: topic of published anomalies to compare with, such as <group>-anomalies")
	fs.StringVar(&o.labels, "labels", "", "file of labelled anomalies: CSV (series, from, to), JSON lines of worker generate, or NAB's "+
		"combined_windows.json")
	fs.StringVar(&o.labelField, "label-field", "", "column that is not 0 or false in rows that are anomalous")
	fs.StringVar(&o.report, "report", "backtest.html", "file for the report; empty for none")
	fs.StringVar(&o.scores, "scores", "",
		"file for the scores, .csv, .parquet or .avro; a name that ends with / is a folder of Parquet files, "+
			"a partition each")
	fs.StringVar(&o.anomalies, "anomalies", "", "file for the anomalies, .csv, .parquet or .avro")
	fs.StringVar(&o.topic, "topic", "backtest", "topic that the rows of files stand for: it is in the ids of anomalies")
	fs.IntVar(&o.partitions, "partitions", 64, "partitions to which the rows of files are distributed, by series key")
	fs.IntVar(&o.plots, "plots", 20, "series to draw in the report, at most")
	fs.BoolVar(&o.quiet, "quiet", false, "print no progress")
	if code, done := parse(fs, args); done {
		return code
	}
	if code := o.check(t.err); code != exitOK {
		return code
	}
	records, samples := config.MappingSettings()
	names := append(samples, "DETECTOR", "MISSING", "DUPLICATES", "EXECUTOR", "WORKERS", "CUDA")
	if o.data == "" { // a data set has no records
		names = append(withoutFormat(slices.Concat(names, records)), "MAPPING")
	}
	if o.inTopic != "" || o.toTopic != "" {
		names = append(names, "KAFKA", "SCHEMA", "PARTITION_BYTES", "MAX_FUTURE", "COMPRESSION", "MAX_MESSAGE", "REPLICATION")
	}
	if o.data != "" {
		set, err := openDataSet(t.environ, o.data, o.series, o.topic, names...)
		if err == nil {
			err = o.run(ctx, t, set.config, set)
		}
		if err != nil {
			return t.failSettings(err)
		}
		return exitOK
	}
	c, faults, warnings := config.Parse(t.environ)
	for _, w := range warnings {
		fmt.Fprintln(t.err, "warning:", w)
	}
	if faults = config.FaultsOf(faults, names); len(faults) > 0 {
		printFaults(t.err, faults)
		return exitUsage
	}
	o.numbered = c.AnyReadings()
	if err := o.run(ctx, t, c.ForTopic(cmp.Or(o.inTopic, o.topic)), nil); err != nil {
		return t.fail(err)
	}
	return exitOK
}

func (o *backtestOptions) check(w io.Writer) int {
	bad := func(format string, args ...any) int {
		fmt.Fprintf(w, "worker backtest: "+format+"\n", args...)
		return exitUsage
	}
	inputs := 0
	for _, given := range []bool{len(o.in) > 0, o.inTopic != "", o.data != ""} {
		if given {
			inputs++
		}
	}
	_, pattern := path.Match(o.series, "")
	switch {
	case inputs == 0:
		return bad("-in, -in-topic or -data is needed; worker backtest -h says what they may name")
	case inputs > 1:
		return bad("-in, -in-topic and -data exclude each other")
	case o.data != "" && (o.labels != "" || o.labelField != ""):
		return bad("a data set has labels of its own: leave -labels and -label-field out, or read its files with -in")
	case o.published != "" && o.inTopic == "":
		return bad("-published %s: anomalies are published of a topic: give -in-topic", o.published)
	case pattern != nil:
		return bad("-series %q: %v", o.series, pattern)
	case o.partitions < 1 || o.partitions > 4096:
		return bad("-partitions %d: use 1 to 4096", o.partitions)
	case o.plots < 0 || o.plots > 1000:
		return bad("-plots %d: use 0 to 1000", o.plots)
	case o.report == "" && o.scores == "" && o.anomalies == "" && o.toTopic == "":
		return bad("nothing is to be written: give -report, -scores, -anomalies or -to-topic")
	}
	if o.report != "" { // checked now, because it is written at the end of a long run
		if dir, err := os.Stat(filepath.Dir(o.report)); err != nil || !dir.IsDir() {
			return bad("-report %s: there is no such folder; make it, or name another", o.report)
		}
	}
	return exitOK
}

// run runs the backtest of the flags; set is the data set of -data, else nil.
func (o *backtestOptions) run(ctx context.Context, t terminal, c *config.Config, set *dataSet) (err error) {
	if c.HasReadings() && len(o.in) > 0 {
		return errors.New("backtest: " + config.Prefix + "READINGS_FIELD names an array in a record, and a row of a file has none: " +
			"read the topic with -in-topic, or unset it and name the columns of the rows")
	}
	state, err := c.KeystateConfig()
	if err != nil {
		return err
	}
	run := &backtest.Config{State: state, Plots: o.plots, Progress: new(table.Progress)}
	if o.report == "" {
		run.Plots = 0
	}
	state.Blocks = run.Plots > 0 // heatmaps are made of blocks
	if set != nil {
		set.makeBlocks(state.Blocks)
	}
	if o.labels != "" {
		if run.Labels, err = backtest.ReadLabels(o.labels); err != nil {
			return err
		}
	}
	if rekey := c.Output.Topics[cycle.Rekeyed]; o.inTopic != "" && c.Cycle.Rekey && o.inTopic != rekey {
		return fmt.Errorf("backtest: with ODRADEK_REKEY=true the worker scores what is in its internal topic, where all of a series is in "+
			"one partition: give -in-topic %s, or ODRADEK_REKEY=false if the key of each record of %s is its series", rekey, o.inTopic)
	}
	var client *kafka.Client
	var registry *registry.Client
	if o.inTopic != "" || o.toTopic != "" {
		var closeBoth func() error
		if client, registry, closeBoth, err = backtestCluster(ctx, c); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeBoth()) }()
	}
	fields := valueNames(c)
	switch {
	case o.inTopic != "":
		if o.published != "" {
			if run.Published, err = backtest.ReadPublished(ctx, client, c.FetchConfig(), o.published, o.inTopic); err != nil {
				return err
			}
		}
		run.Source, err = o.topicSource(ctx, c, state, client, registry)
		o.in = []string{"topic " + o.inTopic + ", from " + o.from + " to " + o.to}
	case set != nil:
		run.Source, run.State, fields = set.source, set.state, set.fields()
		o.in = []string{"data set " + o.data + ", series " + o.series}
	default:
		run.Source, err = o.fileSource(c, state)
	}
	if err != nil {
		return err
	}
	parts := len(run.Source.Partitions())
	var publish backtest.Publisher
	if o.toTopic != "" {
		if publish, err = topicPublisher(ctx, c, state, client, registry, o, parts); err != nil {
			return err
		}
	}
	log := newLogger(t.err, c, new(slog.LevelVar), page.NewFaults(1))
	if o.quiet {
		log = slog.New(slog.DiscardHandler)
	}
	exec, kind, err := newExecutor(c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	run.Executor = exec
	if run.Out, err = backtest.NewOutputs(o.scores, o.anomalies, parts, publish, c.HasReadings()); err != nil {
		return err
	}
	began := time.Now()
	stop := func() {}
	if !o.quiet {
		stop = run.Progress.Show(t.err, isTerminal(t.err))
	}
	s, err := backtest.Run(ctx, run)
	stop()
	var measures []quality.Result
	if set != nil && err == nil && s.Partial == "" {
		measures = set.results(s, time.Since(began))
	}
	if o.report != "" {
		r := backtest.Report{Title: "Backtest of " + title(o.in), Inputs: append([]string(nil), o.in...), Version: buildVersion(),
			Took: time.Since(began), Measures: measures}
		r.Settings = append(r.Settings, backtest.Setting{Detector: "executor", Settings: kind})
		for i := range s.Detectors {
			name := s.Detectors[i].Name
			changed := set.changed(name)
			if set == nil {
				changed = c.ChangedOf(name)
			}
			r.Settings = append(r.Settings, backtest.Setting{Detector: "detector " + name, Settings: changed})
		}
		err = errors.Join(err, writeReport(o.report, s, fields, r))
	}
	for _, line := range s.Lines(time.Since(began)) {
		fmt.Fprintln(t.out, line)
	}
	printScores(t.out, measures)
	if err == nil && s.Partial != "" {
		err = fmt.Errorf("backtest: %s: the results are of the %d rows read before", s.Partial, s.Rows)
	}
	return err
}

func (o *backtestOptions) fileSource(c *config.Config, state *state.Config) (backtest.Source, error) {
	paths, err := table.List(o.in)
	if err != nil {
		return nil, err
	}
	return backtest.NewFiles(paths, table.Options{Mapping: c.RecordMapping(), Label: o.labelField, Workers: runtime.GOMAXPROCS(0)},
		c.Series(), state, o.topic, o.partitions)
}

// valueNames returns the names of the values of a sample.
func valueNames(c *config.Config) []string {
	m := c.SchemaMapping()
	columns, err := m.Columns(nil)
	if err != nil {
		return nil
	}
	return m.ColumnNames(columns)
}

func title(in []string) string {
	names := make([]string, len(in))
	for i, p := range in {
		names[i] = filepath.Base(filepath.Clean(p))
	}
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
	}
	return strings.Join(names, ", ")
}

func writeReport(path string, s *backtest.Summary, fields []string, r backtest.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("backtest: %w", err)
	}
	return errors.Join(s.WriteReport(f, fields, r), f.Close())
}

// isTerminal reports whether w is a terminal, where a line can be overwritten.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
