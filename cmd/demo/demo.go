package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/sensors"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/schemas"
	"odradek/schemas/output"
)

// demoOptions are the flags.
type demoOptions struct {
	duration time.Duration
	sensors  int
	rate     float64
	seed     uint64
	http     string
	plain    bool
	worker   string // the program to start as workers; empty: worker beside this one
}

func (t terminal) demo(ctx context.Context, args []string) int {
	fs := t.flags(`Runs all that it takes: a Kafka broker and a schema registry in memory, a generator of sensor records with planted
faults, and two workers of one group, processes of their own, that find them. Shows the anomalies as they open, and at
the end which of the planted faults were found, which were missed and what was false; the last line of the output is the
same as JSON.`,
		"  demo\n  demo -for 0          # until interrupted\n  demo -for 30s -plain | tail -n 1")
	var o demoOptions
	fs.DurationVar(&o.duration, "for", time.Minute, "how long to generate; 0 until interrupted")
	fs.IntVar(&o.sensors, "sensors", 60, "number of sensors")
	fs.Float64Var(&o.rate, "rate", 3000, "records per second; event time runs faster the more there are of a sensor")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the signals and faults")
	fs.StringVar(&o.http, "http", "127.0.0.1:9464",
		"address of the first worker's status page; another port is taken where this one is in use")
	fs.BoolVar(&o.plain, "plain", false,
		"lines instead of a table that is drawn over and over; so it is anyway where the output is no terminal")
	fs.StringVar(&o.worker, "worker", "", "`program` to start as workers; default: worker, beside this program")
	if code, done := parse(fs, args); done {
		return code
	}
	if err := o.check(); err != nil {
		fmt.Fprintln(t.err, "demo:", err)
		return exitUsage
	}
	if err := t.runDemo(ctx, &o); err != nil {
		fmt.Fprintln(t.err, "demo:", err)
		return exitFailed
	}
	return exitOK
}

// check says what is wrong with the flags.
func (o *demoOptions) check() (err error) {
	if o.sensors < 1 || o.sensors > 10_000_000 {
		err = fmt.Errorf("-sensors %d: use 1 to 10000000", o.sensors)
	}
	if !(o.rate >= 0) || math.IsInf(o.rate, 0) {
		err = errors.Join(err, fmt.Errorf("-rate %v: use 0 for full speed, or more", o.rate))
	}
	return err
}

// The generator's side of the demo: a fault in every 400 steps of a sensor, and
// a head start, at full speed, of most of the first 400, in which there are none.
const (
	demoTopic      = "sensors"
	demoPartitions = 4
	demoGroup      = "demo"
	demoFaultEvery = 400
	demoHeadStart  = 350
	demoWorkers    = 2
)

// demoDetectors are the settings of the demo's detectors: the default preset, and series without readings.
func demoDetectors() []string {
	return []string{
		"ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=time", "ODRADEK_VALUE_FIELDS=value", "ODRADEK_MAX_FUTURE=0s",
		"ODRADEK_PRESET=default", fmt.Sprintf("ODRADEK_SILENCE=%v", 16*demoInterval),
	}
}

// demoSettings are the settings of one of the demo's workers.
func demoSettings(more ...string) []string {
	return append(append(demoDetectors(), "ODRADEK_GROUP="+demoGroup, "ODRADEK_TOPICS="+demoTopic,
		"ODRADEK_REPLICATION=1", "ODRADEK_LOG_LEVEL=warn"), more...)
}

// demoConfig is the configuration that settings make.
func demoConfig(settings []string) (*config.Config, error) {
	c, faults, warnings := config.Parse(settings)
	if faults = append(faults, warnings...); len(faults) > 0 {
		return nil, fmt.Errorf("settings of a worker: %v", faults)
	}
	return c, nil
}

// executorSettings are those of the demo's own environment that say where to
// score; nothing else of it counts.
func executorSettings(environ []string) (settings []string) {
	for _, v := range environ {
		for _, name := range []string{"EXECUTOR=", "WORKERS=", "CUDA_"} {
			if strings.HasPrefix(v, config.Prefix+name) {
				settings = append(settings, v)
			}
		}
	}
	return settings
}

func (t terminal) runDemo(ctx context.Context, o *demoOptions) error {
	began := time.Now()
	program, err := kafkatest.WorkerProgram(o.worker)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "odradek-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cluster, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1, Dir: dir})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := cluster.Admin().CreateTopic(ctx, demoTopic, demoPartitions, 1, nil); err != nil {
		return err
	}
	addrs := []string{freePort(o.http)}
	for len(addrs) < demoWorkers {
		addrs = append(addrs, freePort("127.0.0.1:0"))
	}
	var settings [][]string
	var c *config.Config // of the first worker
	for i, addr := range addrs {
		s := demoSettings(append(executorSettings(t.environ), "ODRADEK_KAFKA_BROKERS="+strings.Join(cluster.Brokers, ","),
			"ODRADEK_SCHEMA_REGISTRY_URL="+cluster.Registry,
			"ODRADEK_HTTP_ADDR="+addr, fmt.Sprintf("ODRADEK_INSTANCE_ID=worker-%d", i+1))...)
		parsed, err := demoConfig(s)
		if err != nil {
			return err
		}
		if i == 0 {
			c = parsed
		}
		settings = append(settings, s)
	}

	// The workers outlive the generator until they have scored everything.
	made := new(atomic.Int64)
	all, err := sensors.ParseKinds("all")
	if err != nil {
		return err
	}
	model := &sensors.Model{Seed: o.seed, FaultEvery: demoFaultEvery, Faults: all}
	readings := sensors.Options{Topic: demoTopic, Sensors: o.sensors, Rate: o.rate, Duration: o.duration,
		Start: began.UTC().Truncate(time.Second), Interval: demoInterval,
		HeadStart: demoHeadStart * int64(o.sensors), Dropout: sensors.DropoutAbsent, Made: made}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	workers, err := startWorkers(program, workerEnviron(t.environ), settings, t.err)
	if err != nil {
		return err
	}
	defer workers.kill()
	generated := make(chan error, 1)
	go func() { generated <- generateReadings(ctx, c, readings, model) }()

	v := &demoView{t: t, o: o, began: began, made: made, truth: newDemoTruth(model, o.sensors, readings.Start),
		live: !o.plain && isTerminal(t.out), addrs: addrs, cluster: cluster}
	client, err := demoClient(ctx, c)
	if err != nil {
		return err
	}
	defer client.Close()
	err = v.watch(working, client, c.AnomaliesTopic(), generated, workers.ended)
	if err == nil {
		wait, cancel := context.WithTimeout(working, 30*time.Second)
		err = cluster.Admin().WaitCommitted(wait, demoGroup, demoTopic)
		cancel()
	}
	if failed := workers.stop(c.Program.DrainTimeout + drainGrace); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	// What a consumer finds in the topic, from its beginning, is what counts.
	log, err := readAnomalies(context.WithoutCancel(ctx), client, c.AnomaliesTopic())
	if err != nil {
		return err
	}
	r := v.truth.judge(log.list, made.Load()/int64(o.sensors))
	r.Seconds, r.Records, r.FirstSecond = time.Since(began).Seconds(), made.Load(), v.first.Seconds()
	r.Lifecycle = append(r.Lifecycle, log.faults...)
	v.clear()
	fmt.Fprintf(t.out, "%d readings of %d sensors, %.1f hours of event time; of the faults that were planted and over:\n\n", r.Records,
		r.Sensors, r.EventHours)
	r.table(t.out)
	for _, f := range r.Lifecycle {
		fmt.Fprintln(t.out, "life cycle:", f)
	}
	return r.json(t.out)
}

// generateReadings writes readings until ctx or their duration ends.
func generateReadings(ctx context.Context, c *config.Config, o sensors.Options, m *sensors.Model) error {
	client, err := demoClient(ctx, c)
	if err != nil {
		return err
	}
	defer client.Close()
	registry, err := c.NewRegistry()
	if err != nil {
		return err
	}
	defer registry.Close()
	id, err := registry.Register(ctx, schemas.Subject(o.Topic), output.ReadingSchema)
	if err != nil {
		return err
	}
	codec, err := record.ParseCodec(c.Output.Compression)
	if err != nil {
		return err
	}
	producer := client.NewProducer(kafka.ProducerConfig{})
	if err := producer.Init(ctx); err != nil {
		return err
	}
	return sensors.NewSource(o, m, output.NewReadingEncoder(id, "demo", "mm/s"), demoPartitions).Run(ctx,
		func() *record.Batches { return record.NewBatches(int(c.Output.MaxMessage), codec) }, producer.Produce)
}

func demoClient(ctx context.Context, c *config.Config) (*kafka.Client, error) {
	kc, err := c.KafkaConfig()
	if err != nil {
		return nil, err
	}
	return kafka.Open(ctx, kc)
}

// freePort is addr, or another port of its host where that is in use.
func freePort(addr string) string {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		host, _, _ := net.SplitHostPort(addr)
		if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return addr
		}
	}
	defer l.Close()
	return l.Addr().String()
}
