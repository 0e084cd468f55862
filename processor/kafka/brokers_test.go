package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// The tests of this file run on every kind of broker, for what kfake does not
// do: logs on disk, replication, elections, an authorizer, throttled metadata.

func franzOf(t testing.TB, k *kafkatest.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(k.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// TestBrokersFetchTransactions: every codec, committed and aborted transactions
// on three partitions, read by several fetchers with odd limits.
func TestBrokersFetchTransactions(t *testing.T) {
	kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // with the other kinds: they share no broker
		r := seeded(t)
		ctx := within(t, 120*time.Second)
		topic := k.Topic(t, "in", 3)
		c := open(t, k.Brokers)
		want := map[int32][]plainRecord{}
		codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
			kgo.ZstdCompression()}
		for i, codec := range codecs {
			cl := franzOf(t, k, kgo.TransactionalID(kafkatest.Unique("tx")), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(30_000))
			for round := range 4 {
				if err := cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				commit := (i+round)%3 != 0
				var rs []*kgo.Record
				for range 200 {
					p := randomRecord(r, time.Now().UnixMilli()+int64(r.IntN(1000)))
					rs = append(rs, kgoRecord(topic, int32(r.IntN(3)), p))
				}
				if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
					t.Fatal(err)
				}
				for _, rec := range rs {
					if commit {
						w := plainRecord{offset: rec.Offset, ts: rec.Timestamp.UnixMilli(), key: rec.Key, value: rec.Value}
						for _, h := range rec.Headers {
							w.headers = append(w.headers, record.Header{Key: h.Key, Value: h.Value})
						}
						want[rec.Partition] = append(want[rec.Partition], w)
					}
				}
				if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
					t.Fatal(err)
				}
			}
		}
		tps := []TP{tpOf(topic, 0), tpOf(topic, 1), tpOf(topic, 2)}
		if err := k.Admin().WaitStable(ctx, topic); err != nil {
			t.Fatal(err)
		}
		end, err := c.ListOffsets(ctx, tps, Latest)
		if err != nil {
			t.Fatal(err)
		}
		if stable, err := c.ListStable(ctx, tps); err != nil || stable[tps[1]] != end[tps[1]] {
			t.Fatal(stable, end, err)
		}
		for _, limits := range []FetcherConfig{{}, {PartitionBytes: 5000, MaxBytes: 8000, BufferedChunks: 1},
			{PartitionBytes: 100_000, BufferedChunks: 4}} {
			limits.ReadCommitted = true
			if !k.Real() {
				// kfake leaves the list of aborted transactions out of a partition at
				// which the response reaches MaxBytes (01_fetch.go, "break full").
				limits.MaxBytes = 0
			}
			f := c.NewFetcher(limits)
			for p, tp := range tps {
				var got []plainRecord
				readTo(t, f.Add(tp, 0), 0, end[tp], func(rec *record.Record) {
					got = append(got, plainRecord{rec.Offset, rec.Timestamp, slices.Clone(rec.Key), slices.Clone(rec.Value), cloneHeaders(rec)})
				})
				if len(got) != len(want[int32(p)]) {
					t.Fatalf("%s: %d records, want %d", tp, len(got), len(want[int32(p)]))
				}
				slices.SortFunc(want[int32(p)], func(a, b plainRecord) int { return int(a.offset - b.offset) })
				for i, w := range want[int32(p)] {
					g := got[i]
					if g.offset != w.offset || g.ts != w.ts || !same(g.key, w.key) || !same(g.value, w.value) || !equalHeaders(g.headers, w.headers) {
						t.Fatalf("%s: got %+v, want %+v", tp, g, w)
					}
				}
			}
			f.Close()
		}
		// By time: the first record at or after each of some times.
		for range 20 {
			w := want[1][r.IntN(len(want[1]))]
			at, err := c.ListOffsets(ctx, tps[1:2], w.ts)
			if err != nil || at[tps[1]] > w.offset {
				t.Fatalf("at %d: %v, %v; %d is as late", w.ts, at, err, w.offset)
			}
		}
		if at, err := c.ListOffsets(ctx, tps, time.Now().Add(time.Hour).UnixMilli()); err != nil || at[tps[2]] != end[tps[2]] {
			t.Fatal(at, end, err)
		}
		// Outside of the log.
		if err := k.Admin().DeleteRecords(ctx, topic, 0, 100); err != nil {
			t.Fatal(err)
		}
		f := c.NewFetcher(FetcherConfig{})
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

func cloneHeaders(r *record.Record) []record.Header {
	hs := r.AppendHeaders(nil)
	for i := range hs {
		hs[i].Value = slices.Clone(hs[i].Value)
	}
	return hs
}

// TestBrokersFetchThroughFailures: leaders move, and on real Kafka a node is
// killed and another frozen, while records are written and read.
func TestBrokersFetchThroughFailures(t *testing.T) {
	kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // with the other kinds: they share no broker
		r := seeded(t)
		ctx := within(t, 180*time.Second)
		topic := k.Topic(t, "in", 6)
		c := open(t, k.Brokers)
		f := c.NewFetcher(FetcherConfig{ReadCommitted: true})
		defer f.Close()
		const n = 4000
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for p := int32(0); p < 6; p++ {
			wg.Go(func() {
				cl := franzOf(t, k)
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
			s := f.Add(tpOf(topic, p), 0)
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

// TestBrokersAdmin: topics, configurations, commits and permissions.
func TestBrokersAdmin(t *testing.T) {
	kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		ctx := within(t, 120*time.Second)
		c := open(t, k.Brokers)
		name, group := kafkatest.Unique("log"), kafkatest.Unique("g")
		if err := c.CreateTopic(ctx, name, 3, -1, map[string]string{"cleanup.policy": "compact", "retention.ms": "123456"}); err != nil {
			t.Fatal(err)
		}
		defer c.DeleteTopic(ctx, name)
		if err := c.CreateTopic(ctx, name, 3, -1, nil); err != nil {
			t.Fatal(err)
		}
		infos, err := c.Topics(ctx, name, name+"-absent")
		if err != nil {
			t.Fatal(err)
		}
		if i := infos[name]; !i.Exists || i.Partitions != 3 || i.Leaderless != 0 || !i.Operations.Known || !i.Operations.Has(OpWrite) {
			t.Errorf("%+v", i)
		}
		if infos[name+"-absent"].Exists {
			t.Errorf("%+v", infos)
		}
		cfg, err := c.TopicConfig(ctx, name)
		if err != nil || cfg["cleanup.policy"] != "compact" || cfg["retention.ms"] != "123456" || cfg["min.insync.replicas"] == "" {
			t.Errorf("%v, %v", cfg, err)
		}
		if k.Real() {
			for _, bad := range []error{c.CreateTopic(ctx, "no/slash", 1, -1, nil), c.CreateTopic(ctx, name+"-wide", 1, 9, nil),
				c.CreateTopic(ctx, name+"-config", 1, -1, map[string]string{"no.such": "x"})} {
				if bad == nil {
					t.Error("a topic that cannot be")
				}
				t.Log(bad)
			}
		}
		tps := []TP{tpOf(name, 0), tpOf(name, 2)}
		got, err := c.Committed(ctx, group, tps)
		if err != nil || got[tps[1]].Offset != -1 {
			t.Fatal(got, err)
		}
		if err := c.CommitOffsets(ctx, noGroup, group, map[TP]Offset{tps[1]: {Offset: 42, Metadata: "1;2;3"}}); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Committed(ctx, group, tps); err != nil || got[tps[1]] != (Offset{Offset: 42, Metadata: "1;2;3"}) ||
			got[tps[0]].Offset != -1 {
			t.Fatal(got, err)
		}
		var oe *OffsetError
		if err := c.CommitOffsets(ctx, noGroup, group, map[TP]Offset{tps[1]: {Offset: 43, Metadata: strings.Repeat("x", 5000)}}); k.Real() &&
			!errors.As(err, &oe) {
			t.Error(err)
		} else {
			t.Log(err)
		}
		ops, err := c.Operations(ctx, ResourceGroup, group)
		if err != nil || !ops.Has(OpRead) {
			t.Error(ops, err)
		}
		if ops, err = c.Operations(ctx, ResourceCluster, ""); err != nil || !ops.Known {
			t.Error(ops, err)
		}
		if ops, err = c.Operations(ctx, ResourceTransactionalID, "any"); err != nil || !ops.Has(OpDescribe) {
			t.Error(ops, err)
		}
		if err := c.DeleteTopic(ctx, name); err != nil {
			t.Error(err)
		}
		if err := c.DeleteTopic(ctx, name); err != nil {
			t.Error(err)
		}
	})
}

// TestBrokersSecurity: the secured listeners, by each mechanism, with wrong
// passwords, and with rules that forbid.
func TestBrokersSecurity(t *testing.T) {
	kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // with the other kinds: they share no broker
		if k.Security == nil || !k.Real() {
			t.Skip("kfake's secured listener has tests of its own")
		}
		ctx := within(t, 120*time.Second)
		topic := k.Topic(t, "in", 1)
		tlsCfg := mustTLS(t, TLSConfig{CA: k.Security.CAFile})
		for _, mechanism := range kafkatest.Mechanisms {
			u := k.Security.User(mechanism)
			m, err := NewSASL(mechanism, u.Name, u.Password)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Open(ctx, Config{Brokers: k.Security.SASLBrokers, TLS: tlsCfg, SASL: m})
			if err != nil {
				t.Fatal(mechanism, err)
			}
			if _, err := c.ListOffsets(ctx, []TP{tpOf(topic, 0)}, Latest); err != nil {
				t.Error(mechanism, err)
			}
			c.Close()
			m, _ = NewSASL(mechanism, u.Name, "wrong")
			_, err = Open(ctx, Config{Brokers: k.Security.SASLBrokers, TLS: tlsCfg, SASL: m})
			if ClassOf(err) != Fatal || !strings.Contains(err.Error(), envSASLPass) {
				t.Errorf("%s, wrong password: %v", mechanism, err)
			}
			t.Log(err)
		}
		for name, cfg := range map[string]Config{
			"mTLS": {Brokers: k.Security.TLSBrokers,
				TLS: mustTLS(t, TLSConfig{CA: k.Security.CAFile, Cert: k.Security.CertFile, Key: k.Security.KeyFile})},
			"mTLS, no certificate":   {Brokers: k.Security.TLSBrokers, TLS: tlsCfg},
			"no SASL":                {Brokers: k.Security.SASLBrokers, TLS: tlsCfg},
			"plaintext to TLS":       {Brokers: k.Security.TLSBrokers, DialTimeout: 3 * time.Second},
			"TLS to plaintext":       {Brokers: k.Brokers, TLS: tlsCfg, DialTimeout: 3 * time.Second},
			"SASL to a port without": {Brokers: k.Brokers, SASL: mustSASL(t, "PLAIN", "u", "p")},
		} {
			c, err := Open(ctx, cfg)
			if name == "mTLS" {
				if err != nil {
					t.Error(err)
				} else {
					c.Close()
				}
				continue
			}
			if err == nil {
				c.Close()
				t.Errorf("%s: no error", name)
				continue
			}
			t.Logf("%s: %v", name, err)
			if !strings.Contains(err.Error(), "ODRADEK_KAFKA_") {
				t.Errorf("%s: names no setting: %v", name, err)
			}
		}

		// Rules: the user may describe, but not read.
		u := k.Security.User(kafkatest.Plain)
		a := k.Admin()
		group, txn := kafkatest.Unique("g"), kafkatest.Unique("tx")
		for _, err := range []error{
			a.Rule(ctx, u.Name, kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribe, true),
			a.Rule(ctx, u.Name, kmsg.ACLResourceTypeGroup, group, kmsg.ACLOperationDescribe, true),
			a.Rule(ctx, u.Name, kmsg.ACLResourceTypeTransactionalId, txn, kmsg.ACLOperationAll, false),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		defer a.DropRules(ctx, kmsg.ACLResourceTypeTopic, topic)
		defer a.DropRules(ctx, kmsg.ACLResourceTypeGroup, group)
		defer a.DropRules(ctx, kmsg.ACLResourceTypeTransactionalId, txn)
		c, err := Open(ctx, Config{Brokers: k.Security.SASLBrokers, TLS: tlsCfg, SASL: mustSASL(t, kafkatest.Plain, u.Name, u.Password)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(time.Second) // rules reach the brokers a little later
		for _, q := range []struct {
			kind Resource
			name string
			has  bool
		}{{ResourceTopic, topic, true}, {ResourceGroup, group, true}, {ResourceTransactionalID, txn, false}} {
			ops, err := c.Operations(ctx, q.kind, q.name)
			if err != nil || !ops.Known || ops.Has(OpDescribe) != q.has || ops.Has(OpRead) {
				t.Errorf("%d %s: %v, %v", q.kind, q.name, ops, err)
			}
		}
		f := c.NewFetcher(FetcherConfig{})
		defer f.Close()
		if ch := receive(t, f.Add(tpOf(topic, 0), 0)); !errors.Is(ch.Err, kafkago.TopicAuthorizationFailed) {
			t.Errorf("%+v", ch)
		} else {
			t.Log(ch.Err)
		}
	})
}
