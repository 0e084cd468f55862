package main

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"time"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// The records of path-rate and path-cpu. The worker reads all of them; the
// peers, which are slower, as many as give a measured interval of some seconds.
const (
	pathRecords    = 16_000_000
	franzRecords   = 6_000_000
	streamsRecords = 5_000_000
	pathKeys       = 1000
)

// pathTick is what was seen of a process at one moment.
type pathTick struct {
	at          time.Time
	n           int64 // records done
	cpu, broker time.Duration
	busy, idle  time.Duration // of all cores
}

// pace is what a process did in its steady interval.
type pace struct {
	rate   float64 // records a second
	cpu    float64 // ns of the process a record
	broker float64 // ns of the broker a record; 0 where it is not ours
	idle   float64 // share of the cores that nothing used
	others float64 // share that neither the process nor our broker used, this process included
	span   time.Duration
}

func (p pace) String() string {
	return fmt.Sprintf("%s records/s, %s ns a record, broker %s ns, over %v; cores %.0f%% idle, %.0f%% with others",
		figure(p.rate), figure(p.cpu), figure(p.broker), p.span.Round(time.Millisecond), 100*p.idle, 100*p.others)
}

// watch looks at a process until it has done total records.
func (b *bench) watch(ctx context.Context, p *benchProcess, total int64, limit time.Duration,
	count func() (int64, error)) ([]pathTick, error) {
	var ticks []pathTick
	deadline := time.Now().Add(limit)
	for {
		n, err := count()
		if err == nil {
			err = p.ended()
		}
		if err != nil {
			return nil, err
		}
		busy, idle := machineCPU()
		ticks = append(ticks, pathTick{time.Now(), n, p.cpu(), b.brokerCPU(), busy, idle})
		if n >= total {
			return ticks, nil
		}
		if time.Now().After(deadline) {
			return nil, p.failed(fmt.Errorf("%d of %d records in %v", n, total, limit))
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func (b *bench) brokerCPU() (sum time.Duration) {
	for _, n := range b.cluster.Nodes() {
		sum += processCPU(n.PID())
	}
	return sum
}

// steady is the pace between two shares of the total: after the start, which is
// connecting and warming up, and before partitions run dry.
func steady(ticks []pathTick, from, to float64) (pace, error) {
	total := float64(ticks[len(ticks)-1].n)
	i, j := 0, len(ticks)-1
	for i < len(ticks)-1 && float64(ticks[i].n) < from*total {
		i++
	}
	for j > 0 && float64(ticks[j].n) > to*total {
		j--
	}
	if j <= i {
		return pace{}, errors.New("too few records to measure a steady interval")
	}
	a, z := ticks[i], ticks[j]
	n, span := float64(z.n-a.n), z.at.Sub(a.at)
	p := pace{rate: n / span.Seconds(), cpu: float64(z.cpu-a.cpu) / n, broker: float64(z.broker-a.broker) / n, span: span}
	if all := float64(z.busy - a.busy + z.idle - a.idle); all > 0 {
		p.idle = float64(z.idle-a.idle) / all
		p.others = float64(z.busy-a.busy-(z.cpu-a.cpu)-(z.broker-a.broker)) / all
	}
	return p, nil
}

// maxOthers is the share of the cores that other processes may take before a
// figure is called disturbed; this process and the kernel take a few percent.
const maxOthers = 0.08

// pathResult is what path-cpu and path-rate share.
type pathResult struct {
	in             *benchInput
	rate, cpu      float64 // medians
	rateSpread     float64 // percent
	note           string
	streams, franz pace
	streamsErr     error
	franzErr       error
}

// warmUp writes the input of path-rate and lets a worker read it once,
// unmeasured: a broker's JVM takes tens of seconds to get fast.
func (b *bench) warmUp(ctx context.Context) (*benchInput, error) {
	if b.warm != nil {
		return b.warm, nil
	}
	in, err := b.newInput(ctx, "path", pathKeys)
	if err != nil {
		return nil, err
	}
	if err := b.fill(ctx, in, b.scale(pathRecords)); err != nil {
		return nil, err
	}
	if _, err := b.pathRun(ctx, in, "warm-up", false); err != nil {
		return nil, err
	}
	b.warm = in
	return in, nil
}

// path measures the worker and its peers once for both names.
func (b *bench) path(ctx context.Context) (*pathResult, error) {
	if b.paths != nil {
		return b.paths, nil
	}
	in, err := b.warmUp(ctx)
	if err != nil {
		return nil, err
	}
	r := &pathResult{in: in}
	var rates, cpus, brokers []float64
	disturbed := 0.0
	for i := range b.o.repeat {
		p, err := b.pathRun(ctx, in, strconv.Itoa(i+1), i == b.o.repeat-1)
		if err != nil {
			return nil, err
		}
		b.say("path %d: %v", i+1, p)
		rates, cpus, brokers = append(rates, p.rate), append(cpus, p.cpu), append(brokers, p.broker)
		disturbed = max(disturbed, p.others)
	}
	r.rate, r.rateSpread = median(rates)
	r.cpu, _ = median(cpus)
	broker, _ := median(brokers)
	r.note = fmt.Sprintf("exactly once, %d keys, %d partitions, %s; median of %d, spread %.0f%%", pathKeys, inputPartitions, b.cluster.Kind,
		b.o.repeat, r.rateSpread)
	if broker > 0 {
		r.note += fmt.Sprintf("; broker %.0f ns a record", broker)
	}
	if disturbed > maxOthers && b.cluster.Nodes() != nil {
		r.note += fmt.Sprintf("; DISTURBED: other processes took up to %.0f%% of the cores", 100*disturbed)
	}
	if b.o.peers {
		if r.streams, r.streamsErr = b.streamsPace(ctx, in); r.streamsErr != nil {
			b.say("kafka-streams: %v", r.streamsErr)
		}
		if r.franz, r.franzErr = b.franzPace(ctx, in); r.franzErr != nil {
			b.say("franz-go: %v", r.franzErr)
		}
	} else {
		r.streamsErr = errors.New("-peers=false")
		r.franzErr = r.streamsErr
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	b.paths = r
	return r, nil
}

// pathRun lets a worker read the whole input and returns its pace. With verify
// the scores are read back by an independent client: one for each record.
func (b *bench) pathRun(ctx context.Context, in *benchInput, name string, verify bool, settings ...string) (pace, error) {
	w, err := b.startWorker(in, in.topic+"-"+name, settings...)
	if err != nil {
		return pace{}, err
	}
	defer w.kill()
	defer b.drop(w.scores, w.group+"-anomalies", w.changelog, w.group+"-dlq", w.group+"-late")
	if err := w.ready(ctx); err != nil {
		return pace{}, err
	}
	if b.o.profile != "" {
		go b.saveProfile(w, "path-"+name+".cpu", b.span(8*time.Second))
	}
	ticks, err := b.watch(ctx, w.benchProcess, int64(in.records), 5*time.Minute, w.consumed)
	if err != nil {
		return pace{}, err
	}
	b.sayCycles(w)
	if verify {
		if err := b.verify(ctx, w, in); err != nil {
			return pace{}, err
		}
	}
	if err := w.stop(30 * time.Second); err != nil {
		return pace{}, err
	}
	return steady(ticks, 0.2, 0.9)
}

// sayCycles says what the worker's cycles were like, for whoever looks for what
// limits it.
func (b *bench) sayCycles(w *workerProcess) {
	const duration, records, gc = "odradek_commit_duration_seconds", "odradek_cycle_records", "go_gc_duration_seconds_count"
	m, err := w.metrics(duration+"_sum", duration+"_count", records+"_sum", records+"_count", gc)
	if err == nil {
		b.say("%s: %.0f cycles of %.0f records, %.1f ms a commit; %.0f collections", w.group, m[records+"_count"],
			m[records+"_sum"]/m[records+"_count"], 1000*m[duration+"_sum"]/m[duration+"_count"], m[gc])
	}
}

// verify reads the scores with franz-go, committed ones only, and compares them
// with the input: each record's coordinates once, none else.
func (b *bench) verify(ctx context.Context, w *workerProcess, in *benchInput) error {
	admin := b.cluster.Admin()
	if err := admin.WaitStable(ctx, w.scores); err != nil {
		return err
	}
	ends, err := admin.Ends(ctx, in.topic, kafkatest.HighWatermark)
	if err != nil {
		return err
	}
	seen := make([][]uint64, inputPartitions)
	for p := range seen {
		seen[p] = make([]uint64, (ends[int32(p)]+63)/64)
	}
	scores := 0
	err = admin.Read(ctx, w.scores, true, func(r *kafkatest.Record) error {
		s, err := output.DecodeScore(r.Value)
		if err != nil {
			return err
		}
		if s.Partition < 0 || int(s.Partition) >= len(seen) || s.Offset < 0 || s.Offset >= ends[s.Partition] {
			return fmt.Errorf("a score of %s/%d at offset %d, where no record is", s.Topic, s.Partition, s.Offset)
		}
		word, bit := &seen[s.Partition][s.Offset/64], uint64(1)<<(s.Offset%64)
		if *word&bit != 0 {
			return fmt.Errorf("a second score of %s/%d at offset %d", s.Topic, s.Partition, s.Offset)
		}
		*word |= bit
		scores++
		return nil
	})
	if err != nil {
		return fmt.Errorf("verify %s: %w", w.scores, err)
	}
	distinct := 0
	for p := range seen {
		for _, word := range seen[p] {
			distinct += bits.OnesCount64(word)
		}
	}
	if scores != in.records || distinct != in.records {
		return fmt.Errorf("verify %s: %d scores of %d records for %d records", w.scores, scores, distinct, in.records)
	}
	b.say("verified: %d scores, one for each record", scores)
	return nil
}

func (b *bench) pathCPU(ctx context.Context) ([]benchRow, error) {
	r, err := b.path(ctx)
	if err != nil {
		return nil, err
	}
	base := row("", r.cpu, "ns/record").want("<= 350 ns", r.cpu > 0 && r.cpu <= 350).noted("%s", r.note)
	return r.rows(base, r.streams.cpu, r.franz.cpu, true), nil
}

func (b *bench) pathRate(ctx context.Context) ([]benchRow, error) {
	r, err := b.path(ctx)
	if err != nil {
		return nil, err
	}
	base := row("", r.rate, "records/s").noted("%s", r.note)
	rows := r.rows(base, r.streams.rate, r.franz.rate, false)
	for i, least := range []float64{6, 4} {
		enough := r.rate >= 1.5e6
		target := fmt.Sprintf(">= 1,500,000 and %g times", least)
		rows[i] = rows[i].want(target, enough && (rows[i].Ratio == nil || *rows[i].Ratio >= least))
	}
	return rows, nil
}

// rows puts the figure beside that of each peer.
func (r *pathResult) rows(base benchRow, streams, franz float64, lower bool) []benchRow {
	side := func(name string, figure float64, err error) benchRow {
		if err != nil {
			return base.without(name, err)
		}
		return base.against(name, figure, lower)
	}
	return []benchRow{side("kafka-streams", streams, r.streamsErr), side("franz-go", franz, r.franzErr)}
}
