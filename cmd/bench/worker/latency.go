package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// atRate writes readings at a fixed rate, their event times being the time of
// sending, while a worker scores them and a franz-go reader takes the time at
// which each score is visible.
func (b *Bench) atRate(ctx context.Context, name string, mix func(*testbed.Input, *rand.Rand) *testbed.KeyMix, rate float64,
	settings ...string) (*testbed.Latencies, error) {
	in, err := b.NewInput(ctx, name, pathKeys)
	if err != nil {
		return nil, err
	}
	w, err := b.StartWorker(in, in.Topic+"-g", settings...)
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	defer b.Drop(in.Topic, w.Scores, w.Changelog, w.Group+"-dlq", w.Group+"-late")
	if err := w.Ready(ctx); err != nil {
		return nil, err
	}
	warm, span := b.Span(6*time.Second), b.Span(20*time.Second)
	gctx, stop := context.WithCancel(ctx)
	defer stop()
	var sent atomic.Int64
	var wg sync.WaitGroup
	var genErr error
	wg.Go(func() { genErr = b.generateAt(gctx, in, mix(in, rand.New(rand.NewPCG(1, 2))), rate, &sent) })
	defer wg.Wait()
	defer stop()

	began := time.Now()
	l := &testbed.Latencies{}
	read := make(chan error, 1)
	go func() { read <- l.Read(ctx, b.Cluster.Brokers, w.Scores, began.Add(warm), began.Add(warm+span)) }()
	if err := testbed.Pause(ctx, warm); err != nil {
		return nil, err
	}
	n0, before := sent.Load(), b.Load(w)
	if b.Profile != "" {
		go b.SaveProfile(w, name+".cpu", span/2)
	}
	select {
	case err = <-read:
	case <-w.Done:
		err = w.Ended()
	}
	n1, after := sent.Load(), b.Load(w)
	stop()
	wg.Wait()
	if err = errors.Join(err, genErr); err != nil {
		return nil, err
	}
	l.Rate, l.Others = float64(n1-n0)/span.Seconds(), after.OthersSince(before)
	if len(l.Micros) == 0 {
		return nil, w.Failed(errors.New("no score became visible"))
	}
	b.SayCycles(w)
	if err := w.Stop(30 * time.Second); err != nil {
		return nil, err
	}
	b.Say("%s: p50 %.2f ms, p99 %.2f ms, max %.0f ms of %d scores at %s records/s; %.0f%% of the cores with others", name, l.Quantile(0.5),
		l.Quantile(0.99), l.Quantile(1), len(l.Micros), testbed.Figure(l.Rate), 100*l.Others)
	return l, nil
}

// typical repeats atRate and returns the run with the median p99.
func (b *Bench) typical(ctx context.Context, name string, mix func(*testbed.Input, *rand.Rand) *testbed.KeyMix, rate float64,
	settings ...string) (*testbed.Latencies, error) {
	var runs []*testbed.Latencies
	for range b.Repeat {
		l, err := b.atRate(ctx, name, mix, rate, settings...)
		if err != nil {
			return nil, err
		}
		runs = append(runs, l)
	}
	slices.SortFunc(runs, func(a, b *testbed.Latencies) int { return cmp.Compare(a.Quantile(0.99), b.Quantile(0.99)) })
	return runs[len(runs)/2], nil
}

// generateAt writes until ctx ends. It writes the records due by the rate
// as soon as the last write is acknowledged, so it falls behind only with the brokers.
func (b *Bench) generateAt(ctx context.Context, in *testbed.Input, mix *testbed.KeyMix, rate float64, sent *atomic.Int64) error {
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.Cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return err
	}
	defer client.Close()
	prod := client.NewProducer(kafka.ProducerConfig{})
	if err := prod.Init(ctx); err != nil {
		return err
	}
	out := map[kafka.TP]*record.Batches{}
	parts := make([]*record.Batches, testbed.Partitions)
	for p := range parts {
		parts[p] = record.NewBatches(1<<20, record.CodecNone)
		out[kafka.TP{Topic: in.Topic, Partition: int32(p)}] = parts[p]
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
			k := mix.Deck[n%testbed.DeckSize]
			value = testbed.AppendReading(value[:0], in.SchemaID, mix.Keys[k], now.UnixMicro(), 20+rng.Float64(), n)
			if err := parts[mix.Partition[k]].Append(now.UnixMilli(), mix.Keys[k], value, nil); err != nil {
				return err
			}
			n++
		}
		if err := prod.Produce(ctx, out); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("worker: generate: %w", err)
		}
		for _, p := range parts {
			p.Reset()
		}
		sent.Store(n)
	}
	return nil
}

// halfRate returns the rate of latency and skew.
func (b *Bench) halfRate(ctx context.Context) (float64, error) {
	if b.Rate > 0 {
		_, err := b.warmUp(ctx)
		return b.Rate, err
	}
	r, err := b.path(ctx)
	if err != nil {
		return 0, err
	}
	return r.rate / 2, nil
}

// Latency measures event to visible score under both guarantees.
func (b *Bench) Latency(ctx context.Context) ([]testbed.Row, error) {
	rate, err := b.halfRate(ctx)
	if err != nil {
		return nil, err
	}
	var rows []testbed.Row
	for _, c := range []struct {
		name, target string
		limit        float64
		settings     []string
	}{
		{"exactly once", "<= 150 ms", 150, nil},
		{"at least once", "<= 20 ms", 20, []string{config.Prefix + "GUARANTEE=at_least_once", config.Prefix + "COMMIT_INTERVAL=5ms"}},
	} {
		l, err := b.typical(ctx, "latency", (*testbed.Input).EvenMix, rate, c.settings...)
		if err != nil {
			return rows, err
		}
		p99 := l.Quantile(0.99)
		r := testbed.NewRow(c.name+", p99", p99, "ms").Want(c.target, p99 <= c.limit).Noted(
			"p50 %.3g ms, p99.9 %.3g ms, %d scores", l.Quantile(0.5), l.Quantile(0.999), len(l.Micros))
		for _, s := range c.settings {
			r = r.Noted("%s", s)
		}
		rows = append(rows, l.Reached(r, rate))
	}
	return rows, nil
}

// Skew measures the latency of a partition beside one with a hot key, against even keys.
func (b *Bench) Skew(ctx context.Context) ([]testbed.Row, error) {
	rate, err := b.halfRate(ctx)
	if err != nil {
		return nil, err
	}
	const hot = 0.3
	even, err := b.typical(ctx, "even", (*testbed.Input).EvenMix, rate)
	if err != nil {
		return nil, err
	}
	skewed, err := b.typical(ctx, "skewed", func(in *testbed.Input, rng *rand.Rand) *testbed.KeyMix { return in.ZipfMix(rng, hot) }, rate)
	if err != nil {
		return nil, err
	}
	v, base := skewed.Quantile(0.99), even.Quantile(0.99)
	r := testbed.NewRow("p99 beside the hot partition", v, "ms").Against("even keys", base, true).Want("<= 2 times the baseline", v <= 2*base)
	r = r.Noted("one key %.0f%% of the traffic, the others by Zipf; p50 %.3g ms, even %.3g ms", 100*hot,
		skewed.Quantile(0.5), even.Quantile(0.5))
	return []testbed.Row{skewed.Reached(r, rate)}, nil
}
