package main

import (
	"bufio"
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
	fs := t.flags("generate", `Writes sensor records (schemas/output/sensor_reading.*), keyed by sensor,
with planted faults and their labels.
What a sensor says at a step depends on -seed alone. Brokers, schema registry and ODRADEK_COMPRESSION come from the environment;
without a registry Avro records are in the single-object encoding, and JSON and Protobuf records have no framing.`,
		`  worker generate -topic sensors -sensors 100 -rate 1000 -labels labels.jsonl
  worker generate -topic sensors -sensors 10000 -records 50000000             # full speed
  worker generate -faults spike,stuck -fault-every 500 -duration 10m -rate 200`)
	var o generateOptions
	fs.StringVar(&o.Topic, "topic", "sensors", "topic to write; created if missing")
	fs.IntVar(&o.partitions, "partitions", 8, "partitions of a created topic")
	fs.IntVar(&o.replication, "replication", -1, "replication factor of a created topic; -1 for the brokers' default")
	fs.StringVar(&o.format, "format", "avro", "format of the records: avro, json or protobuf")
	fs.IntVar(&o.Sensors, "sensors", 100, "number of sensors")
	fs.Float64Var(&o.Rate, "rate", 0, "records per second, all sensors together; 0 for full speed")
	fs.Int64Var(&o.Records, "records", 0, "records to write; 0 for no end")
	fs.DurationVar(&o.Duration, "duration", 0, "how long to write; 0 for no end")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the signals and faults")
	fs.StringVar(&o.start, "start-time", "", "event time of the first step, RFC 3339; default: now with -rate, else 2026-01-01T00:00:00Z")
	fs.DurationVar(&o.Interval, "interval", 0, "event time from a sensor's step to the next; default: what -rate gives, else 1s")
	fs.StringVar(&o.faults, "faults", "all", "kinds of faults to plant, of spike,level_shift,frequency,stuck,drift,dropout; or all, or none")
	fs.Int64Var(&o.faultEvery, "fault-every", 1000, "steps of a sensor per fault, at least 100")
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
	model, err := o.check()
	if err != nil {
		fmt.Fprintln(t.err, "worker generate:", err)
		return exitUsage
	}
	if err := t.runGenerate(ctx, c, &o, model); err != nil {
		return t.fail(err)
	}
	return exitOK
}

// readingFormat returns the format of the records; nil for an unknown one.
func (o *generateOptions) readingFormat() *output.ReadingFormat {
	i := slices.IndexFunc(output.ReadingFormats, func(f output.ReadingFormat) bool { return f.Name == o.format })
	if i < 0 {
		return nil
	}
	return &output.ReadingFormats[i]
}

// check fills what depends on other flags and makes the model.
func (o *generateOptions) check() (*sensors.Model, error) {
	var errs []error
	faults, err := sensors.ParseKinds(o.faults)
	errs = append(errs, err)
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(config.TopicFault(o.Topic) != "", "-topic %q %s", o.Topic, config.TopicFault(o.Topic))
	bad(o.LabelsTopic != "" && config.TopicFault(o.LabelsTopic) != "", "-labels-topic %q %s", o.LabelsTopic, config.TopicFault(o.LabelsTopic))
	bad(o.readingFormat() == nil, "-format %q: use avro, json or protobuf", o.format)
	bad(o.Sensors < 1 || o.Sensors > 10_000_000, "-sensors %d: use 1 to 10000000", o.Sensors)
	bad(!(o.Rate >= 0) || math.IsInf(o.Rate, 0), "-rate %v: use 0 for full speed, or more", o.Rate)
	bad(o.Records < 0, "-records %d is negative", o.Records)
	bad(o.Interval < 0, "-interval %v is negative", o.Interval)
	bad(o.faultEvery < sensors.MinFaultEvery, "-fault-every %d: use at least %d", o.faultEvery, sensors.MinFaultEvery)
	bad(o.Dropout != sensors.DropoutNull && o.Dropout != sensors.DropoutAbsent && o.Dropout != "",
		"-dropout %q: use null or absent", o.Dropout)
	if o.Interval == 0 {
		o.Interval = time.Second
		if o.Rate > 0 {
			o.Interval = time.Duration(float64(o.Sensors) / o.Rate * float64(time.Second))
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
	return &sensors.Model{Seed: o.seed, FaultEvery: o.faultEvery, Faults: faults}, errors.Join(errs...)
}

func (t terminal) runGenerate(ctx context.Context, c *config.Config, o *generateOptions, m *sensors.Model) (err error) {
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
	format, schemaID := o.readingFormat(), int32(-1)
	reg, err := c.NewRegistry()
	if err != nil {
		return err
	}
	if reg != nil {
		defer reg.Close()
		if schemaID, err = reg.RegisterAs(ctx, schemas.Subject(o.Topic), format.Type, format.Schema); err != nil {
			return err
		}
	}
	codec, err := record.ParseCodec(c.Output.Compression)
	if err != nil {
		return err
	}
	g := sensors.NewSource(o.Options, m, format.New(schemaID, o.plant, o.unit), infos[o.Topic].Partitions)
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
	fmt.Fprintf(t.err, "%d records of %d sensors in %v (%.0f/s), %d faults\n", g.Next, o.Sensors, took.Round(time.Millisecond),
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
