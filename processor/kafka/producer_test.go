package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/brokertest"
)

// kinds runs a test on kfake and, unless -short, on real Kafka.
func kinds(t *testing.T, f func(t *testing.T, k *brokertest.Cluster)) {
	for _, kind := range brokertest.Kinds {
		t.Run(kind, func(t *testing.T) {
			if kind != brokertest.KindFake && testing.Short() {
				t.Skip("real Kafka is left out with -short")
			}
			f(t, brokertest.Open(t, kind))
		})
	}
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// newProducer returns an initialised producer; "" is an idempotent one.
func newProducer(t testing.TB, c *Client, id string) *Producer {
	t.Helper()
	p := c.NewProducer(ProducerConfig{TransactionalID: id})
	if err := p.Init(within(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
	return p
}

// batchesOf returns batches for partitions of a topic, with n records each
// whose values begin with prefix and count up.
func batchesOf(t testing.TB, topic string, partitions, n int, prefix string) map[TP]*Batches {
	t.Helper()
	out := map[TP]*Batches{}
	for p := range partitions {
		b := NewBatches(1000, Codec(p%5)) // several batches, every codec
		for i := range n {
			v := fmt.Sprintf("%s-%d-%05d", prefix, p, i)
			if err := b.Append(time.Now().UnixMilli(), []byte("key"), []byte(v), nil); err != nil {
				t.Fatal(err)
			}
		}
		out[TP{topic, int32(p)}] = b
	}
	return out
}

func keys(out map[TP]*Batches) []TP {
	var tps []TP
	for tp := range out {
		tps = append(tps, tp)
	}
	return tps
}

// values reads a topic with franz-go and returns the values by partition, in
// the log's order.
func values(t testing.TB, k *brokertest.Cluster, topic string, committed bool) map[int32][]string {
	t.Helper()
	rs, err := k.Admin().ReadAll(within(t, 60*time.Second), topic, committed)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32][]string{}
	for _, r := range rs {
		out[r.Partition] = append(out[r.Partition], string(r.Value))
	}
	return out
}

// wantValues checks that a topic holds what batchesOf made, for each prefix in
// turn, and nothing else. Real Kafka shows a transaction some milliseconds after
// End.
func wantValues(t testing.TB, k *brokertest.Cluster, topic string, partitions, n int, prefixes ...string) {
	t.Helper()
	wrong := ""
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		got := values(t, k, topic, true)
		wrong = ""
		for p := range partitions {
			var want []string
			for _, prefix := range prefixes {
				for i := range n {
					want = append(want, fmt.Sprintf("%s-%d-%05d", prefix, p, i))
				}
			}
			if !slices.Equal(got[int32(p)], want) {
				wrong = fmt.Sprintf("%s/%d: %d records, want %d: %s", topic, p, len(got[int32(p)]), len(want), firstDifference(got[int32(p)], want))
			}
			if len(got[int32(p)]) > len(want) {
				t.Fatal(wrong)
			}
		}
		if wrong == "" {
			return
		}
	}
	t.Fatal(wrong)
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("at %d %s, want %s", i, g, w)
		}
	}
	return "the same"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClass(t testing.TB, what string, err error, want Class) {
	t.Helper()
	if got := ClassOf(err); got != want {
		t.Fatalf("%s: class %v, want %v: %v", what, got, want, err)
	}
}

// TestTransaction: outputs and offsets are visible together after the commit,
// and not at all before it or after an abort.
func TestTransaction(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		ctx := within(t, 90*time.Second)
		c := open(t, k.Brokers)
		in, out := k.Topic(t, "in", 2), k.Topic(t, "out", 5)
		group := brokertest.Unique("g")
		p := newProducer(t, c, brokertest.Unique("tx"))
		offsets := func(n int64) map[TP]Offset {
			return map[TP]Offset{{in, 0}: {n, fmt.Sprint("floor ", n)}, {in, 1}: {n + 1, ""}}
		}
		committed := func() map[brokertest.TP]brokertest.Committed {
			got, err := k.Admin().Offsets(ctx, group, false)
			must(t, err)
			return got
		}

		must(t, p.Send(ctx, batchesOf(t, out, 5, 200, "a"), noGroup, group, offsets(10)))
		if got := values(t, k, out, true); len(got) != 0 {
			t.Fatalf("visible before the commit: %d partitions", len(got))
		}
		if got := committed(); len(got) != 0 {
			t.Fatalf("committed before the commit: %v", got)
		}
		must(t, p.End(ctx, true))
		wantValues(t, k, out, 5, 200, "a")
		want := brokertest.Committed{Offset: 10, Metadata: "floor 10"}
		eventually(t, "offsets", func() bool { return committed()[brokertest.TP{Topic: in, Partition: 0}] == want })

		must(t, p.Send(ctx, batchesOf(t, out, 5, 200, "aborted"), noGroup, group, offsets(20)))
		must(t, p.End(ctx, false))
		wantValues(t, k, out, 5, 200, "a")
		if got := committed()[brokertest.TP{Topic: in, Partition: 0}]; got != want {
			t.Fatalf("after an abort: %v", got)
		}
		// The same, read without isolation, to show that there was something to abort.
		if got := values(t, k, out, false); len(got[0]) != 400 {
			t.Fatalf("%d records in the log, want 400", len(got[0]))
		}

		// Sequences go on; an empty transaction, one without offsets, one with nothing else.
		must(t, p.End(ctx, true))
		must(t, p.Send(ctx, batchesOf(t, out, 5, 200, "b"), noGroup, group, nil))
		must(t, p.End(ctx, true))
		must(t, p.Send(ctx, nil, noGroup, group, offsets(30)))
		must(t, p.End(ctx, true))
		wantValues(t, k, out, 5, 200, "a", "b")
		eventually(t, "offsets", func() bool { return committed()[brokertest.TP{Topic: in, Partition: 1}].Offset == 31 })
	})
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for start := time.Now(); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// TestZombie: a second Init of the same id takes the first producer's
// transaction back and shuts it out.
func TestZombie(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		ctx := within(t, 90*time.Second)
		c, c2 := open(t, k.Brokers), open(t, k.Brokers)
		in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 3)
		group, id := brokertest.Unique("g"), brokertest.Unique("tx")
		offsets := map[TP]Offset{{in, 0}: {10, ""}}

		for _, op := range []struct {
			name string
			f    func(p *Producer) error
		}{
			{"produce", func(p *Producer) error { return p.Produce(ctx, batchesOf(t, out, 3, 100, "zombie again")) }},
			{"add partitions", func(p *Producer) error {
				return p.AddPartitions(ctx, []TP{{in, 0}})
			}},
			{"offsets", func(p *Producer) error { return p.CommitOffsets(ctx, noGroup, group, offsets) }},
			{"commit", func(p *Producer) error { return p.End(ctx, true) }},
			{"abort", func(p *Producer) error { return p.End(ctx, false) }},
		} {
			zombie := newProducer(t, c, id)
			must(t, zombie.Send(ctx, batchesOf(t, out, 3, 100, "zombie"), noGroup, group, offsets))
			heir := newProducer(t, c2, id)
			err := op.f(zombie)
			wantClass(t, op.name, err, Fenced)
			t.Log(op.name, err)
			if !zombie.NeedsInit() {
				t.Fatal("a fenced producer does not want Init")
			}
			wantClass(t, "end after being fenced", zombie.End(ctx, true), Fenced)
			wantClass(t, "abort after being fenced", zombie.Abort(ctx), Fenced)
			must(t, heir.Send(ctx, batchesOf(t, out, 3, 100, op.name), noGroup, "", nil))
			must(t, heir.End(ctx, true))
		}
		wantValues(t, k, out, 3, 100, "produce", "add partitions", "offsets", "commit", "abort")
		got, err := k.Admin().Offsets(ctx, group, true)
		must(t, err)
		if len(got) != 0 {
			t.Fatalf("a zombie's offsets were committed: %v", got)
		}
	})
}

// TestTransactionTimesOut: a process that was stopped for longer than the
// transaction time-out finds itself fenced, and goes on after Init.
func TestTransactionTimesOut(t *testing.T) {
	ctx := within(t, 60*time.Second)
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 3)
	p := c.NewProducer(ProducerConfig{TransactionalID: "tx", TransactionTimeout: 300 * time.Millisecond})
	must(t, p.Init(ctx))
	must(t, p.Send(ctx, batchesOf(t, out, 3, 10, "late"), noGroup, "", nil))
	time.Sleep(600 * time.Millisecond)
	wantClass(t, "commit", p.End(ctx, true), Fenced)
	must(t, p.Init(ctx))
	must(t, p.Send(ctx, batchesOf(t, out, 3, 10, "again"), noGroup, "", nil))
	must(t, p.End(ctx, true))
	wantValues(t, k, out, 3, 10, "again")
}

// TestTooLarge: the error names the partition; the transaction can be aborted
// and the next one needs no Init.
func TestTooLarge(t *testing.T) {
	kinds(t, func(t *testing.T, k *brokertest.Cluster) {
		ctx := within(t, 90*time.Second)
		c := open(t, k.Brokers)
		out, small := k.Topic(t, "out", 3), k.Topic(t, "small", 1, "max.message.bytes", "2000")
		p := newProducer(t, c, brokertest.Unique("tx"))
		set := batchesOf(t, out, 3, 100, "x")
		big := NewBatches(1<<20, CodecNone)
		for range 3 {
			must(t, big.Append(1, nil, make([]byte, 1000), nil))
		}
		set[TP{small, 0}] = big
		err := p.Send(ctx, set, noGroup, "", nil)
		wantClass(t, "send", err, TooLarge)
		var pe *ProduceError
		if !errors.As(err, &pe) || pe.TP != (TP{small, 0}) || pe.Records != 3 || pe.Bytes < 3000 {
			t.Fatalf("%+v of %v", pe, err)
		}
		t.Log(err)
		wantClass(t, "commit", p.End(ctx, true), TooLarge)
		if p.NeedsInit() {
			t.Fatal("wants Init")
		}
		must(t, p.Abort(ctx))
		_, epoch := p.ID()
		must(t, p.Send(ctx, batchesOf(t, out, 3, 100, "y"), noGroup, "", nil))
		must(t, p.End(ctx, true))
		if _, e := p.ID(); e != epoch {
			t.Fatal("Init was not needed")
		}
		wantValues(t, k, out, 3, 100, "y")
	})
}

// TestFaults injects the answers that a broker may give and expects the log to
// hold every record once.
func TestFaults(t *testing.T) {
	ctx := within(t, 120*time.Second)
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	c := open(t, k.Brokers)
	in := k.Topic(t, "in", 1)
	keys := func(ks ...kmsg.Key) []kmsg.Key { return ks }
	f := func(name, id string, faults ...kfake.Fault) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			out := k.Topic(t, "out", 3)
			if id != "" {
				id = brokertest.Unique(id)
			}
			h := k.Fake.Fault(faults...)
			defer h.Remove()
			p := newProducer(t, c, id)
			for _, prefix := range []string{"a", "b"} {
				if id == "" {
					must(t, p.Produce(ctx, batchesOf(t, out, 3, 100, prefix)))
					continue
				}
				must(t, p.Send(ctx, batchesOf(t, out, 3, 100, prefix), noGroup, "g", map[TP]Offset{{in, 0}: {int64(len(prefix)), ""}}))
				must(t, p.End(ctx, true))
			}
			if h.Hits() == 0 {
				t.Fatal("the fault was not met")
			}
			wantValues(t, k, out, 3, 100, "a", "b")
		})
	}
	produce, n := keys(kmsg.Produce), 5
	for _, id := range []string{"tx", ""} {
		// Answered so, and written all the same.
		f("timed out"+id, id, kfake.Fault{Keys: produce, Err: kerr.RequestTimedOut, Count: n})
		f("after append"+id, id, kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicasAfterAppend, Count: n})
		f("no leader"+id, id, kfake.Fault{Keys: produce, Err: kerr.NotLeaderForPartition, Count: n})
		f("too few replicas"+id, id, kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicas, Count: n})
		// First written without our knowing, then refused, then a duplicate.
		f("both"+id, id, kfake.Fault{Keys: produce, Err: kerr.RequestTimedOut, Count: 3}, kfake.Fault{Keys: produce, Err: kerr.NotLeaderForPartition, Count: 3})
	}
	txn := keys(kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.InitProducerID, kmsg.TxnOffsetCommit)
	for _, err := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable} {
		for _, key := range txn {
			if key == kmsg.TxnOffsetCommit && err == kerr.ConcurrentTransactions {
				continue
			}
			f(fmt.Sprintf("%s of %s", err.Message, key.Name()), "tx",
				kfake.Fault{Keys: keys(key), Err: err, Count: 3, TopLevel: key == kmsg.EndTxn || key == kmsg.InitProducerID || key == kmsg.AddOffsetsToTxn})
		}
	}
	f("no coordinator yet", "tx", kfake.Fault{Keys: keys(kmsg.FindCoordinator), Err: kerr.CoordinatorNotAvailable, Count: 4})
}

// TestGivingUp: what is refused for too long is an error, and its class says
// whether the sequence numbers can still be trusted.
func TestGivingUp(t *testing.T) {
	ctx := within(t, 60*time.Second)
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 3)
	for _, x := range []struct {
		err  *kerr.Error
		want Class
		init bool
	}{
		{kerr.NotEnoughReplicas, Retriable, false},
		{kerr.NotEnoughReplicasAfterAppend, Unknown, true},
		{kerr.OutOfOrderSequenceNumber, Abortable, true},
		{kerr.UnknownServerError, Unknown, true},
		{kerr.TopicAuthorizationFailed, Fatal, false},
		{kerr.InvalidTimestamp, Abortable, false},
	} {
		t.Run(x.err.Message, func(t *testing.T) {
			p := c.NewProducer(ProducerConfig{TransactionalID: brokertest.Unique("tx"), Timeout: 300 * time.Millisecond})
			must(t, p.Init(ctx))
			h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: out, Partitions: []int32{1}, Err: x.err, Count: -1})
			err := p.Send(ctx, batchesOf(t, out, 3, 100, "lost"), noGroup, "", nil)
			h.Remove()
			wantClass(t, "send", err, x.want)
			if p.NeedsInit() != x.init {
				t.Fatalf("NeedsInit %v after %v", p.NeedsInit(), err)
			}
			if ClassOf(p.End(ctx, true)) == None {
				t.Fatal("a failed transaction was committed")
			}
			if err := p.Abort(ctx); x.want == Fatal && x.init == false {
				must(t, err)
			} else {
				must(t, err)
			}
			must(t, p.Send(ctx, batchesOf(t, out, 3, 100, x.err.Message), noGroup, "", nil))
			must(t, p.End(ctx, true))
		})
	}
	got := values(t, k, out, true)
	for p, vs := range got {
		for _, v := range vs {
			if strings.HasPrefix(v, "lost") {
				t.Fatalf("partition %d has %s", p, v)
			}
		}
		if len(vs) != 6*100 {
			t.Fatalf("partition %d has %d records", p, len(vs))
		}
	}
}

// TestLeadersMove: leaders and coordinators change while transactions go on.
func TestLeadersMove(t *testing.T) {
	r := seeded(t)
	ctx := within(t, 60*time.Second)
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	c := open(t, k.Brokers)
	in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 6)
	p := newProducer(t, c, "tx")
	var prefixes []string
	for i := range 20 {
		prefix := fmt.Sprint("t", i)
		prefixes = append(prefixes, prefix)
		set := batchesOf(t, out, 6, 50, prefix)
		offsets := map[TP]Offset{{in, 0}: {int64(i), ""}}
		disturb := func() {
			switch r.IntN(3) {
			case 0:
				k.Fake.RehashCoordinators()
			case 1:
				k.Fake.ShufflePartitionLeaders()
			}
		}
		disturb()
		must(t, p.AddPartitions(ctx, keys(set)))
		disturb()
		must(t, p.Produce(ctx, set))
		disturb()
		must(t, p.CommitOffsets(ctx, noGroup, "g", offsets))
		disturb()
		must(t, p.End(ctx, true))
	}
	wantValues(t, k, out, 6, 50, prefixes...)
	got, err := k.Admin().Offsets(ctx, "g", true)
	must(t, err)
	if o := got[brokertest.TP{Topic: in, Partition: 0}].Offset; o != 19 {
		t.Fatalf("committed %d, want 19", o)
	}
}

// cutter is a listener whose connections can be told to swallow answers and to
// break, as if the broker had died after it carried a request out.
type cutter struct {
	net.Listener
	cut *atomic.Int32
}

type cutConn struct {
	net.Conn
	cut *atomic.Int32
}

func (l cutter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return cutConn{c, l.cut}, nil
}

func (c cutConn) Write(b []byte) (int, error) {
	if c.cut.Load() > 0 && c.cut.Add(-1) >= 0 {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// TestLostAnswer: the broker has carried the request out and the answer does not
// arrive. A transactional producer stops until Init; the log has nothing twice.
// An idempotent one sends again.
func TestLostAnswer(t *testing.T) {
	ctx := within(t, 60*time.Second)
	var cut atomic.Int32
	k := brokertest.Fake(t, brokertest.FakeOptions{Opts: []kfake.Opt{kfake.ListenFn(func(network, addr string) (net.Listener, error) {
		l, err := net.Listen(network, addr)
		return cutter{l, &cut}, err
	})}})
	c := open(t, k.Brokers)
	in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 1)
	offsets := map[TP]Offset{{in, 0}: {1, ""}}
	steps := []struct {
		name string
		f    func(p *Producer) error
	}{
		{"add partitions", func(p *Producer) error { return p.AddPartitions(ctx, []TP{{out, 0}}) }},
		{"produce", func(p *Producer) error { return p.Produce(ctx, batchesOf(t, out, 1, 100, "lost")) }},
		{"offsets", func(p *Producer) error { return p.CommitOffsets(ctx, noGroup, "g", offsets) }},
		{"abort", func(p *Producer) error { return p.End(ctx, false) }},
	}
	want := []string{}
	for i, broken := range steps {
		p := newProducer(t, c, "tx")
		for j, step := range steps[:i+1] {
			if j == i {
				cut.Store(1)
			}
			err := step.f(p)
			if j < i {
				must(t, err)
				continue
			}
			wantClass(t, step.name, err, Unknown)
			t.Log(step.name, err)
		}
		for _, step := range steps {
			wantClass(t, step.name+" after that", step.f(p), Unknown)
		}
		wantClass(t, "commit after that", p.End(ctx, true), Unknown)
		if !p.NeedsInit() {
			t.Fatal("NeedsInit")
		}
		must(t, p.Abort(ctx))
		must(t, p.Send(ctx, batchesOf(t, out, 1, 100, broken.name), noGroup, "g", nil))
		must(t, p.End(ctx, true))
		want = append(want, broken.name)
	}
	wantValues(t, k, out, 1, 100, want...)

	// A commit whose answer is lost stands here; the caller finds out from the offsets.
	p := newProducer(t, c, "tx")
	must(t, p.Send(ctx, batchesOf(t, out, 1, 100, "committed"), noGroup, "g", offsets))
	cut.Store(1)
	wantClass(t, "commit", p.End(ctx, true), Unknown)
	must(t, p.Init(ctx))
	wantValues(t, k, out, 1, 100, append(want, "committed")...)

	again := k.Topic(t, "again", 1)
	p = newProducer(t, c, "")
	for _, prefix := range []string{"a", "b", "c"} {
		cut.Store(2)
		must(t, p.Produce(ctx, batchesOf(t, again, 1, 100, prefix)))
	}
	wantValues(t, k, again, 1, 100, "a", "b", "c")

	// Init itself survives lost answers.
	cut.Store(3)
	newProducer(t, c, "tx2")
}

// TestCancelled: a context that ends in the middle leaves the fate open, and
// what is still on its way must not be torn by what the caller does next.
func TestCancelled(t *testing.T) {
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 3)
	p := newProducer(t, c, "tx")
	h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
	set := batchesOf(t, out, 3, 100, "x")
	must(t, p.AddPartitions(context.Background(), keys(set)))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err := p.Produce(ctx, set)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	h.Remove()
	for _, b := range set {
		b.Reset()
	}
	wantClass(t, "commit", p.End(context.Background(), true), ClassOf(err))
	must(t, p.Abort(within(t, 10*time.Second)))
	must(t, p.Send(within(t, 10*time.Second), batchesOf(t, out, 3, 100, "y"), noGroup, "", nil))
	must(t, p.End(within(t, 10*time.Second), true))
	wantValues(t, k, out, 3, 100, "y")
}

// TestInitErrors: wrong settings and missing permissions are told at once, and
// in words.
func TestInitErrors(t *testing.T) {
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	c := open(t, k.Brokers)
	f := func(code *kerr.Error, want Class, text string) {
		t.Helper()
		h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: code, Count: -1})
		defer h.Remove()
		p := c.NewProducer(ProducerConfig{TransactionalID: "tx"})
		start := time.Now()
		err := p.Init(within(t, 10*time.Second))
		wantClass(t, code.Message, err, want)
		if !strings.Contains(err.Error(), text) || time.Since(start) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		wantClass(t, "use", p.AddPartitions(context.Background(), []TP{{"t", 0}}), Abortable)
	}
	f(kerr.InvalidTransactionTimeout, Fatal, "transaction.max.timeout.ms")
	f(kerr.TransactionalIDAuthorizationFailed, Fatal, "WRITE")
	h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.CoordinatorNotAvailable, Count: -1})
	err := c.NewProducer(ProducerConfig{TransactionalID: "tx"}).Init(within(t, 200*time.Millisecond))
	h.Remove()
	if !errors.Is(err, kafkago.GroupCoordinatorNotAvailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestSequenceWraps: sequence numbers go from 2^31-1 to 0. kfake gets this
// wrong by one (it wraps at 2^31-1), so it is real Kafka or nothing.
func TestSequenceWraps(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real Kafka")
	}
	k := brokertest.Open(t, brokertest.KindKafka411)
	ctx := within(t, 60*time.Second)
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 1)
	p := newProducer(t, c, brokertest.Unique("tx"))
	p.next[TP{out, 0}] = 1<<31 - 250
	for _, prefix := range []string{"a", "b", "c"} {
		must(t, p.Send(ctx, batchesOf(t, out, 1, 200, prefix), noGroup, "", nil))
		must(t, p.End(ctx, true))
	}
	if got := p.next[TP{out, 0}]; got != 600-250 {
		t.Fatalf("next sequence %d", got)
	}
	wantValues(t, k, out, 1, 200, "a", "b", "c")
}

// TestUseWithoutTransaction: mistakes of the caller are told.
func TestUseWithoutTransaction(t *testing.T) {
	k := brokertest.Fake(t, brokertest.FakeOptions{})
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 1)
	ctx := within(t, 10*time.Second)
	p := newProducer(t, c, "tx")
	if err := p.Produce(ctx, batchesOf(t, out, 1, 1, "x")); err == nil {
		t.Error("produce outside of the transaction")
	}
	must(t, p.Abort(ctx))
	must(t, p.Produce(ctx, nil))
	p = newProducer(t, c, "")
	if err := p.CommitOffsets(ctx, noGroup, "g", map[TP]Offset{{out, 0}: {1, ""}}); err == nil {
		t.Error("offsets without transactions")
	}
	must(t, p.End(ctx, true))
	must(t, p.AddPartitions(ctx, []TP{{out, 0}}))
}

func BenchmarkTransaction(b *testing.B) {
	kind := brokertest.KindFake
	if os.Getenv("ODRADEK_BENCH_KAFKA") != "" {
		kind = brokertest.KindKafka411
	}
	k := brokertest.Open(b, kind)
	c := open(b, k.Brokers)
	in, out := k.Topic(b, "in", 8), k.Topic(b, "out", 8)
	p := newProducer(b, c, brokertest.Unique("tx"))
	ctx := context.Background()
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("records=%dx8", n), func(b *testing.B) {
			set := map[TP]*Batches{}
			offsets := map[TP]Offset{}
			for i := range int32(8) {
				set[TP{out, i}] = NewBatches(1<<20, CodecSnappy)
				for range n {
					must(b, set[TP{out, i}].Append(1, []byte("key-0001"), make([]byte, 60), nil))
				}
				offsets[TP{in, i}] = Offset{1, ""}
			}
			b.ReportAllocs()
			for b.Loop() {
				must(b, p.Send(ctx, set, noGroup, "g", offsets))
				must(b, p.End(ctx, true))
			}
		})
	}
}
