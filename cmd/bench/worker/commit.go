package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas/output"
)

// The transactions that commit measures: as a fleet makes them at full load, with the largest cycles, and at a
// light one.
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

// commitTimings has the times of the parts of one transaction: the wait until the markers of
// the previous one are written, the appends with the offsets, and the
// answer that the transaction is committed.
type commitTimings struct{ markers, appends, end, cpu, broker time.Duration }

func (t *commitTimings) all() time.Duration { return t.markers + t.appends + t.end }

// Commit measures transactions as the worker sends them, one after the other, without reading and scoring: the time of
// a cycle that brokers and network take.
func (b *FleetBench) Commit(ctx context.Context) (rows []testbed.Row, err error) {
	for _, n := range []int{commitRecords, commitLight} {
		runs, size, err := b.commits(ctx, b.Scale(n))
		if err != nil {
			return rows, err
		}
		ms := func(duration func(*commitTimings) time.Duration) float64 {
			var all []float64
			for i := range runs {
				all = append(all, duration(&runs[i]).Seconds()*1000)
			}
			mid, _ := testbed.Median(all)
			return mid
		}
		r := testbed.NewRow(fmt.Sprintf("%s records", testbed.Figure(float64(b.Scale(n)))), ms((*commitTimings).all), "ms")
		if b.Scale(n) == commitRecords {
			r = r.Want(fmt.Sprintf("<= %d ms", commitTarget), r.Value <= commitTarget)
		}
		rows = append(rows, r.Noted("markers of the transaction before %.1f ms, appends %.1f ms, end %.1f ms; processor time: producer %.1f ms, "+
			"broker %.1f ms; %.1f MB, %d partitions of scores and as many of state, %s; median of %d",
			ms(func(t *commitTimings) time.Duration { return t.markers }), ms(func(t *commitTimings) time.Duration { return t.appends }),
			ms(func(t *commitTimings) time.Duration { return t.end }), ms(func(t *commitTimings) time.Duration { return t.cpu }),
			ms(func(t *commitTimings) time.Duration { return t.broker }), float64(size)/1e6, b.Partitions, b.Cluster.Kind, len(runs)))
	}
	return rows, nil
}

// commits sends the same transaction again and again.
func (b *FleetBench) commits(ctx context.Context, records int) (runs []commitTimings, size int, err error) {
	in, err := b.NewEmptyInput(ctx, "commit", b.Partitions)
	if err != nil {
		return nil, 0, err
	}
	defer b.Drop(in.Topic)
	outs := map[kafka.TP]*record.Batches{}
	for _, kind := range []string{"scores", "state"} {
		name := in.Topic + "-" + kind
		if err := b.Cluster.Admin().CreateTopic(ctx, name, b.Partitions, 0, nil); err != nil {
			return nil, 0, err
		}
		defer b.Drop(name)
		for p := range b.Partitions {
			batches := record.NewTransactionBatches(commitBatch, record.CodecNone)
			n := records / b.Partitions
			if kind == "scores" {
				err = fillScores(batches, in.Topic, int32(p), n)
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
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.Cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return nil, 0, err
	}
	defer client.Close()
	prod := client.NewProducer(kafka.ProducerConfig{TransactionalID: in.Topic})
	if err := prod.Init(ctx); err != nil {
		return nil, 0, err
	}
	warm := b.runs(commitWarm)
	for i := range warm + b.runs(commitTimes) {
		t, err := b.commitOnce(ctx, prod, in.Topic, outs, int64(i))
		if err != nil {
			return nil, 0, err
		}
		if i >= warm {
			runs = append(runs, t)
		}
	}
	if n := prod.Resent(); n > 0 {
		b.Say("commit of %d records: %d batches were sent again", records, n)
	}
	return runs, size, nil
}

// runs returns a number of repetitions, fewer with -quick.
func (b *FleetBench) runs(n int) int { return max(b.Scale(n), 3) }

func (b *FleetBench) commitOnce(ctx context.Context, prod *kafka.Producer, group string, outs map[kafka.TP]*record.Batches,
	offset int64) (t commitTimings, err error) {
	tps := make([]kafka.TP, 0, len(outs))
	offsets := map[kafka.TP]kafka.Offset{}
	for tp := range outs {
		tps = append(tps, tp)
		offsets[kafka.TP{Topic: group, Partition: tp.Partition}] = kafka.Offset{Offset: offset}
	}
	cpu, broker := testbed.ProcessCPU(os.Getpid()), b.BrokerCPU()
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
	t.cpu, t.broker = testbed.ProcessCPU(os.Getpid())-cpu, b.BrokerCPU()-broker
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
		value = enc.Append(value[:0], key, now.UnixMicro(), now.UnixMicro(), i%2, rng.Float64(), output.Scored, int64(i/2), 0,
			output.Prediction{})
		if err := out.Append(now.UnixMilli(), key, value, nil); err != nil {
			return err
		}
	}
	return nil
}

// fillState adds state of the size of snapshots of the windows of n records.
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
