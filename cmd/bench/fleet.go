package main

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

	"odradek/cmd/worker/config"
	"odradek/processor/kafkatest"
)

// The figures of fleet and capacity.
const (
	fleetSensors  = 20_000
	fleetSST      = 100  // w; rank 3 and the 5 Krylov steps that belong to it are the worker's defaults
	fleetLOF      = 1024 // points: at 10 samples a second, what has been normal in the last 100 s
	fleetRate     = 200_000
	fleetRatio    = 20
	capacityLOF   = 256 // shorter, because the windows of up to a million sensors have to be filled
	capacityLimit = 250 // ms, of the p99
	// fleetBehind is how long a worker may take, after a load of half its rate, for
	// what is left.
	fleetBehind = time.Second
	// capacityPaper is how many sensors the paper's cluster served at one sample in
	// 100 ms each.
	capacityPaper = 80_000
)

// fleetSide is one executor that a worker is measured with.
type fleetSide struct {
	name     string
	gpus     int // 0: the CPU's
	device   string
	settings []string
	err      error // why it cannot run here
}

// sides are the executors of -executors, a GPU's once for each of -gpus.
func (b *bench) sides() []fleetSide {
	var sides []fleetSide
	for name := range strings.SplitSeq(b.o.executors, ",") {
		if name != "cuda" {
			sides = append(sides, fleetSide{name: name + " executor", settings: []string{config.Prefix + "EXECUTOR=" + name}})
			continue
		}
		for count := range strings.SplitSeq(cmp.Or(b.o.gpus, "1"), ",") {
			n, err := strconv.Atoi(count)
			if err != nil || n < 1 {
				sides = append(sides, fleetSide{name: "cuda executor", gpus: 1, err: fmt.Errorf("-gpus: %q is no number of GPUs", count)})
				continue
			}
			sides = append(sides, b.gpuSide(n))
		}
	}
	return sides
}

func (b *bench) gpuSide(n int) fleetSide {
	s := fleetSide{name: fmt.Sprintf("cuda executor, %d GPU", n), gpus: n}
	var devices []string
	var indices []int
	for i := range n {
		devices, indices = append(devices, strconv.Itoa(i)), append(indices, i)
	}
	e, err := b.openDevices(indices...)
	if err != nil {
		s.err = err
		return s
	}
	info := e.Stats().Devices
	if err := e.Close(); err != nil {
		b.say("close the GPU: %v", err)
	}
	s.device = info[0].Name
	child, err := b.deviceChild()
	s.err = err
	s.settings = []string{
		config.Prefix + "EXECUTOR=cuda", config.Prefix + "CUDA_CHILD=" + child, config.Prefix + "CUDA_DEVICES=" + strings.Join(devices, ","),
		config.Prefix + "CUDA_MEMORY=" + strconv.Itoa(8*n) + "GiB",
	}
	return s
}

// fleetDetectors are the settings of the detectors: both score every sample.
func (b *bench) fleetDetectors(lof int) (settings []string, rows int, note string) {
	set := func(name, value string) { settings = append(settings, config.Prefix+name+"="+value) }
	var names, notes []string
	rows = 1
	if w := b.o.sst; w > 0 {
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
	*workerProcess
	b    *bench
	f    *fleetInput
	side *fleetSide
}

// startFleet starts a worker in the group of the topic. Its predecessor has left all
// windows in the changelog.
func (b *bench) startFleet(ctx context.Context, f *fleetInput, side *fleetSide, settings []string) (*fleetRun, error) {
	w, err := b.startWorker(f.benchInput, f.topic+"-g", append(settings[:len(settings):len(settings)], side.settings...)...)
	if err != nil {
		return nil, err
	}
	r := &fleetRun{w, b, f, side}
	if err := w.ready(ctx); err != nil {
		w.kill()
		return nil, err
	}
	return r, nil
}

// dropFleet deletes what a fleet wrote, which is gigabytes.
func (b *bench) dropFleet(f *fleetInput) {
	group := f.topic + "-g"
	b.drop(f.topic, group+"-scores", config.ChangelogName(config.ChangelogPrefix(group), f.topic), group+"-dlq", group+"-late")
}

// caughtUp waits until all that was written is scored and committed.
func (r *fleetRun) caughtUp(ctx context.Context, limit time.Duration) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ends, err := r.b.cluster.Admin().Ends(ctx, r.f.topic, kafkatest.HighWatermark)
	if err != nil {
		return err
	}
	waited := make(chan error, 1)
	go func() { waited <- r.b.cluster.Admin().WaitCommittedTo(ctx, r.group, r.f.topic, ends) }()
	select {
	case err = <-waited:
	case <-r.done:
		return r.ended()
	}
	if err != nil {
		return r.failed(fmt.Errorf("not done with its input in %v: %w", limit, err))
	}
	r.b.say("%s: caught up after %v", r.side.name, time.Since(began).Round(time.Millisecond))
	return nil
}

// measured is what was seen of a worker while it worked off input that was there.
type measured struct {
	pace
	filling float64 // share of the time in which the generator was still writing
	gpuBusy float64 // time of batches on the devices, of one device's time; more than one batch at a time counts more than once
	gpuUtil float64 // share of the time in which a kernel ran, as the driver has it; NaN where it does not say
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

// throughput measures the pace over about so long: from the first write of a known
// number of records to the commit of the last, start and end included. A part of the
// interval would not do: partitions commit in steps of a fetch, 13,000 records, and a
// slow executor takes a second for one.
func (r *fleetRun) throughput(ctx context.Context, span time.Duration) (m measured, err error) {
	parts := len(r.f.keys)
	// A first look at the rate, with few records.
	probe := r.b.scale(20_000 * max(1, 10*r.side.gpus))
	began := time.Now()
	if err := r.b.fillFleet(ctx, r.f, 0, len(r.f.keys[0]), max(1, probe/parts)); err != nil {
		return m, err
	}
	if err := r.caughtUp(ctx, 3*time.Minute); err != nil {
		return m, err
	}
	rate := float64(probe) / time.Since(began).Seconds()
	// The rate of the probe is low, for it includes waits. A second one corrects it.
	for range 2 {
		n := max(int(rate*2), probe)
		began = time.Now()
		if err := r.b.fillFleet(ctx, r.f, 0, len(r.f.keys[0]), max(1, n/parts)); err != nil {
			return m, err
		}
		if err := r.caughtUp(ctx, 3*time.Minute); err != nil {
			return m, err
		}
		rate = float64(n) / time.Since(began).Seconds()
	}
	total := max(min(int(rate*span.Seconds()), r.b.scale(40_000_000))/parts, 1) * parts
	if r.b.o.profile != "" {
		name := strings.NewReplacer(" ", "-", ",", "").Replace("fleet-" + r.side.name)
		time.AfterFunc(span/4, func() { r.b.saveProfile(r.workerProcess, name+".cpu", span/2) })
	}
	util := r.b.sampleUtilization(ctx, r.side)
	gpu0, err0 := r.metrics(gpuBusy, gpuTasks, cpuTasks, gpuBatches, gpuFaults)
	from, own := r.tick(0), processCPU(os.Getpid())
	err = r.b.fillFleet(ctx, r.f, 0, len(r.f.keys[0]), total/parts)
	filled := time.Since(from.at)
	if err == nil {
		err = r.caughtUp(ctx, 5*time.Minute)
	}
	to := r.tick(int64(total))
	own = processCPU(os.Getpid()) - own // the generator's: not another's
	gpu1, err1 := r.metrics(gpuBusy, gpuTasks, cpuTasks, gpuBatches, gpuFaults)
	m.gpuUtil = util()
	if err := errors.Join(err, err0, err1); err != nil {
		return m, err
	}
	if m.pace, err = steady([]pathTick{from, to}, 0, 1); err != nil {
		return m, err
	}
	if all := to.busy - from.busy + to.idle - from.idle; all > 0 {
		m.others -= float64(own) / float64(all)
	}
	m.filling = filled.Seconds() / m.span.Seconds()
	if r.side.gpus > 0 {
		d := func(name string) float64 { return gpu1[name] - gpu0[name] }
		m.gpuBusy = d(gpuBusy) / m.span.Seconds() / float64(r.side.gpus)
		m.batch = d(gpuTasks) / max(1, d(gpuBatches))
		m.onCPU = d(cpuTasks) / max(1, d(gpuTasks)+d(cpuTasks))
		if n := gpu1[gpuFaults]; n > 0 {
			return m, r.failed(fmt.Errorf("%.0f faults of the GPU", n))
		}
	}
	r.b.sayCycles(r.workerProcess)
	r.b.say("%s: %v", r.side.name, m.pace)
	return m, nil
}

// tick is what was used up to now, when n records are done.
func (r *fleetRun) tick(n int64) pathTick {
	busy, idle := machineCPU()
	return pathTick{time.Now(), n, r.cpu(), r.b.brokerCPU(), busy, idle}
}

// sampleUtilization asks the driver's own program until it is called; it returns
// the mean of the devices.
func (b *bench) sampleUtilization(ctx context.Context, side *fleetSide) func() float64 {
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
			_ = pause(ctx, 500*time.Millisecond)
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
func (r *fleetRun) delays(ctx context.Context, sensors int, rate float64, warm, span time.Duration) (*latencies, error) {
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	var sent atomic.Int64
	generated := make(chan error, 1)
	go func() { generated <- r.b.pace(gctx, r.f, sensors/len(r.f.keys), rate, &sent) }()
	l := &latencies{}
	read := make(chan error, 1)
	began := time.Now()
	go func() { read <- l.read(ctx, r.b.cluster.Brokers, r.scores, began.Add(warm), began.Add(warm+span)) }()
	err := pause(ctx, warm)
	n0, before := sent.Load(), r.b.load(r.workerProcess)
	if err == nil {
		select {
		case err = <-read:
		case <-r.done:
			err = r.ended()
		}
	}
	n1, after := sent.Load(), r.b.load(r.workerProcess)
	stop()
	if err = errors.Join(err, <-generated); err != nil {
		return nil, err
	}
	l.rate, l.others = float64(n1-n0)/span.Seconds(), after.othersSince(before)
	r.b.say("%s: p50 %.1f ms, p99 %.1f ms of %d scores at %s of %s records/s", r.side.name, l.quantile(0.5), l.quantile(0.99), len(l.micros),
		figure(l.rate), figure(rate))
	return l, nil
}

// fleet is the whole worker, on the CPU and on GPUs, one after the other on the
// same topic, in the same group.
func (b *bench) fleet(ctx context.Context) (rows []benchRow, err error) {
	lof := b.o.lof
	if lof < 0 {
		lof = fleetLOF
	}
	settings, window, note := b.fleetDetectors(lof)
	f, err := b.newFleetInput(ctx, "fleet")
	if err != nil {
		return nil, err
	}
	defer b.dropFleet(f)
	f.grow(b.scale(cmp.Or(b.o.sensors, fleetSensors)))
	note = fmt.Sprintf("%s, %d sensors, %d partitions, exactly once, %s", note, f.sensors(), len(f.keys), b.cluster.Kind)
	if err := b.fillFleet(ctx, f, 0, len(f.keys[0]), len(f.keys[0])*window); err != nil {
		return nil, err
	}
	cpu := math.NaN()
	for _, side := range b.sides() {
		if side.err != nil {
			rows = append(rows, benchRow{Case: side.name, Skipped: firstLine(side.err.Error())})
			continue
		}
		more, rate, err := b.fleetSide(ctx, f, &side, settings, cpu)
		for i := range more {
			more[i].Device = side.device
			more[i] = more[i].noted("%s", note)
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

func (b *bench) fleetSide(ctx context.Context, f *fleetInput, side *fleetSide, settings []string,
	cpu float64) (rows []benchRow, rate float64, err error) {
	r, err := b.startFleet(ctx, f, side, settings)
	if err != nil {
		return nil, 0, err
	}
	defer r.kill()
	if err := r.caughtUp(ctx, 5*time.Minute); err != nil {
		return nil, 0, err
	}
	m, err := r.throughput(ctx, b.span(15*time.Second))
	if err != nil {
		return nil, 0, err
	}
	all := row(side.name, m.rate, "records/s").noted("worker %s us of processor time a record, broker %s us; cores %.0f%% idle",
		figure(m.cpu/1000), figure(m.broker/1000), 100*m.idle)
	if m.filling > 0.5 {
		all = all.noted("the generator wrote for %.0f%% of the time and may be the limit", 100*m.filling)
	}
	if side.gpus > 0 {
		all = all.noted("%.2f batches at a time on a GPU, %s tasks each", m.gpuBusy, figure(m.batch))
		if m.onCPU > 0 {
			all = all.noted("%.2g%% of the tasks scored on the CPU", 100*m.onCPU)
		}
		target := fmt.Sprintf(">= %s and %d times", figure(fleetRate), fleetRatio)
		if math.IsNaN(cpu) { // half of the target is not to be said
			all = all.without("the CPU executor", errors.New("not measured in this run"))
			all.Target = target
		} else {
			all = all.against("the CPU executor", cpu, false)
			all = all.want(target, m.rate >= fleetRate && *all.Ratio >= fleetRatio)
		}
	}
	if m.others > maxOthers && b.cluster.Nodes() != nil {
		all = all.noted("DISTURBED: other processes took %.0f%% of the cores", 100*m.others)
	}
	rows = append(rows, all)
	if !math.IsNaN(m.gpuUtil) {
		rows = append(rows, row(side.name+", GPU busy", m.gpuUtil, "of the time").noted("mean of what nvidia-smi says"))
	}
	l, err := r.delays(ctx, f.sensors(), m.rate/2, b.span(6*time.Second), b.span(20*time.Second))
	if err != nil {
		return rows, m.rate, err
	}
	began := time.Now()
	if err := r.caughtUp(ctx, 3*time.Minute); err != nil {
		return rows, m.rate, err
	}
	behind := time.Since(began)
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		r := l.reached(row(side.name+", event to score, "+q.name, l.quantile(q.at), "ms"), m.rate/2)
		if behind > fleetBehind {
			r = r.noted("NOT SUSTAINED: the worker was %v behind at the end, so the records/s are not what it can do",
				behind.Round(time.Millisecond))
		}
		rows = append(rows, r)
	}
	if err := r.stop(40 * time.Second); err != nil {
		return rows, m.rate, err
	}
	caught, err := b.backlog(ctx, f, side, settings, int(m.rate*b.span(15*time.Second).Seconds()))
	if err != nil {
		return rows, m.rate, err
	}
	return append(rows, row(side.name+", backlog", caught.rate, "records/s").noted(
		"records that were there before the worker started, from a tenth to nine tenths of them; "+
			"worker %s us of processor time a record, broker %s us; cores %.0f%% idle",
		figure(caught.cpu/1000), figure(caught.broker/1000), 100*caught.idle)), m.rate, nil
}

// backlog writes n records while no worker runs and returns the pace at which a worker
// that starts then commits them. The first and the last tenth are left out: restore and
// the first fetches, and the partitions that end before the others.
func (b *bench) backlog(ctx context.Context, f *fleetInput, side *fleetSide, settings []string, n int) (pace, error) {
	if err := b.fillFleet(ctx, f, 0, len(f.keys[0]), max(1, n/len(f.keys))); err != nil {
		return pace{}, err
	}
	n = max(1, n/len(f.keys)) * len(f.keys)
	r, err := b.startFleet(ctx, f, side, settings)
	if err != nil {
		return pace{}, err
	}
	defer r.kill()
	var ticks []pathTick
	for began := time.Now(); ; {
		done, err := r.consumed()
		if err != nil {
			return pace{}, err
		}
		ticks = append(ticks, r.tick(done))
		if done >= int64(n) {
			break
		}
		if time.Since(began) > 3*time.Minute {
			return pace{}, r.failed(fmt.Errorf("%d of a backlog of %d records done after 3m", done, n))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return pace{}, err
		}
	}
	p, err := steady(ticks, 0.1, 0.9)
	if err != nil {
		return pace{}, err
	}
	b.say("%s, backlog: %v", side.name, p)
	return p, r.stop(40 * time.Second)
}
