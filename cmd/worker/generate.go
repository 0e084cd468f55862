package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/sensors"
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
	partitions  int
	replication int
	seed        uint64
	start       string
	faults      string
	faultEvery  int64
	labels      string
	http        string
	format      string
	plant, unit string
}

func (t terminal) generate(ctx context.Context, args []string) int {
	fs := t.flags("generate", `Writes records with planted faults, and their labels: readings of sensors
(schemas/output/sensor_reading.*), keyed by sensor; with -stream machines samples of four values of the machines of a fleet, keyed by
fleet, with outliers; with -stream regions counts of events at places, keyed by region, with hot spots that move.
What a series says at a step depends on -seed alone. Brokers, schema registry and ODRADEK_COMPRESSION come from the environment;
without a registry Avro records are in the single-object encoding, and JSON and Protobuf records have no framing.`,
		`  worker generate -topic sensors -sensors 100 -rate 1000 -labels labels.jsonl
  worker generate -topic sensors -sensors 10000 -records 50000000             # full speed
  worker generate -faults spike,stuck -fault-every 500 -duration 10m -rate 200
  worker generate -stream regions -topic events -rate 500 -labels-topic events-labels`)
	var o generateOptions
	fs.StringVar(&o.Topic, "topic", "sensors", "topic to write; created if missing")
	fs.IntVar(&o.partitions, "partitions", 8, "partitions of a created topic")
	fs.IntVar(&o.replication, "replication", -1, "replication factor of a created topic; -1 for the brokers' default")
	fs.StringVar(&o.stream, "stream", streamSensors, "what to write: sensors, machines or regions")
	fs.StringVar(&o.format, "format", "",
		"format of the records: avro, json or protobuf; default avro, and json with another -stream, which has no other")
	fs.IntVar(&o.series, "sensors", 0, "number of sensors, of fleets of 20 machines, or of regions of 10 x 8 places; default: 100, 1, or 2")
	fs.Float64Var(&o.Rate, "rate", 0, "records per second, all series together; 0 for full speed")
	fs.Int64Var(&o.Records, "records", 0, "records to write; 0 for no end")
	fs.DurationVar(&o.Duration, "duration", 0, "how long to write; 0 for no end")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the signals and faults")
	fs.StringVar(&o.start, "start-time", "", "event time of the first step, RFC 3339; default: now with -rate, else 2026-01-01T00:00:00Z")
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
	c, code, ok := t.configFor("KAFKA_", "SCHEMA_REGISTRY_", "COMPRESSION", "MAX_MESSAGE_BYTES")
	if !ok {
		return code
	}
	stream, err := o.check()
	if err != nil {
		fmt.Fprintln(t.err, "worker generate:", err)
		return exitUsage
	}
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

// readingFormat returns the format of readings; nil for an unknown one.
func (o *generateOptions) readingFormat() *output.ReadingFormat {
	i := slices.IndexFunc(output.ReadingFormats, func(f output.ReadingFormat) bool { return f.Name == cmp.Or(o.format, "avro") })
	if i < 0 {
		return nil
	}
	return &output.ReadingFormats[i]
}

// maker returns the stream of records, given the id of the schema of readings.
type maker func(schemaID int32) sensors.Stream

// check fills what depends on other flags, and returns what makes the records.
func (o *generateOptions) check() (maker, error) {
	var errs []error
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
	bad(config.TopicFault(o.Topic) != "", "-topic %q %s", o.Topic, config.TopicFault(o.Topic))
	bad(o.LabelsTopic != "" && config.TopicFault(o.LabelsTopic) != "", "-labels-topic %q %s", o.LabelsTopic, config.TopicFault(o.LabelsTopic))
	bad(least == 0, "-stream %q: use sensors, machines or regions", o.stream)
	bad(o.readingFormat() == nil, "-format %q: use avro, json or protobuf", o.format)
	bad(o.stream != streamSensors && cmp.Or(o.format, "json") != "json", "-format %q: of -stream %s use json", o.format, o.stream)
	bad(o.series < 1 || o.series > 10_000_000, "-sensors %d: use 1 to 10000000", o.series)
	bad(!(o.Rate >= 0) || math.IsInf(o.Rate, 0), "-rate %v: use 0 for full speed, or more", o.Rate)
	bad(o.Records < 0, "-records %d is negative", o.Records)
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
		if o.Rate > 0 {
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

func (t terminal) runGenerate(ctx context.Context, c *config.Config, o *generateOptions, stream maker) (err error) {
	kc, err := c.KafkaConfig()
	if err != nil {
		return err
	}
	client, err := kafka.Open(ctx, kc)
	if err != nil {
		return err
	}
	defer client.Close()
	topics := []string{o.Topic}
	if o.LabelsTopic != "" {
		topics = append(topics, o.LabelsTopic)
	}
	for _, topic := range topics {
		if err := client.CreateTopic(ctx, topic, o.partitions, o.replication, nil); err != nil {
			return fmt.Errorf("generate: create topic %s: %w", topic, err)
		}
	}
	infos, err := client.Topics(ctx, topics...)
	if err != nil {
		return err
	}
	schemaID := int32(-1)
	reg, err := c.NewRegistry()
	if err != nil {
		return err
	}
	if reg != nil {
		defer reg.Close()
	}
	if reg != nil && o.stream == streamSensors {
		format := o.readingFormat()
		if schemaID, err = reg.RegisterAs(ctx, schemas.Subject(o.Topic), format.Type, format.Schema); err != nil {
			return err
		}
	}
	codec, err := record.ParseCodec(c.Output.Compression)
	if err != nil {
		return err
	}
	g := sensors.NewSource(o.Options, stream(schemaID), infos[o.Topic].Partitions)
	g.LabelPartitions = infos[o.LabelsTopic].Partitions
	if o.labels != "" {
		w, err := openLabels(o.labels, t.out)
		if err != nil {
			return err
		}
		g.LabelFile = bufio.NewWriter(w)
		defer func() { err = errors.Join(err, g.LabelFile.Flush(), w.Close()) }()
	}
	producer := client.NewProducer(kafka.ProducerConfig{})
	if err := producer.Init(ctx); err != nil {
		return err
	}
	p := newPulse(o.Rate)
	if o.http != "" {
		stop, err := p.serve(o.http)
		if err != nil {
			return err
		}
		defer stop()
	}
	begin := time.Now()
	err = g.Run(ctx, func() *record.Batches { return record.NewBatches(int(c.Output.MaxMessage), codec) }, p.watch(producer.Produce))
	took := time.Since(begin)
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
