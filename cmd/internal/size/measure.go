package size

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

	"odradek/detectors"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// This file runs a partition of a worker on made-up series, without brokers. One series is run until its state grows no more. Copies
// of it, made of its records in the changelog, are restored, replay some input as after a takeover, and are scored live.

// Options say what is measured.
type Options struct {
	State      *state.Config
	Executor   detectors.Executor
	Busy       func() time.Duration // how long GPUs have computed; nil: there are none
	Topic, Key string               // the input topic, and an example of a series key
	Series     int                  // of the fleet
	Rate       float64              // samples a second of each
	Samples    int                  // that each has had; 0: until its state grows no more

	Outputs        cycle.TopicNames // empty names: not written
	IDs            cycle.SchemaIDs
	Scores         cycle.ScoresMode
	Runs, Numbered bool
	AtLeastOnce    bool
	Codec          record.Codec
	BatchBytes     int
	Commit, Replay time.Duration // the time between commits, and the most input that a restart reads again
	Chunk          int           // samples of a partition that are fetched together where there is a backlog
	Fetched        int64         // bytes of them
	Memory         int64         // bytes that the copies may take
}

// Costs are what a series and a sample cost, measured on this machine.
type Costs struct {
	Series    int     // that were run
	Samples   int     // that each had before it was measured
	Full      bool    // more samples do not enlarge its state
	State     float64 // bytes of a series, as the budget of state counts them
	Heap      float64 // bytes of a series in the heap
	Changelog float64 // bytes of a series in its compacted changelog
	Flight    float64 // bytes of the heap that a partition keeps for what it has at a time, after a backlog

	CPU      float64 // seconds of processor time of a sample: fold, score, judge, encode
	GPU      float64 // seconds of a sample on GPUs
	Outputs  float64 // bytes of a sample's scores and anomalies
	Records  float64 // records of outputs for a sample
	Snapshot float64 // bytes written to the changelog for a sample

	Load   float64 // bytes of changelog a second that one core reads
	Replay float64 // seconds of processor time of a sample that is read again

	replaySeconds float64 // of input that a restart reads again
}

const (
	firstSamples    = 1024 // after which the state is first looked at
	mostSamples     = 1 << 15
	growFor         = 5 * time.Second // at most, where Samples is not given
	runFor          = 8.0             // seconds of processor time of the copies' samples
	leastCPU        = 0.5             // seconds of processor time behind Costs.CPU
	mostSeries      = 1_000_000
	fetched         = 2       // times Options.Fetched of a partition that is buffered
	cycleRecords    = 8192    // of the largest cycle
	fleetPartitions = 16      // partitions among which the fleet's samples are divided, for the size of a cycle
	scoreAfter      = 4096    // samples that are scored together, at most
	replayRounds    = 2       // samples of each series that are replayed, at most
	snapshots       = 4 << 20 // bytes of snapshots of a cycle
)

// start is the event time of the first sample, in microseconds.
const start = 1_767_225_600_000_000

// Measure runs series with the settings of o.
func Measure(ctx context.Context, o *Options) (*Costs, error) {
	if slices.ContainsFunc(o.State.Windows, func(w series.WindowConfig) bool { return w.Grid != nil }) {
		return nil, errors.New("size: detectors of grids depend on the counts that they read: take the cost of a sample from worker backtest")
	}
	one := newPartition(o, [][]byte{[]byte(o.Key)})
	log := &keptLog{}
	one.keep = log
	c := &Costs{}
	if err := one.grow(ctx, c); err != nil {
		return nil, err
	}
	perSample, err := probe(ctx, o)
	if err != nil {
		return nil, err
	}
	floor := one.state.Floor()

	copies, err := one.copies(c, log, perSample)
	if err != nil {
		return nil, err
	}
	if err := copies.run(ctx, c, floor); err != nil {
		return nil, err
	}
	// A chunk of a backlog passes, and all is written, so that the heap has no marks.
	for _, p := range []*partition{one, copies} {
		p.backlog = true
		if err := p.cycle(ctx, o.Chunk, math.MinInt64, -1); err != nil {
			return nil, err
		}
		c.Flight = float64(p.landed()) + fetched*float64(o.Fetched)
		if err := p.state.Snapshot(math.MaxInt64, 0, func(_, _ []byte) error { return nil }); err != nil {
			return nil, fmt.Errorf("size: %w", err)
		}
		p.state.Committed(p.next)
	}
	// What a state itself has in flight is not of series: the state of one series has about as much.
	all, ofOne := copies.freed(), one.freed()
	if c.Heap = float64(all) / float64(c.Series); c.Series > 1 {
		c.Heap = float64(all-ofOne) / float64(c.Series-1)
		c.Flight += max(0, float64(ofOne)-c.Heap)
	}
	return c, nil
}

// probe returns about what a sample takes, in seconds, to tell how many copies there is time for.
func probe(ctx context.Context, o *Options) (float64, error) {
	p := newPartition(o, [][]byte{[]byte(o.Key)})
	defer p.close()
	p.state.Mark(0)
	p.state.Committed(0)
	began := time.Now()
	err := p.cycle(ctx, firstSamples, math.MinInt64, -1)
	return time.Since(began).Seconds() / firstSamples, err
}

// landed returns the bytes of the heap that are in use because of what was scored and written together, and drops it. A worker has
// two transactions, one that is filled and one that is sent.
func (p *partition) landed() int64 {
	before := liveHeap()
	if p.state.Rows = nil; p.o.Busy != nil { // the memory of a GPU's batches is not of the heap
		p.close()
	}
	p.batch = nil
	between := liveHeap()
	p.payload, p.writer = nil, nil
	return before - between + 2*(between-liveHeap())
}

// freed returns the bytes of the heap that are in use because of the state, and drops it.
func (p *partition) freed() int64 {
	before := liveHeap()
	p.state = nil
	return before - liveHeap()
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// partition is one partition of a worker, without brokers.
type partition struct {
	o       *Options
	tp      kafka.TP
	state   *state.State
	batch   *detectors.Batch
	writer  *cycle.Writer
	payload *cycle.Payload
	keep    *keptLog // nil: what is written to the changelog is not kept
	sent    traffic

	rng    *rand.Rand
	names  [][]byte
	values []float64
	next   int64 // offset
	series int   // the series of the next sample
	step   int64 // how many samples it has had
	folded int   // since the last were scored
	// backlog has everything be scored together that a batch has room for, as where a chunk is large.
	backlog bool
}

// traffic counts what would be sent to the brokers.
type traffic struct{ records, outputs, changelog int64 }

func newPartition(o *Options, names [][]byte) *partition {
	topics := cycle.NewTopics()
	for i, name := range o.Outputs {
		if name != "" {
			topics.Outputs[i] = cycle.Topic{Name: name, Partitions: 1, BatchBytes: o.BatchBytes}
		}
	}
	topics.SetChangelog(o.Topic, &cycle.Topic{Name: o.Topic + "-changelog", Partitions: 1, BatchBytes: o.BatchBytes})
	p := &partition{o: o, tp: kafka.TP{Topic: o.Topic}, state: state.New(o.State), batch: o.Executor.Batch(),
		rng: rand.New(rand.NewPCG(uint64(len(names)), 43)), names: names, values: make([]float64, o.State.Dim)}
	p.payload = cycle.NewPayload(topics, func(maxBytes int) *record.Batches {
		if o.AtLeastOnce {
			return record.NewBatches(maxBytes, o.Codec)
		}
		return record.NewTransactionBatches(maxBytes, o.Codec)
	})
	p.writer = cycle.NewWriter(topics, p.tp, o.State, &o.IDs, o.Scores, cycle.NewCarried(nil))
	if o.Numbered {
		p.writer.Number()
	}
	if o.Runs {
		p.writer.Runs()
	}
	p.state.SetSource(o.Topic, 0)
	return p
}

func (p *partition) close() { p.o.Executor.Release(p.batch) }

// steps returns the samples of all series.
func (p *partition) steps() int64 { return p.step*int64(len(p.names)) + int64(p.series) }

// fold folds the next sample: each series has its turn. Its values are a wave with noise.
func (p *partition) fold(ctx context.Context) error {
	for i := range p.values {
		p.values[i] = 20 + 4*math.Sin(float64(p.step)/60) + 0.3*p.rng.NormFloat64()
	}
	at := (float64(p.step) + float64(p.series)/float64(len(p.names))) / p.o.Rate
	if p.folded++; p.folded > scoreAfter && !p.backlog {
		if err := p.score(ctx); err != nil {
			return err
		}
	}
	for !p.state.Fits(p.batch) {
		if err := p.execute(ctx); err != nil {
			return err
		}
	}
	p.state.Fold(&state.Sample{Key: p.names[p.series], Time: start + int64(at*1e6), Offset: p.o.State.Place(p.next, 0), Values: p.values},
		p.batch)
	p.next++
	if p.series++; p.series == len(p.names) {
		p.series, p.step = 0, p.step+1
	}
	return nil
}

// score scores what is folded.
func (p *partition) score(ctx context.Context) error {
	p.folded = 0
	for !p.state.Fits(p.batch) {
		if err := p.execute(ctx); err != nil {
			return err
		}
	}
	return p.execute(ctx)
}

func (p *partition) execute(ctx context.Context) error {
	if len(p.batch.Tasks) > 0 {
		if err := p.o.Executor.Execute(ctx, p.batch); err != nil {
			return fmt.Errorf("size: score: %w", err)
		}
	}
	p.state.Apply(p.batch)
	p.batch.Reset()
	return nil
}

// cycle folds n samples and encodes the transaction that has their results, with the snapshots that bring the replay floor to
// want: the snapshots of changed anomalies alone if bytes is negative.
func (p *partition) cycle(ctx context.Context, n int, want int64, bytes int) error {
	for range n {
		if err := p.fold(ctx); err != nil {
			return err
		}
	}
	if err := p.score(ctx); err != nil {
		return err
	}
	now := time.Now()
	var work metrics.Work
	if _, err := p.writer.Write(p.payload, p.state, &work, now); err != nil {
		return err
	}
	p.writer.Reset()
	p.state.Mark(p.next)
	err := p.payload.Changelog(p.tp, func(b *record.Batches) error {
		return p.state.Snapshot(want, bytes, func(key, value []byte) error {
			if p.keep != nil {
				p.keep.put(key, value)
			}
			return b.Append(now.UnixMilli(), key, value, nil)
		})
	})
	if err != nil {
		return err
	}
	s := p.state
	s.Rows, s.Events, s.Blocks, s.Rises = s.Rows[:0], s.Events[:0], s.Blocks[:0], s.Rises[:0]
	outputs, logs := p.payload.Batches()
	for _, b := range outputs {
		p.sent.records += int64(b.Count())
		p.sent.outputs += sealed(b)
	}
	for _, b := range logs {
		p.sent.changelog += sealed(b)
	}
	p.payload.Reset()
	s.Committed(p.next)
	return nil
}

// sealed returns the bytes of batches as they are sent.
func sealed(b *record.Batches) (bytes int64) {
	for i := range b.Finish() {
		bytes += int64(len(b.Seal(i, 1, 0, 0, true)) - record.SizePrefix)
	}
	return bytes
}

// grow runs a partition of one series until its state grows no more, or has had the samples that are asked for, and writes all of it.
func (p *partition) grow(ctx context.Context, c *Costs) error {
	p.state.Mark(0)
	p.state.Committed(0)
	began := time.Now()
	last := int64(0)
	for n := firstSamples; ; n *= 2 {
		if p.o.Samples > 0 {
			n = p.o.Samples
		}
		for int(p.step) < n {
			if err := errors.Join(ctx.Err(), p.cycle(ctx, min(scoreAfter, n-int(p.step)), math.MinInt64, -1)); err != nil {
				return err
			}
		}
		now := p.state.Bytes()
		c.Full = now <= last+last/100
		if last = now; p.o.Samples > 0 || c.Full || n >= mostSamples || time.Since(began) > growFor {
			break
		}
	}
	c.Samples, c.Full = int(p.step), c.Full && p.o.Samples == 0
	if err := p.cycle(ctx, 0, math.MaxInt64, 0); err != nil {
		return err
	}
	c.State = float64(p.state.Bytes())
	return nil
}

// keptLog is a compacted changelog.
type keptLog struct {
	records []keptRecord
	at      map[string]int
}

type keptRecord struct{ key, value []byte }

func (l *keptLog) put(key, value []byte) {
	if l.at == nil {
		l.at = map[string]int{}
	}
	if i, ok := l.at[string(key)]; ok {
		l.records[i] = keptRecord{}
		delete(l.at, string(key))
	}
	if value != nil {
		l.at[string(key)] = len(l.records)
		l.records = append(l.records, keptRecord{bytes.Clone(key), bytes.Clone(value)})
	}
}

// copies returns a partition that has restored the log as the log of several series, as many as a second or so can run.
func (p *partition) copies(c *Costs, log *keptLog, perSample float64) (*partition, error) {
	rounds := float64(min(replayRounds, p.rounds())) + 1.5*float64(p.rounds())
	c.Series = int(max(1, min(float64(p.o.Series), mostSeries, float64(p.o.Memory)/c.State, runFor/(rounds*max(perSample, 1e-8)))))
	names := make([][]byte, c.Series)
	for i := range names {
		names[i] = nameOf(p.o.Key, i)
	}
	q := newPartition(p.o, names)
	q.next, q.step = p.next, p.step
	var key []byte
	read, took := 0, time.Duration(0)
	for _, r := range log.records {
		if r.key == nil {
			continue
		}
		kind, name, suffix, err := changelog.SplitKey(r.key)
		if err != nil {
			return nil, err
		}
		own := kind != changelog.Decision && string(name) == p.o.Key
		numbers := suffix[:(len(r.key)-1-len(name))/8]
		if own {
			c.Changelog += float64(len(r.key) + len(r.value) + recordBytes)
		}
		began := cpuTime()
		for _, name := range names {
			key = append(key[:0], r.key...)
			if own {
				key = changelog.AppendKey(key[:0], kind, name, numbers...)
			}
			if err := q.state.Load(key, r.value); err != nil {
				return nil, fmt.Errorf("size: %w", err)
			}
			read += len(key) + len(r.value)
			if !own {
				break
			}
		}
		took += cpuTime() - began
	}
	c.Load = float64(read) / max(took, time.Microsecond).Seconds()
	return q, nil
}

// recordBytes is about what a record of the changelog takes beside its key and value.
const recordBytes = 12

// nameOf returns a key of the same length, where that is long enough for a number.
func nameOf(key string, i int) []byte {
	const digits = 6 // of mostSeries
	return append([]byte(key[:max(0, len(key)-digits)]), fmt.Sprintf("%0*d", digits, i)...)
}

// replayed returns how many samples of a series a restart reads again: of three quarters of the limit.
func (p *partition) replayed() float64 { return p.o.Rate * p.o.Replay.Seconds() * 3 / 4 }

// rounds returns the samples of each series after which all of them have been written to the changelog once.
func (p *partition) rounds() int64 { return int64(max(1, math.Ceil(p.replayed()))) }

// run replays and then scores samples of all series.
func (p *partition) run(ctx context.Context, c *Costs, floor state.Floor) error {
	before, all := cpuTime(), min(replayRounds, p.rounds())*int64(len(p.names))
	if err := p.state.BeginReplay(floor, p.next+all, false); err != nil {
		return fmt.Errorf("size: %w", err)
	}
	for range all {
		if err := p.fold(ctx); err != nil {
			return err
		}
	}
	p.state.EndInput(p.batch)
	if err := p.score(ctx); err != nil {
		return err
	}
	p.state.EndReplay()
	p.state.Committed(p.next)
	c.Replay, c.replaySeconds = (cpuTime()-before).Seconds()/float64(all), p.o.Replay.Seconds()*3/4

	// The series were changed together, so they are written together. That is to be in the midst of what is measured.
	n := p.cycleSamples()
	live := func(samples int64) error {
		for from := p.steps(); p.steps()-from < samples; {
			want := p.next + int64(n) - int64(p.replayed()*float64(len(p.names)))
			if err := errors.Join(ctx.Err(), p.cycle(ctx, n, want, snapshots)); err != nil {
				return err
			}
		}
		return nil
	}
	all = p.rounds() * int64(len(p.names))
	if err := live(all * 3 / 2); err != nil {
		return err
	}
	runtime.GC()
	p.sent = traffic{}
	busy := time.Duration(0)
	if p.o.Busy != nil {
		busy = p.o.Busy()
	}
	began, from := cpuTime(), p.steps()
	for p.steps() == from || (cpuTime()-began).Seconds() < leastCPU {
		if err := live(all); err != nil {
			return err
		}
	}
	samples := float64(p.steps() - from)
	c.CPU = (cpuTime() - began).Seconds() / samples
	c.Outputs, c.Records = float64(p.sent.outputs)/samples, float64(p.sent.records)/samples
	c.Snapshot = float64(p.sent.changelog) / samples
	if p.o.Busy != nil {
		c.GPU = (p.o.Busy() - busy).Seconds() / samples
	}
	return nil
}

// cycleSamples returns the samples of a partition's share of a transaction: what one of the fleet's partitions gets in the time
// between commits, as far as the copies have so many without more of a series than the fleet's would have.
func (p *partition) cycleSamples() int {
	each := p.o.Rate * p.o.Commit.Seconds()
	return int(max(1, min(each*float64(p.o.Series)/fleetPartitions, max(1, each)*float64(len(p.names)), cycleRecords)))
}

// after says what each series had before it was measured.
func (c *Costs) after() string {
	text := strconv.Itoa(c.Samples) + " samples of each before"
	if !c.Full {
		text += ", after which its state may still grow"
	}
	return text
}
