// Package worker has the benchmarks of a worker. With a light detector (Bench): processor time and rate beside Kafka Streams and
// franz-go, latency, memory and restore. At the load of a fleet of sensors (FleetBench): heavy detectors on the CPU and on GPUs,
// the number of sensors that it can serve, its largest transactions, and a backtest over files.
package worker

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"time"

	"odradek/cmd/bench/testbed"
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

// Bench has the flags of the benchmarks of one worker.
type Bench struct {
	*testbed.Bed
	Rate    float64 // records/s of latency and skew; 0: half of path-rate's
	Streams string  // folder of the Kafka Streams programs
	Connect string  // folder of the Redpanda Connect program, or the program
	Series  int     // series of aggregate; 0: aggregateSeries

	warm  *testbed.Input // the input of path-rate, once the brokers are warm
	paths *pathResult    // of path-cpu and path-rate, measured once
}

// pathResult is the common result of path-cpu and path-rate.
type pathResult struct {
	in             *testbed.Input
	rate, cpu      float64 // medians
	rateSpread     float64 // percent
	note           string
	streams, franz testbed.Pace
	streamsErr     error
	franzErr       error
}

// warmUp writes the input of path-rate and lets a worker read it once,
// unmeasured: a broker's JVM takes tens of seconds to get fast.
func (b *Bench) warmUp(ctx context.Context) (*testbed.Input, error) {
	if b.warm != nil {
		return b.warm, nil
	}
	in, err := b.NewInput(ctx, "path", pathKeys)
	if err != nil {
		return nil, err
	}
	if err := b.Fill(ctx, in, b.Scale(pathRecords)); err != nil {
		return nil, err
	}
	if _, err := b.pathRun(ctx, in, "warm-up", false); err != nil {
		return nil, err
	}
	b.warm = in
	return in, nil
}

// path measures the worker and its peers once for both names.
func (b *Bench) path(ctx context.Context) (*pathResult, error) {
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
	for i := range b.Repeat {
		p, err := b.pathRun(ctx, in, strconv.Itoa(i+1), i == b.Repeat-1)
		if err != nil {
			return nil, err
		}
		b.Say("path %d: %v", i+1, p)
		rates, cpus, brokers = append(rates, p.Rate), append(cpus, p.CPU), append(brokers, p.Broker)
		disturbed = max(disturbed, p.Others)
	}
	r.rate, r.rateSpread = testbed.Median(rates)
	r.cpu, _ = testbed.Median(cpus)
	broker, _ := testbed.Median(brokers)
	r.note = fmt.Sprintf("exactly once, %d keys, %d partitions, %s; median of %d, spread %.0f%%", pathKeys, testbed.Partitions, b.Cluster.Kind,
		b.Repeat, r.rateSpread)
	if broker > 0 {
		r.note += fmt.Sprintf("; broker %.0f ns a record", broker)
	}
	if disturbed > testbed.MaxOthers && b.Cluster.Nodes() != nil {
		r.note += fmt.Sprintf("; DISTURBED: other processes took up to %.0f%% of the cores", 100*disturbed)
	}
	if b.Peers {
		if r.streams, r.streamsErr = b.streamsPace(ctx, in); r.streamsErr != nil {
			b.Say("kafka-streams: %v", r.streamsErr)
		}
		if r.franz, r.franzErr = b.franzPace(ctx, in); r.franzErr != nil {
			b.Say("franz-go: %v", r.franzErr)
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
func (b *Bench) pathRun(ctx context.Context, in *testbed.Input, name string, verify bool, settings ...string) (testbed.Pace, error) {
	w, err := b.StartWorker(in, in.Topic+"-"+name, settings...)
	if err != nil {
		return testbed.Pace{}, err
	}
	defer w.Kill()
	defer b.Drop(w.Scores, w.Group+"-anomalies", w.Changelog, w.Group+"-dlq", w.Group+"-late")
	if err := w.Ready(ctx); err != nil {
		return testbed.Pace{}, err
	}
	if b.Profile != "" {
		go b.SaveProfile(w, "path-"+name+".cpu", b.Span(8*time.Second))
	}
	ticks, err := b.Watch(ctx, w.Process, int64(in.Records), 5*time.Minute, w.Consumed)
	if err != nil {
		return testbed.Pace{}, err
	}
	b.SayCycles(w)
	if verify {
		if err := b.verify(ctx, w, in); err != nil {
			return testbed.Pace{}, err
		}
	}
	if err := w.Stop(30 * time.Second); err != nil {
		return testbed.Pace{}, err
	}
	return testbed.Steady(ticks, 0.2, 0.9)
}

// verify reads the scores with franz-go, committed ones only, and compares them
// with the input: each record's coordinates once, none else.
func (b *Bench) verify(ctx context.Context, w *testbed.Worker, in *testbed.Input) error {
	admin := b.Cluster.Admin()
	if err := admin.WaitStable(ctx, w.Scores); err != nil {
		return err
	}
	ends, err := admin.Ends(ctx, in.Topic, kafkatest.HighWatermark)
	if err != nil {
		return err
	}
	seen := make([][]uint64, testbed.Partitions)
	for p := range seen {
		seen[p] = make([]uint64, (ends[int32(p)]+63)/64)
	}
	scores, records, size := 0, 0, 0
	var list []output.Score
	err = admin.Read(ctx, w.Scores, true, func(r *kafkatest.Record) error {
		var err error
		if list, err = output.DecodeScores(list[:0], r.Value); err != nil {
			return err
		}
		records, size = records+1, size+len(r.Key)+len(r.Value)
		for _, s := range list {
			if s.Partition < 0 || int(s.Partition) >= len(seen) || s.Offset < 0 || s.Offset >= ends[s.Partition] {
				return fmt.Errorf("a score of %s/%d at offset %d, where no record is", s.Topic, s.Partition, s.Offset)
			}
			word, bit := &seen[s.Partition][s.Offset/64], uint64(1)<<(s.Offset%64)
			if *word&bit != 0 {
				return fmt.Errorf("a second score of %s/%d at offset %d", s.Topic, s.Partition, s.Offset)
			}
			*word |= bit
			scores++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("verify %s: %w", w.Scores, err)
	}
	distinct := 0
	for p := range seen {
		for _, word := range seen[p] {
			distinct += bits.OnesCount64(word)
		}
	}
	if scores != in.Records || distinct != in.Records {
		return fmt.Errorf("verify %s: %d scores of %d records for %d records", w.Scores, scores, distinct, in.Records)
	}
	b.Say("verified: %d scores, one for each record, in %d records of %.1f bytes a score", scores, records, float64(size)/float64(scores))
	return nil
}

// PathCPU returns the processor time of a record, for the worker and for each peer.
func (b *Bench) PathCPU(ctx context.Context) ([]testbed.Row, error) {
	r, err := b.path(ctx)
	if err != nil {
		return nil, err
	}
	base := testbed.NewRow("", r.cpu, "ns/record").Want("<= 350 ns", r.cpu > 0 && r.cpu <= 350).Noted("%s", r.note)
	return r.rows(base, r.streams.CPU, r.franz.CPU, true), nil
}

// PathRate returns the records a second, the worker's beside each peer's.
func (b *Bench) PathRate(ctx context.Context) ([]testbed.Row, error) {
	r, err := b.path(ctx)
	if err != nil {
		return nil, err
	}
	base := testbed.NewRow("", r.rate, "records/s").Noted("%s", r.note)
	rows := r.rows(base, r.streams.Rate, r.franz.Rate, false)
	for i, least := range []float64{6, 4} {
		enough := r.rate >= 1.5e6
		target := fmt.Sprintf(">= 1,500,000 and %g times", least)
		rows[i] = rows[i].Want(target, enough && (rows[i].Ratio == nil || *rows[i].Ratio >= least))
	}
	return rows, nil
}

// rows puts the figure beside each peer's.
func (r *pathResult) rows(base testbed.Row, streams, franz float64, lower bool) []testbed.Row {
	side := func(name string, figure float64, err error) testbed.Row {
		if err != nil {
			return base.Without(name, err)
		}
		return base.Against(name, figure, lower)
	}
	return []testbed.Row{side("kafka-streams", streams, r.streamsErr), side("franz-go", franz, r.franzErr)}
}
