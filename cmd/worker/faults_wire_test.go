package main

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/kafkatest"
)

// wire stands between workers and brokers and disturbs connections. It has a
// port for each broker, and replaces the brokers' addresses in the answers that
// name them, so that a client stays on it.
type wire struct {
	t     *testing.T
	ports map[int32]int32 // of the brokers -> of the proxies
	like  *likeness       // of the brokers that they are to seem; nil: themselves

	mu    sync.Mutex
	rng   *rand.Rand
	armed map[kmsg.Key][]*tear
	odds  int // one request in odds is disturbed; 0: none
	torn  map[disturbance]int
	conns map[net.Conn]struct{}
}

// disturbance is what can happen to a request and its answer.
type disturbance int

const (
	none      disturbance = iota
	cutBefore             // the broker does not get the request; the connection breaks
	cutAfter              // the broker has done it, the answer is lost; the connection breaks
	late                  // the request is held up
	lateReply             // the answer is held up
	held                  // the request is held up until the test lets it go
)

// tear is one disturbance of the next request of a kind.
type tear struct {
	what disturbance
	done chan struct{} // closed when it has happened
	free chan struct{} // held: closed to let it go
}

func newWire(t *testing.T, c *kafkatest.Cluster, rng *rand.Rand) *wire {
	t.Helper()
	w := &wire{t: t, ports: map[int32]int32{}, rng: rand.New(rand.NewPCG(rng.Uint64(), 3)),
		armed: map[kmsg.Key][]*tear{}, torn: map[disturbance]int{}, conns: map[net.Conn]struct{}{}}
	var listeners []net.Listener
	for _, addr := range c.Brokers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		listeners = append(listeners, l)
		w.ports[portOf(addr)] = portOf(l.Addr().String())
	}
	for i, l := range listeners {
		go func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return
				}
				go w.serve(client, c.Brokers[i])
			}
		}()
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			l.Close()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for nc := range w.conns {
			nc.Close()
		}
	})
	return w
}

func portOf(addr string) int32 {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return int32(n)
}

// setting returns the addresses to give to a worker.
func (w *wire) setting() string {
	var addrs []string
	for _, port := range w.ports {
		addrs = append(addrs, "127.0.0.1:"+strconv.Itoa(int(port)))
	}
	return "KAFKA_BROKERS=" + strings.Join(addrs, ",")
}

// disturb disturbs the next request of a kind, after those asked for before.
func (w *wire) disturb(key kmsg.Key, what disturbance) *tear {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &tear{what, make(chan struct{}), make(chan struct{})}
	w.armed[key] = append(w.armed[key], f)
	return f
}

// wait waits until it has happened.
func (w *wire) wait(key kmsg.Key, f *tear) {
	w.t.Helper()
	select {
	case <-f.done:
	case <-time.After(patience):
		w.t.Fatalf("no worker has sent a %s for 20 s", key.Name())
	}
}

// setOdds disturbs one request in n at random; 0 ends it.
func (w *wire) setOdds(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.odds = n
}

// choose decides what happens to a request, and for how long.
func (w *wire) choose(key kmsg.Key) (what disturbance, hold time.Duration, free chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.armed[key]; len(q) > 0 {
		w.armed[key] = q[1:]
		close(q[0].done)
		what, free = q[0].what, q[0].free
	} else if w.odds > 0 && w.rng.IntN(w.odds) == 0 {
		what = cutBefore + disturbance(w.rng.IntN(4))
	}
	w.torn[what]++
	return what, time.Duration(1+w.rng.IntN(300)) * time.Millisecond, free
}

// asked is a request whose answer is not there yet.
type asked struct {
	key     kmsg.Key
	version int16
	what    disturbance
	hold    time.Duration
}

// serve passes the requests of one connection on and its answers back.
func (w *wire) serve(client net.Conn, addr string) {
	defer client.Close()
	broker, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer broker.Close()
	w.mu.Lock()
	w.conns[client], w.conns[broker] = struct{}{}, struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.conns, client)
		delete(w.conns, broker)
		w.mu.Unlock()
	}()
	var open sync.Map // correlation id -> asked
	go func() {
		defer client.Close()
		defer broker.Close()
		for {
			answer, err := readFrame(broker)
			if err != nil {
				return
			}
			v, ok := open.LoadAndDelete(binary.BigEndian.Uint32(answer[4:]))
			if !ok {
				return // not a Kafka broker
			}
			a := v.(asked)
			switch a.what {
			case cutAfter:
				return
			case lateReply:
				time.Sleep(a.hold)
			}
			if _, err := client.Write(w.redirect(a, answer)); err != nil {
				return
			}
		}
	}()
	for {
		request, err := readFrame(client)
		if err != nil {
			return
		}
		a := asked{key: kmsg.Key(binary.BigEndian.Uint16(request[4:])), version: int16(binary.BigEndian.Uint16(request[6:]))}
		if !w.like.has(a.key, a.version) {
			w.t.Errorf("a worker has sent %s v%d, which these brokers lack", a.key.Name(), a.version)
			return // as brokers do
		}
		var free chan struct{}
		a.what, a.hold, free = w.choose(a.key)
		switch a.what {
		case cutBefore:
			return
		case held:
			<-free
		case late:
			time.Sleep(a.hold)
		}
		open.Store(binary.BigEndian.Uint32(request[8:]), a)
		if _, err := broker.Write(request); err != nil {
			return
		}
	}
}

// readFrame reads a request or an answer with its size before it.
func readFrame(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	frame := append(make([]byte, 0, 4+binary.BigEndian.Uint32(size[:])), size[:]...)
	frame = frame[:cap(frame)]
	_, err := io.ReadFull(from, frame[4:])
	if err == nil && len(frame) < 12 {
		frame = append(frame, make([]byte, 12-len(frame))...)[:len(frame)]
	}
	return frame, err
}

// redirect puts the proxies' ports into an answer that names brokers.
func (w *wire) redirect(a asked, answer []byte) []byte {
	if a.key != kmsg.Metadata && a.key != kmsg.FindCoordinator && (a.key != kmsg.ApiVersions || w.like == nil) {
		return answer
	}
	res := kmsg.ResponseForKey(int16(a.key))
	res.SetVersion(a.version)
	head := 8 // size, correlation id
	if res.IsFlexible() && a.key != kmsg.ApiVersions {
		head++ // no tagged fields
	}
	if err := res.ReadFrom(answer[head:]); err != nil {
		w.t.Errorf("%s v%d: %v", a.key.Name(), a.version, err)
		return answer
	}
	switch res := res.(type) {
	case *kmsg.ApiVersionsResponse:
		w.like.restrict(res)
	case *kmsg.MetadataResponse:
		for i := range res.Brokers {
			res.Brokers[i].Port = w.ports[res.Brokers[i].Port]
		}
	case *kmsg.FindCoordinatorResponse:
		res.Port = w.ports[res.Port]
		for i := range res.Coordinators {
			res.Coordinators[i].Port = w.ports[res.Coordinators[i].Port]
		}
	}
	out := res.AppendTo(answer[:head:head])
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// TestConnectionsCut: every request that a worker sends is lost once on its way,
// and its answer once; then connections break and stall at random.
func TestConnectionsCut(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 4)
		w := newWire(t, c, o.rng)
		o.start("static", "INSTANCE_ID=static", w.setting()).waitReady(t)
		o.start("dynamic", w.setting()).waitReady(t)
		o.load(1000)
		ways := []disturbance{cutBefore, cutAfter}
		for range *faultRounds {
			for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn,
				kmsg.Heartbeat, kmsg.Fetch} {
				for _, what := range ways {
					w.wait(key, w.disturb(key, what))
				}
			}
			// These are sent at a start, when partitions move, and when a worker leaves.
			after := map[*tear]kmsg.Key{}
			arm := func(keys ...kmsg.Key) {
				for _, key := range keys {
					for _, what := range ways {
						after[w.disturb(key, what)] = key
					}
				}
			}
			arm(kmsg.Metadata, kmsg.FindCoordinator, kmsg.InitProducerID, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.ListOffsets)
			third := o.start("third", w.setting())
			third.waitReady(t)
			arm(kmsg.LeaveGroup)
			if code := third.drain(t); code != exitOK {
				t.Errorf("the third worker ended with %d", code)
			}
			for f, key := range after {
				w.wait(key, f)
			}
			w.setOdds(30)
			time.Sleep(4 * time.Second)
			w.setOdds(0)
		}
		o.end("connections cut")
		w.mu.Lock()
		defer w.mu.Unlock()
		t.Logf("%d requests: %d cut before and %d after, %d requests and %d answers held up", w.torn[none], w.torn[cutBefore], w.torn[cutAfter],
			w.torn[late], w.torn[lateReply])
	})
}

// TestChangelogCompactedWhileRead: the log's start moves past the position of a
// restore that has just begun.
func TestChangelogCompactedWhileRead(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	o := newOrdeal(t, c, 1, "REPLAY_LIMIT=100ms", "INSTANCE_ID=one")
	wire := newWire(t, c, o.rng)
	w := o.start("first", wire.setting())
	w.waitReady(t)
	for range 10 {
		o.produce(200)
		o.pause(100*time.Millisecond, 200*time.Millisecond)
	}
	o.waitDone()
	w.kill()
	changelog := config.ChangelogName(o.group+"-", o.input)
	recs, err := c.Admin().ReadAll(o.ctx, changelog, true)
	must(t, err)
	recs = slices.DeleteFunc(recs, func(r kafkatest.Record) bool { return !processor.IsRecord(string(r.Key)) })
	for range 2 { // the first ones keep the log's start where it is, and the last batch is not compacted
		for _, r := range recs {
			_, err = c.ProduceAcked(o.ctx, []kafkatest.Record{{Topic: changelog, Key: r.Key, Value: r.Value}})
			must(t, err)
		}
	}
	joining := wire.disturb(kmsg.JoinGroup, held) // what the start fetches is not the changelog
	w = o.start("second", wire.setting())
	wire.wait(kmsg.JoinGroup, joining)
	f := wire.disturb(kmsg.Fetch, held)
	close(joining.free)
	wire.wait(kmsg.Fetch, f)
	c.Fake.Compact()
	if start, err := c.Admin().Ends(o.ctx, changelog, kafkatest.Earliest); err != nil || start[0] == 0 {
		t.Fatalf("nothing was compacted: the log begins at %d, %v", start[0], err)
	}
	close(f.free)
	w.waitReady(t)
	if !w.logged("the changelog was cut") {
		t.Error("the restore did not notice")
	}
	o.produce(500)
	o.end("compacted while read")
}

// TestRestoredDuringRecovery: a cycle fails, and before the worker has a new
// producer epoch and tells its partitions to go back, another partition has been
// restored and has results already. They are of after the failure and count once.
func TestRestoredDuringRecovery(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 2)
		o.produce(1000)
		wire := newWire(t, c, o.rng)
		listing := wire.disturb(kmsg.ListOffsets, held) // of one partition's changelog
		w := o.start("w", wire.setting())
		wire.wait(kmsg.ListOffsets, listing)
		o.load(500)
		o.goesOn("the start of the other partition")
		beginning := wire.disturb(kmsg.InitProducerID, held)
		offsets := wire.disturb(kmsg.TxnOffsetCommit, cutAfter)
		wire.wait(kmsg.TxnOffsetCommit, offsets)
		wire.wait(kmsg.InitProducerID, beginning)
		close(listing.free)
		for end := time.Now().Add(patience); w.count("msg=restored") < 2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the second partition is not restored")
			}
		}
		time.Sleep(300 * time.Millisecond) // it has results now
		close(beginning.free)
		o.goesOn("the recovery")
		o.end("restored during recovery")
	})
}
