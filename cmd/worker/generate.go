package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/cmd/internal/sensors"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/output"
)

// generateOptions are the flags of `generate`.
type generateOptions struct {
	sensors.Options
	stream      string
	series      int
	history     time.Duration
	partitions  int
	replication int
	seed        uint64
	start       string
	fromNow     bool // event time begins when the brokers have answered
	faults      string
	faultEvery  int64
	labels      string
	http        string
	force       bool
	format      string
	plant, unit string
}

func (t terminal) generate(ctx context.Context, args []string) int {
	fs := t.flags("generate", `Writes records with planted faults, and their labels: readings of sensors
(schemas/output/sensor_reading.*), keyed by sensor; with -stream machines samples of four values of the machines of a fleet, keyed by
fleet, with outliers; with -stream regions counts of events at places, keyed by region, with hot spots that move.
What a series says at a step depends on -seed alone. Brokers, schema registry and ODRADEK_COMPRESSION come from the environment.
Readings are in Avro with a registry and in JSON without one, unless -format is given: then Avro records are in the single-object
encoding, and JSON and Protobuf records have no framing. It prints the format and the settings that read it.
It refuses a topic with records of others. While brokers or registry do not answer at the start it tries again, for two minutes;
later it waits for brokers without limit, and then writes what is due.`,
		`  worker generate -topic sensors -sensors 100 -rate 1000 -labels labels.jsonl
  worker generate -topic sensors -sensors 10000 -records 50000000             # full speed
  worker generate -topic sensors -faults spike,stuck -fault-every 500 -duration 10m -rate 200
  worker generate -stream regions -topic events -rate 500 -labels-topic events-labels`)
	var o generateOptions
	fs.StringVar(&o.Topic, "topic", "", "topic to write; created if missing; needed")
	fs.BoolVar(&o.force, "force", false, "write to a topic that has records of others, too")
	fs.IntVar(&o.partitions, "partitions", 8, "partitions of a created topic")
	fs.IntVar(&o.replication, "replication", -1, "replication factor of a created topic; -1 for the brokers' default")
	fs.StringVar(&o.stream, "stream", streamSensors, "what to write: sensors, machines or regions")
	fs.StringVar(&o.format, "format", "",
		"format of the records: avro, json or protobuf; default avro with a schema registry, json without one, and json with another "+
			"-stream, which has no other")
	fs.IntVar(&o.series, "sensors", 0, "number of sensors, of fleets of 20 machines, or of regions of 10 x 8 places; default: 100, 1, or 2")
	fs.Float64Var(
		&o.Rate,
		"rate",
		0,
		"records per second, all series together; needed without -records, which are written at full speed without a rate",
	)
	fs.Int64Var(&o.Records, "records", 0, "records to write; needed without -rate")
	fs.DurationVar(&o.Duration, "duration", 0, "how long to write; 0 for no end")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the signals and faults")
	fs.StringVar(&o.start, "start-time", "", "event time of the first step, RFC 3339; default: now with -rate, else 2026-01-01T00:00:00Z")
	fs.DurationVar(&o.history, "history", 0,
		"time before now whose records a topic without records gets at once, so that detectors need no warm-up; needs -rate")
	fs.DurationVar(&o.Interval, "interval", 0, "event time from a series' step to the next; default: what -rate gives, else 1s")
	fs.StringVar(&o.faults, "faults", "all",
		"kinds of faults of sensors to plant, of spike,level_shift,frequency,stuck,drift,dropout; or all, or none")
	fs.Int64Var(&o.faultEvery, "fault-every", 0,
		"steps of a sensor or of a fleet per fault, at least 100; with -stream regions, rounds of 80 steps, "+
			"at least 4; default: 1000, 250, or 12")
	fs.StringVar(&o.Dropout, "dropout", sensors.DropoutNull,
		"what a sensor sends that gives no value: null for records with a null value, absent for no records")
	fs.StringVar(&o.labels, "labels", "", "file for the labels, JSON lines; - for standard output")
	fs.StringVar(&o.LabelsTopic, "labels-topic", "", "topic for the labels, JSON, keyed by sensor")
	fs.StringVar(&o.plant, "plant", "demo", "plant named in the records")
	fs.StringVar(&o.unit, "unit", "mm/s", "unit named in the records")
	fs.StringVar(&o.http, "http", "", "address for /healthz, for containers: fails when nothing was written for 30s; empty for none")
	if code, done := parse(fs, args); done {
		return code
	}
	given := o.format != ""
	c, code, ok := t.configFor("KAFKA_", "SCHEMA_REGISTRY_", "COMPRESSION", "MAX_MESSAGE_BYTES")
	if !ok {
		return code
	}
	stream, err := o.check(c.Registry.HasIDs())
	if err != nil {
		fmt.Fprintln(t.err, "worker generate:", err)
		return exitUsage
	}
	fmt.Fprintln(t.err, o.formatText(c.Registry.HasIDs(), given))
	if err := t.runGenerate(ctx, c, &o, stream); err != nil {
		return t.fail(err)
	}
	return exitOK
}

// The values of -stream.
const (
	streamSensors  = "sensors"
	streamMachines = "machines"
	streamRegions  = "regions"
)

// generatedStreams are the defaults of the streams.
var generatedStreams = []struct {
	name              string
	series            int
	faultEvery, least int64
}{
	{streamSensors, 100, 1000, sensors.MinFaultEvery}, {streamMachines, 1, 250, sensors.MinFaultEvery}, {streamRegions, 2, 12, 4},
}

// The values of -format that depend on a registry.
const (
	formatAvro = "avro"
	formatJSON = "json"
)

// readingFormat returns the format of readings; nil for an unknown one.
func (o *generateOptions) readingFormat() *output.ReadingFormat {
	i := slices.IndexFunc(output.ReadingFormats, func(f output.ReadingFormat) bool { return f.Name == o.format })
	if i < 0 {
		return nil
	}
	return &output.ReadingFormats[i]
}

// formatText says what is written and by which settings a worker reads it.
func (o *generateOptions) formatText(registry, given bool) string {
	fields := map[string]string{
		streamSensors:  "ODRADEK_KEY_FIELD=sensor ODRADEK_TIME_FIELD=time ODRADEK_VALUE_FIELDS=value",
		streamMachines: "ODRADEK_KEY_FIELD=fleet ODRADEK_TIME_FIELD=time ODRADEK_VALUE_FIELDS=temperature,pressure,flow,current",
		streamRegions:  "ODRADEK_KEY_FIELD=region ODRADEK_TIME_FIELD=time ODRADEK_VALUE_FIELDS=x,y,events,usual",
	}[o.stream]
	format := map[string]string{formatAvro: "Avro", formatJSON: "JSON"}[o.format]
	if format == "" {
		format = "Protobuf"
	}
	how, reads := "", ""
	switch {
	case o.stream != streamSensors:
		how, reads = ", as -stream "+o.stream+" always is", "ODRADEK_FORMAT=json "
	case registry:
		how = " with the id of its schema in the registry"
	case o.format == formatJSON:
		reads = "ODRADEK_FORMAT=json "
		if !given {
			how = ", because no schema registry is configured (ODRADEK_SCHEMA_REGISTRY_URL)"
		}
	default:
		how = map[bool]string{true: " in single-object encoding", false: " without framing"}[o.format == formatAvro] +
			", because no schema registry is configured (ODRADEK_SCHEMA_REGISTRY_URL)"
		reads = "ODRADEK_FORMAT=" + o.format + ", ODRADEK_SCHEMA_FILE and "
	}
	return fmt.Sprintf("topic %s: %s%s; a worker reads it with %s%s", o.Topic, format, how, reads, fields)
}

// maker returns the stream of records, given the id of the schema of readings.
type maker func(schemaID int32) sensors.Stream

// check fills what depends on other flags and on whether there is a registry, and returns what makes the records.
func (o *generateOptions) check(registry bool) (maker, error) {
	var errs []error
	if o.format == "" {
		o.format = formatJSON
		if registry && o.stream == streamSensors {
			o.format = formatAvro
		}
	}
	faults, err := sensors.ParseKinds(o.faults)
	errs = append(errs, err)
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	least := int64(0)
	for _, d := range generatedStreams {
		if d.name == o.stream {
			o.series, o.faultEvery, least = cmp.Or(o.series, d.series), cmp.Or(o.faultEvery, d.faultEvery), d.least
		}
	}
	bad(o.Topic == "", "-topic is needed: the topic to write")
	bad(o.Rate == 0 && o.Records == 0, "-rate or -records is needed: how many records to write a second, or in all")
	bad(o.Topic != "" && config.TopicFault(o.Topic) != "", "-topic %q %s", o.Topic, config.TopicFault(o.Topic))
	bad(o.LabelsTopic != "" && config.TopicFault(o.LabelsTopic) != "", "-labels-topic %q %s", o.LabelsTopic, config.TopicFault(o.LabelsTopic))
	bad(least == 0, "-stream %q: use sensors, machines or regions", o.stream)
	bad(o.readingFormat() == nil, "-format %q: use avro, json or protobuf", o.format)
	bad(o.stream != streamSensors && o.format != formatJSON, "-format %q: of -stream %s use json", o.format, o.stream)
	bad(o.series < 1 || o.series > 10_000_000, "-sensors %d: use 1 to 10000000", o.series)
	bad(!(o.Rate >= 0) || math.IsInf(o.Rate, 0), "-rate %v: use a number above 0", o.Rate)
	bad(o.Records < 0, "-records %d is negative", o.Records)
	bad(o.history < 0 || o.history > 0 && (o.Rate <= 0 || o.start != ""),
		"-history %v: use 0 or more, with -rate and without -start-time", o.history)
	bad(o.Interval < 0, "-interval %v is negative", o.Interval)
	bad(o.faultEvery < least, "-fault-every %d: use at least %d", o.faultEvery, least)
	bad(o.Dropout != sensors.DropoutNull && o.Dropout != sensors.DropoutAbsent && o.Dropout != "",
		"-dropout %q: use null or absent", o.Dropout)
	if o.Interval == 0 {
		o.Interval = time.Second
		if o.Rate > 0 {
			o.Interval = time.Duration(float64(o.series) / o.Rate * float64(time.Second))
		}
	}
	if o.start == "" {
		o.start = "2026-01-01T00:00:00Z"
		if o.fromNow = o.Rate > 0; o.fromNow {
			o.start = time.Now().UTC().Format(time.RFC3339Nano)
		}
	}
	if o.Start, err = time.Parse(time.RFC3339Nano, o.start); err != nil {
		errs = append(errs, fmt.Errorf("-start-time %q is not a time like 2026-01-31T08:00:00Z", o.start))
	}
	return func(schemaID int32) sensors.Stream {
		every := o.faultEvery
		if len(faults) == 0 {
			every = 0
		}
		switch o.stream {
		case streamMachines:
			return &sensors.Vectors{Seed: o.seed, Fleets: o.series, Machines: 20, OutlierEvery: every}
		case streamRegions:
			return &sensors.Spots{Seed: o.seed, Regions: o.series, Columns: 10, Rows: 8, SpotEvery: every}
		}
		m := &sensors.Model{Seed: o.seed, FaultEvery: o.faultEvery, Faults: faults}
		return m.Readings(o.series, o.readingFormat().New(schemaID, o.plant, o.unit))
	}, errors.Join(errs...)
}

// generateTarget is what generate writes to.
type generateTarget struct {
	client   *kafka.Client
	topics   map[string]kafka.TopicInfo
	empty    bool // no topic had records
	schemaID int32
}

// open creates the topics that are missing, and registers the schema of readings.
func (o *generateOptions) open(ctx context.Context, c *config.Config) (to *generateTarget, err error) {
	kc, err := c.KafkaConfig()
	if err != nil {
		return nil, admin.Permanent(err)
	}
	client, err := kafka.Open(ctx, kc)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, client.Close())
		}
	}()
	to = &generateTarget{client: client, empty: !o.force, schemaID: -1}
	topics := []string{o.Topic}
	if o.LabelsTopic != "" {
		topics = append(topics, o.LabelsTopic)
	}
	if to.topics, err = client.Admin.Topics(ctx, topics...); err != nil {
		return nil, fmt.Errorf("generate: look up %s: %w", strings.Join(topics, ", "), err)
	}
	for _, topic := range topics {
		if to.topics[topic].Exists && !o.force {
			records, err := onlyGenerated(ctx, client, to.topics[topic])
			if err != nil {
				return nil, err
			}
			to.empty = to.empty && records == 0
		}
		if err := client.Admin.CreateTopic(ctx, topic, o.partitions, o.replication, nil); err != nil {
			return nil, fmt.Errorf("generate: create topic %s: %w", topic, err)
		}
	}
	if to.topics, err = client.Admin.Topics(ctx, topics...); err != nil {
		return nil, fmt.Errorf("generate: look up %s: %w", strings.Join(topics, ", "), err)
	}
	reg, err := c.NewRegistry()
	if err != nil {
		return nil, admin.Permanent(err)
	}
	if !reg.HasIDs() {
		return to, nil
	}
	defer reg.Close()
	if o.stream == streamSensors {
		format := o.readingFormat()
		if to.schemaID, err = reg.RegisterAs(ctx, schemas.Subject(o.Topic), format.Type, format.Schema); err != nil {
			return nil, fmt.Errorf("generate: register the schema of %s: %w", o.Topic, err)
		}
	}
	return to, nil
}

// peeked is the number of offsets at the end of a partition whose records onlyGenerated looks at.
const peeked = 16

// peekTime is how long it may take to read them.
const peekTime = 30 * time.Second

// onlyGenerated returns the number of offsets of a topic, and an error if one of its last records is not of generate: its
// records would stand among a plant's records.
func onlyGenerated(ctx context.Context, client *kafka.Client, topic kafka.TopicInfo) (offsets int64, err error) {
	var tps []kafka.TP
	for p := range topic.Partitions {
		tps = append(tps, kafka.TP{Topic: topic.Name, Partition: int32(p)})
	}
	first, err := client.Offsets.ListOffsets(ctx, tps, kafka.Earliest)
	if err != nil {
		return 0, fmt.Errorf("generate: first offsets of %s: %w", topic.Name, err)
	}
	end, err := client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return 0, fmt.Errorf("generate: last offsets of %s: %w", topic.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, peekTime) // a fetch waits without limit for a partition without a leader
	defer cancel()
	f := kafka.NewFetcher(client, kafka.FetchConfig{ReadCommitted: true})
	defer f.Close()
	for _, tp := range tps {
		offsets += end[tp] - first[tp]
		err := f.ReadRange(ctx, tp, max(first[tp], end[tp]-peeked), end[tp], func(r *record.Record) (bool, error) {
			if sensors.Generated(r.Key, r.Value) {
				return true, nil
			}
			return false, admin.Permanent(
				fmt.Errorf("generate: others write to topic %s: the record with the key %.40q in partition %d at offset %d "+
					"is not of generate; name another -topic, or write among such records with -force", tp.Topic, r.Key, tp.Partition, r.Offset),
			)
		})
		if err != nil && ctx.Err() == nil && kafka.ClassOf(err) == kafka.Fatal {
			return 0, fmt.Errorf("generate: whether others write to %s: %w; allow reading it, or give -force", topic.Name, err)
		}
		if err != nil {
			return 0, err
		}
	}
	return offsets, nil
}

func (t terminal) runGenerate(ctx context.Context, c *config.Config, o *generateOptions, stream maker) (err error) {
	log := newLogger(t.err, c, new(slog.LevelVar), page.NewFaults(1))
	p := newPulse(o.Rate)
	if o.http != "" {
		stop, err := p.serve(o.http)
		if err != nil {
			return err
		}
		defer stop()
	}
	var to *generateTarget
	err = admin.Retry(ctx, log, time.Now().Add(admin.StartLimit), func(ctx context.Context) error {
		to, err = o.open(ctx, c)
		return err
	})
	if err != nil {
		return admin.EndOf(ctx, err)
	}
	defer to.client.Close()
	codec, err := record.ParseCodec(c.Output.Compression)
	if err != nil {
		return err
	}
	if o.fromNow {
		o.Start = time.Now().UTC() // the brokers may have taken minutes to answer
	}
	if to.empty {
		o.Start = o.Start.Add(-o.history)
		o.HeadStart = int64(o.history/o.Interval) * int64(o.series)
	}
	g := sensors.NewSource(o.Options, stream(to.schemaID), to.topics[o.Topic].Partitions)
	g.LabelPartitions = to.topics[o.LabelsTopic].Partitions
	if o.labels != "" {
		w, err := openLabels(o.labels, t.out)
		if err != nil {
			return err
		}
		g.LabelFile = bufio.NewWriter(w)
		defer func() { err = errors.Join(err, g.LabelFile.Flush(), w.Close()) }()
	}
	producer := to.client.NewProducer(kafka.ProducerConfig{Timeout: generatorPatience})
	if err := producer.Init(ctx); err != nil {
		return err
	}
	start := time.Now()
	err = g.Run(ctx, func() *record.Batches { return record.NewBatches(int(c.Output.MaxMessage), codec) }, p.watch(log, producer.Produce))
	took := time.Since(start)
	fmt.Fprintf(t.err, "%d records of %d series in %v (%.0f/s), %d faults\n", g.Next, o.series, took.Round(time.Millisecond),
		float64(g.Next)/took.Seconds(), g.Labels)
	return err
}

// openLabels opens the file for the labels; - is standard output.
func openLabels(name string, stdout io.Writer) (io.WriteCloser, error) {
	if name == "-" {
		return nopCloser{stdout}, nil
	}
	return os.Create(name)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
