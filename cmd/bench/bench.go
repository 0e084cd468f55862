package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"odradek/cmd/worker/config"
	"odradek/processor/kafkatest"
)

// benchmark is one name that the program knows. Its run returns one row or
// several: one for each baseline, or for each case.
type benchmark struct {
	name, what string
	kafka      bool // needs brokers
	asked      bool // only where it is named
	run        func(b *bench, ctx context.Context) ([]benchRow, error)
}

var benchmarks = []benchmark{
	{"decode", "reading 3 of 5 fields, nested and with unions; against goavro", false, false, (*bench).decode},
	{"ikasst-cpu", "IKA-SST on one core; against numpy", false, false, (*bench).ikasst},
	{"lof-cpu", "LOF of whole windows on one core; against scikit-learn", false, false, (*bench).lofWindows},
	{"lof-stride1", "LOF of one fresh sample a task on one core", false, false, (*bench).lofStride},
	{"svdsst-cpu", "SVD-SST on one core; against numpy and scipy", false, false, (*bench).svdsst},
	{"ops", "each op on a GPU, kernel alone and Execute from Go; against the CPU", false, false, (*bench).opsOnDevice},
	{"ops-window-cache", "windows of a million keys in the GPU's window cache, against windows that travel with every task", false, false,
		(*bench).opsWindowCache},
	{"ops-scale", "Execute on several GPUs of this host, as a ratio to one", false, false, (*bench).opsScale},
	{"path-cpu", "CPU per record of a worker, fetch to committed score, exactly once", true, false, (*bench).pathCPU},
	{"path-rate", "records a second of the same; against Kafka Streams and franz-go", true, false, (*bench).pathRate},
	{"events", "the same with LOF of 64 samples, thresholds and anomalies, by part", true, false, (*bench).events},
	{"latency", "event to visible score at half of that rate", true, false, (*bench).latency},
	{"memory", "resident bytes per key beyond what its window needs", false, false, (*bench).memory},
	{"restore", "changelog and replay after SIGKILL", true, false, (*bench).restore},
	{"skew", "latency of partitions beside one with a hot key", true, false, (*bench).skew},
	{"commit", "a worker's transactions, without reading and scoring", true, true, (*bench).commit},
	{"fleet", "records a second of a worker with IKA-SST and LOF of every sample, CPU against GPU", true, true, (*bench).fleet},
	{"backtest", "rows a second of worker backtest over a fleet of sensors in Parquet files, which it writes first", false, true,
		(*bench).backtest},
	{"capacity", "sensors at one sample in 100 ms that a worker serves, p99 <= 250 ms", true, true, (*bench).capacity},
}

// benchOptions are the flags.
type benchOptions struct {
	json      bool
	quick     bool
	kafka     string
	brokers   string
	repeat    int
	procs     int
	rate      float64
	peers     bool
	streams   string
	python    string
	compress  string
	profile   string
	worker    string
	child     string
	shapes    *regexp.Regexp // nil: all
	recording string
	owners    int
	tasks     int
	lanes     int
	set       settingList
	verbose   bool

	// Of fleet and capacity.
	executors, gpus     string
	sensors, partitions int
	days                int // of backtest
	sst, lof            int
	budget              time.Duration
}

// wants is whether a shape is to be measured.
func (o *benchOptions) wants(shape string) bool {
	return o.shapes == nil || o.shapes.MatchString(shape)
}

// settingList collects -set flags.
type settingList []string

func (l *settingList) String() string { return strings.Join(*l, " ") }

func (l *settingList) Set(s string) error {
	name, _, ok := strings.Cut(s, "=")
	if !ok || !strings.HasPrefix(name, config.Prefix) {
		return errors.New("write it as ODRADEK_NAME=value")
	}
	*l = append(*l, s)
	return nil
}

const benchExamples = `  bench
  bench -json decode path-cpu path-rate > rows.jsonl
  bench -brokers broker:9092 path-rate
  bench -v -gpus 1,2 fleet capacity
  bench -profile prof path-cpu && go tool pprof -top worker prof/path-1.cpu`

// bench measures and prints a table, or with -json one object a line.
// Baselines run in the same command, on the same brokers. A baseline that cannot
// run here is left out and the row says why.
func (t terminal) bench(ctx context.Context, args []string) int {
	if len(args) > 1 && args[0] == benchChild {
		return t.benchChild(ctx, args[1], args[2:])
	}
	var names strings.Builder
	for _, m := range benchmarks {
		fmt.Fprintf(&names, "  %-13s %s\n", m.name, m.what)
	}
	var o benchOptions
	fs := t.flags("Measures this build against its baselines and prints a table. Names, default all but commit, fleet, backtest and "+
		"capacity:\n\n"+
		names.String(), benchExamples)
	fs.BoolVar(&o.json, "json", false, "one JSON object a line")
	fs.BoolVar(&o.quick, "quick", false, "a tenth of the records: to try it out, not to quote")
	fs.StringVar(&o.kafka, "kafka", kafkatest.Versions[0], "version of Apache Kafka to start, one node; or kfake")
	fs.StringVar(&o.brokers, "brokers", "", "use these brokers, host:port,..., instead of starting one")
	fs.IntVar(&o.repeat, "repeat", 3, "times to measure what varies; the median counts")
	fs.IntVar(&o.procs, "procs", 0, "GOMAXPROCS of the worker; 0: all cores")
	fs.Float64Var(&o.rate, "rate", 0, "records/s for latency and skew; 0: half of path-rate, measured first")
	fs.BoolVar(&o.peers, "peers", true, "run the baselines that need other programs (Kafka Streams, franz-go, numpy)")
	fs.StringVar(&o.streams, "streams", "docs/benchmarks/peers/kafka-streams", "folder of the Kafka Streams program")
	fs.StringVar(&o.python, "python", "python3",
		"Python with numpy, for ikasst-cpu and svdsst-cpu, scipy, for svdsst-cpu, and scikit-learn, for lof-cpu")
	fs.StringVar(&o.compress, "compression", "", "compression of what the worker and its peers write; default: the worker's")
	fs.StringVar(&o.profile, "profile", "", "folder to write CPU profiles of the worker to, and of ops-window-cache")
	fs.StringVar(&o.worker, "worker", "", "`program` to measure as the worker; default: worker, beside this program")
	fs.StringVar(&o.child, "child", "", "program of the GPU, for ops; default: odradek-cuda beside this program")
	fs.Func("shapes", "of ops, ops-window-cache and ops-scale, only what matches this `regexp`; no latency", func(text string) (err error) {
		o.shapes, err = regexp.Compile(text)
		return err
	})
	fs.StringVar(&o.recording, "recording", "",
		"`file` of a recording, a value a line, for the shapes of ops that search one; default: without them")
	fs.IntVar(&o.owners, "owners", 0, "goroutines of ops-window-cache, with the keys' share each; 0: one a core")
	fs.IntVar(&o.tasks, "tasks", 4096, "tasks of a batch of ops-window-cache")
	fs.IntVar(&o.lanes, "lanes", 0, "batches in flight on the GPU, for ops; 0: the executor's default")
	fs.StringVar(&o.executors, "executors", "cpu,cuda", "executors of fleet and capacity")
	fs.StringVar(&o.gpus, "gpus", "", "numbers of GPUs for fleet, capacity and ops-scale, such as `1,2,4`; default: 1, and for ops-scale 1, "+
		"2, 4 and so on, as many as there are")
	fs.IntVar(&o.sensors, "sensors", 0, "sensors of fleet, of backtest, and those that capacity begins with; 0: 20,000, 10,000 and 5,000")
	fs.IntVar(&o.days, "days", backtestDays, "days of a reading a minute, of backtest")
	fs.IntVar(&o.partitions, "partitions", 16, "partitions of fleet and capacity")
	fs.IntVar(&o.sst, "sst", fleetSST, "window of IKA-SST in fleet and capacity; 0: without")
	fs.IntVar(&o.lof, "lof", -1, "window of LOF in fleet and capacity; 0: without, -1: 1,024 and 256")
	fs.DurationVar(&o.budget, "budget", 100*time.Second, "time for capacity to look with one executor; a look that has begun is ended")
	fs.Var(&o.set, "set", "a setting for the worker, `ODRADEK_NAME=value`; may be repeated")
	fs.BoolVar(&o.verbose, "v", false, "say on standard error what is going on")
	wanted, code, done := benchNames(fs, args)
	if done {
		return code
	}
	if o.owners < 0 || o.tasks < 1 {
		fmt.Fprintf(t.err, "bench: -owners %d, -tasks %d: owners are 0 or more, tasks 1 or more\n", o.owners, o.tasks)
		return exitUsage
	}
	return t.runBench(ctx, o, wanted, strings.Join(append([]string{"bench"}, args...), " "))
}

// benchNames parses flags and names in any order.
func benchNames(fs *flag.FlagSet, args []string) (wanted []string, code int, done bool) {
	known := map[string]bool{}
	for _, m := range benchmarks {
		known[m.name] = true
	}
	for len(args) > 0 {
		switch err := fs.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, exitOK, true
		case err != nil:
			return nil, exitUsage, true
		}
		args = fs.Args()
		if len(args) == 0 {
			break
		}
		if !known[args[0]] {
			near, _ := config.Nearest(args[0], known)
			fmt.Fprintf(fs.Output(), "bench: no benchmark %q; did you mean %s? bench -h lists them\n", args[0], near)
			return nil, exitUsage, true
		}
		wanted = append(wanted, args[0])
		args = args[1:]
	}
	return wanted, 0, false
}

// bench is one run of the command.
type bench struct {
	o   benchOptions
	t   terminal
	dir string // logs and data of the children; removed at the end

	cluster  *kafkatest.Cluster
	registry *kafkatest.RegistryServer

	warm     *benchInput // the input of path-rate, once the brokers are warm
	paths    *pathResult // of path-cpu and path-rate, measured once
	topics   []string    // inputs made
	children int
}

func (t terminal) runBench(ctx context.Context, o benchOptions, wanted []string, command string) int {
	dir, err := os.MkdirTemp("", "odradek-bench-")
	if err != nil {
		fmt.Fprintln(t.err, "bench:", err)
		return exitFailed
	}
	b := &bench{o: o, t: t, dir: dir}
	defer b.close()
	if len(wanted) == 0 {
		for _, m := range benchmarks {
			if !m.asked {
				wanted = append(wanted, m.name)
			}
		}
	}
	if slices.ContainsFunc(benchmarks, func(m benchmark) bool { return m.kafka && slices.Contains(wanted, m.name) }) {
		// Before minutes go into an input.
		if _, err := kafkatest.WorkerProgram(o.worker); err != nil {
			fmt.Fprintln(t.err, "bench:", err)
			return exitFailed
		}
	}
	// The process that measures must not be what is measured: a collection of
	// its few buffers now and then is enough.
	debug.SetGCPercent(400)

	report := benchReport{out: t.out, json: o.json, command: command, cpu: cpuName()}
	code := exitOK
	for _, m := range benchmarks {
		if !slices.Contains(wanted, m.name) {
			continue
		}
		rows, err := b.one(ctx, m)
		for i := range rows {
			rows[i].Name = m.name
		}
		if ctx.Err() != nil {
			report.add(rows) // what there is
			report.end()
			fmt.Fprintln(t.err, "bench: stopped")
			return exitFailed
		}
		if err != nil {
			// A machine without a part is no failure; everything else is.
			if missing := (*kafkatest.MissingError)(nil); !errors.As(err, &missing) && !errors.Is(err, errNoGPU) {
				code = exitFailed
				fmt.Fprintf(t.err, "bench: %s: %v\n", m.name, err)
			}
			rows = append(rows, benchRow{Name: m.name, Skipped: firstLine(err.Error())})
		}
		report.add(rows)
	}
	report.end()
	return code
}

func (b *bench) one(ctx context.Context, m benchmark) ([]benchRow, error) {
	b.say("%s: %s", m.name, m.what)
	if m.kafka {
		if err := b.open(ctx); err != nil {
			return nil, err
		}
	}
	return m.run(b, ctx)
}

// open starts the brokers and the registry, or takes those that are named.
func (b *bench) open(ctx context.Context) (err error) {
	if b.cluster != nil {
		return nil
	}
	if b.registry == nil {
		if b.registry, err = kafkatest.StartFakeRegistry(); err != nil {
			return err
		}
	}
	switch {
	case b.o.brokers != "":
		b.cluster, err = kafkatest.Attach(ctx, "of -brokers", b.o.brokers)
	case b.o.kafka == kafkatest.KindFake:
		b.cluster, err = kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1, NoRegistry: true, Dir: filepath.Join(b.dir, "kfake")})
	default:
		b.cluster, err = kafkatest.StartKafka(ctx, benchBroker(b.o.kafka, filepath.Join(b.dir, "kafka")))
	}
	if err == nil {
		b.say("brokers %s at %s, ready in %v", b.cluster.Kind, strings.Join(b.cluster.Brokers, ","), b.cluster.Took.Round(time.Millisecond))
	}
	return err
}

// benchBroker is a broker as its own start script runs it, not one cut down
// for tests: a heap of 1 GiB, the script's collector flags, the optimising
// compiler, Kafka's default thread counts and cleaning intervals, but for what a
// benchmark deletes.
func benchBroker(version, dir string) kafkatest.Options {
	return kafkatest.Options{
		Version: version, Nodes: 1, HeapMB: 1024, Dir: dir,
		JVM: []string{"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
			"-XX:+ExplicitGCInvokesConcurrent"},
		Config: map[string]string{
			"num.network.threads":             "3",
			"num.io.threads":                  "8",
			"background.threads":              "10",
			"log.cleaner.backoff.ms":          "15000",
			"log.retention.check.interval.ms": "20000",
			"log.initial.task.delay.ms":       "30000",
			"log.segment.delete.delay.ms":     "1000", // one benchmark's topics make room for the next one's
			"log.cleaner.dedupe.buffer.size":  "134217728",
			"log.cleaner.io.buffer.size":      "524288",
		},
	}
}

func (b *bench) close() {
	if b.cluster != nil {
		b.drop(b.topics...)
		b.cluster.Close()
	}
	if b.registry != nil {
		b.registry.Close()
	}
	if os.Getenv("ODRADEK_TEST_KEEP") == "" {
		os.RemoveAll(b.dir)
	}
}

// scale is a number of records, less with -quick.
func (b *bench) scale(n int) int {
	if b.o.quick {
		return n / 10
	}
	return n
}

// span is a duration, less with -quick.
func (b *bench) span(d time.Duration) time.Duration {
	if b.o.quick {
		return d / 4
	}
	return d
}

func (b *bench) say(format string, args ...any) {
	if b.o.verbose {
		fmt.Fprintf(b.t.err, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
}

// cpuName is the processor's name and how many cores there are to use.
func cpuName() string {
	name := runtime.GOARCH
	if f, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(f)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				name = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores", name, runtime.NumCPU())
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// benchChild, as the first argument, makes this program one of the processes that a
// benchmark runs beside the worker: a peer, or something whose memory is measured.
const benchChild = "child"

func (t terminal) benchChild(ctx context.Context, what string, args []string) int {
	var err error
	switch what {
	case "franz-go":
		err = franzLoop(ctx, args, t.out)
	case "memory":
		err = memoryChild(args, t.out)
	default:
		err = fmt.Errorf("no child %q", what)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(t.err, "bench:", err)
		return exitFailed
	}
	return exitOK
}
