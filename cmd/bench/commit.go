package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas/output"
)

// The transactions of commit: those of a fleet at full load, where a cycle is as
// large as it gets, and at a light one.
const (
	commitRecords = 463_000 // input records; fleet scores each twice
	commitLight   = 40_000
	commitState   = 16 // bytes of state a record: windows of one value
	commitSegment = 1 << 10
	commitTarget  = 110 // ms
	commitWarm    = 10  // transactions before those measured
	commitTimes   = 30
	commitBatch   = 1_000_000 // ODRADEK_MAX_MESSAGE_BYTES by default
)

// commitTimings is how long the parts of one transaction took: waiting until the
// markers of the one before are written, the appends with the offsets, and the
// answer that the transaction is committed.
type commitTimings struct{ markers, appends, end, cpu, broker time.Duration }

func (t *commitTimings) all() time.Duration { return t.markers + t.appends + t.end }

// commit measures transactions as the worker sends them, one after the other,
// without reading and scoring anything: what the brokers and the way to them take
// of a cycle.
func (b *bench) commit(ctx context.Context) (rows []benchRow, err error) {
	for _, n := range []int{commitRecords, commitLight} {
		runs, size, err := b.commits(ctx, b.scale(n))
		if err != nil {
			return rows, err
		}
		ms := func(of func(*commitTimings) time.Duration) float64 {
			var all []float64
			for i := range runs {
				all = append(all, of(&runs[i]).Seconds()*1000)
			}
			mid, _ := median(all)
			return mid
		}
		r := row(fmt.Sprintf("%s records", figure(float64(b.scale(n)))), ms((*commitTimings).all), "ms")
		if b.scale(n) == commitRecords {
			r = r.want(fmt.Sprintf("<= %d ms", commitTarget), r.Value <= commitTarget)
		}
		rows = append(rows, r.noted("markers of the transaction before %.1f ms, appends %.1f ms, end %.1f ms; processor time: producer %.1f ms, "+
			"broker %.1f ms; %.1f MB, %d partitions of scores and as many of state, %s; median of %d",
			ms(func(t *commitTimings) time.Duration { return t.markers }), ms(func(t *commitTimings) time.Duration { return t.appends }),
			ms(func(t *commitTimings) time.Duration { return t.end }), ms(func(t *commitTimings) time.Duration { return t.cpu }),
			ms(func(t *commitTimings) time.Duration { return t.broker }), float64(size)/1e6, b.o.partitions, b.cluster.Kind, len(runs)))
	}
	return rows, nil
}

// commits sends the same transaction again and again.
func (b *bench) commits(ctx context.Context, records int) (runs []commitTimings, size int, err error) {
	in, err := b.newInputOf(ctx, "commit", b.o.partitions)
	if err != nil {
		return nil, 0, err
	}
	defer b.drop(in.topic)
	outs := map[kafka.TP]*record.Batches{}
	for _, kind := range []string{"scores", "state"} {
		name := in.topic + "-" + kind
		if err := b.cluster.Admin().CreateTopic(ctx, name, b.o.partitions, 0, nil); err != nil {
			return nil, 0, err
		}
		defer b.drop(name)
		for p := range b.o.partitions {
			batches := record.NewTransactionBatches(commitBatch, record.CodecNone)
			n := records / b.o.partitions
			if kind == "scores" {
				err = fillScores(batches, in.topic, int32(p), n)
			} else {
				err = fillState(batches, n)
			}
			if err != nil {
				return nil, 0, err
			}
			outs[kafka.TP{Topic: name, Partition: int32(p)}] = batches
			size += batches.Bytes()
		}
	}
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return nil, 0, err
	}
	defer client.Close()
	prod := client.NewProducer(kafka.ProducerConfig{TransactionalID: in.topic})
	if err := prod.Init(ctx); err != nil {
		return nil, 0, err
	}
	warm := b.runs(commitWarm)
	for i := range warm + b.runs(commitTimes) {
		t, err := b.commitOnce(ctx, prod, in.topic, outs, int64(i))
		if err != nil {
			return nil, 0, err
		}
		if i >= warm {
			runs = append(runs, t)
		}
	}
	if n := prod.Resent(); n > 0 {
		b.say("commit of %d records: %d batches were sent again", records, n)
	}
	return runs, size, nil
}

// runs is a number of repetitions, fewer with -quick.
func (b *bench) runs(n int) int { return max(b.scale(n), 3) }

func (b *bench) commitOnce(ctx context.Context, prod *kafka.Producer, group string, outs map[kafka.TP]*record.Batches,
	offset int64) (t commitTimings, err error) {
	tps := make([]kafka.TP, 0, len(outs))
	offsets := map[kafka.TP]kafka.Offset{}
	for tp := range outs {
		tps = append(tps, tp)
		offsets[kafka.TP{Topic: group, Partition: tp.Partition}] = kafka.Offset{Offset: offset}
	}
	cpu, broker := processCPU(os.Getpid()), b.brokerCPU()
	began := time.Now()
	if err := prod.AddPartitions(ctx, tps); err != nil {
		return t, err
	}
	added := time.Now()
	if err := prod.Send(ctx, outs, kafka.Generation{ID: -1}, group, offsets); err != nil {
		return t, err
	}
	sent := time.Now()
	if err := prod.End(ctx, true); err != nil {
		return t, err
	}
	t = commitTimings{markers: added.Sub(began), appends: sent.Sub(added), end: time.Since(sent)}
	t.cpu, t.broker = processCPU(os.Getpid())-cpu, b.brokerCPU()-broker
	return t, nil
}

// fillScores adds the scores of n records by two detectors.
func fillScores(out *record.Batches, topic string, partition int32, n int) error {
	enc := output.NewScoreEncoder(1, topic, partition, []string{"change", "rare"})
	rng := rand.New(rand.NewPCG(1, uint64(partition)))
	now := time.Now()
	var key, value []byte
	for i := range 2 * n {
		key = fmt.Appendf(key[:0], "press-%06d/bearing", i/2%1250)
		value = enc.Append(value[:0], key, now.UnixMicro(), now.UnixMicro(), i%2, rng.Float64(), output.Scored, int64(i/2))
		if err := out.Append(now.UnixMilli(), key, value, nil); err != nil {
			return err
		}
	}
	return nil
}

// fillState adds what snapshots of the windows of n records take.
func fillState(out *record.Batches, n int) error {
	value := make([]byte, commitSegment)
	rng := rand.New(rand.NewPCG(2, 3))
	for left := n * commitState; left > 0; left -= len(value) {
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		if err := out.Append(time.Now().UnixMilli(), fmt.Appendf(nil, "press-%06d/bearing", left%1250), value, nil); err != nil {
			return err
		}
	}
	return nil
}
