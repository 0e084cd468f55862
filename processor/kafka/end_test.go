package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafkatest"
)

// tap stands between a client and its brokers and does something to requests
// of one kind, one after the other.
type tap struct {
	key  kmsg.Key
	mu   sync.Mutex
	next []fate
	kept []keptRequest
}

// fate is what happens to a request.
type fate int

const (
	pass     fate = iota
	keep          // the connection breaks; the request is kept and may be delivered later
	loseDone      // the broker has carried it out; the connection breaks before the answer
	swallow       // the broker does not get it; the connection stays
)

type keptRequest struct {
	addr  string
	frame []byte
}

// on makes a client's connections pass through the tap.
func (tp *tap) on(c *Client) {
	for _, n := range append(c.Cluster.metadata.all(), c.Cluster.transport.seeds...) {
		n.transport.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := c.Cluster.transport.dialer.dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &tappedConn{Conn: nc, tap: tp}, nil
		}
	}
}

// expect says what happens to the next requests.
func (tp *tap) expect(fates ...fate) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.next = append(tp.next, fates...)
}

// deliver sends what was kept and returns the error codes of the answers.
func (tp *tap) deliver(t *testing.T) (codes []error) {
	t.Helper()
	tp.mu.Lock()
	kept := tp.kept
	tp.kept = nil
	tp.mu.Unlock()
	for _, k := range kept {
		nc, err := net.Dial("tcp", k.addr)
		brokertest.Must(t, err)
		defer nc.Close()
		_, err = nc.Write(k.frame)
		brokertest.Must(t, err)
		answer, err := frame(nc)
		brokertest.Must(t, err)
		res := kmsg.ResponseForKey(tp.key.Int16())
		res.SetVersion(int16(binary.BigEndian.Uint16(k.frame[6:])))
		body := answer[8:]
		if res.IsFlexible() {
			body = body[1:]
		}
		brokertest.Must(t, res.ReadFrom(body))
		switch res := res.(type) {
		case *kmsg.EndTxnResponse:
			codes = append(codes, kerr.ErrorForCode(res.ErrorCode))
		case *kmsg.ProduceResponse:
			codes = append(codes, kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode))
		case *kmsg.TxnOffsetCommitResponse:
			codes = append(codes, kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode))
		}
	}
	return codes
}

func frame(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	b := append(size[:], make([]byte, binary.BigEndian.Uint32(size[:]))...)
	_, err := io.ReadFull(from, b[4:])
	return b, err
}

type tappedConn struct {
	net.Conn
	tap     *tap
	request []byte // written in part
}

func (c *tappedConn) Write(b []byte) (int, error) {
	c.request = append(c.request, b...)
	for len(c.request) >= 8 {
		size := 4 + int(binary.BigEndian.Uint32(c.request))
		if len(c.request) < size {
			break
		}
		f := pass
		if kmsg.Key(binary.BigEndian.Uint16(c.request[4:])) == c.tap.key {
			c.tap.mu.Lock()
			if len(c.tap.next) > 0 {
				f, c.tap.next = c.tap.next[0], c.tap.next[1:]
			}
			if f == keep {
				c.tap.kept = append(c.tap.kept, keptRequest{c.RemoteAddr().String(), c.request[:size:size]})
			}
			c.tap.mu.Unlock()
		}
		if f != keep && f != swallow {
			if _, err := c.Conn.Write(c.request[:size]); err != nil {
				return 0, err
			}
		}
		if f == loseDone {
			if _, err := frame(c.Conn); err != nil {
				return 0, err
			}
		}
		if f == keep || f == loseDone {
			c.Close()
			return 0, net.ErrClosed
		}
		c.request = c.request[size:]
	}
	return len(b), nil
}

// TestEndDelivered: the first EndTxn of a transaction is held up on its way, is
// repeated, and arrives after the next transaction has begun. That one is neither
// committed in part nor ended by it. Init comes in between.
func TestEndDelivered(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		wire := tap{key: kmsg.EndTxn}
		wire.on(c)
		out := k.Topic(t, "out", 3)
		p := newProducer(t, c, kafkatest.Unique("tx"))
		wire.expect(keep)
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "a"), noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, true))
		wantClass(t, "a transaction before Init", p.AddPartitions(ctx, []TP{brokertest.TP(out, 0)}), Unknown)
		brokertest.Must(t, p.Init(ctx))
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 2, 100, "aborted"), noGroup, "", nil))
		for _, err := range wire.deliver(t) {
			if err == nil {
				t.Error("an EndTxn of the former epoch was carried out")
			}
		}
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "aborted"), noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, false))
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "b"), noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, true))
		brokertest.WantValues(t, k, out, 3, 100, "a", "b")
	})
}

// TestEndRepeated: a commit is repeated with the same epoch until the answer is
// definite, and then stands. The producer begins anew before the next transaction, in version 2 only where a coordinator has failed;
// the broker has raised the epoch there, once.
func TestEndRepeated(t *testing.T) { versions(t, testEndRepeated) }

func testEndRepeated(t *testing.T, k *kafkatest.Cluster, v2 bool) {
	ctx := brokertest.Within(t)
	c := open(t, k.Brokers)
	wire := tap{key: kmsg.EndTxn}
	wire.on(c)
	in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 3)
	var want []string
	n := int64(0)
	f := func(name string, commit bool, fates []fate, codes ...*kerr.Error) {
		t.Helper()
		n++
		p := newProducer(t, c, kafkatest.Unique("tx"))
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, name), noGroup, "g", map[TP]Offset{brokertest.TP(in, 0): {Offset: n}}))
		wire.expect(fates...)
		for _, code := range codes {
			k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: code})
		}
		id, epoch := p.ID()
		brokertest.Must(t, p.End(ctx, commit))
		if v2 {
			epoch++
		}
		if now, e := p.ID(); now != id || e != epoch {
			t.Errorf("%s: ended with epoch %d of %d, want %d of %d", name, e, now, epoch, id)
		}
		if p.NeedsInit() != (!v2 || !strings.Contains(name, kerr.ConcurrentTransactions.Message)) {
			t.Errorf("%s: NeedsInit %v", name, p.NeedsInit())
		}
		if commit {
			want = append(want, name)
		}
		brokertest.Must(t, p.Abort(ctx)) // makes it ready
		if p.NeedsInit() {
			t.Errorf("%s: not ready after Abort", name)
		}
		brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, name+" next"), noGroup, "", nil))
		brokertest.Must(t, p.End(ctx, true))
		want = append(want, name+" next")
		if p.NeedsInit() {
			t.Errorf("%s: Init after one request", name)
		}
	}
	f("lost on the way", true, []fate{keep})
	f("answer lost", true, []fate{loseDone})
	f("both", true, []fate{keep, loseDone, loseDone, keep})
	for _, code := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
		kerr.ConcurrentTransactions} {
		f(code.Message, true, nil, code, code)
		f("abort "+code.Message, false, nil, code)
	}
	f("answer lost, moved", true, []fate{loseDone}, kerr.NotCoordinator)
	brokertest.WantValues(t, k, out, 3, 100, want...)
	if got, err := k.Admin().Offsets(ctx, "g", true); err != nil || got[kafkatest.TP{Topic: in}].Offset != n {
		t.Errorf("committed offsets %v, %v; want %d", got, err, n)
	}
}

// TestEndRefused: what a repeated commit is refused with does not tell what became
// of the requests before it. The first one's refusal does.
func TestEndRefused(t *testing.T) { versions(t, testEndRefused) }

func testEndRefused(t *testing.T, k *kafkatest.Cluster, _ bool) {
	ctx := brokertest.Within(t)
	c := open(t, k.Brokers)
	wire := tap{key: kmsg.EndTxn}
	wire.on(c)
	out := k.Topic(t, "out", 3)
	var want []string
	for _, code := range []*kerr.Error{kerr.InvalidTxnState, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping} {
		for _, x := range []struct {
			name   string
			fates  []fate
			before []*kerr.Error
			done   bool
		}{
			{"first", nil, nil, false},
			{"after a lost request", []fate{keep}, nil, false},
			{"after a lost answer", []fate{loseDone}, nil, true},
			{"after an answer", nil, []*kerr.Error{kerr.NotCoordinator}, false},
		} {
			name := fmt.Sprintf("%s %s", code.Message, x.name)
			p := newProducer(t, c, kafkatest.Unique("tx"))
			brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, name), noGroup, "", nil))
			wire.expect(x.fates...)
			skip := 0
			if x.done {
				skip = 1 // the first is carried out
			}
			for _, err := range append(x.before, code) {
				k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: err, When: func(kmsg.Request) bool {
					skip--
					return skip < 0
				}})
			}
			class := Unknown
			if x.name == "first" {
				class = map[bool]Class{true: Abortable, false: Fenced}[code == kerr.InvalidProducerIDMapping]
			}
			wantClass(t, name, p.End(ctx, true), class)
			if !p.NeedsInit() {
				t.Errorf("%s: the producer does not ask for Init", name)
			}
			brokertest.Must(t, p.Init(ctx))
			if x.done {
				want = append(want, name)
			}
		}
	}
	brokertest.WantValues(t, k, out, 3, 100, want...)
}

// TestEndInsists: a commit that a coordinator may have got is repeated after the transaction's time-out, too, until a coordinator
// answers: where it was decided in part, Init would abort the rest. An abort is given up before. A coordinator that hangs leaves
// time for others.
func TestEndInsists(t *testing.T) {
	k := kafkatest.Fake(t, kafkatest.FakeOptions{})
	ctx := brokertest.Within(t)
	c := open(t, k.Brokers)
	wire := tap{key: kmsg.EndTxn}
	wire.on(c)
	out := k.Topic(t, "out", 3)
	p := c.NewProducer(ProducerConfig{TransactionalID: "tx", TransactionTimeout: time.Minute})
	brokertest.Must(t, p.Init(ctx))
	p.cfg.TransactionTimeout = time.Second // a coordinator that is away does not count the time, the fake one does
	refuse := func() *kfake.FaultHandle {
		return k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.NotCoordinator, Count: -1})
	}
	h := refuse()
	began := time.Now()
	time.AfterFunc(2*time.Second, h.Remove)
	brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "late"), noGroup, "", nil))
	wire.expect(keep)
	brokertest.Must(t, p.End(ctx, true))
	if d := time.Since(began); d < 2*time.Second || h.Hits() < 3 {
		t.Errorf("committed after %v and %d requests", d, h.Hits())
	}
	brokertest.Must(t, p.Init(ctx))

	h = refuse()
	brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "given up"), noGroup, "", nil))
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	wantClass(t, "commit", p.End(within, true), Unknown) // nobody answers while its context lasts
	cancel()
	h.Remove()
	brokertest.Must(t, p.Init(ctx))

	h = refuse()
	began = time.Now()
	brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "aborted"), noGroup, "", nil))
	wantClass(t, "abort", p.End(ctx, false), Unknown)
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("an abort was given up after %v", d)
	}
	h.Remove()
	brokertest.Must(t, p.Init(ctx))

	wire.expect(swallow)
	brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 3, 100, "hung"), noGroup, "", nil))
	brokertest.Must(t, p.End(ctx, true))
	brokertest.WantValues(t, k, out, 3, 100, "late", "hung")
}
