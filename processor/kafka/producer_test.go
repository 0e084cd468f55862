package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// newProducer returns an initialised producer; "" is an idempotent one.
func newProducer(t testing.TB, c *Client, id string) *Producer {
	t.Helper()
	p := c.NewProducer(ProducerConfig{TransactionalID: id})
	if err := p.Init(brokertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	return p
}

// versions runs a test on kfake with each version of the transactions' protocol.
func versions(t *testing.T, f func(t *testing.T, k *kafkatest.Cluster, v2 bool)) {
	for _, v2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "version=1", true: "version=2"}[v2], func(t *testing.T) {
			k := kafkatest.Fake(t, kafkatest.FakeOptions{})
			if !v2 {
				brokertest.Must(t, k.Admin().SetFeature(brokertest.Within(t), "transaction.version", 1, true))
			}
			f(t, k, v2)
		})
	}
}

func keys(out map[TP]*record.Batches) []TP {
	var tps []TP
	for tp := range out {
		tps = append(tps, tp)
	}
	return tps
}

// TestTransaction: outputs and offsets are visible together after the commit,
// and not at all before it or after an abort.
func TestTransaction(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		in, out := k.Topic(t, "in", 2), k.Topic(t, "out", 5)
		group := kafkatest.Unique("g")
		p := newProducer(t, c, kafkatest.Unique("tx"))
		offsets := func(n int64) map[TP]Offset {
			return map[TP]Offset{brokertest.TP(in, 0): {Offset: n, Metadata: fmt.Sprint("floor ", n)}, brokertest.TP(in, 1): {Offset: n + 1}}
		}
		committed := func() map[kafkatest.TP]kafkatest.Committed {
			got, err := k.Admin().Offsets(ctx, group, false)
			brokertest.Must(t, err)
			return got
		}

		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 5, 200, "a"), noGroup, group, offsets(10)))
		if got := brokertest.Values(t, k, out, true); len(got) != 0 {
			t.Fatalf("visible before the commit: %d partitions", len(got))
		}
		if got := committed(); len(got) != 0 {
			t.Fatalf("committed before the commit: %v", got)
		}
		brokertest.Must(t, p.End(ctx, true))
		brokertest.WantValues(t, k, out, 5, 200, "a")
		want := kafkatest.Committed{Offset: 10, Metadata: "floor 10"}
		brokertest.Eventually(t, "offsets", func() bool { return committed()[kafkatest.TP{Topic: in, Partition: 0}] == want })

		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 5, 200, "aborted"), noGroup, group, offsets(20)))
		brokertest.Must(t, p.End(ctx, false))
		brokertest.WantValues(t, k, out, 5, 200, "a")
		if got := committed()[kafkatest.TP{Topic: in, Partition: 0}]; got != want {
			t.Fatalf("after an abort: %v", got)
		}
		// The same, read without isolation, to show that there was something to abort.
		if got := brokertest.Values(t, k, out, false); len(got[0]) != 400 {
			t.Fatalf("%d records in the log, want 400", len(got[0]))
		}

		// Sequences go on; an empty transaction, one without offsets, one with nothing else.
		brokertest.Must(t, p.End(ctx, true))
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 5, 200, "b"), noGroup, group, nil))
		brokertest.Must(t, p.End(ctx, true))
		brokertest.Must(t, p.Send(ctx, nil, noGroup, group, offsets(30)))
		brokertest.Must(t, p.End(ctx, true))
		brokertest.WantValues(t, k, out, 5, 200, "a", "b")
		brokertest.Eventually(t, "offsets", func() bool { return committed()[kafkatest.TP{Topic: in, Partition: 1}].Offset == 31 })
	})
}

// TestZombie: a second Init of the same id takes the first producer's
// transaction back and shuts it out.
func TestZombie(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		ctx := brokertest.Within(t)
		c, c2 := open(t, k.Brokers), open(t, k.Brokers)
		in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 3)
		group, id := kafkatest.Unique("g"), kafkatest.Unique("tx")
		offsets := map[TP]Offset{brokertest.TP(in, 0): {Offset: 10}}
		var want []string
		for _, op := range []struct {
			name string
			f    func(p *Producer) error
		}{
			{"produce", func(p *Producer) error { return p.Produce(ctx, brokertest.Batches(t, out, 3, 100, "zombie again")) }},
			{"add partitions", func(p *Producer) error {
				return p.AddPartitions(ctx, []TP{brokertest.TP(in, 0)})
			}},
			{"offsets", func(p *Producer) error { return p.CommitOffsets(ctx, noGroup, group, offsets) }},
			{"commit", func(p *Producer) error { return p.End(ctx, true) }},
			{"abort", func(p *Producer) error { return p.End(ctx, false) }},
		} {
			if op.name == "abort" && !k.Real() {
				continue // kfake takes it for the abort that Init has carried out, and answers with the heir's epoch
			}
			zombie := newProducer(t, c, id)
			brokertest.Must(t, zombie.Send(ctx, brokertest.Batches(t, out, 3, 100, "zombie"), noGroup, group, offsets))
			heir := newProducer(t, c2, id)
			err := op.f(zombie)
			wantClass(t, op.name, err, Fenced)
			t.Log(op.name, err)
			if !zombie.NeedsInit() {
				t.Fatal("a fenced producer does not want Init")
			}
			wantClass(t, "end after being fenced", zombie.End(ctx, true), Fenced)
			wantClass(t, "abort after being fenced", zombie.Abort(ctx), Fenced)
			want = append(want, op.name)
			brokertest.Must(t, heir.Send(ctx, brokertest.Batches(t, out, 3, 100, op.name), noGroup, "", nil))
			brokertest.Must(t, heir.End(ctx, true))
		}
		brokertest.WantValues(t, k, out, 3, 100, want...)
		got, err := k.Admin().Offsets(ctx, group, true)
		brokertest.Must(t, err)
		if len(got) != 0 {
			t.Fatalf("a zombie's offsets were committed: %v", got)
		}
	})
}

// TestTransactionTimesOut: a process that was stopped for longer than the
// transaction time-out is fenced, and works again after Init.
func TestTransactionTimesOut(t *testing.T) {
	ctx := brokertest.Within(t)
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 3)
	p := c.NewProducer(ProducerConfig{TransactionalID: "tx", TransactionTimeout: 300 * time.Millisecond})
	brokertest.Must(t, p.Init(ctx))
	brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 10, "late"), noGroup, "", nil))
	time.Sleep(600 * time.Millisecond)
	wantClass(t, "commit", p.End(ctx, true), Fenced)
	brokertest.Must(t, p.Init(ctx))
	brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 10, "again"), noGroup, "", nil))
	brokertest.Must(t, p.End(ctx, true))
	brokertest.WantValues(t, k, out, 3, 10, "again")
}

// TestTooLarge: the error names the partition; the transaction can be aborted
// and the next one needs no Init.
func TestTooLarge(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		out, small := k.Topic(t, "out", 3), k.Topic(t, "small", 1, "max.message.bytes", "2000")
		p := newProducer(t, c, kafkatest.Unique("tx"))
		_, before := p.ID()
		set := brokertest.Batches(t, out, 3, 100, "x")
		big := record.NewBatches(1<<20, record.CodecNone)
		for range 3 {
			brokertest.Must(t, big.Append(1, nil, make([]byte, 1000), nil))
		}
		set[brokertest.TP(small, 0)] = big
		err := p.Send(ctx, set, noGroup, "", nil)
		wantClass(t, "send", err, TooLarge)
		var pe *ProduceError
		if !errors.As(err, &pe) || pe.TP != (brokertest.TP(small, 0)) || pe.Records != 3 || pe.Bytes < 3000 {
			t.Fatalf("%+v of %v", pe, err)
		}
		t.Log(err)
		wantClass(t, "commit", p.End(ctx, true), TooLarge)
		if p.NeedsInit() {
			t.Fatal("wants Init")
		}
		brokertest.Must(t, p.Abort(ctx))
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "y"), noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, true))
		_, epoch := p.ID()
		if k.TransactionsV2() {
			before += 2 // an abort and a commit
		}
		if epoch != before {
			t.Fatalf("epoch %d, want %d: Init was not needed", epoch, before)
		}
		brokertest.WantValues(t, k, out, 3, 100, "y")
	})
}

// TestLargeProduce: more than one request to a leader, batches sealed on every
// processor, and all of it arrives.
func TestLargeProduce(t *testing.T) {
	k := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	c := open(t, k.Brokers)
	const partitions, records = 20, 900
	out := k.Topic(t, "out", partitions)
	p := newProducer(t, c, "tx")
	set := map[TP]*record.Batches{}
	value := make([]byte, 1000)
	for i := range value {
		value[i] = byte(i * i)
	}
	for q := range int32(partitions) {
		b := record.NewBatches(1000<<10, []record.Codec{record.CodecNone, record.CodecSnappy}[q%8/7])
		for i := range records {
			brokertest.Must(t, b.Append(1, fmt.Appendf(nil, "%d-%d", q, i), value, nil))
		}
		set[brokertest.TP(out, q)] = b
	}
	ctx := brokertest.Within(t)
	brokertest.Must(t, p.Send(ctx, set, noGroup, "", nil))
	brokertest.Must(t, p.End(ctx, true))
	rs, err := k.Admin().ReadAll(ctx, out, true)
	brokertest.Must(t, err)
	if len(rs) != partitions*records {
		t.Fatalf("%d records, want %d", len(rs), partitions*records)
	}
	for i, r := range rs { // sorted by partition and offset
		if want := fmt.Sprintf("%d-%d", i/records, i%records); string(r.Key) != want || !bytes.Equal(r.Value, value) {
			t.Fatalf("record %d: key %s, want %s", i, r.Key, want)
		}
	}
}

// TestFirstBatches: a broker verifies a transaction's first batches and its offsets
// one request at a time, so a transaction of many requests beside its offsets has
// none refused. With four requests of first batches at a time some are, in each
// transaction.
func TestFirstBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real Kafka")
	}
	k := kafkatest.Open(t, kafkatest.KindNewest)
	c := open(t, k.Brokers)
	in, out := k.Topic(t, "in", 4), k.Topic(t, "out", 24)
	p := newProducer(t, c, kafkatest.Unique("tx"))
	set, offsets := map[TP]*record.Batches{}, map[TP]Offset{}
	for q := range int32(24) {
		b := record.NewBatches(900<<10, record.CodecSnappy)
		for i := range 1600 { // two batches
			brokertest.Must(t, b.Append(1, fmt.Appendf(nil, "%d", i), make([]byte, 1000), nil))
		}
		set[brokertest.TP(out, q)], offsets[brokertest.TP(in, q%4)] = b, Offset{Offset: int64(q)}
	}
	ctx := brokertest.Within(t)
	brokertest.Must(t, p.AddPartitions(ctx, keys(set)))
	brokertest.Must(t, p.End(ctx, true)) // every leader knows of its partitions by now
	refused := 0                         // transactions; a busy machine's replicas may fall behind, once
	for range 8 {
		before := p.Resent()
		brokertest.Must(t, p.Send(ctx, set, noGroup, kafkatest.Unique("g"), offsets))
		brokertest.Must(t, p.End(ctx, true))
		if n := p.Resent() - before; n > 0 {
			t.Logf("%d of %d batches were refused at first", n, 2*len(set))
			refused++
		}
	}
	if refused > 2 {
		t.Errorf("in %d of 8 transactions batches were refused at first", refused)
	}
}

// TestFirstBatchesTogether: the first batches of a large transaction go in one request,
// since brokers take such requests one after the other.
func TestFirstBatchesTogether(t *testing.T) {
	const partitions = 24
	fake := brokertest.Cluster(t, kfake.NumBrokers(1), kfake.SeedTopics(partitions, "out"))
	c := open(t, fake.ListenAddrs())
	p := newProducer(t, c, "tx")
	set := map[TP]*record.Batches{}
	for q := range int32(partitions) {
		b := record.NewTransactionBatches(300<<10, record.CodecNone)
		for i := range 900 { // four batches
			brokertest.Must(t, b.Append(1, fmt.Appendf(nil, "%d", i), make([]byte, 1000), nil))
		}
		set[brokertest.TP("out", q)] = b
	}
	var mu sync.Mutex
	seen, firsts, requests := map[int32]bool{}, 0, 0
	fake.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		requests++
		first := false
		for _, rt := range kreq.(*kmsg.ProduceRequest).Topics {
			for _, rp := range rt.Partitions {
				first = first || !seen[rp.Partition]
				seen[rp.Partition] = true
			}
		}
		if first {
			firsts++
		}
		return nil, nil, false
	})
	ctx := brokertest.Within(t)
	for range 2 {
		clear(seen)
		firsts, requests = 0, 0
		brokertest.Must(t, p.Send(ctx, set, noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, true))
		if firsts != 1 || len(seen) != partitions || requests < partitions {
			t.Errorf("first batches of %d partitions in %d of %d requests, want one", len(seen), firsts, requests)
		}
	}
}

// Waits for the markers of a transaction are an eighth longer than it took, at most.
func TestMarkersDelay(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 4 * time.Millisecond: time.Millisecond, 16 * time.Millisecond: 2 * time.Millisecond,
		time.Minute: 10 * time.Millisecond,
	} {
		if got := markersDelay(waited); got != want {
			t.Errorf("after %v the next question comes %v later, want %v", waited, got, want)
		}
	}
}

func BenchmarkTransaction(b *testing.B) {
	kind := kafkatest.KindFake
	if os.Getenv("ODRADEK_BENCH_KAFKA") != "" {
		kind = kafkatest.KindNewest
	}
	k := kafkatest.Open(b, kind)
	c := open(b, k.Brokers)
	in, out := k.Topic(b, "in", 8), k.Topic(b, "out", 8)
	p := newProducer(b, c, kafkatest.Unique("tx"))
	ctx := context.Background()
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("records=%dx8", n), func(b *testing.B) {
			set := map[TP]*record.Batches{}
			offsets := map[TP]Offset{}
			for i := range int32(8) {
				set[brokertest.TP(out, i)] = record.NewBatches(1<<20, record.CodecSnappy)
				for range n {
					brokertest.Must(b, set[brokertest.TP(out, i)].Append(1, []byte("key-0001"), make([]byte, 60), nil))
				}
				offsets[brokertest.TP(in, i)] = Offset{Offset: 1}
			}
			b.ReportAllocs()
			for b.Loop() {
				brokertest.Must(b, p.Send(ctx, set, noGroup, "g", offsets))
				brokertest.Must(b, p.End(ctx, true))
			}
		})
	}
}

func wantClass(t testing.TB, what string, err error, want Class) {
	t.Helper()
	if got := ClassOf(err); got != want {
		t.Fatalf("%s: class %v, want %v: %v", what, got, want, err)
	}
}
