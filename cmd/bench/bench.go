package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"odradek/cmd/bench/ops"
	"odradek/cmd/bench/testbed"
	"odradek/cmd/bench/worker"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// benchmark is one name that the program knows. Its run returns one row or
// several: one for each baseline, or for each case.
type benchmark struct {
	name, what string
	kafka      bool // needs brokers
	asked      bool // only where it is named
	run        func(context.Context) ([]testbed.Row, error)
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
// run here is left out, with the reason in the row.
func (t terminal) bench(ctx context.Context, args []string) int {
	if len(args) > 1 && args[0] == worker.ChildArgument {
		if err := worker.RunChild(ctx, args[1:], t.out); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(t.err, "bench:", err)
			return exitFailed
		}
		return exitOK
	}
	if len(args) > 0 && args[0] == "papers" {
		return t.papers(args[1:])
	}
	if len(args) > 0 && args[0] == "faults" {
		return t.faults(ctx, args[1:])
	}
	b := newBench(t)
	var about strings.Builder
	known := map[string]bool{}
	for _, m := range b.benchmarks() {
		fmt.Fprintf(&about, "  %-13s %s\n", m.name, m.what)
		known[m.name] = true
	}
	asJSON, gpus := false, ""
	fs := t.flags("Measures this build against its baselines and prints a table. Names, default all but topn, regions, lof-bins, sst-tasks, "+
		"discords-range, discord-left, distant, aggregate, doors, commit, fleet, backtest, sizing-costs, sizing and capacity; "+
		"papers alone prints the tables of "+
		"docs/papers.md, "+
		"and faults checks what workers publish under faults:\n\n"+
		about.String(), benchExamples)
	fs.BoolVar(&asJSON, "json", false, "one JSON object a line")
	fs.BoolVar(&b.options.Quick, "quick", false, "a tenth of the records: to try it out, not to quote")
	fs.StringVar(&b.bed.Kafka, "kafka", kafkatest.Versions[0], "version of Apache Kafka to start, one node; or kfake")
	fs.StringVar(&b.bed.Brokers, "brokers", "", "use these brokers, host:port,..., instead of starting one")
	fs.IntVar(&b.options.Repeat, "repeat", 3, "times to measure what varies; the median counts")
	fs.IntVar(&b.bed.Procs, "procs", 0, "GOMAXPROCS of the worker; 0: all cores")
	fs.Float64Var(&b.worker.Rate, "rate", 0, "records/s for latency and skew; 0: half of path-rate, measured first")
	fs.BoolVar(&b.options.Peers, "peers", true, "run the baselines that need other programs (Kafka Streams, franz-go, numpy)")
	fs.StringVar(&b.worker.Streams, "streams", "docs/benchmarks/peers/kafka-streams", "folder of the Kafka Streams programs")
	fs.StringVar(&b.worker.Connect, "connect", "docs/benchmarks/peers/redpanda-connect",
		"folder of the Redpanda Connect program, or `path` of the built program")
	fs.IntVar(&b.worker.Series, "series", 0, "series of aggregate; 0: 1,000,000")
	fs.StringVar(&b.ops.Python, "python", "python3",
		"Python with numpy, for ikasst-cpu and svdsst-cpu, scipy, for svdsst-cpu, and scikit-learn, for lof-cpu; for knn-cpu with all "+
			"of them")
	fs.StringVar(&b.bed.Compress, "compression", "", "compression of what the worker and its peers write; default: the worker's")
	fs.StringVar(&b.options.Profile, "profile", "", "folder to write CPU profiles of the worker to")
	fs.StringVar(&b.bed.WorkerProgram, "worker", "", "`program` to measure as the worker; default: worker, beside this program")
	fs.StringVar(&b.gpu.Child, "child", "", "program of the GPU, for ops; default: odradek-cuda beside this program")
	fs.Func("shapes",
		"of topn, regions, ops and ops-scale, only what matches this `regexp`; no latency", func(text string) error {
			var err error
			b.ops.Shapes, err = regexp.Compile(text)
			return err
		})
	fs.StringVar(&b.ops.Recording, "recording", "",
		"`file` of a recording, a value a line, for the shapes of ops that search one; default: without them")
	fs.StringVar(&b.ops.Tables, "tables", "../shared/data/tabular/dev",
		"`folder` of the tables of topn and knn-cpu, npz files of the ADBench collection")
	fs.StringVar(&b.ops.Recordings, "recordings", "../shared/data/discords/dev",
		"`folder` of the recordings of discords-range, of the papers on HOT SAX, MERLIN and PALMAD")
	fs.IntVar(&b.gpu.Lanes, "lanes", 0, "batches in flight on the GPU, for ops; 0: the executor's default")
	fs.StringVar(&b.fleet.Executors, "executors", "cpu,cuda", "executors of fleet and capacity")
	fs.StringVar(&gpus, "gpus", "", "numbers of GPUs for fleet, capacity and ops-scale, such as `1,2,4`; default: 1, and for ops-scale 1, "+
		"2, 4 and so on, as many as there are")
	fs.IntVar(&b.fleet.Sensors, "sensors", 0,
		"sensors of fleet, of backtest, and those that capacity begins with; 0: 20,000, 10,000 and 5,000")
	fs.IntVar(&b.fleet.Days, "days", worker.DefaultDays, "days of a reading a minute, of backtest")
	fs.IntVar(&b.fleet.Partitions, "partitions", 16, "partitions of fleet and capacity")
	fs.StringVar(&b.fleet.Preset, "preset", "", "preset of the worker in fleet and capacity, such as default, in place of IKA-SST and LOF")
	fs.IntVar(&b.fleet.SST, "sst", worker.DefaultSST, "window of IKA-SST in fleet and capacity; 0: without")
	fs.IntVar(&b.fleet.LOF, "lof", -1, "window of LOF in fleet and capacity; 0: without, -1: 1,024 and 256")
	fs.DurationVar(&b.fleet.Budget, "budget", 100*time.Second, "time for capacity to look with one executor; a look that has begun is ended")
	fs.Var((*settingList)(&b.bed.Settings), "set", "a setting for the worker, `ODRADEK_NAME=value`; may be repeated")
	fs.BoolVar(&b.options.Verbose, "v", false, "say on standard error what is going on")
	wanted, code, done := benchNames(fs, args, known)
	if done {
		return code
	}
	b.ops.GPUs, b.fleet.GPUs = gpus, gpus
	table := &testbed.Report{Out: t.out, JSON: asJSON, Command: strings.Join(append([]string{"bench"}, args...), " "), CPU: testbed.CPUName()}
	return b.run(ctx, wanted, table)
}

// benchNames parses flags and names in any order.
func benchNames(fs *flag.FlagSet, args []string, known map[string]bool) (wanted []string, code int, done bool) {
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

// bench is one run of the command: the flags that benchmarks have in common, and the
// benchmarks by package.
type bench struct {
	t       terminal
	options *testbed.Measuring
	gpu     *testbed.GPUOptions
	bed     *testbed.Bed
	ops     *ops.Bench
	worker  *worker.Bench
	fleet   *worker.FleetBench
}

func newBench(t terminal) *bench {
	b := &bench{t: t, options: &testbed.Measuring{Log: t.err}, gpu: &testbed.GPUOptions{}}
	b.bed = &testbed.Bed{Measuring: b.options}
	b.ops = &ops.Bench{Measuring: b.options, GPU: b.gpu}
	b.worker = &worker.Bench{Bed: b.bed}
	b.fleet = &worker.FleetBench{Bed: b.bed, GPU: b.gpu}
	return b
}

// benchmarks lists all of them in the order in which they run.
func (b *bench) benchmarks() []benchmark {
	return []benchmark{
		{"decode", "reading 3 of 5 fields, nested and with unions; against goavro", false, false, b.ops.Decode},
		{"ikasst-cpu", "IKA-SST on one core; against numpy", false, false, b.ops.IKASST},
		{"lof-cpu", "LOF of whole windows on one core; against scikit-learn", false, false, b.ops.LOFWindows},
		{"lof-stride1", "LOF of one fresh sample a task on one core", false, false, b.ops.LOFStride},
		{"svdsst-cpu", "SVD-SST on one core; against numpy and scipy", false, false, b.ops.SVDSST},
		{"knn-cpu", "all kNN weights of a million points, and the largest of a table; against scipy and scikit-learn", false, false,
			b.ops.KNNTrees},
		{"scan-cpu", "the most likely rectangle of a map of 128 x 128 cells on one core; against numpy", false, false, b.ops.ScanRegions},
		{"topn", "the points of largest kNN weight by each way of Angiulli et al. 2013: time, and share of the distances", false, true,
			b.ops.TopWeights},
		{"regions", "the most anomalous rectangle of a map by BF, DM and AX of Pang et al. 2013, and by op scan: time, share of the ratios",
			false, true, b.ops.Regions},
		{"lof-bins", "LOF by window and bins on one core: time, memory, and how well it tells faults from known states, beside exact LOF", false, true,
			b.ops.LOFBins},
		{"sst-tasks", "change scores by the tasks of a batch, on one core and on a GPU", false, true, b.ops.SSTTasks},
		{"discords-range", "range discords of random walks by length of the series and number of lengths, on one core and on a GPU", false, true,
			b.ops.DiscordRanges},
		{"discord-left", "left discords of a stream by window on one core", false, true, b.ops.DiscordLeft},
		{"ops", "each op on a GPU, kernel alone and Execute from Go; against the CPU", false, false, b.ops.OnDevice},
		{"ops-scale", "Execute on several GPUs of this host, as a ratio to one", false, false, b.ops.OnDevices},
		{"path-cpu", "CPU per record of a worker, fetch to committed score, exactly once", true, false, b.worker.PathCPU},
		{"path-rate", "records a second of the same; against Kafka Streams and franz-go", true, false, b.worker.PathRate},
		{"distant", "the same rate where brokers are 160, 240 and 400 ms of round trip away, through a proxy", true, true, b.worker.Distant},
		{"events", "the same with LOF of 64 samples, thresholds and anomalies, by part", true, false, b.worker.Events},
		{"latency", "event to visible score at half of that rate", true, false, b.worker.Latency},
		{"memory", "resident bytes per key beyond what its window needs", false, false, b.worker.Memory},
		{"restore", "changelog and replay after SIGKILL", true, false, b.worker.Restore},
		{"warmup", "records a second that a new group reads to fill its windows, beside the replay of the same; time to its first score", true, false,
			b.worker.Warmup},
		{"aggregate", "a backlog of a million series aggregated to a mean a minute; against Kafka Streams and Redpanda Connect", true,
			true, b.worker.Aggregate},
		{"skew", "latency of partitions beside one with a hot key", true, false, b.worker.Skew},
		{"doors", "latency of scores while a thousand clients ask the page", true, true, b.worker.Doors},
		{"commit", "a worker's transactions, without reading and scoring", true, true, b.fleet.Commit},
		{"fleet", "records a second of a worker with IKA-SST and LOF of every sample, CPU against GPU", true, true, b.fleet.Fleet},
		{"backtest", "rows a second of worker backtest over a fleet of sensors in Parquet files, which it writes first", false, true,
			b.fleet.Backtest},
		{"sizing-costs", "what a worker takes beside its series and samples: the costs that worker size has recorded", true, true,
			b.fleet.SizingCosts},
		{"sizing", "what a worker of each of three fleets takes, beside what worker size says", true, true, b.fleet.Sizing},
		{"capacity", "sensors at one sample in 100 ms that a worker serves, p99 <= 250 ms", true, true, b.fleet.Capacity},
	}
}

// run measures the wanted benchmarks in the order of the list.
func (b *bench) run(ctx context.Context, wanted []string, table *testbed.Report) int {
	t := b.t
	dir, err := os.MkdirTemp("", "odradek-bench-")
	if err != nil {
		fmt.Fprintln(t.err, "bench:", err)
		return exitFailed
	}
	b.bed.Dir = dir
	defer b.bed.Close()
	if len(wanted) == 0 {
		for _, m := range b.benchmarks() {
			if !m.asked {
				wanted = append(wanted, m.name)
			}
		}
	}
	if slices.ContainsFunc(b.benchmarks(), func(m benchmark) bool { return m.kafka && slices.Contains(wanted, m.name) }) {
		// Checked before minutes are spent on an input.
		if _, err := kafkatest.WorkerProgram(b.bed.WorkerProgram); err != nil {
			fmt.Fprintln(t.err, "bench:", err)
			return exitFailed
		}
	}
	// The measuring process must not disturb the measurement, and its few buffers need
	// little garbage collection.
	debug.SetGCPercent(400)

	code := exitOK
	for _, m := range b.benchmarks() {
		if !slices.Contains(wanted, m.name) {
			continue
		}
		rows, err := b.one(ctx, m)
		for i := range rows {
			rows[i].Name = m.name
		}
		if ctx.Err() != nil {
			table.Add(rows) // the rows so far
			table.End()
			fmt.Fprintln(t.err, "bench: stopped")
			return exitFailed
		}
		if err != nil {
			// A missing part of the machine is no failure; every other error is.
			if missing := (*kafkatest.MissingError)(nil); !errors.As(err, &missing) && !errors.Is(err, testbed.ErrNone) {
				code = exitFailed
				fmt.Fprintf(t.err, "bench: %s: %v\n", m.name, err)
			}
			rows = append(rows, testbed.Row{Name: m.name, Skipped: testbed.FirstLine(err.Error())})
		}
		table.Add(rows)
	}
	table.End()
	return code
}

func (b *bench) one(ctx context.Context, m benchmark) ([]testbed.Row, error) {
	b.options.Say("%s: %s", m.name, m.what)
	if m.kafka {
		if err := b.bed.Open(ctx); err != nil {
			return nil, err
		}
	}
	return m.run(ctx)
}
