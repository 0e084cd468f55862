package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/size"
	"odradek/cuda"
	"odradek/processor/cycle"
	"odradek/processor/kafka/record"
	"odradek/schemas/output"
)

const sizeAbout = `Says what a fleet needs with the configured detectors: workers, cores, memory, GPUs, bandwidth of the brokers,
changelog, and the time of a takeover.

It runs a few series on this machine, through the worker's own state, executor and encoders, until their state grows no more: run it
on a machine like the workers', with nothing else running. What whole workers take beside that is recorded. Each row says where its
figure comes from; * marks figures that are extrapolated from those few series. docs/sizing.md compares plans with measured fleets.
Nothing is read from brokers or written to them.`

const sizeExamples = `  worker size -config plant.yaml -series 100000 -rate 1
  ODRADEK_PRESET=fast worker size -series 1000000 -rate 0.1 -memory 32GiB
  ODRADEK_SCORES=none worker size -series 10000 -rate 10 -json`

// sizeOptions are the flags of `size`.
type sizeOptions struct {
	ask     size.Ask
	samples int
	key     string
	memory  config.ByteSize
	asJSON  bool
}

func (t terminal) size(ctx context.Context, args []string) int {
	fs := t.flags("size", sizeAbout, sizeExamples)
	o := sizeOptions{memory: 16 << 30}
	fs.IntVar(&o.ask.Series, "series", 0, "series of the fleet; needed")
	fs.Float64Var(&o.ask.Rate, "rate", 1, "samples a second of a series")
	fs.Float64Var(&o.ask.RecordBytes, "record-bytes", 100, "bytes of an input record, as the brokers have it")
	fs.Float64Var(&o.ask.Batch, "batch", 10, "records that a producer sends together to a partition: more with linger.ms")
	fs.StringVar(&o.key, "key", "line-1/press-000001", "a series key like the fleet's; its end becomes a number")
	fs.IntVar(&o.ask.Partitions, "partitions", 0, "partitions of the input topic; 0: propose a number")
	fs.IntVar(&o.samples, "samples", 0, "samples that each series has had; 0: until its state grows no more")
	fs.Float64Var(&o.ask.Cores, "cores", 4, "cores of a worker")
	fs.Func("memory", "memory limit of a worker; default 16GiB", func(text string) error { return o.memory.UnmarshalText([]byte(text)) })
	fs.BoolVar(&o.asJSON, "json", false, "print one JSON object a line")
	if code, done := parse(fs, args); done {
		return code
	}
	if err := o.check(); err != nil {
		fmt.Fprintln(t.err, "worker size:", err)
		return exitUsage
	}
	environ := t.environ
	if c, _, _ := config.Parse(environ); c.Group.Group == "" { // names of topics derive from it
		environ = append(slices.Clip(environ), config.Prefix+"GROUP=plant")
	}
	_, samples := config.MappingSettings()
	c, code, ok := terminal{t.out, t.err, environ}.configFor(append(samples, "DETECTOR", "PRESET", "SENSITIVITY", "MISSING", "DUPLICATES",
		"TRANSFORM", "VALUE_FIELDS",
		"SERIES_FIELDS", "SCORES", "OUTPUT_FORMAT", "COMPRESSION", "MAX_MESSAGE", "GUARANTEE", "COMMIT", "REPLAY", "SESSION", "EXECUTOR",
		"WORKERS", "CUDA")...)
	if !ok {
		return code
	}
	costs, err := o.measure(ctx, c)
	if err != nil {
		return t.fail(err)
	}
	if err := o.print(t.out, size.Plan(&o.ask, costs)); err != nil {
		return t.fail(err)
	}
	return exitOK
}

func (o *sizeOptions) check() error {
	var errs []error
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(o.ask.Series < 1 || o.ask.Series > 1e9, "-series %d: use 1 to 1000000000", o.ask.Series)
	bad(!(o.ask.Rate >= 1e-6 && o.ask.Rate <= 1e6), "-rate %v: use 0.000001 to 1000000", o.ask.Rate)
	bad(!(o.ask.RecordBytes >= 1 && o.ask.RecordBytes <= 1<<30), "-record-bytes %v: use 1 to 1073741824", o.ask.RecordBytes)
	bad(!(o.ask.Batch >= 1 && o.ask.Batch <= 1e6), "-batch %v: use 1 to 1000000", o.ask.Batch)
	bad(!(o.ask.Cores >= 1 && o.ask.Cores <= 4096), "-cores %v: use 1 to 4096", o.ask.Cores)
	bad(o.memory < 128<<20, "-memory %v: use 128MiB or more", o.memory)
	bad(o.ask.Partitions < 0 || o.ask.Partitions > 100_000, "-partitions %d: use 0 to 100000", o.ask.Partitions)
	bad(o.samples < 0 || o.samples > 1<<20, "-samples %d: use 0 to 1048576", o.samples)
	bad(o.key == "" || len(o.key) > 1024, "-key has %d bytes: use 1 to 1024", len(o.key))
	return errors.Join(errs...)
}

// measure completes what is asked for from the settings, and measures their costs.
func (o *sizeOptions) measure(ctx context.Context, c *config.Config) (costs *size.Costs, err error) {
	state, err := c.KeystateConfig()
	if err != nil {
		return nil, err
	}
	codec, err := record.ParseCodec(c.Output.Compression)
	if err != nil {
		return nil, err
	}
	exec, _, err := newExecutor(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	preset, _ := c.Expanded()
	o.ask.PerRecord, o.ask.Preset, o.ask.Memory = max(1, len(c.Series())), preset, float64(o.memory)
	o.ask.Session, o.ask.Rekey, o.ask.GPUMemory = c.Group.SessionTimeout, c.Cycle.Rekey, float64(c.GPU.Memory)
	o.ask.Machine = fmt.Sprintf("GOMAXPROCS=%d, %s/%s", runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH)
	m := size.Options{
		State: state, Executor: exec, Topic: "sensors", Key: o.key, Series: o.ask.Series, Rate: o.ask.Rate, Samples: o.samples,
		Outputs: c.OutputTopics(), Runs: c.Output.ScoresFormat == "runs", Numbered: c.AnyReadings(),
		AtLeastOnce: c.Cycle.Guarantee == "at_least_once", Codec: codec, BatchBytes: int(c.Output.MaxMessage),
		Commit: c.Cycle.CommitInterval, Replay: c.Cycle.ReplayLimit,
		Chunk:   int(min(16_384, max(1, float64(c.Fetch.PartitionBytes)/o.ask.RecordBytes*float64(o.ask.PerRecord)))),
		Fetched: int64(c.Fetch.PartitionBytes), Memory: 1 << 30,
	}
	if limit := config.MemoryLimit(); limit > 0 {
		m.Memory = min(m.Memory, limit/16)
	}
	m.Topic = cmp.Or(slices.Concat(c.Group.Topics, []string{m.Topic})...)
	if c.Output.Scores == "anomalous" {
		m.Scores = cycle.ScoresAnomalous
	}
	for i := range m.IDs {
		m.IDs[i] = c.Output.NoSchemaID()
		if m.IDs[i] == output.SingleObject && c.Registry.HasIDs() {
			m.IDs[i] = 1
		}
	}
	if gpu, ok := exec.(*cuda.Executor); ok {
		m.Busy = func() (sum time.Duration) {
			for _, d := range gpu.Stats().Devices {
				sum += d.Busy
			}
			return sum
		}
	}
	return size.Measure(ctx, &m)
}

// print prints the rows.
func (o *sizeOptions) print(w io.Writer, rows []size.Row) error {
	if o.asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		for i := range rows {
			if err := enc.Encode(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		mark := ""
		if r.Extrapolated {
			mark = "*"
		}
		fmt.Fprintf(table, "%s\t%s%s\t%s\n", r.Name, quantity(r.Value, r.Unit), mark, r.From)
	}
	return table.Flush()
}

// quantity writes a figure with three digits and its unit.
func quantity(v float64, unit string) string {
	steps, names := 1000.0, []string{"", "k", "M", "G", "T"}
	switch {
	case unit == "B":
		steps, names = 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"}
	case unit == "B/s":
		names = []string{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"}
	case unit == "s" && v < 1:
		for _, small := range []string{"ms", "us", "ns"} {
			if v *= 1000; v >= 1 || small == "ns" {
				return fmt.Sprintf("%.3g %s", v, small)
			}
		}
	case unit != "/s" || v < 10_000:
		return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit))
	}
	i := 0
	for v >= steps && i < len(names)-1 {
		v, i = v/steps, i+1
	}
	if unit == "/s" {
		return fmt.Sprintf("%.3g %s/s", v, names[i])
	}
	return fmt.Sprintf("%.3g %s", v, names[i])
}
