package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// DefaultSST is the window of IKA-SST; rank 3 and the 5 Krylov steps that belong to it are the
// worker's defaults.
const DefaultSST = 100

// The figures of fleet and capacity.
const (
	fleetSensors  = 20_000
	fleetLOF      = 1024 // points: the last 100 s at 10 samples a second
	fleetRate     = 200_000
	fleetRatio    = 20
	capacityLOF   = 256 // shorter, because the windows of up to a million sensors have to be filled
	capacityLimit = 250 // ms, of the p99
	// fleetBehind bounds the time in which a worker catches up after a load of half its
	// rate.
	fleetBehind = time.Second
	// capacityPaper is the number of sensors of the paper's cluster, with a sample every
	// 100 ms each.
	capacityPaper = 80_000
)

// FleetBench has the flags of the benchmarks of fleets of sensors.
type FleetBench struct {
	*testbed.Bed
	GPU                 *testbed.GPUOptions
	Executors, GPUs     string // to compare: names, and numbers of GPUs
	Sensors, Partitions int
	Preset              string        // of the worker; empty: IKA-SST and LOF
	Days                int           // of backtest
	SST, LOF            int           // windows of the detectors; 0: without, lof -1: the benchmark's own
	Budget              time.Duration // of capacity, for one executor
}

// fleetSide is one executor of the measured worker.
type fleetSide struct {
	name     string
	gpus     int // 0: the CPU's
	device   string
	settings []string
	err      error // why it cannot run here
}

// sides returns the executors of -executors, a GPU's once for each of -gpus.
func (b *FleetBench) sides() []fleetSide {
	var sides []fleetSide
	for name := range strings.SplitSeq(b.Executors, ",") {
		if name != "cuda" {
			sides = append(sides, fleetSide{name: name + " executor", settings: []string{config.Prefix + "EXECUTOR=" + name}})
			continue
		}
		for count := range strings.SplitSeq(cmp.Or(b.GPUs, "1"), ",") {
			n, err := strconv.Atoi(count)
			if err != nil || n < 1 {
				sides = append(sides, fleetSide{name: "cuda executor", gpus: 1, err: fmt.Errorf("-gpus: %q is not a number of GPUs", count)})
				continue
			}
			sides = append(sides, b.gpuSide(n))
		}
	}
	return sides
}

func (b *FleetBench) gpuSide(n int) fleetSide {
	s := fleetSide{name: fmt.Sprintf("cuda executor, %d GPU", n), gpus: n}
	var devices []string
	var indices []int
	for i := range n {
		devices, indices = append(devices, strconv.Itoa(i)), append(indices, i)
	}
	child, err := b.GPU.Program()
	if err == nil {
		s.device, err = b.GPU.Name(indices...)
	}
	s.err = err
	s.settings = []string{
		config.Prefix + "EXECUTOR=cuda", config.Prefix + "CUDA_CHILD=" + child, config.Prefix + "CUDA_DEVICES=" + strings.Join(devices, ","),
		config.Prefix + "CUDA_MEMORY=" + strconv.Itoa(8*n) + "GiB",
	}
	return s
}

// presetRows is the most samples that a detector of a preset reads, and its longest history.
const presetRows = 2048 + 32

// fleetDetectors returns the settings of the detectors: all score every sample.
func (b *FleetBench) fleetDetectors(lof int) (settings []string, rows int, note string) {
	set := func(name, value string) { settings = append(settings, config.Prefix+name+"="+value) }
	if b.Preset != "" {
		set("PRESET", b.Preset)
		return settings, presetRows, "preset " + b.Preset
	}
	var names, notes []string
	rows = 1
	if w := b.SST; w > 0 {
		names = append(names, "change")
		set("DETECTOR_CHANGE_OP", "ikasst")
		set("DETECTOR_CHANGE_WINDOW", strconv.Itoa(w))
		rows = max(rows, 2*(2*w-1)+8)
		notes = append(notes, fmt.Sprintf("IKA-SST w=%d r=3 k=5", w))
	}
	if lof > 0 {
		names = append(names, "rare")
		set("DETECTOR_RARE_OP", "lof")
		set("DETECTOR_RARE_WINDOW", strconv.Itoa(lof))
		rows = max(rows, lof)
		notes = append(notes, fmt.Sprintf("LOF N=%d k=20", lof))
	}
	set("DETECTORS", strings.Join(names, ","))
	return settings, rows, strings.Join(notes, ", ") + ", stride 1"
}

// fleetRun is a worker of one side at work on a fleet's topic.
type fleetRun struct {
	*testbed.Worker
	b    *FleetBench
	f    *fleetInput
	side *fleetSide
}

// startFleet starts a worker in the group of the topic. Its predecessor has left all
// windows in the changelog.
func (b *FleetBench) startFleet(ctx context.Context, f *fleetInput, side *fleetSide, settings []string) (*fleetRun, error) {
	w, err := b.StartWorker(f.Input, f.Topic+"-g", append(settings[:len(settings):len(settings)], side.settings...)...)
	if err != nil {
		return nil, err
	}
	r := &fleetRun{w, b, f, side}
	if err := w.Ready(ctx); err != nil {
		w.Kill()
		return nil, err
	}
	return r, nil
}

// dropFleet deletes what a fleet wrote, which is gigabytes.
func (b *FleetBench) dropFleet(f *fleetInput) {
	group := f.Topic + "-g"
	b.Drop(f.Topic, group+"-scores", config.ChangelogName(config.ChangelogPrefix(group), f.Topic), group+"-dlq", group+"-late")
}

// caughtUp waits until all written records are scored and committed.
func (r *fleetRun) caughtUp(ctx context.Context, limit time.Duration) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ends, err := r.b.Cluster.Admin().Ends(ctx, r.f.Topic, kafkatest.HighWatermark)
	if err != nil {
		return err
	}
	waited := make(chan error, 1)
	go func() { waited <- r.b.Cluster.Admin().WaitCommittedTo(ctx, r.Group, r.f.Topic, ends) }()
	select {
	case err = <-waited:
	case <-r.Done:
		return r.Ended()
	}
	if err != nil {
		return r.Failed(fmt.Errorf("not done with its input in %v: %w", limit, err))
	}
	r.b.Say("%s: caught up after %v", r.side.name, time.Since(began).Round(time.Millisecond))
	return nil
}

// measured has the measurements of a worker during a run.
type measured struct {
	testbed.Pace
	filling float64 // share of the time in which the generator was still writing
	gpuBusy float64 // time of batches on the devices, of one device's time; more than one batch at a time counts more than once
	gpuUtil float64 // share of the time in which a kernel ran, by the driver's count; NaN where it is unknown
	onCPU   float64 // share of the tasks that the CPU scored all the same
	batch   float64 // tasks of a batch on a device
}

const (
	gpuBusy    = "odradek_gpu_busy_seconds_total"
	gpuTasks   = `odradek_executor_scored_tasks_total{executor="cuda"}`
	cpuTasks   = `odradek_executor_scored_tasks_total{executor="cpu"}`
	gpuBatches = `odradek_executor_batches_total{executor="cuda"}`
	gpuFaults  = "odradek_gpu_faults_total"
)

// throughput measures the pace over about the given time: from the first write of a known
// number of records to the commit of the last. It covers the whole run, because partitions
// commit in steps of a fetch, 13,000 records, and a slow executor takes a second for one.
func (r *fleetRun) throughput(ctx context.Context, span time.Duration) (m measured, err error) {
	parts := len(r.f.Keys)
	// A probe of the rate, with few records.
	probe := r.b.Scale(20_000 * max(1, 10*r.side.gpus))
	began := time.Now()
	if err := r.b.fillFleet(ctx, r.f, 0, len(r.f.Keys[0]), max(1, probe/parts)); err != nil {
		return m, err
	}
	if err := r.caughtUp(ctx, 3*time.Minute); err != nil {
		return m, err
	}
	rate := float64(probe) / time.Since(began).Seconds()
	// The rate of the probe is too low, because it includes waits. A second one corrects it.
	for range 2 {
		n := max(int(rate*2), probe)
		began = time.Now()
		if err := r.b.fillFleet(ctx, r.f, 0, len(r.f.Keys[0]), max(1, n/parts)); err != nil {
			return m, err
		}
		if err := r.caughtUp(ctx, 3*time.Minute); err != nil {
			return m, err
		}
		rate = float64(n) / time.Since(began).Seconds()
	}
	total := max(min(int(rate*span.Seconds()), r.b.Scale(40_000_000))/parts, 1) * parts
	if r.b.Profile != "" {
		name := strings.NewReplacer(" ", "-", ",", "").Replace("fleet-" + r.side.name)
		time.AfterFunc(span/4, func() { r.b.SaveProfile(r.Worker, name+".cpu", span/2) })
	}
	util := r.b.sampleUtilization(ctx, r.side)
	gpu0, err0 := r.Metrics(gpuBusy, gpuTasks, cpuTasks, gpuBatches, gpuFaults)
	from, own := r.b.Tick(r.Process, 0), testbed.ProcessCPU(os.Getpid())
	err = r.b.fillFleet(ctx, r.f, 0, len(r.f.Keys[0]), total/parts)
	filled := time.Since(from.At)
	if err == nil {
		err = r.caughtUp(ctx, 5*time.Minute)
	}
	to := r.b.Tick(r.Process, int64(total))
	own = testbed.ProcessCPU(os.Getpid()) - own // the generator's: not another's
	gpu1, err1 := r.Metrics(gpuBusy, gpuTasks, cpuTasks, gpuBatches, gpuFaults)
	m.gpuUtil = util()
	if err := errors.Join(err, err0, err1); err != nil {
		return m, err
	}
	if m.Pace, err = testbed.Steady([]testbed.Tick{from, to}, 0, 1); err != nil {
		return m, err
	}
	if all := to.Busy - from.Busy + to.Idle - from.Idle; all > 0 {
		m.Others -= float64(own) / float64(all)
	}
	m.filling = filled.Seconds() / m.Span.Seconds()
	if r.side.gpus > 0 {
		d := func(name string) float64 { return gpu1[name] - gpu0[name] }
		m.gpuBusy = d(gpuBusy) / m.Span.Seconds() / float64(r.side.gpus)
		m.batch = d(gpuTasks) / max(1, d(gpuBatches))
		m.onCPU = d(cpuTasks) / max(1, d(gpuTasks)+d(cpuTasks))
		if n := gpu1[gpuFaults]; n > 0 {
			return m, r.Failed(fmt.Errorf("%.0f faults of the GPU", n))
		}
	}
	r.b.SayCycles(r.Worker)
	r.b.Say("%s: %v", r.side.name, m.Pace)
	return m, nil
}

// sampleUtilization asks the driver's own program until it is called; it returns
// the mean of the devices.
func (b *FleetBench) sampleUtilization(ctx context.Context, side *fleetSide) func() float64 {
	if side.gpus == 0 {
		return math.NaN
	}
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan float64, 1)
	go func() {
		var sum, n float64
		for ctx.Err() == nil {
			out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits").Output()
			if err != nil {
				break
			}
			fields := strings.Fields(string(out))
			for _, f := range fields[:min(side.gpus, len(fields))] {
				if v, err := strconv.ParseFloat(f, 64); err == nil {
					sum, n = sum+v/100, n+1
				}
			}
			_ = testbed.Pause(ctx, 500*time.Millisecond)
		}
		result <- sum / n // NaN without any
	}()
	return func() float64 {
		cancel()
		return <-result
	}
}

// delays writes at a rate and takes the time from each record to its visible score,
// after warming up.
func (r *fleetRun) delays(ctx context.Context, sensors int, rate float64, warm, span time.Duration) (*testbed.Latencies, error) {
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	var sent atomic.Int64
	generated := make(chan error, 1)
	go func() { generated <- r.b.pace(gctx, r.f, sensors/len(r.f.Keys), rate, &sent) }()
	l := &testbed.Latencies{}
	read := make(chan error, 1)
	began := time.Now()
	go func() { read <- l.Read(ctx, r.b.Cluster.Brokers, r.Scores, began.Add(warm), began.Add(warm+span)) }()
	err := testbed.Pause(ctx, warm)
	n0, before := sent.Load(), r.b.Load(r.Worker)
	if err == nil {
		select {
		case err = <-read:
		case <-r.Done:
			err = r.Ended()
		}
	}
	n1, after := sent.Load(), r.b.Load(r.Worker)
	stop()
	if err = errors.Join(err, <-generated); err != nil {
		return nil, err
	}
	l.Rate, l.Others = float64(n1-n0)/span.Seconds(), after.OthersSince(before)
	r.b.Say("%s: p50 %.1f ms, p99 %.1f ms of %d scores at %s of %s records/s", r.side.name, l.Quantile(0.5), l.Quantile(0.99), len(l.Micros),
		testbed.Figure(l.Rate), testbed.Figure(rate))
	return l, nil
}

// Fleet is the whole worker, on the CPU and on GPUs, one after the other on the
// same topic, in the same group.
func (b *FleetBench) Fleet(ctx context.Context) (rows []testbed.Row, err error) {
	lof := b.LOF
	if lof < 0 {
		lof = fleetLOF
	}
	settings, window, note := b.fleetDetectors(lof)
	f, err := b.newFleetInput(ctx, "fleet")
	if err != nil {
		return nil, err
	}
	defer b.dropFleet(f)
	f.grow(b.Scale(cmp.Or(b.Sensors, fleetSensors)))
	note = fmt.Sprintf("%s, %d sensors, %d partitions, exactly once, %s", note, f.sensors(), len(f.Keys), b.Cluster.Kind)
	if err := b.fillFleet(ctx, f, 0, len(f.Keys[0]), len(f.Keys[0])*window); err != nil {
		return nil, err
	}
	cpu := math.NaN()
	for _, side := range b.sides() {
		if side.err != nil {
			rows = append(rows, testbed.Row{Case: side.name, Skipped: testbed.FirstLine(side.err.Error())})
			continue
		}
		more, rate, err := b.fleetSide(ctx, f, &side, settings, cpu)
		for i := range more {
			more[i].Device = side.device
			more[i] = more[i].Noted("%s", note)
		}
		rows = append(rows, more...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", side.name, err)
		}
		if side.gpus == 0 {
			cpu = rate
		}
	}
	return rows, nil
}

func (b *FleetBench) fleetSide(ctx context.Context, f *fleetInput, side *fleetSide, settings []string,
	cpu float64) (rows []testbed.Row, rate float64, err error) {
	r, err := b.startFleet(ctx, f, side, settings)
	if err != nil {
		return nil, 0, err
	}
	defer r.Kill()
	if err := r.caughtUp(ctx, 5*time.Minute); err != nil {
		return nil, 0, err
	}
	m, err := r.throughput(ctx, b.Span(15*time.Second))
	if err != nil {
		return nil, 0, err
	}
	all := testbed.NewRow(side.name, m.Rate, "records/s").Noted("worker %s us of processor time a record, broker %s us; cores %.0f%% idle",
		testbed.Figure(m.CPU/1000), testbed.Figure(m.Broker/1000), 100*m.Idle)
	if m.filling > 0.5 {
		all = all.Noted("the generator wrote for %.0f%% of the time and may be the limit", 100*m.filling)
	}
	if side.gpus > 0 {
		all = all.Noted("%.2f batches at a time on a GPU, %s tasks each", m.gpuBusy, testbed.Figure(m.batch))
		if m.onCPU > 0 {
			all = all.Noted("%.2g%% of the tasks scored on the CPU", 100*m.onCPU)
		}
		target := fmt.Sprintf(">= %s and %d times", testbed.Figure(fleetRate), fleetRatio)
		if math.IsNaN(cpu) { // the ratio is unknown
			all = all.Without("the CPU executor", errors.New("not measured in this run"))
			all.Target = target
		} else {
			all = all.Against("the CPU executor", cpu, false)
			all = all.Want(target, m.Rate >= fleetRate && *all.Ratio >= fleetRatio)
		}
	}
	if m.Others > testbed.MaxOthers && b.Cluster.Nodes() != nil {
		all = all.Noted("DISTURBED: other processes took %.0f%% of the cores", 100*m.Others)
	}
	rows = append(rows, all)
	if !math.IsNaN(m.gpuUtil) {
		rows = append(rows, testbed.NewRow(side.name+", GPU busy", m.gpuUtil, "of the time").Noted("mean of what nvidia-smi says"))
	}
	l, err := r.delays(ctx, f.sensors(), m.Rate/2, b.Span(6*time.Second), b.Span(20*time.Second))
	if err != nil {
		return rows, m.Rate, err
	}
	began := time.Now()
	if err := r.caughtUp(ctx, 3*time.Minute); err != nil {
		return rows, m.Rate, err
	}
	behind := time.Since(began)
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		r := l.Reached(testbed.NewRow(side.name+", event to score, "+q.name, l.Quantile(q.at), "ms"), m.Rate/2)
		if behind > fleetBehind {
			r = r.Noted("NOT SUSTAINED: the worker was %v behind at the end, so the records/s are not what it can do",
				behind.Round(time.Millisecond))
		}
		rows = append(rows, r)
	}
	if err := r.Stop(40 * time.Second); err != nil {
		return rows, m.Rate, err
	}
	caught, err := b.backlog(ctx, f, side, settings, int(m.Rate*b.Span(15*time.Second).Seconds()))
	if err != nil {
		return rows, m.Rate, err
	}
	return append(rows, testbed.NewRow(side.name+", backlog", caught.Rate, "records/s").Noted(
		"records that were there before the worker started, from a tenth to nine tenths of them; "+
			"worker %s us of processor time a record, broker %s us; cores %.0f%% idle",
		testbed.Figure(caught.CPU/1000), testbed.Figure(caught.Broker/1000), 100*caught.Idle)), m.Rate, nil
}

// backlog writes n records while no worker runs, starts one, and returns its pace of
// commits. The first and the last tenth are left out: restore and
// the first fetches, and the partitions that end before the others.
func (b *FleetBench) backlog(ctx context.Context, f *fleetInput, side *fleetSide, settings []string, n int) (testbed.Pace, error) {
	if err := b.fillFleet(ctx, f, 0, len(f.Keys[0]), max(1, n/len(f.Keys))); err != nil {
		return testbed.Pace{}, err
	}
	n = max(1, n/len(f.Keys)) * len(f.Keys)
	r, err := b.startFleet(ctx, f, side, settings)
	if err != nil {
		return testbed.Pace{}, err
	}
	defer r.Kill()
	var ticks []testbed.Tick
	for began := time.Now(); ; {
		done, err := r.Consumed()
		if err != nil {
			return testbed.Pace{}, err
		}
		ticks = append(ticks, r.b.Tick(r.Process, done))
		if done >= int64(n) {
			break
		}
		if time.Since(began) > 3*time.Minute {
			return testbed.Pace{}, r.Failed(fmt.Errorf("%d of a backlog of %d records done after 3m", done, n))
		}
		if err := testbed.Pause(ctx, 20*time.Millisecond); err != nil {
			return testbed.Pace{}, err
		}
	}
	p, err := testbed.Steady(ticks, 0.1, 0.9)
	if err != nil {
		return testbed.Pace{}, err
	}
	b.Say("%s, backlog: %v", side.name, p)
	return p, r.Stop(40 * time.Second)
}
