package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"odradek/processor/kafka"
	"odradek/schemas"
)

// generateOptions are the flags of `generate`.
type generateOptions struct {
	topic       string
	partitions  int
	replication int
	sensors     int
	rate        float64
	records     int64
	duration    time.Duration
	seed        uint64
	start       string
	interval    time.Duration
	faults      string
	faultEvery  int64
	dropout     string
	labels      string
	labelsTopic string
	plant, unit string
	http        string

	headStart int64         // records made at full speed before the rate holds
	made      *atomic.Int64 // how many records were sent, those left out included; nil: nobody asks
}

// The values of -dropout.
const (
	dropoutNull   = "null"
	dropoutAbsent = "absent"
)

func (t terminal) generate(ctx context.Context, args []string) int {
	fs := t.flags("generate", `Writes Avro sensor records (schemas/sensor_reading.avsc), keyed by sensor, with planted faults and their labels.
What a sensor says at a step depends on -seed alone. Brokers, schema registry and ODRADEK_COMPRESSION come from the environment;
without a registry records are in Avro's single-object encoding.`,
		`  worker generate -topic sensors -sensors 100 -rate 1000 -labels labels.jsonl
  worker generate -topic sensors -sensors 10000 -records 50000000             # full speed
  worker generate -faults spike,stuck -fault-every 500 -duration 10m -rate 200`)
	var o generateOptions
	fs.StringVar(&o.topic, "topic", "sensors", "topic to write; created if missing")
	fs.IntVar(&o.partitions, "partitions", 8, "partitions of a created topic")
	fs.IntVar(&o.replication, "replication", -1, "replication factor of a created topic; -1 for the brokers' default")
	fs.IntVar(&o.sensors, "sensors", 100, "number of sensors")
	fs.Float64Var(&o.rate, "rate", 0, "records per second, all sensors together; 0 for full speed")
	fs.Int64Var(&o.records, "records", 0, "records to write; 0 for no end")
	fs.DurationVar(&o.duration, "duration", 0, "how long to write; 0 for no end")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the signals and faults")
	fs.StringVar(&o.start, "start-time", "", "event time of the first step, RFC 3339; default: now with -rate, else 2026-01-01T00:00:00Z")
	fs.DurationVar(&o.interval, "interval", 0, "event time from a sensor's step to the next; default: what -rate gives, else 1s")
	fs.StringVar(&o.faults, "faults", "all", "kinds of faults to plant, of spike,level_shift,frequency,stuck,drift,dropout; or all, or none")
	fs.Int64Var(&o.faultEvery, "fault-every", 1000, "steps of a sensor per fault, at least 100")
	fs.StringVar(&o.dropout, "dropout", dropoutNull, "what a sensor sends that gives no value: null for records with a null value, absent for no records")
	fs.StringVar(&o.labels, "labels", "", "file for the labels, JSON lines; - for standard output")
	fs.StringVar(&o.labelsTopic, "labels-topic", "", "topic for the labels, JSON, keyed by sensor")
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

// check fills what depends on other flags and makes the model.
func (o *generateOptions) check() (*signalModel, error) {
	var errs []error
	faults, err := parseFaults(o.faults)
	errs = append(errs, err)
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(topicFault(o.topic) != "", "-topic %q %s", o.topic, topicFault(o.topic))
	bad(o.labelsTopic != "" && topicFault(o.labelsTopic) != "", "-labels-topic %q %s", o.labelsTopic, topicFault(o.labelsTopic))
	bad(o.sensors < 1 || o.sensors > 10_000_000, "-sensors %d: use 1 to 10000000", o.sensors)
	bad(!(o.rate >= 0) || math.IsInf(o.rate, 0), "-rate %v: use 0 for full speed, or more", o.rate)
	bad(o.records < 0, "-records %d is negative", o.records)
	bad(o.interval < 0, "-interval %v is negative", o.interval)
	bad(o.faultEvery < minFaultEvery, "-fault-every %d: use at least %d", o.faultEvery, minFaultEvery)
	bad(o.dropout != dropoutNull && o.dropout != dropoutAbsent && o.dropout != "", "-dropout %q: use null or absent", o.dropout)
	if o.interval == 0 {
		o.interval = time.Second
		if o.rate > 0 {
			o.interval = time.Duration(float64(o.sensors) / o.rate * float64(time.Second))
		}
	}
	if o.start == "" {
		o.start = "2026-01-01T00:00:00Z"
		if o.rate > 0 {
			o.start = time.Now().UTC().Format(time.RFC3339Nano)
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, o.start); err != nil {
		errs = append(errs, fmt.Errorf("-start-time %q is not a time like 2026-01-31T08:00:00Z", o.start))
	}
	return &signalModel{seed: o.seed, faultEvery: o.faultEvery, faults: faults}, errors.Join(errs...)
}

func (t terminal) runGenerate(ctx context.Context, c *Config, o *generateOptions, m *signalModel) (err error) {
	kc, err := c.KafkaConfig()
	if err != nil {
		return err
	}
	client, err := kafka.Open(ctx, kc)
	if err != nil {
		return err
	}
	defer client.Close()
	topics := []string{o.topic}
	if o.labelsTopic != "" {
		topics = append(topics, o.labelsTopic)
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
		if schemaID, err = reg.Register(ctx, schemas.Subject(o.topic), schemas.ReadingSchema); err != nil {
			return err
		}
	}
	codec, err := kafka.ParseCodec(c.Output.Compression)
	if err != nil {
		return err
	}
	g := newRecordSource(o, m, schemaID, infos[o.topic].Partitions)
	g.labelPartitions = infos[o.labelsTopic].Partitions
	if o.labels != "" {
		w, err := openLabels(o.labels, t.out)
		if err != nil {
			return err
		}
		g.labelFile = bufio.NewWriter(w)
		defer func() { err = errors.Join(err, g.labelFile.Flush(), w.Close()) }()
	}
	producer := client.NewProducer(kafka.ProducerConfig{})
	if err := producer.Init(ctx); err != nil {
		return err
	}
	p := newPulse(o.rate)
	if o.http != "" {
		stop, err := p.serve(o.http)
		if err != nil {
			return err
		}
		defer stop()
	}
	begin := time.Now()
	err = g.run(ctx, func() *kafka.Batches { return kafka.NewBatches(int(c.Output.MaxMessage), codec) }, p.watch(producer.Produce))
	took := time.Since(begin)
	fmt.Fprintf(t.err, "%d records of %d sensors in %v (%.0f/s), %d faults\n", g.next, o.sensors, took.Round(time.Millisecond), float64(g.next)/took.Seconds(), g.labels)
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
