package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
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
	fs := t.flags(`Runs all that it takes: a Kafka broker and a schema registry in memory, a generator of records with planted faults,
and workers, processes of their own, that find them: two of one group for readings of sensors, one for samples of machines, and one for
counts of events in the cells of regions. Shows the anomalies as they open, and at
the end which of the planted faults were found, which were missed and what was false; the last line of the output is the
same as JSON.`,
		"  demo\n  demo -for 0          # until interrupted\n  demo -for 30s -plain | tail -n 1")
	var o demoOptions
	fs.DurationVar(&o.duration, "for", time.Minute, "how long to generate; 0 until interrupted")
	fs.IntVar(&o.sensors, "sensors", 60, "number of sensors")
	fs.Float64Var(&o.rate, "rate", 3000, "records per second of sensors; event time runs faster the more there are of a sensor. "+
		"Of machines there are a sixth, and of regions a third")
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

// check returns the faults of the flags.
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

// demoDetectors returns the settings of the demo's detectors: the default preset, and series without readings.
func demoDetectors() []string {
	return []string{
		"ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=time", "ODRADEK_VALUE_FIELDS=value", "ODRADEK_MAX_FUTURE=0s",
		"ODRADEK_PRESET=default", fmt.Sprintf("ODRADEK_SILENCE=%v", 16*demoInterval),
	}
}

// demoConfig returns the configuration of settings.
func demoConfig(settings []string) (*config.Config, error) {
	c, faults, warnings := config.Parse(settings)
	if faults = append(faults, warnings...); len(faults) > 0 {
		return nil, fmt.Errorf("settings of a worker: %v", faults)
	}
	return c, nil
}

// executorSettings returns the settings of the demo's own environment that choose the executor. Workers get no others of it.
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
	streams := demoStreams(o, began)
	var addrs []string
	var settings [][]string
	for _, s := range streams {
		if err := cluster.Admin().CreateTopic(ctx, s.topic, s.partitions, 1, nil); err != nil {
			return err
		}
		for range s.workers {
			addr := "127.0.0.1:0"
			if len(addrs) == 0 {
				addr = o.http
			}
			addrs = append(addrs, freePort(addr))
			list := s.workerSettings(append(executorSettings(t.environ), "ODRADEK_KAFKA_BROKERS="+strings.Join(cluster.Brokers, ","),
				"ODRADEK_SCHEMA_REGISTRY_URL="+cluster.Registry,
				"ODRADEK_HTTP_ADDR="+addrs[len(addrs)-1], fmt.Sprintf("ODRADEK_INSTANCE_ID=worker-%d", len(addrs)))...)
			parsed, err := demoConfig(list)
			if err != nil {
				return err
			}
			if s.config == nil {
				s.config = parsed
			}
			settings = append(settings, list)
		}
	}

	// The workers outlive the generators until they have scored everything.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	screen := newScreen(t.out)
	if o.plain {
		screen = nil
	}
	stderr := &held{w: t.err, hold: screen != nil && isTerminal(t.err)}
	leave := func() {
		screen.close()
		stderr.release()
	}
	defer leave()
	atExit.Store(&leave)
	workers, err := startWorkers(program, workerEnviron(t.environ), settings, stderr)
	if err != nil {
		return err
	}
	defer workers.kill()
	v := &demoView{t: t, o: o, began: began, streams: streams, screen: screen, addrs: addrs, cluster: cluster}
	c := streams[0].config
	client, err := demoClient(ctx, c)
	if err != nil {
		return err
	}
	defer client.Close()
	err = v.watch(working, client, generateAll(ctx, streams, o.duration), workers.ended)
	if err == nil {
		wait, cancel := context.WithTimeout(working, 30*time.Second)
		for _, s := range streams {
			err = errors.Join(err, cluster.Admin().WaitCommitted(wait, s.group, s.topic))
		}
		cancel()
	}
	if failed := workers.stop(c.Program.DrainTimeout + drainGrace); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	// What a consumer finds in the topics, from their beginning, is what counts.
	v.log = demoLog{}
	for i, s := range streams {
		if err := readAnomalies(context.WithoutCancel(ctx), client, s.config.AnomaliesTopic(), i, &v.log); err != nil {
			return err
		}
	}
	r := v.judge()
	for _, s := range streams {
		r.Records += s.made.Load()
	}
	r.Seconds, r.FirstSecond = time.Since(began).Seconds(), v.first.Seconds()
	r.Lifecycle = append(r.Lifecycle, v.log.faults...)
	leave()
	fmt.Fprintf(t.out,
		"%d readings of %d sensors, %.1f hours of event time, and %d other records; of the faults that were planted and over:\n\n",
		streams[0].made.Load(), r.Sensors, r.EventHours, r.Records-streams[0].made.Load())
	r.table(t.out)
	r.rest(t.out)
	for _, f := range r.Lifecycle {
		fmt.Fprintln(t.out, "life cycle:", f)
	}
	return r.json(t.out)
}

// generateAll writes the records of all streams until ctx or their duration ends; the channel then has how.
func generateAll(ctx context.Context, streams []*stream, duration time.Duration) <-chan error {
	ended, all := make(chan error, len(streams)), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	for _, s := range streams {
		go func() { ended <- s.generate(ctx, duration) }()
	}
	go func() {
		defer cancel()
		var errs error
		for range streams {
			if err := <-ended; err != nil {
				errs = errors.Join(errs, err)
				cancel()
			}
		}
		all <- errs
	}()
	return all
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
