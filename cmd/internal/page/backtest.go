package page

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/schemas/registry"
)

// This file shows what another sensitivity would have found in a series: a backtest of the settings in force beside it, over the records
// that the topic still has.

// Limits of a backtest.
const (
	usualBacktest, leastBacktest, mostBacktest = 50_000, 100, 100_000 // samples of the series

	backtestTimeout  = 40 * time.Second // with the search for the series, and the brokers
	backtestAnswered = 1000             // anomalies of a side
	// backtestFetch is how much is asked for at a time: less than a worker's, whose records have the brokers' time first.
	backtestFetch = 256 << 10
)

// usualBounds are the others.
var usualBounds = backtestBounds{records: 1_000_000, bytes: budget, time: 20 * time.Second}

type backtestBounds struct {
	records, bytes int64
	time           time.Duration // of reading and scoring
}

// Backtests is what an Explorer needs for backtests.
type Backtests struct {
	Started  *config.Config
	Settings func() *config.Config // in force
	Registry *registry.Client      // nil without one
}

// BacktestQuery selects a series and a sensitivity.
type BacktestQuery struct {
	Key         string
	Topic       string // input topic of the series; "": where its newest anomaly or score is from
	Partition   *int32 // of the input topic; nil: as for Topic
	Sensitivity string // low, normal or high
	Samples     int    // of the series, at most
}

// Backtest compares the settings in force with another sensitivity on the records of a series. Times are milliseconds since 1970.
type Backtest struct {
	Key       string       `json:"key" doc:"Series key."`
	Topic     string       `json:"topic" doc:"The topic that was read: the input topic, or with REKEY the internal one."`
	Partition int32        `json:"partition" doc:"Its partition."`
	Before    BacktestSide `json:"before" doc:"With the settings in force."`
	After     BacktestSide `json:"after" doc:"With the sensitivity that was asked for."`
	Setting   string       `json:"setting" doc:"The line that sets it: of the settings file, or an environment variable. A worker takes up the file without a restart."`
	From      time.Time    `json:"from" doc:"Event time of the first sample of the series that was read."`
	To        time.Time    `json:"to" doc:"Event time of the last one."`
	Samples   int64        `json:"samples" doc:"Samples of the series that were read."`
	Records   int64        `json:"records" doc:"Records of the partition that were read, of all series."`
	Bytes     int64        `json:"bytes" doc:"Bytes of their keys and values."`
	Cut       string       `json:"cut,omitempty" doc:"Which records the topic has beside those that were read, and which bound left them out; absent where all were read."`
	Fields    []string     `json:"fields" doc:"Value fields, in the order of low and high: six at most."`
	Times     []float64    `json:"times" doc:"Beginnings of stretches of equal length, 1024 at most, in ms since 1970; those without a sample are left out."`
	Low       [][]Number   `json:"low" doc:"For each field, the lowest value of each stretch."`
	High      [][]Number   `json:"high" doc:"For each field, the highest value of each stretch."`
	Notes     []string     `json:"notes" doc:"What is missing, and why."`
}

// BacktestSide has what some settings find.
type BacktestSide struct {
	Sensitivity  string            `json:"sensitivity" doc:"low, normal or high."`
	Faults       int               `json:"faults" doc:"Faults that the anomalies are of."`
	Total        int               `json:"total" doc:"Anomalies, whether listed or not."`
	Days         float64           `json:"days" doc:"Days of event time that were judged: the first samples only warm up."`
	AlarmsPerDay Number            `json:"alarms_per_day" doc:"Anomalies for each day that was judged; null where none was."`
	Anomalies    []BacktestAnomaly `json:"anomalies" doc:"The last 1000 of them, in the order in which they opened."`
}

// BacktestAnomaly is an anomaly of a backtest.
type BacktestAnomaly struct {
	Detector string    `json:"detector" doc:"Name of the detector."`
	Severity int       `json:"severity" doc:"0 to 100."`
	Band     string    `json:"band" doc:"info, minor, major or critical."`
	Start    time.Time `json:"start" doc:"Event time of its first sample."`
	End      time.Time `json:"end" doc:"Event time of its last sample."`
	Fault    string    `json:"fault" doc:"Id of its fault."`
	Open     bool      `json:"open" doc:"It is open where the reading ends."`
	Both     bool      `json:"both" doc:"The other side has an anomaly at the same time."`
}

// Backtest implements DataSource. One runs at a time, with a client of its own, on one core that it leaves alone half of the time.
func (e *Explorer) Backtest(ctx context.Context, q *BacktestQuery) (*Backtest, error) {
	e.ask()
	if e.c.Backtests == nil {
		return nil, errors.New("page: this worker runs no backtests")
	}
	select {
	case e.testing <- struct{}{}:
		defer func() { <-e.testing }()
	default:
		return nil, errors.New("page: another backtest is running in this worker; ask again when it has ended")
	}
	tp, key, err := e.sourceOf(ctx, q)
	if err != nil {
		return nil, err
	}
	now, other, err := e.c.Backtests.sides(tp.Topic, q.Sensitivity)
	if err != nil {
		return nil, err
	}
	kafkaConfig, err := e.c.Backtests.Started.KafkaConfig()
	if err != nil {
		return nil, err
	}
	client, err := kafka.Open(ctx, kafkaConfig)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	run, err := e.c.Backtests.run(client, tp.Topic, now, other)
	if err != nil {
		return nil, err
	}
	defer run.Executor.Close()
	run.Partition, run.Key, run.Samples = tp.Partition, key, int64(q.Samples)
	run.Records, run.Bytes, run.Time = e.limits.records, e.limits.bytes, e.limits.time
	r, err := backtest.RunSeries(ctx, run)
	if err != nil {
		return nil, err
	}
	switch {
	case r.First == r.End:
		return nil, &Error{http.StatusNotFound, fmt.Sprintf("page: %s has no records: its retention has deleted them, or none were written", tp)}
	case r.Samples == 0:
		return nil, &Error{http.StatusNotFound, fmt.Sprintf("page: none of the last %d records of %s is of series %q", r.Records, tp, q.Key)}
	}
	out := &Backtest{Key: q.Key, Topic: tp.Topic, Partition: tp.Partition, Setting: e.c.Backtests.Started.SensitivityLine(q.Sensitivity),
		From: TimeOf(r.Oldest), To: TimeOf(r.Newest), Samples: r.Samples, Records: r.Records, Bytes: r.Bytes, Cut: cut(r, q.Samples),
		Before: side(now.Detect.Sensitivity, &r.Courses[0]), After: side(q.Sensitivity, &r.Courses[1]), Notes: r.Troubles}
	out.Notes = append([]string{}, out.Notes...)
	mark(out.Before.Anomalies, out.After.Anomalies)
	mark(out.After.Anomalies, out.Before.Anomalies)
	if r.Courses[0].Days == 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Nothing was judged: %d samples are too few for the detectors' windows and histories.",
			r.Samples))
	}
	out.draw(r, e.c.input(tp.Topic).Fields)
	return out, nil
}

// sourceOf returns the partition that has the records of a series, and its key as it is there.
func (e *Explorer) sourceOf(ctx context.Context, q *BacktestQuery) (tp kafka.TP, key []byte, err error) {
	if q.Topic == "" || q.Partition == nil {
		r := &reading{e: e, key: q.Key, scope: scopeOf(q.Topic, q.Partition), out: &Series{}}
		r.fetcher = kafka.NewFetcher(e.c.Client, kafka.FetchConfig{ReadCommitted: true})
		defer r.fetcher.Close()
		err := r.find(ctx, "")
		return r.anchor, r.raw, err
	}
	topics := e.c.Backtests.Started.Scored()
	if !slices.Contains(topics, q.Topic) {
		return tp, nil, &Error{http.StatusNotFound, fmt.Sprintf("page: %q is none of the topics that are scored: %s", q.Topic,
			strings.Join(topics, ", "))}
	}
	infos, err := e.c.Client.Admin.Topics(ctx, q.Topic)
	if err != nil {
		return tp, nil, fmt.Errorf("page: topic %q: %w", q.Topic, err)
	}
	if n := infos[q.Topic].Partitions; int(*q.Partition) >= n {
		return tp, nil, &Error{http.StatusNotFound, fmt.Sprintf("page: topic %q has %d partitions, the first is 0", q.Topic, n)}
	}
	return kafka.TP{Topic: q.Topic, Partition: *q.Partition}, keyOf(q.Key), nil
}

// keyOf returns the key that seriesOf writes as text.
func keyOf(text string) []byte {
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		if key, err := hex.DecodeString(digits); err == nil && !utf8.Valid(key) {
			return key
		}
	}
	return []byte(text)
}

// sides returns the settings of a topic in force, and with another sensitivity.
func (b *Backtests) sides(topic, sensitivity string) (now, other *config.Config, err error) {
	all := b.Settings()
	if now = all.ForTopic(topic); now.Detect.Preset == "" {
		return nil, nil, &Error{http.StatusConflict, "page: ODRADEK_DETECTORS names the detectors, and a sensitivity is for those of " +
			"ODRADEK_PRESET: change THRESHOLD or ALARMS_PER_DAY of the detectors, and try them with worker backtest"}
	}
	if all, err = all.WithSensitivity(sensitivity); err != nil {
		return nil, nil, err
	}
	return now, all.ForTopic(topic), nil
}

// run returns a run of a series of a topic by two settings. The caller closes its executor.
func (b *Backtests) run(client *kafka.Client, topic string, now, other *config.Config) (*backtest.SeriesConfig, error) {
	reading, err := now.Reading()
	if err != nil {
		return nil, err
	}
	dec, err := b.Started.ForTopic(topic).Former(b.Registry)(&reading)
	if err != nil {
		return nil, err
	}
	var both []*state.Config
	for _, c := range []*config.Config{now, other} {
		s, err := c.KeystateConfig()
		if err != nil {
			return nil, err
		}
		both = append(both, s)
	}
	fetch := now.FetchConfig()
	fetch.PartitionBytes, fetch.MaxBytes = min(fetch.PartitionBytes, backtestFetch), backtestFetch
	return &backtest.SeriesConfig{Settings: both, Executor: detectors.NewCPU(1), Topic: &backtest.TopicConfig{Client: client, Fetch: fetch,
		Decoder: dec, Series: now.Series(), State: both[0], Topic: topic, MaxFuture: now.Keys.MaxFuture, Patience: time.Second}}, nil
}

// cut says which records were not read, and why; "" where all were.
func cut(r *backtest.SeriesResult, samples int) string {
	var why string
	switch r.Bound {
	case backtest.SamplesBound:
		why = fmt.Sprintf("%d samples are the most that were asked for", samples)
	case backtest.RecordsBound:
		why = "more records than are read at once"
	case backtest.BytesBound:
		why = "more bytes than are read at once"
	case backtest.TimeBound:
		why = "the time was over"
	default:
		return ""
	}
	var words []string
	if n := r.From - r.First; n > 0 {
		words = append(words, fmt.Sprintf("the %d offsets before", n))
	}
	if n := r.End - r.Until; n > 0 {
		words = append(words, fmt.Sprintf("the newest %d offsets", n))
	}
	return "Not read: " + strings.Join(words, " and ") + " (" + why + ")."
}

func side(sensitivity string, c *backtest.Course) BacktestSide {
	s := BacktestSide{Sensitivity: sensitivity, Faults: c.Faults, Total: len(c.Anomalies), Days: c.Days, AlarmsPerDay: none,
		Anomalies: []BacktestAnomaly{}}
	if c.Days > 0 {
		s.AlarmsPerDay = Number(float64(s.Total) / c.Days)
	}
	for i := max(0, s.Total-backtestAnswered); i < s.Total; i++ {
		e := &c.Anomalies[i]
		a := &e.Change.Anomaly
		s.Anomalies = append(s.Anomalies, BacktestAnomaly{Detector: e.Name, Severity: int(a.Severity), Band: threshold.Band(a.Severity),
			Start: TimeOf(a.Start), End: TimeOf(a.End), Fault: fmt.Sprintf("%x", a.Fault), Open: !backtest.Over(e)})
	}
	return s
}

// mark notes of the anomalies of a side which of them the other side has, too.
func mark(own, others []BacktestAnomaly) {
	for i := range own {
		a := &own[i]
		a.Both = slices.ContainsFunc(others, func(o BacktestAnomaly) bool { return !o.Start.After(a.End) && !o.End.Before(a.Start) })
	}
}

// draw adds what is drawn of the values.
func (b *Backtest) draw(r *backtest.SeriesResult, names []string) {
	numbers := func(list []float64) []Number {
		out := make([]Number, len(list))
		for i, v := range list {
			out[i] = Number(v)
		}
		return out
	}
	b.Fields, b.Times, b.Low, b.High = []string{}, []float64{}, [][]Number{}, [][]Number{}
	for _, t := range r.Curve.Times {
		b.Times = append(b.Times, math.Floor(float64(t)/1000))
	}
	for i := range r.Curve.Low {
		name := strconv.Itoa(i)
		if i < len(names) {
			name = names[i]
		}
		b.Fields, b.Low, b.High = append(b.Fields, name), append(b.Low, numbers(r.Curve.Low[i])), append(b.High, numbers(r.Curve.High[i]))
	}
}
