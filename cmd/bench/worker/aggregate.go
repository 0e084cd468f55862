package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// Aggregate: a backlog of many series becomes a record for each series and minute, its mean, beside Kafka Streams and
// Redpanda Connect. A reading is JSON, every 15 seconds; the last one of a series only ends its last minute.

const (
	aggregateSeries  = 1_000_000
	aggregateMinutes = 2
	aggregateReads   = 4                                   // readings of a series in a minute
	aggregateEach    = aggregateReads*aggregateMinutes + 1 // readings of a series
	aggregateStart   = int64(1_767_225_600_000)            // milliseconds since 1970, the start of a minute
	aggregateStep    = int64(60_000 / aggregateReads)      // milliseconds between readings of a series
	aggregateLimit   = 20 * time.Minute                    // for one run
	aggregateKey     = "press-%07d/bearing"
	aggregateReading = `{"ts":%d,"value":%v,"unit":"degrees Celsius"}`
)

// aggregateInput is a topic of readings and the numbers of the series in each of its partitions.
type aggregateInput struct {
	*testbed.Input
	series [][]int32
	number int
}

// aggregateValue returns the k-th value of a series. Their means are exact, also as the float32 that windows have.
func aggregateValue(series int32, k int) float64 {
	h := (uint64(series)*aggregateEach + uint64(k)) * 0x9e3779b97f4a7c15
	return float64(h>>48) * 0.75
}

// aggregateMean returns the mean of a series in a minute.
func aggregateMean(series int32, minute int) float64 {
	sum := 0.0
	for k := range aggregateReads {
		sum += aggregateValue(series, minute*aggregateReads+k)
	}
	return sum / aggregateReads
}

// newAggregateInput writes the readings of a number of series in order of event time.
func (b *Bench) newAggregateInput(ctx context.Context, number int) (*aggregateInput, error) {
	topic, err := b.NewEmptyInput(ctx, "aggregate", testbed.Partitions)
	if err != nil {
		return nil, err
	}
	in := &aggregateInput{Input: topic, series: make([][]int32, testbed.Partitions), number: number}
	for s := range int32(number) {
		p := kafka.Partition(fmt.Appendf(nil, aggregateKey, s), testbed.Partitions)
		in.series[p] = append(in.series[p], s)
	}
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.Cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	errs := make([]error, testbed.Partitions)
	var wg sync.WaitGroup
	for p := range in.series {
		wg.Go(func() { errs[p] = in.fill(ctx, client, int32(p)) })
	}
	wg.Wait()
	in.Records = number * aggregateEach
	b.Say("wrote %d records of %d series to %s", in.Records, number, in.Topic)
	return in, errors.Join(errs...)
}

func (in *aggregateInput) fill(ctx context.Context, client *kafka.Client, p int32) error {
	const round = 1 << 15 // records between acknowledgements
	prod := client.NewProducer(kafka.ProducerConfig{})
	if err := prod.Init(ctx); err != nil {
		return err
	}
	out := record.NewBatches(testbed.BatchBytes, record.CodecNone)
	var key, value []byte
	for k := range aggregateEach {
		for i, s := range in.series[p] {
			at := aggregateStart + int64(k)*aggregateStep + int64(i)*aggregateStep/int64(len(in.series[p]))
			key = fmt.Appendf(key[:0], aggregateKey, s)
			value = fmt.Appendf(value[:0], aggregateReading, at, aggregateValue(s, k))
			if err := out.Append(time.Now().UnixMilli(), key, value, nil); err != nil {
				return err
			}
			if last := k == aggregateEach-1 && i == len(in.series[p])-1; out.Count() == round || last {
				if err := prod.Produce(ctx, map[kafka.TP]*record.Batches{{Topic: in.Topic, Partition: p}: out}); err != nil {
					return err
				}
				out.Reset()
			}
		}
	}
	return nil
}

// verify reads the means of a topic and compares them with the input: each series and minute once. decode returns the minute's
// start, in milliseconds since 1970.
func (in *aggregateInput) verify(ctx context.Context, b *Bench, topic string, decode func([]byte) (int64, float64, error)) error {
	if err := b.Cluster.Admin().WaitStable(ctx, topic); err != nil {
		return err
	}
	seen, n := make([]bool, in.number*aggregateMinutes), 0
	err := b.Cluster.Admin().Read(ctx, topic, true, func(r *kafkatest.Record) error {
		at, mean, err := decode(r.Value)
		if err != nil {
			return err
		}
		var s int32
		if _, err := fmt.Sscanf(string(r.Key), aggregateKey, &s); err != nil {
			return fmt.Errorf("key %q: %w", r.Key, err)
		}
		minute := int(at-aggregateStart) / 60_000
		if s < 0 || int(s) >= in.number || minute < 0 || minute >= aggregateMinutes || (at-aggregateStart)%60_000 != 0 {
			return fmt.Errorf("a mean of series %d at %d, where none is: %q", s, at, r.Value)
		}
		if seen[int(s)*aggregateMinutes+minute] {
			return fmt.Errorf("a second mean of series %d, minute %d", s, minute)
		}
		seen[int(s)*aggregateMinutes+minute] = true
		if want := aggregateMean(s, minute); mean != want {
			return fmt.Errorf("series %d, minute %d: mean %v, want %v", s, minute, mean, want)
		}
		n++
		return nil
	})
	if err == nil && n != len(seen) {
		err = fmt.Errorf("%d means of %d", n, len(seen))
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", topic, err)
	}
	b.Say("verified: %d means in %s", n, topic)
	return nil
}

// decodeMean reads a peer's output.
func decodeMean(value []byte) (at int64, mean float64, err error) {
	var m struct {
		Start int64
		Mean  float64
	}
	err = json.Unmarshal(value, &m)
	return m.Start, m.Mean, err
}

// decodeMeanScore reads the worker's output: op value's score is the mean itself.
func decodeMeanScore(value []byte) (at int64, mean float64, err error) {
	s, err := output.DecodeScore(value)
	return s.EventTime / 1000, s.Score, err
}

// aggregated is one run.
type aggregated struct {
	testbed.Pace
	short error   // why there is no pace
	peak  float64 // most resident bytes
}

// aggregator is a program that aggregates.
type aggregator struct {
	name string
	run  func(ctx context.Context, in *aggregateInput, name string) (aggregated, error)
	err  error // why it cannot run

	rates, cpus, peaks, per []float64
	others                  float64
}

// Aggregate measures how fast a backlog of many series is aggregated to a mean a minute, and in how much memory.
func (b *Bench) Aggregate(ctx context.Context) ([]testbed.Row, error) {
	number := b.Scale(aggregateSeries)
	if b.Series > 0 {
		number = b.Series
	}
	few, err := b.newAggregateInput(ctx, number/10)
	if err != nil {
		return nil, err
	}
	all, err := b.newAggregateInput(ctx, number)
	if err != nil {
		return nil, err
	}
	programs := []*aggregator{{name: "worker", run: b.aggregateWorker}}
	if b.Peers {
		programs = append(programs, b.streamsAggregator(ctx), b.connectAggregator(ctx))
	}
	for i := range b.Repeat {
		for _, a := range programs {
			if a.err == nil {
				a.err = a.measure(ctx, b, few, all, strconv.Itoa(i))
			}
			if a.err != nil && (a.name == "worker" || ctx.Err() != nil) {
				return nil, a.err
			}
		}
	}
	return aggregateRows(programs, all, b.Cluster.Kind), nil
}

// measure runs the program on both inputs, so that memory of a series can be told from what the program has anyhow.
func (a *aggregator) measure(ctx context.Context, b *Bench, few, all *aggregateInput, name string) error {
	small, err := a.run(ctx, few, "few-"+name)
	if err != nil {
		return err
	}
	r, err := a.run(ctx, all, "all-"+name)
	if err = errors.Join(err, r.short); err != nil {
		return err
	}
	b.Say("aggregate, %s: %v; %s MB at most, %s MB with %d series", a.name, r.Pace, testbed.Figure(r.peak/1e6), testbed.Figure(small.peak/1e6),
		few.number)
	a.rates, a.cpus, a.peaks = append(a.rates, r.Rate), append(a.cpus, r.CPU), append(a.peaks, r.peak/1e6)
	a.per = append(a.per, (r.peak-small.peak)/float64(all.number-few.number))
	a.others = max(a.others, r.Others)
	return nil
}

func aggregateRows(programs []*aggregator, in *aggregateInput, kind string) []testbed.Row {
	cases := []struct {
		name, unit string
		values     func(*aggregator) []float64
		lower      bool
	}{
		{"rate", "records/s", func(a *aggregator) []float64 { return a.rates }, false},
		{"cpu", "ns/record", func(a *aggregator) []float64 { return a.cpus }, true},
		{"memory", "MB", func(a *aggregator) []float64 { return a.peaks }, true},
		{"memory of a series", "bytes", func(a *aggregator) []float64 { return a.per }, true},
	}
	var rows []testbed.Row
	for _, c := range cases {
		ours, spread := testbed.Median(c.values(programs[0]))
		r := testbed.NewRow(c.name, ours, c.unit).Noted("%d series, %d records each, %d means each, %s; by turns, median of %d, spread %.0f%%",
			in.number, aggregateEach, aggregateMinutes, kind, len(programs[0].rates), spread)
		disturbed := 0.0
		for _, a := range programs {
			disturbed = max(disturbed, a.others)
		}
		if disturbed > testbed.MaxOthers {
			r = r.Noted("DISTURBED: other processes took up to %.0f%% of the cores", 100*disturbed)
		}
		if len(programs) == 1 {
			rows = append(rows, r)
		}
		for _, a := range programs[1:] {
			if a.err != nil {
				rows = append(rows, r.Without(a.name, a.err))
				continue
			}
			theirs, spread := testbed.Median(c.values(a))
			rows = append(rows, r.Against(a.name, theirs, c.lower).Noted("the baseline's %.0f%%", spread))
		}
	}
	return rows
}

// aggregateWorker runs a worker with op value, which publishes each mean as a score.
func (b *Bench) aggregateWorker(ctx context.Context, in *aggregateInput, name string) (r aggregated, err error) {
	set := func(name, value string) string { return config.Prefix + name + "=" + value }
	w, err := b.StartWorker(in.Input, in.Topic+"-"+name, set("FORMAT", "json"), set("KEY_FIELD", "@key"), set("EVERY", "1m"),
		set("DETECTOR_LEVEL_OP", "value"), set("DETECTOR_LEVEL_WINDOW", "1"))
	if err != nil {
		return r, err
	}
	defer w.Kill()
	defer b.Drop(w.Scores, w.Group+"-anomalies", w.Changelog, w.Group+"-dlq", w.Group+"-late")
	if err := w.Ready(ctx); err != nil {
		return r, err
	}
	if b.Profile != "" {
		go b.SaveProfile(w, "aggregate-"+name+".cpu", b.Span(8*time.Second))
	}
	if r, err = b.aggregateWatch(ctx, in, w.Process, w.Consumed); err != nil {
		return r, err
	}
	b.SayCycles(w)
	if err := in.verify(ctx, b, w.Scores, decodeMeanScore); err != nil {
		return r, err
	}
	return r, w.Stop(30 * time.Second)
}

// aggregateWatch watches a process until it has read the input.
func (b *Bench) aggregateWatch(ctx context.Context, in *aggregateInput, p *testbed.Process,
	count func() (int64, error)) (r aggregated, err error) {
	ticks, err := b.Watch(ctx, p, int64(in.Records), aggregateLimit, count)
	if err != nil {
		return r, err
	}
	r.peak = float64(p.PeakBytes())
	r.Pace, r.short = testbed.Steady(ticks, 0.01, 1) // all of it: a minute's end costs more than the rest
	return r, nil
}

// aggregatePeer runs a peer whose standard output is its count of records.
func (b *Bench) aggregatePeer(ctx context.Context, in *aggregateInput, name, out, program string,
	args ...string) (r aggregated, err error) {
	if err := b.Cluster.Admin().CreateTopic(ctx, out, testbed.Partitions, 0, nil); err != nil {
		return r, err
	}
	defer b.Drop(out)
	var counter testbed.Counter
	p, err := b.Spawn(name, os.Environ(), &counter, program, args...)
	if err != nil {
		return r, err
	}
	defer p.Kill()
	if r, err = b.aggregateWatch(ctx, in, p, func() (int64, error) { return counter.Records.Load(), nil }); err != nil {
		return r, err
	}
	if err := testbed.Pause(ctx, 2*time.Second); err != nil { // until the end is committed
		return r, err
	}
	return r, in.verify(ctx, b, out, decodeMean)
}

func (b *Bench) streamsAggregator(ctx context.Context) *aggregator {
	classes, err := b.buildStreams(ctx)
	return &aggregator{name: "kafka-streams", err: err, run: func(ctx context.Context, in *aggregateInput, name string) (aggregated, error) {
		app := in.Topic + "-streams-" + name
		defer b.Drop(app+"-minutes-changelog", app+"-KTABLE-SUPPRESS-STATE-STORE-0000000004-changelog")
		defer os.RemoveAll(filepath.Join(b.Dir, "state-"+app))
		return b.aggregatePeer(ctx, in, "kafka-streams", app+"-means", javaProgram("java"), "-Xmx4g", "-cp", classes, "Aggregate",
			strings.Join(b.Cluster.Brokers, ","), app, strconv.Itoa(max(2, b.Procs)), in.Topic, app+"-means", "0", b.Compression())
	}}
}

func (b *Bench) connectAggregator(ctx context.Context) *aggregator {
	program, err := b.buildConnect(ctx)
	a := &aggregator{name: "redpanda-connect", err: err}
	a.run = func(ctx context.Context, in *aggregateInput, name string) (aggregated, error) {
		out := in.Topic + "-connect-" + name + "-means"
		return b.aggregatePeer(ctx, in, "redpanda-connect", out, program, strings.Join(b.Cluster.Brokers, ","), in.Topic, out,
			b.Compression())
	}
	return a
}

// buildConnect compiles the program in docs/benchmarks/peers/redpanda-connect, whose module is its own.
func (b *Bench) buildConnect(ctx context.Context) (program string, err error) {
	src, err := filepath.Abs(b.Connect)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(src); err == nil && info.Mode().IsRegular() {
		return src, nil
	}
	missing := func(err error) error { return &kafkatest.MissingError{What: "Redpanda Connect program", Err: err} }
	if _, err := exec.LookPath("go"); err != nil {
		return "", missing(errors.New("no go: install Go, or set -connect to the built program"))
	}
	program = filepath.Join(b.Dir, "redpanda-connect")
	if err := runQuietly(ctx, src, "go", "build", "-o", program, "."); err != nil {
		return "", missing(err)
	}
	return program, nil
}
