package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/size"
	"odradek/processor/kafkatest"
)

// Sizing: what a worker of a fleet takes, beside what worker size says of the same settings. The first two fleets are those from
// which the costs come that worker size has recorded; they differ in their rate alone.

// sizingFleet is a fleet at a steady rate.
type sizingFleet struct {
	name     string
	series   int
	rate     float64 // samples a second of each
	before   int     // samples of each that are there before
	settings []string
}

// sizingFleets returns the two fleets behind the recorded costs, and those that are compared.
func sizingFleets() (recorded [2]sizingFleet, compared []sizingFleet) {
	set := func(lines ...string) []string {
		for i := range lines {
			lines[i] = config.Prefix + lines[i]
		}
		return append(lines, config.Prefix+"SESSION_TIMEOUT=6s", config.Prefix+"TRANSACTION_TIMEOUT=5s",
			config.Prefix+"REPLAY_LIMIT=10s") // each series is written every 8 s or so, several times in a span
	}
	small := set() // the testbed's: zscore over 8 samples, no anomalies
	recorded = [2]sizingFleet{{"slow", 1000, 1, 50, small}, {"fast", 1000, 200, 50, small}}
	return recorded, []sizingFleet{
		{"1,000,000 series, zscore, no scores", 1_000_000, 0.05, 9, append(small, config.Prefix+"SCORES=none")},
		{"10,000 series, preset default", 10_000, 1, 1200, set("PRESET=default")},
		{"50,000 series, zscore, at a high rate", 50_000, 4, 20, small},
	}
}

const (
	sizingWarm = 12 * time.Second // longer than the replay limit: snapshots are as they stay
	sizingSpan = 24 * time.Second
)

// sized is what a worker took in a span.
type sized struct {
	samples                    float64 // a second
	cores                      float64 // busy
	heap, state                float64 // bytes
	outputs, changelog, others float64 // bytes a second; share of the cores
	takeover                   float64 // seconds, from the kill on
}

// SizingCosts measures the costs that worker size has recorded.
func (b *FleetBench) SizingCosts(ctx context.Context) (rows []testbed.Row, err error) {
	recorded, _ := sizingFleets()
	var got [2]sized
	for i := range recorded {
		if got[i], err = b.sizeFleet(ctx, &recorded[i], false); err != nil {
			return rows, fmt.Errorf("%s: %w", recorded[i].name, err)
		}
	}
	plan, err := b.plan(ctx, &recorded[1])
	if err != nil {
		return rows, err
	}
	var own, batches [2]float64
	for i := range got {
		own[i] = got[i].cores - got[i].samples*plan["processor time of a sample"].Value
		batches[i] = got[i].samples / recorded[i].batch()
	}
	batch := (own[1] - own[0]) / (batches[1] - batches[0])
	note := fmt.Sprintf("%d series at %s and %s records/s, %.3g and %.3g in a batch, %d partitions, %s", recorded[0].series,
		testbed.Figure(got[0].samples), testbed.Figure(got[1].samples), recorded[0].batch(), recorded[1].batch(), b.Partitions, b.Cluster.Kind)
	note += fmt.Sprintf("; %.3g and %.3g cores busy, %s ns of a core a sample by worker size", got[0].cores, got[1].cores,
		testbed.Figure(1e9*plan["processor time of a sample"].Value))
	heap := got[0].heap - plan["heap of a series"].Value*float64(recorded[0].series)
	return []testbed.Row{
		testbed.NewRow("a batch beside its samples", 1e6*batch, "us").Noted("%s", note),
		testbed.NewRow("a worker beside batches", own[0]-batch*batches[0], "cores").Noted("%s", note),
		testbed.NewRow("heap of a worker beside its series", heap/1e6, "MB").Noted("%s", note),
	}, nil
}

// batch returns the records that pace writes together to a partition of the fleet: what a writer's share has in a millisecond.
func (f *sizingFleet) batch() float64 {
	return max(1, float64(f.series)*f.rate/1000/fleetWriters/fleetWriters)
}

// Sizing measures fleets and compares them with worker size.
func (b *FleetBench) Sizing(ctx context.Context) (rows []testbed.Row, err error) {
	_, compared := sizingFleets()
	for i := range compared {
		f := &compared[i]
		f.series = b.Scale(f.series)
		if b.Sensors > 0 {
			f.series = min(f.series, b.Sensors)
		}
		got, err := b.sizeFleet(ctx, f, strings.Contains(f.name, "default"))
		if err != nil {
			return rows, fmt.Errorf("%s: %w", f.name, err)
		}
		plan, err := b.plan(ctx, f)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", f.name, err)
		}
		rows = append(rows, got.beside(b, f, plan)...)
	}
	return rows, nil
}

// beside puts what a fleet took beside its plan.
func (s *sized) beside(b *FleetBench, f *sizingFleet, plan map[string]size.Row) (rows []testbed.Row) {
	for _, c := range []struct {
		what, row, unit string
		value, by       float64
	}{
		{"cores busy", "cores busy", "cores", s.cores, 1},
		{"heap", "heap of a worker", "MB", s.heap, 1e6},
		{"state of a series", "state of a series", "B", s.state / float64(f.series), 1},
		{"scores and anomalies", "scores and anomalies", "MB/s", s.outputs, 1e6},
		{"changelog", "changelog", "MB/s", s.changelog, 1e6},
		{"takeover", "takeover after a crash", "s", s.takeover, 1},
	} {
		says := plan[c.row].Value / c.by
		if c.value /= c.by; c.value == 0 {
			continue
		}
		r := testbed.NewRow(f.name+": "+c.what, c.value, c.unit).Against("worker size", says, true)
		r = r.Want("within 25 %", math.Abs(c.value/says-1) <= 0.25).Noted("%s samples/s, %d of each before; %d partitions, exactly once, %s",
			testbed.Figure(s.samples), f.before, b.Partitions, b.Cluster.Kind)
		if s.others > testbed.MaxOthers {
			r = r.Noted("other processes took %.0f%% of the cores", 100*s.others)
		}
		rows = append(rows, r)
	}
	return rows
}

// plan asks worker size about a fleet of which one worker carries all.
func (b *FleetBench) plan(ctx context.Context, f *sizingFleet) (map[string]size.Row, error) {
	program, err := kafkatest.WorkerProgram(b.WorkerProgram)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "size", "-json", "-series", strconv.Itoa(f.series), "-rate", fmt.Sprint(f.rate), "-samples",
		strconv.Itoa(f.before+int((sizingWarm).Seconds()*f.rate)), "-cores", strconv.Itoa(cmp.Or(b.Procs, runtime.NumCPU())), "-memory",
		"1024GiB", "-key", "press-000001/bearing", "-record-bytes", "85", "-batch", fmt.Sprint(f.batch()), "-partitions",
		strconv.Itoa(b.Partitions))
	cmd.Env = b.WorkerEnv(&testbed.Input{Topic: "bench-sizing-0000"}, "bench-sizing-0000-g", f.settings...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("worker size: %w: %s", err, errs.String())
	}
	plan := map[string]size.Row{}
	for line := range bytes.Lines(out) {
		var r size.Row
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		plan[r.Name] = r
	}
	return plan, nil
}

// sizeFleet measures a fleet; with kill it then kills the worker, and starts another one.
func (b *FleetBench) sizeFleet(ctx context.Context, f *sizingFleet, kill bool) (s sized, err error) {
	in, err := b.newFleetInput(ctx, "sizing")
	if err != nil {
		return s, err
	}
	defer b.dropFleet(in)
	in.grow(f.series)
	if err := b.fillFleet(ctx, in, 0, len(in.Keys[0]), len(in.Keys[0])*f.before); err != nil {
		return s, err
	}
	side := &fleetSide{name: f.name, settings: []string{config.Prefix + "EXECUTOR=cpu"}}
	r, err := b.startFleet(ctx, in, side, f.settings)
	if err != nil {
		return s, err
	}
	defer func() { r.Kill() }()
	if err := r.caughtUp(ctx, 20*time.Minute); err != nil {
		return s, err
	}
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	var sent atomic.Int64
	generated := make(chan error, 1)
	go func() { generated <- b.pace(gctx, in, len(in.Keys[0]), f.rate*float64(in.sensors()), &sent) }()
	if err := testbed.Pause(ctx, b.Span(sizingWarm)); err != nil {
		return s, err
	}
	from, err := r.sizeNow(ctx)
	if err == nil {
		err = testbed.Pause(ctx, b.Span(sizingSpan))
	}
	to, err2 := r.sizeNow(ctx)
	if err = errors.Join(err, err2); err != nil {
		return s, err
	}
	span := to.at.Sub(from.at).Seconds()
	s = sized{
		samples: (to.records - from.records) / span, cores: (to.cpu - from.cpu).Seconds() / span,
		outputs: (to.outputs - from.outputs) / span, changelog: (to.changelog - from.changelog) / span,
		others: to.load.OthersSince(from.load),
	}
	if s.heap, s.state, err = r.Heap(); err != nil {
		return s, err
	}
	if kill {
		if s.takeover, err = b.takeover(ctx, r, in, side, f.settings); err != nil {
			return s, err
		}
	}
	stop()
	b.Say("%s: %+v", f.name, s)
	return s, <-generated
}

// takeover starts a second worker, kills the first one when each has half of the partitions, and returns the seconds until the second
// has all of them.
func (b *FleetBench) takeover(ctx context.Context, first *fleetRun, in *fleetInput, side *fleetSide, settings []string) (float64, error) {
	second, err := b.startFleet(ctx, in, side, settings)
	if err != nil {
		return 0, err
	}
	defer second.Kill()
	if err := second.has(ctx, float64(len(in.Keys)/2)); err != nil {
		return 0, err
	}
	began := time.Now()
	first.Kill()
	if err := second.has(ctx, float64(len(in.Keys))); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}

// has waits until the worker has this number of partitions, all restored.
func (r *fleetRun) has(ctx context.Context, partitions float64) error {
	const assigned, restoring = "odradek_assigned_partitions", "odradek_restoring_partitions"
	for deadline := time.Now().Add(5 * time.Minute); ; {
		m, err := r.Metrics(assigned, restoring)
		if err != nil {
			return err
		}
		if m[assigned] == partitions && m[restoring] == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return r.Failed(fmt.Errorf("%g partitions of %g after 5m", m[assigned]-m[restoring], partitions))
		}
		if err := testbed.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// sizePoint is what a worker and its topics have taken up to a moment.
type sizePoint struct {
	at                          time.Time
	cpu                         time.Duration
	records, outputs, changelog float64
	load                        testbed.Load
}

func (r *fleetRun) sizeNow(ctx context.Context) (p sizePoint, err error) {
	records, err := r.Consumed()
	if err != nil {
		return p, err
	}
	p = sizePoint{at: time.Now(), cpu: r.CPU(), records: float64(records), load: r.b.Load(r.Worker)}
	for _, t := range []struct {
		name string
		sum  *float64
	}{{r.Scores, &p.outputs}, {r.Group + "-anomalies", &p.outputs}, {r.Changelog, &p.changelog}} {
		n, err := r.b.TopicBytes(ctx, t.name)
		if err != nil {
			return p, err
		}
		*t.sum += float64(n)
	}
	return p, nil
}
