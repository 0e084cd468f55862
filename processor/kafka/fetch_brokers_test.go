package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// The tests of this file run on every kind of broker, for what kfake does not
// do: logs on disk, replication, elections, throttled metadata.

// TestBrokersFetchTransactions: every codec, committed and aborted transactions
// on three partitions, read by several fetchers with odd limits.
func TestBrokersFetchTransactions(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // with the other kinds: they share no broker
		r := seedtest.New(t)
		ctx := brokertest.Within(t)
		topic := k.Topic(t, "in", 3)
		c := OpenForTest(t, k.Brokers)
		want := map[int32][]brokertest.Record{}
		codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
			kgo.ZstdCompression()}
		for i, codec := range codecs {
			cl := brokertest.Franz(t, k.Brokers, kgo.TransactionalID(kafkatest.Unique("tx")), kgo.ProducerBatchCompression(codec),
				kgo.ProducerBatchMaxBytes(30_000))
			for round := range 4 {
				if err := cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				commit := (i+round)%3 != 0
				var rs []*kgo.Record
				for range 200 {
					p := brokertest.RandomRecord(r, time.Now().UnixMilli()+int64(r.IntN(1000)))
					rs = append(rs, brokertest.FranzRecord(topic, int32(r.IntN(3)), p))
				}
				if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
					t.Fatal(err)
				}
				for _, rec := range rs {
					if commit {
						want[rec.Partition] = append(want[rec.Partition], brokertest.Record{Offset: rec.Offset, Time: rec.Timestamp.UnixMilli(),
							Key: rec.Key, Value: rec.Value, Headers: brokertest.CopyHeaders(rec.Headers)})
					}
				}
				if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
					t.Fatal(err)
				}
			}
		}
		tps := []record.TP{brokertest.TP(topic, 0), brokertest.TP(topic, 1), brokertest.TP(topic, 2)}
		if err := k.Admin().WaitStable(ctx, topic); err != nil {
			t.Fatal(err)
		}
		end, err := c.Offsets.ListOffsets(ctx, tps, Latest)
		if err != nil {
			t.Fatal(err)
		}
		if stable, err := c.Offsets.ListStable(ctx, tps); err != nil || stable[tps[1]] != end[tps[1]] {
			t.Fatal(stable, end, err)
		}
		for _, limits := range []FetchConfig{{}, {PartitionBytes: 5000, MaxBytes: 8000, BufferedChunks: 1},
			{PartitionBytes: 100_000, BufferedChunks: 4}} {
			limits.ReadCommitted = true
			if !k.Real() {
				// kfake leaves the list of aborted transactions out of a partition at
				// which the response reaches MaxBytes (01_fetch.go, "break full").
				limits.MaxBytes = 0
			}
			f := NewFetcher(c, limits)
			for p, tp := range tps {
				var got []brokertest.Record
				readTo(t, f.Add(tp, 0), 0, end[tp], func(rec *record.Record) {
					got = append(got, brokertest.Record{Offset: rec.Offset, Time: rec.Timestamp,
						Key: slices.Clone(rec.Key), Value: slices.Clone(rec.Value), Headers: brokertest.CopyHeaders(rec.AppendHeaders(nil))})
				})
				if len(got) != len(want[int32(p)]) {
					t.Fatalf("%s: %d records, want %d", tp, len(got), len(want[int32(p)]))
				}
				slices.SortFunc(want[int32(p)], func(a, b brokertest.Record) int { return int(a.Offset - b.Offset) })
				for i, w := range want[int32(p)] {
					if g := got[i]; !g.Equal(w) {
						t.Fatalf("%s: got %+v, want %+v", tp, g, w)
					}
				}
			}
			f.Close()
		}
		// By time: the first record at or after each of some times.
		for range 20 {
			w := want[1][r.IntN(len(want[1]))]
			at, err := c.Offsets.ListOffsets(ctx, tps[1:2], w.Time)
			if err != nil || at[tps[1]] > w.Offset {
				t.Fatalf("at %d: %v, %v; %d is as late", w.Time, at, err, w.Offset)
			}
		}
		if at, err := c.Offsets.ListOffsets(ctx, tps, time.Now().Add(time.Hour).UnixMilli()); err != nil || at[tps[2]] != end[tps[2]] {
			t.Fatal(at, end, err)
		}
		// Outside of the log.
		if err := k.Admin().DeleteRecords(ctx, topic, 0, 100); err != nil {
			t.Fatal(err)
		}
		f := NewFetcher(c, FetchConfig{})
		defer f.Close()
		for _, from := range []int64{50, end[tps[0]] + 1} {
			ch := receive(t, f.Add(tps[0], from))
			var e *OffsetOutOfRangeError
			if !errors.As(ch.Err, &e) || *e != (OffsetOutOfRangeError{tps[0], from, 100, end[tps[0]]}) {
				t.Fatalf("%+v", ch)
			}
		}
	})
}

// TestBrokersFetchThroughFailures: leaders move, and on real Kafka a node is
// killed and another frozen, while records are written and read.
func TestBrokersFetchThroughFailures(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // with the other kinds: they share no broker
		r := seedtest.New(t)
		ctx := brokertest.Within(t)
		topic := k.Topic(t, "in", 6)
		c := OpenForTest(t, k.Brokers)
		f := NewFetcher(c, FetchConfig{ReadCommitted: true})
		defer f.Close()
		const n = 4000
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for p := int32(0); p < 6; p++ {
			wg.Go(func() {
				cl := brokertest.Franz(t, k.Brokers)
				for i := 0; i < n; i += 50 {
					var rs []*kgo.Record
					for j := i; j < i+50; j++ {
						rs = append(rs, &kgo.Record{Topic: topic, Partition: p, Value: []byte(fmt.Sprint(j))})
					}
					if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
			s := f.Add(brokertest.TP(topic, p), 0)
			wg.Go(func() {
				var it record.Iterator
				for i := 0; i < n; {
					select {
					case <-ctx.Done():
						t.Errorf("partition %d stops at %d", p, i)
						return
					case ch := <-s.C():
						if ch.Err != nil {
							t.Errorf("partition %d: %v", p, ch.Err)
							return
						}
						for it.Reset(&ch.Chunk); it.Next(); i++ {
							if rec := it.Record(); rec.Offset != int64(i) || string(rec.Value) != fmt.Sprint(i) {
								t.Errorf("partition %d: offset %d value %q, want %d", p, rec.Offset, rec.Value, i)
								return
							}
						}
						if it.Err() != nil {
							t.Error(it.Err())
							return
						}
						ch.Release()
					}
				}
			})
		}
		var movers sync.WaitGroup
		movers.Go(func() {
			if k.Real() {
				node := k.Node(r.IntN(3))
				t.Logf("kill node %d", node.ID)
				node.Kill()
				time.Sleep(3 * time.Second)
				if err := node.Start(ctx); err != nil {
					t.Error(err)
				}
				node = k.Node(r.IntN(3))
				t.Logf("freeze node %d", node.ID)
				node.Pause()
				time.Sleep(3 * time.Second)
				node.Resume()
			}
			nodes, err := k.Admin().Nodes(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
				// A move that the cluster is not ready for does not matter here.
				short, cancel := context.WithTimeout(ctx, 2*time.Second)
				k.MoveLeader(short, topic, int32(r.IntN(6)), nodes[r.IntN(len(nodes))])
				cancel()
			}
		})
		start := time.Now()
		wg.Wait()
		t.Logf("written and read in %v", time.Since(start))
		close(stop)
		movers.Wait()
	})
}
