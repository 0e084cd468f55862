package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/cmd/worker/config"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas/output"
)

// latencies are of single records, from event time to the moment an independent
// reader of committed records has the score in hand.
type latencies struct {
	micros []int64 // sorted
	rate   float64 // records/s that the generator reached
	others float64 // share of the cores that neither worker, brokers nor this process used
}

func (l *latencies) quantile(q float64) float64 {
	if len(l.micros) == 0 {
		return 0
	}
	return float64(l.micros[min(int(q*float64(len(l.micros))), len(l.micros)-1)]) / 1000
}

// watchedPartition is the partition of the scores that is read back: a fair
// sample, for a quarter of the reader's own load on the machine that is
// measured. The scores topic has the input's partition count, the same keys and the
// same hash, so these are the scores of the input's partition of that number.
// The hot key of zipfMix is in partition 0.
const watchedPartition = 1

// atRate writes readings at a fixed rate, their event times being the time of
// sending, while a worker scores them and a franz-go reader takes the time at
// which each score is visible.
func (b *bench) atRate(ctx context.Context, name string, mix func(*benchInput, *rand.Rand) *keyMix, rate float64,
	settings ...string) (*latencies, error) {
	in, err := b.newInput(ctx, name, pathKeys)
	if err != nil {
		return nil, err
	}
	w, err := b.startWorker(in, in.topic+"-g", settings...)
	if err != nil {
		return nil, err
	}
	defer w.kill()
	defer b.drop(in.topic, w.scores, w.changelog, w.group+"-dlq", w.group+"-late")
	if err := w.ready(ctx); err != nil {
		return nil, err
	}
	warm, span := b.span(6*time.Second), b.span(20*time.Second)
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	var sent atomic.Int64
	var wg sync.WaitGroup
	var genErr error
	wg.Go(func() { genErr = b.generateAt(gctx, in, mix(in, rand.New(rand.NewPCG(1, 2))), rate, &sent) })
	defer wg.Wait()
	defer stop()

	began := time.Now()
	l := &latencies{}
	read := make(chan error, 1)
	go func() { read <- l.read(ctx, b.cluster.Brokers, w.scores, began.Add(warm), began.Add(warm+span)) }()
	if err := pause(ctx, warm); err != nil {
		return nil, err
	}
	n0, before := sent.Load(), b.load(w)
	if b.o.profile != "" {
		go b.saveProfile(w, name+".cpu", span/2)
	}
	select {
	case err = <-read:
	case <-w.done:
		err = w.ended()
	}
	n1, after := sent.Load(), b.load(w)
	stop()
	wg.Wait()
	if err = errors.Join(err, genErr); err != nil {
		return nil, err
	}
	l.rate, l.others = float64(n1-n0)/span.Seconds(), after.othersSince(before)
	if len(l.micros) == 0 {
		return nil, w.failed(errors.New("no score became visible"))
	}
	b.sayCycles(w)
	if err := w.stop(30 * time.Second); err != nil {
		return nil, err
	}
	b.say("%s: p50 %.2f ms, p99 %.2f ms, max %.0f ms of %d scores at %s records/s; %.0f%% of the cores with others", name, l.quantile(0.5),
		l.quantile(0.99), l.quantile(1), len(l.micros), figure(l.rate), 100*l.others)
	return l, nil
}

// machineLoad is what used the cores up to a moment.
type machineLoad struct{ busy, idle, ours time.Duration }

func (b *bench) load(w *workerProcess) machineLoad {
	busy, idle := machineCPU()
	return machineLoad{busy, idle, w.cpu() + b.brokerCPU() + processCPU(os.Getpid())}
}

func (l machineLoad) othersSince(m machineLoad) float64 {
	busy := l.busy - m.busy
	return float64(busy-(l.ours-m.ours)) / float64(max(1, busy+l.idle-m.idle))
}

// typical repeats atRate and returns the run with the median p99.
func (b *bench) typical(ctx context.Context, name string, mix func(*benchInput, *rand.Rand) *keyMix, rate float64,
	settings ...string) (*latencies, error) {
	var runs []*latencies
	for range b.o.repeat {
		l, err := b.atRate(ctx, name, mix, rate, settings...)
		if err != nil {
			return nil, err
		}
		runs = append(runs, l)
	}
	slices.SortFunc(runs, func(a, b *latencies) int { return cmp.Compare(a.quantile(0.99), b.quantile(0.99)) })
	return runs[len(runs)/2], nil
}

// generateAt writes until ctx ends. What is owed to the rate is written as soon
// as the last write is acknowledged, so it falls behind only where the brokers do.
func (b *bench) generateAt(ctx context.Context, in *benchInput, mix *keyMix, rate float64, sent *atomic.Int64) error {
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return err
	}
	defer client.Close()
	prod := client.NewProducer(kafka.ProducerConfig{})
	if err := prod.Init(ctx); err != nil {
		return err
	}
	out := map[kafka.TP]*record.Batches{}
	parts := make([]*record.Batches, inputPartitions)
	for p := range parts {
		parts[p] = record.NewBatches(1<<20, record.CodecNone)
		out[kafka.TP{Topic: in.topic, Partition: int32(p)}] = parts[p]
	}
	rng := rand.New(rand.NewPCG(3, 4))
	value := make([]byte, 0, 128)
	began := time.Now()
	for n := int64(0); ctx.Err() == nil; {
		owed := int64(rate*time.Since(began).Seconds()) - n
		if owed < int64(rate/1000) {
			time.Sleep(200 * time.Microsecond)
			continue
		}
		owed = min(owed, 1<<16)
		now := time.Now()
		for i := range owed {
			if i&0xff == 0xff {
				now = time.Now()
			}
			k := mix.deck[n%deckSize]
			value = appendReading(value[:0], in.schemaID, mix.keys[k], now.UnixMicro(), 20+rng.Float64(), n)
			if err := parts[mix.part[k]].Append(now.UnixMilli(), mix.keys[k], value, nil); err != nil {
				return err
			}
			n++
		}
		if err := prod.Produce(ctx, out); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("generate: %w", err)
		}
		for _, p := range parts {
			p.Reset()
		}
		sent.Store(n)
	}
	return nil
}

// read takes the latency of every score of the watched partition that becomes
// visible between two times.
func (l *latencies) read(ctx context.Context, brokers []string, topic string, from, to time.Time) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {watchedPartition: kgo.NewOffset().AtEnd()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithDeadline(ctx, to)
	defer cancel()
	for {
		fetches := cl.PollFetches(ctx)
		now := time.Now()
		if now.After(to) || ctx.Err() != nil {
			break
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s: %w", topic, e.Err)
		}
		if now.Before(from) {
			continue
		}
		var fault error
		fetches.EachRecord(func(r *kgo.Record) {
			s, err := output.DecodeScore(r.Value)
			if err == nil && s.Partition != watchedPartition {
				err = fmt.Errorf("a score of partition %d in partition %d", s.Partition, watchedPartition)
			}
			if err != nil {
				fault = err
				return
			}
			l.micros = append(l.micros, now.UnixMicro()-s.EventTime)
		})
		if fault != nil {
			return fmt.Errorf("read %s: %w", topic, fault)
		}
	}
	slices.Sort(l.micros)
	return nil
}

// halfRate is the rate of latency and skew.
func (b *bench) halfRate(ctx context.Context) (float64, error) {
	if b.o.rate > 0 {
		_, err := b.warmUp(ctx)
		return b.o.rate, err
	}
	r, err := b.path(ctx)
	if err != nil {
		return 0, err
	}
	return r.rate / 2, nil
}

// reached notes the rate, and that it is not the one asked for, and a
// disturbance.
func (l *latencies) reached(r benchRow, rate float64) benchRow {
	if l.others > maxOthers {
		r = r.noted("DISTURBED: other processes took %.0f%% of the cores", 100*l.others)
	}
	if l.rate < 0.97*rate {
		return r.noted("at %s records/s: the generator did not reach %s", figure(l.rate), figure(rate)).want(r.Target, false)
	}
	return r.noted("at %s records/s", figure(l.rate))
}

func (b *bench) latency(ctx context.Context) ([]benchRow, error) {
	rate, err := b.halfRate(ctx)
	if err != nil {
		return nil, err
	}
	var rows []benchRow
	for _, c := range []struct {
		name, target string
		limit        float64
		settings     []string
	}{
		{"exactly once", "<= 150 ms", 150, nil},
		{"at least once", "<= 20 ms", 20, []string{config.Prefix + "GUARANTEE=at_least_once", config.Prefix + "COMMIT_INTERVAL=5ms"}},
	} {
		l, err := b.typical(ctx, "latency", (*benchInput).evenMix, rate, c.settings...)
		if err != nil {
			return rows, err
		}
		p99 := l.quantile(0.99)
		r := row(c.name+", p99", p99, "ms").want(c.target, p99 <= c.limit).noted("p50 %.3g ms, p99.9 %.3g ms, %d scores", l.quantile(0.5),
			l.quantile(0.999), len(l.micros))
		for _, s := range c.settings {
			r = r.noted("%s", s)
		}
		rows = append(rows, l.reached(r, rate))
	}
	return rows, nil
}

func (b *bench) skew(ctx context.Context) ([]benchRow, error) {
	rate, err := b.halfRate(ctx)
	if err != nil {
		return nil, err
	}
	const hot = 0.3
	even, err := b.typical(ctx, "even", (*benchInput).evenMix, rate)
	if err != nil {
		return nil, err
	}
	skewed, err := b.typical(ctx, "skewed", func(in *benchInput, rng *rand.Rand) *keyMix { return in.zipfMix(rng, hot) }, rate)
	if err != nil {
		return nil, err
	}
	v, base := skewed.quantile(0.99), even.quantile(0.99)
	r := row("p99 beside the hot partition", v, "ms").against("even keys", base, true).want("<= 2 times the baseline", v <= 2*base)
	r = r.noted("one key %.0f%% of the traffic, the others by Zipf; p50 %.3g ms, even %.3g ms", 100*hot,
		skewed.quantile(0.5), even.quantile(0.5))
	return []benchRow{skewed.reached(r, rate)}, nil
}
