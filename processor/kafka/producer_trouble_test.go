package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafkatest"
)

// TestFaults injects the answers that a broker may give and expects the log to
// hold every record once.
func TestFaults(t *testing.T) { versions(t, testFaults) }

func testFaults(t *testing.T, k *kafkatest.Cluster, _ bool) {
	ctx := brokertest.Within(t)
	c := open(t, k.Brokers)
	in := k.Topic(t, "in", 1)
	keys := func(ks ...kmsg.Key) []kmsg.Key { return ks }
	f := func(name, id string, faults ...kfake.Fault) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			out := k.Topic(t, "out", 3)
			if id != "" {
				id = kafkatest.Unique(id)
			}
			h := k.Fake.Fault(faults...)
			defer h.Remove()
			p := newProducer(t, c, id)
			for _, prefix := range []string{"a", "b"} {
				if id == "" {
					brokertest.Must(t, p.Produce(ctx, brokertest.Batches(t, out, 3, 100, prefix)))
					continue
				}
				brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, prefix), noGroup, "g", map[TP]Offset{brokertest.TP(in,
					0): {Offset: int64(len(prefix))}}))
				brokertest.Must(t, p.End(ctx, true))
				if p.NeedsInit() {
					brokertest.Must(t, p.Init(ctx))
				}
			}
			if h.Hits() == 0 {
				t.Fatal("the fault was not met")
			}
			brokertest.WantValues(t, k, out, 3, 100, "a", "b")
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
		f("both"+id, id, kfake.Fault{Keys: produce, Err: kerr.RequestTimedOut, Count: 3},
			kfake.Fault{Keys: produce, Err: kerr.NotLeaderForPartition, Count: 3})
	}
	// An outage: for an idempotent producer no number of unknown outcomes is too many.
	f("unknown", "", kfake.Fault{Keys: produce, Err: kerr.UnknownServerError, Count: 8})
	txn := keys(kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.InitProducerID, kmsg.TxnOffsetCommit)
	for _, err := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator,
		kerr.CoordinatorNotAvailable} {
		for _, key := range txn {
			if key == kmsg.TxnOffsetCommit && err == kerr.ConcurrentTransactions {
				continue
			}
			f(fmt.Sprintf("%s of %s", err.Message, key.Name()), "tx",
				kfake.Fault{Keys: keys(key), Err: err, Count: 3, TopLevel: key == kmsg.EndTxn || key == kmsg.InitProducerID ||
					key == kmsg.AddOffsetsToTxn})
		}
	}
	f("no coordinator yet", "tx", kfake.Fault{Keys: keys(kmsg.FindCoordinator), Err: kerr.CoordinatorNotAvailable, Count: 4})
}

// TestGivingUp: what is refused for too long is an error, and its class says
// whether the sequence numbers can still be trusted.
func TestGivingUp(t *testing.T) {
	ctx := brokertest.Within(t)
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
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
			p := c.NewProducer(ProducerConfig{TransactionalID: kafkatest.Unique("tx"), Timeout: 300 * time.Millisecond})
			brokertest.Must(t, p.Init(ctx))
			h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: out, Partitions: []int32{1}, Err: x.err, Count: -1})
			err := p.Send(ctx, brokertest.Batches(t, out, 3, 100, "lost"), noGroup, "", nil)
			h.Remove()
			wantClass(t, "send", err, x.want)
			if p.NeedsInit() != x.init {
				t.Fatalf("NeedsInit %v after %v", p.NeedsInit(), err)
			}
			if ClassOf(p.End(ctx, true)) == None {
				t.Fatal("a failed transaction was committed")
			}
			brokertest.Must(t, p.Abort(ctx))
			brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, x.err.Message), noGroup, "", nil))
			brokertest.Must(t, p.End(ctx, true))
		})
	}
	got := brokertest.Values(t, k, out, true)
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
	r := seedtest.New(t)
	ctx := brokertest.Within(t)
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	c := open(t, k.Brokers)
	in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 6)
	p := newProducer(t, c, "tx")
	var prefixes []string
	for i := range 20 {
		prefix := fmt.Sprint("t", i)
		prefixes = append(prefixes, prefix)
		set := brokertest.Batches(t, out, 6, 50, prefix)
		offsets := map[TP]Offset{brokertest.TP(in, 0): {Offset: int64(i)}}
		disturb := func() {
			switch r.IntN(3) {
			case 0:
				k.Fake.RehashCoordinators()
			case 1:
				k.Fake.ShufflePartitionLeaders()
			}
		}
		disturb()
		brokertest.Must(t, p.AddPartitions(ctx, keys(set)))
		disturb()
		brokertest.Must(t, p.Produce(ctx, set))
		disturb()
		brokertest.Must(t, p.CommitOffsets(ctx, noGroup, "g", offsets))
		disturb()
		brokertest.Must(t, p.End(ctx, true))
		if p.NeedsInit() {
			brokertest.Must(t, p.Init(ctx))
		}
	}
	brokertest.WantValues(t, k, out, 6, 50, prefixes...)
	got, err := k.Admin().Offsets(ctx, "g", true)
	brokertest.Must(t, err)
	if o := got[kafkatest.TP{Topic: in, Partition: 0}].Offset; o != 19 {
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

func (ct cutter) Accept() (net.Conn, error) {
	c, err := ct.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return cutConn{c, ct.cut}, nil
}

func (c cutConn) Write(b []byte) (int, error) {
	if c.cut.Load() > 0 && c.cut.Add(-1) >= 0 {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// TestLostAnswer: the broker has carried the request out and the answer does not
// arrive. A transactional producer stops until Init, but for a commit; the log has
// nothing twice. An idempotent one sends again.
func TestLostAnswer(t *testing.T) {
	for _, level := range []int16{1, 2} {
		t.Run(fmt.Sprint("version=", level), func(t *testing.T) { testLostAnswer(t, level) })
	}
}

func testLostAnswer(t *testing.T, level int16) {
	ctx := brokertest.Within(t)
	var cut atomic.Int32
	k := kafkatest.Fake(t, kafkatest.FakeOptions{Opts: []kfake.Opt{kfake.ListenFn(func(network, addr string) (net.Listener, error) {
		l, err := net.Listen(network, addr)
		return cutter{l, &cut}, err
	})}})
	admin, err := kafkatest.NewAdmin(k.Brokers)
	brokertest.Must(t, err)
	brokertest.Must(t, admin.SetFeature(ctx, "transaction.version", level, level < 2))
	admin.Close() // answers to it are none to cut
	c := open(t, k.Brokers)
	in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 1)
	offsets := map[TP]Offset{brokertest.TP(in, 0): {Offset: 1}}
	steps := []struct {
		name string
		f    func(p *Producer) error
	}{
		{"add partitions", func(p *Producer) error { return p.AddPartitions(ctx, []TP{brokertest.TP(out, 0)}) }},
		{"produce", func(p *Producer) error { return p.Produce(ctx, brokertest.Batches(t, out, 1, 100, "lost")) }},
		{"offsets", func(p *Producer) error { return p.CommitOffsets(ctx, noGroup, "g", offsets) }},
		{"abort", func(p *Producer) error { return p.End(ctx, false) }},
	}
	first := newProducer(t, c, "tx")
	brokertest.Must(t, first.Send(ctx, brokertest.Batches(t, out, 1, 100, "first"), noGroup, "g", offsets)) // all connections are made
	brokertest.Must(t, first.End(ctx, true))
	want := []string{"first"}
	for i, broken := range steps {
		p := newProducer(t, c, "tx")
		for j, step := range steps[:i+1] {
			if j == i {
				cut.Store(1)
			}
			err := step.f(p)
			if j < i {
				brokertest.Must(t, err)
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
		brokertest.Must(t, p.Abort(ctx))
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 1, 100, broken.name), noGroup, "g", nil))
		brokertest.Must(t, p.End(ctx, true))
		want = append(want, broken.name)
	}
	brokertest.WantValues(t, k, out, 1, 100, want...)

	// A commit whose answer is lost is asked for again (TestEndRepeated).
	p := newProducer(t, c, "tx")
	brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 1, 100, "committed"), noGroup, "g", offsets))
	cut.Store(1)
	brokertest.Must(t, p.End(ctx, true))
	brokertest.WantValues(t, k, out, 1, 100, append(want, "committed")...)

	again := k.Topic(t, "again", 1)
	p = newProducer(t, c, "")
	for _, prefix := range []string{"a", "b", "c"} {
		cut.Store(2)
		brokertest.Must(t, p.Produce(ctx, brokertest.Batches(t, again, 1, 100, prefix)))
	}
	brokertest.WantValues(t, k, again, 1, 100, "a", "b", "c")

	// Written, the answer lost, and then refused until patience ends: the refusal
	// does not make the sequence number free again.
	var requests atomic.Int32
	h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1,
		When: func(kmsg.Request) bool { return requests.Add(1) > 1 }})
	p = c.NewProducer(ProducerConfig{Timeout: 300 * time.Millisecond})
	brokertest.Must(t, p.Init(ctx))
	cut.Store(1)
	wantClass(t, "written and then refused", p.Produce(ctx, brokertest.Batches(t, again, 1, 100, "d")), Unknown)
	h.Remove()
	if !p.NeedsInit() {
		t.Fatal("NeedsInit")
	}

	// Init itself survives lost answers.
	cut.Store(3)
	newProducer(t, c, "tx2")
}

// TestCancelled: a context that ends in the middle leaves the fate open, and
// what is still on its way must not be torn by what the caller does next.
func TestCancelled(t *testing.T) {
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 3)
	p := newProducer(t, c, "tx")
	h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
	set := brokertest.Batches(t, out, 3, 100, "x")
	brokertest.Must(t, p.AddPartitions(context.Background(), keys(set)))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err := p.Produce(ctx, set)
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	h.Remove()
	for _, b := range set {
		b.Reset()
	}
	wantClass(t, "commit", p.End(context.Background(), true), ClassOf(err))
	brokertest.Must(t, p.Abort(brokertest.Within(t)))
	brokertest.Must(t, p.Send(brokertest.Within(t), brokertest.Batches(t, out, 3, 100, "y"), noGroup, "", nil))
	brokertest.Must(t, p.End(brokertest.Within(t), true))
	brokertest.WantValues(t, k, out, 3, 100, "y")
}

// TestInitErrors: Init returns at once, with an error that names the cause, on wrong
// settings and missing permissions.
func TestInitErrors(t *testing.T) {
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	c := open(t, k.Brokers)
	f := func(code *kerr.Error, want Class, text string) {
		t.Helper()
		h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: code, Count: -1})
		defer h.Remove()
		p := c.NewProducer(ProducerConfig{TransactionalID: "tx"})
		start := time.Now()
		err := p.Init(brokertest.Within(t))
		wantClass(t, code.Message, err, want)
		if !strings.Contains(err.Error(), text) || time.Since(start) > time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		wantClass(t, "use", p.AddPartitions(context.Background(), []TP{brokertest.TP("t", 0)}), Abortable)
	}
	f(kerr.InvalidTransactionTimeout, Fatal, "transaction.max.timeout.ms")
	f(kerr.TransactionalIDAuthorizationFailed, Fatal, "WRITE")
	h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.CoordinatorNotAvailable, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := c.NewProducer(ProducerConfig{TransactionalID: "tx"}).Init(ctx)
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
	k := kafkatest.Open(t, kafkatest.KindNewest)
	ctx := brokertest.Within(t)
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 1)
	p := newProducer(t, c, kafkatest.Unique("tx"))
	p.identity.v2 = false // in version 2 they begin at 0 with each transaction
	p.send.next[brokertest.TP(out, 0)] = 1<<31 - 250
	for _, prefix := range []string{"a", "b", "c"} {
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 1, 200, prefix), noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, true))
	}
	if got := p.send.next[brokertest.TP(out, 0)]; got != 600-250 {
		t.Fatalf("next sequence %d", got)
	}
	brokertest.WantValues(t, k, out, 1, 200, "a", "b", "c")
}

// TestUseWithoutTransaction: calls outside a transaction return errors.
func TestUseWithoutTransaction(t *testing.T) {
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	c := open(t, k.Brokers)
	out := k.Topic(t, "out", 1)
	ctx := brokertest.Within(t)
	p := newProducer(t, c, "tx")
	if err := p.Produce(ctx, brokertest.Batches(t, out, 1, 1, "x")); err == nil {
		t.Error("produce outside of the transaction")
	}
	brokertest.Must(t, p.Abort(ctx))
	brokertest.Must(t, p.Produce(ctx, nil))
	p = newProducer(t, c, "")
	if err := p.CommitOffsets(ctx, noGroup, "g", map[TP]Offset{brokertest.TP(out, 0): {Offset: 1}}); err == nil {
		t.Error("offsets without transactions")
	}
	brokertest.Must(t, p.End(ctx, true))
	brokertest.Must(t, p.AddPartitions(ctx, []TP{brokertest.TP(out, 0)}))
}
