package processor

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
	"odradek/processor/metrics"
	"odradek/schemas/output"
)

// disk damages batches of readings on their way from a broker to the worker. From a
// producer the broker would refuse them: this is what a bad disk makes of them.
type disk struct {
	mu     sync.Mutex
	base   int64 // of the batch that is damaged
	change func(batch []byte)
	whole  []byte // what became of it
}

// damage changes every batch at base that is read from now on.
func (d *disk) damage(base int64, change func(batch []byte)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.base, d.change = base, change
}

// listen is for kfake.ListenFn.
func (d *disk) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &damagedListener{l, d}, err
}

type damagedListener struct {
	net.Listener
	d *disk
}

func (l *damagedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &damagedConn{Conn: c, d: l.d}, err
}

type damagedConn struct {
	net.Conn
	d      *disk
	worker bool // guarded by d.mu
}

// Read learns who is at the other end from the client id of the requests.
func (c *damagedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.d.mu.Lock()
	c.worker = c.worker || bytes.Contains(p[:n], []byte("\x00\x04test"))
	c.d.mu.Unlock()
	return n, err
}

// Write searches for whole batches at the base: the CRC leaves no doubt.
func (c *damagedConn) Write(p []byte) (int, error) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	be := binary.BigEndian
	for at := 0; c.worker && d.change != nil && at+61 <= len(p); at++ {
		b := p[at:]
		if int64(be.Uint64(b)) != d.base || b[16] != 2 {
			continue
		}
		n := int(be.Uint32(b[8:])) + 12
		if n < 61 || n > len(b) || crc32.Checksum(b[21:n], crc32.MakeTable(crc32.Castagnoli)) != be.Uint32(b[17:]) {
			continue
		}
		if !bytes.Contains(b[:n], []byte("plant")) {
			continue
		}
		p = bytes.Clone(p) // the broker's own copy stays
		d.change(p[at : at+n])
		d.whole = bytes.Clone(p[at : at+n])
	}
	return c.Conn.Write(p)
}

// raw writes a batch of our own making.
func (b *bench) raw(topic string, partition int32, bt *record.Batches) {
	b.t.Helper()
	p := b.client.NewProducer(kafka.ProducerConfig{})
	if err := p.Init(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	if err := p.Produce(context.Background(), map[kafka.TP]*record.Batches{{Topic: topic, Partition: partition}: bt}); err != nil {
		b.t.Fatal(err)
	}
}

// dead reads the dead letters.
func (b *bench) dead() []kafkatest.Record {
	b.t.Helper()
	recs, err := b.c.Admin().ReadAll(context.Background(), "dlq", true)
	if err != nil {
		b.t.Fatal(err)
	}
	return recs
}

func head(r *kafkatest.Record, name string) string {
	v, ok := r.Header(name)
	if !ok {
		return "(none)"
	}
	return string(v)
}

// waitCommittedBut waits until a group has committed all of the input but one partition.
func (b *bench) waitCommittedBut(group string, partition int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ends, err := b.c.Admin().Ends(ctx, b.input, kafka.Latest)
	if err != nil {
		return err
	}
	delete(ends, partition)
	return b.c.Admin().WaitCommittedTo(ctx, group, b.input, ends)
}

// quarantined returns the partitions in quarantine.
func quarantined(p *Processor) (out []metrics.PartitionStatus) {
	for _, s := range p.Status() {
		if s.Quarantine != nil {
			out = append(out, s)
		}
	}
	return out
}

// TestUnreadableBatches: a batch that decompresses to too much, and one that does
// not match its CRC, become one dead letter each, with their bytes and offsets. All
// their records are accounted for, the fold continues after them, and the next owner,
// which replays over them, restores the same state.
func TestUnreadableBatches(t *testing.T) {
	var d disk
	b := newBench(t, 1, kfake.ListenFn(d.listen))
	b.produce(60)
	bomb := record.NewBatches(80<<20, record.CodecGzip)
	if err := bomb.Append(1700000000000, []byte("k"), make([]byte, 65<<20), nil); err != nil {
		t.Fatal(err)
	}
	b.raw(b.input, 0, bomb) // offset 60
	b.produceBatch(0, 10)   // offsets 61 to 70: damaged
	b.produce(40)
	d.damage(61, func(batch []byte) { batch[len(batch)-5] ^= 1 })
	var handed, restored []byte
	cfg := b.config("one")
	cfg.ReplayLimit = time.Hour // the next owner replays everything
	cfg.export = func(_ kafka.TP, was bool, offset int64, state []byte) {
		if !was {
			handed = fmt.Appendf(state, "%d", offset)
		}
	}
	b.run(cfg)
	pm := cfg.Metrics.Partition(kafka.TP{Topic: b.input})
	if c, d := testutil.ToFloat64(pm.Consumed), testutil.ToFloat64(pm.DeadLettered); c != 111 || d != 11 {
		t.Errorf("consumed %v, dead-lettered %v; want 111 and 11", c, d)
	}
	dead := b.dead()
	if len(dead) != 2 {
		t.Fatalf("%d dead letters, want 2", len(dead))
	}
	for i, want := range [][4]string{{"batch_too_large", "60", "60", "1"}, {"corrupt_batch", "61", "70", "10"}} {
		r := &dead[i]
		if got := [4]string{head(r, "odradek.error.class"), head(r, "odradek.batch.first_offset"), head(r, "odradek.batch.last_offset"),
			head(r, "odradek.batch.records")}; got != want {
			t.Errorf("dead letter says %v, want %v", got, want)
		}
		if head(r, "__streams.errors.offset") != want[1] || head(r, "__streams.errors.topic") != b.input {
			t.Errorf("dead letter is of %s at %s", head(r, "__streams.errors.topic"), head(r, "__streams.errors.offset"))
		}
	}
	if len(d.whole) == 0 || !bytes.Equal(dead[1].Value, d.whole) {
		t.Errorf("%d bytes of the damaged batch's %d", len(dead[1].Value), len(d.whole))
	}
	last := int64(0)
	for id := range b.ledger() {
		last = max(last, id[1])
	}
	if last < 100 {
		t.Errorf("the last score is of offset %d: the fold did not go on", last)
	}
	cfg = b.config("one")
	cfg.export = func(_ kafka.TP, was bool, offset int64, state []byte) {
		if was {
			restored = fmt.Appendf(state, "%d", offset)
		}
	}
	b.produce(1)
	b.run(cfg)
	if len(handed) == 0 || !bytes.Equal(handed, restored) {
		t.Errorf("state of %d bytes is restored with %d", len(handed), len(restored))
	}
	if n := len(b.dead()); n != 2 {
		t.Errorf("%d dead letters after a replay, want 2", n)
	}
}

// TestQuarantine: of three partitions one cannot go on, because the header of a
// batch leads past the end of the log. It is paused and says so, the others go on and
// commit, a rebalance takes it back without ado, and the next owner lives, too.
func TestQuarantine(t *testing.T) {
	var d disk
	b := newBench(t, 3, kfake.ListenFn(d.listen))
	b.produce(300)
	b.produceTo(1, 400) // no batch of another partition is to begin at the damaged one's offset
	ends, err := b.c.Admin().Ends(context.Background(), b.input, kafka.Latest)
	if err != nil {
		t.Fatal(err)
	}
	at := ends[1] // the next batch of partition 1 and its last one
	b.produceBatch(1, 20)
	d.damage(at, func(batch []byte) { binary.BigEndian.PutUint32(batch[23:], 1<<30) })
	for _, owner := range []string{"first", "second"} {
		cfg := b.config("")
		log := cfg.capture()
		p, stop := b.start(cfg)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%+v\n%s", p.Status(), strings.Join(log.with(), "\n"))
			}
		})
		waitFor(t, "a quarantine", func() bool { return len(quarantined(p)) == 1 })
		s := quarantined(p)[0]
		if s.Partition != 1 || s.Quarantine.Reason != Unreadable || s.Quarantine.Offset != at {
			t.Errorf("%s owner: partition %d in quarantine: %+v; want 1 at %d", owner, s.Partition, s.Quarantine, at)
		}
		b.produceTo(0, 50)
		b.produceTo(2, 50)
		ends, err = b.c.Admin().Ends(context.Background(), b.input, kafka.Latest)
		if err != nil {
			t.Fatal(err)
		}
		ends[1] = at // what comes before the place is committed
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.c.Admin().WaitCommittedTo(ctx, "g", b.input, ends); err != nil {
			t.Errorf("%s owner: %v", owner, err)
		}
		waitFor(t, "ready and not stalled", func() bool { return p.Ready() && p.Stalled(0) == nil })
		if lines := log.with("level=ERROR"); len(lines) != 1 {
			t.Errorf("%s owner: lines of level ERROR: %q", owner, lines)
		}
		stop(nil)
	}
}

// TestQuarantineReasons: for each reason that stops one partition, the others
// commit all of their results, and the worker drains without an error.
func TestQuarantineReasons(t *testing.T) {
	fault := func(key kmsg.Key, changelog bool, err *kerr.Error) func(b *bench) {
		return func(b *bench) {
			topic := b.input
			if changelog {
				topic = "g-" + b.input + "-changelog"
			}
			b.c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Partitions: []int32{1}, Err: err, Count: -1})
		}
	}
	for _, tc := range []struct {
		name, reason string
		guarantee    Guarantee
		prepare      func(b *bench)
	}{
		{"fetch not permitted", Unauthorized, ExactlyOnce, fault(kmsg.Fetch, false, kerr.TopicAuthorizationFailed)},
		{"offset refused", Refused, ExactlyOnce, fault(kmsg.TxnOffsetCommit, false, kerr.OffsetMetadataTooLarge)},
		{"offset refused, at least once", Refused, AtLeastOnce, fault(kmsg.OffsetCommit, false, kerr.OffsetMetadataTooLarge)},
		{"state refused", Refused, ExactlyOnce, fault(kmsg.Produce, true, kerr.InvalidRecord)},
		{"committed offset not permitted", Unauthorized, ExactlyOnce, fault(kmsg.OffsetFetch, false, kerr.TopicAuthorizationFailed)},
		{"score too large", Unwritable, ExactlyOnce, longKey},
		{"score too large, at least once", Unwritable, AtLeastOnce, longKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, 3)
			b.produce(300)
			tc.prepare(b)
			cfg := b.config("")
			cfg.Guarantee = tc.guarantee
			cfg.ReplayLimit = time.Nanosecond // state in every cycle
			log := cfg.capture()
			p, stop := b.start(cfg)
			waitFor(t, "a quarantine", func() bool {
				b.produceTo(1, 1) // a later cycle has the state of an earlier one
				return len(quarantined(p)) > 0
			})
			b.produceTo(0, 30)
			b.produceTo(2, 30)
			if err := b.waitCommittedBut("g", 1); err != nil {
				t.Error(err)
			}
			if q := quarantined(p); len(q) != 1 || q[0].Partition != 1 || q[0].Quarantine.Reason != tc.reason {
				t.Errorf("in quarantine: %+v; want partition 1, %s", q, tc.reason)
			}
			if lines := log.with("level=ERROR"); len(lines) != 1 {
				t.Errorf("lines of level ERROR: %q", lines)
			}
			stop(nil)
			if tc.guarantee == ExactlyOnce {
				b.ledger() // no score twice
			}
		})
	}
}

// longKey makes a topic of scores that does not hold a score of one series of
// partition 1.
func longKey(b *bench) {
	if err := b.c.Admin().SetTopicConfig(context.Background(), "scores", map[string]string{"max.message.bytes": "3000"}); err != nil {
		b.t.Fatal(err)
	}
	name := bytes.Repeat([]byte("x"), 4000)
	value := output.NewReadingEncoder(-1, "plant", "mm").Append(nil, name, 1700000000000000, 1, 0)
	rec := kafkatest.Record{Topic: b.input, Partition: 1, Key: name, Time: 1700000000000, Value: value}
	if _, err := b.c.ProduceAcked(context.Background(), []kafkatest.Record{rec}); err != nil {
		b.t.Fatal(err)
	}
}
