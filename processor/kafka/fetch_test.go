package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The other client of these tests is franz-go: it writes what is fetched here
// and reads what is produced here.

func franz(t testing.TB, fake *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(fake.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func kgoRecord(topic string, partition int32, p plainRecord) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition, Key: p.key, Value: p.value, Timestamp: time.UnixMilli(p.ts)}
	for _, h := range p.headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}

// write has franz-go append n records to a partition, "0", "1", ... as values,
// counting on from the partition's end.
func write(t testing.TB, cl *kgo.Client, topic string, partition int32, from, n int) {
	t.Helper()
	var rs []*kgo.Record
	for i := from; i < from+n; i++ {
		rs = append(rs, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(fmt.Sprint(i))})
	}
	if err := cl.ProduceSync(testContext(t), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// receive waits for the next chunk.
func receive(t testing.TB, s *Source) *Chunk {
	t.Helper()
	select {
	case c, ok := <-s.C():
		if !ok {
			t.Fatalf("%s: closed", s.TP())
		}
		return c
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: no chunk for 10 s", s.TP())
	}
	return nil
}

// readTo reads a source until its position is end, checking that positions join.
func readTo(t testing.TB, s *Source, from, end int64, each func(r *Record)) {
	t.Helper()
	var it Iterator
	for pos := from; pos < end; {
		c := receive(t, s)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		if c.From != pos {
			t.Fatalf("%s: chunk from %d after %d", s.TP(), c.From, pos)
		}
		for it.Reset(c); it.Next(); {
			each(it.Record())
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if pos = it.NextOffset(); pos != c.Next {
			t.Fatalf("%s: records end at %d, headers at %d", s.TP(), pos, c.Next)
		}
		c.Release()
	}
}

// TestFetchEveryCodec: what franz-go wrote, with every codec, over several
// brokers and partitions, from the start and from positions inside batches.
func TestFetchEveryCodec(t *testing.T) {
	r := seeded(t)
	fake := cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(5, "a", "b"))
	want := map[TP][]plainRecord{}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		cl := franz(t, fake, kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(int32(20_000+r.IntN(100_000))))
		for round := 0; round < 3; round++ {
			var rs []*kgo.Record
			for k := 0; k < 1500; k++ {
				tp := TP{string('a' + rune(r.IntN(2))), int32(r.IntN(5))}
				p := randomRecord(r, time.Now().UnixMilli()+int64(r.IntN(100_000)))
				p.offset = int64(len(want[tp]))
				want[tp] = append(want[tp], p)
				rs = append(rs, kgoRecord(tp.Topic, tp.Partition, p))
			}
			if err := cl.ProduceSync(testContext(t), rs...).FirstErr(); err != nil {
				t.Fatalf("codec %d: %v", i, err)
			}
		}
	}
	c := open(t, fake.ListenAddrs())
	for round := 0; round < 3; round++ {
		f := c.NewFetcher(FetcherConfig{PartitionBytes: 1 << (12 + r.IntN(9)), MaxBytes: 1 << (13 + r.IntN(10)), ReadCommitted: round > 0})
		var wg sync.WaitGroup
		for tp, rs := range want {
			from := int64(0)
			if round > 0 {
				from = int64(r.IntN(len(rs)))
			}
			s := f.Add(tp, from)
			wg.Go(func() {
				var it Iterator
				at := from
				for c := range s.C() {
					if c.Err != nil {
						t.Error(c.Err)
						return
					}
					n := 0
					for it.Reset(c); it.Next(); n++ {
						got, w := it.Record(), rs[at]
						if got.Offset != at || got.Timestamp != w.ts || !equalHeaders(got.AppendHeaders(nil), w.headers) ||
							!same(got.Key, w.key) || !same(got.Value, w.value) {
							t.Errorf("%s offset %d: got %+v, want %+v", tp, at, got, w)
							return
						}
						at++
					}
					if it.Err() != nil || it.NextOffset() != at || c.HighWatermark != int64(len(rs)) {
						t.Errorf("%s: next %d, want %d, high watermark %d, %v", tp, it.NextOffset(), at, c.HighWatermark, it.Err())
						return
					}
					c.Release()
					if at == int64(len(rs)) {
						return
					}
				}
			})
		}
		wg.Wait()
		f.Close()
	}
}

// TestFetchCommitted: two producers, commits and aborts between each other, and
// a transaction left open.
func TestFetchCommitted(t *testing.T) {
	ctx := testContext(t)
	fake := cluster(t, kfake.SeedTopics(1, "in"))
	plain := franz(t, fake)
	txn := func(id string) *kgo.Client { return franz(t, fake, kgo.TransactionalID(id)) }
	x, y := txn("x"), txn("y")
	var want []string
	put := func(cl *kgo.Client, v string) {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "in", Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if v[0] == 'c' {
			want = append(want, v)
		}
	}
	begin := func(cl *kgo.Client) {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(cl *kgo.Client, how kgo.TransactionEndTry) {
		if err := cl.EndTransaction(ctx, how); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 20; i++ {
		begin(x)
		begin(y)
		put(x, fmt.Sprint("c x", i))
		put(y, fmt.Sprint("aborted y", i))
		put(plain, fmt.Sprint("c plain", i))
		put(y, fmt.Sprint("aborted y again", i))
		if i%3 == 0 {
			end(y, kgo.TryAbort)
			put(x, fmt.Sprint("c x again", i))
			end(x, kgo.TryCommit)
		} else {
			end(x, kgo.TryCommit)
			end(y, kgo.TryAbort)
		}
	}
	stable := fake.PartitionInfo("in", 0).HighWatermark
	begin(y)
	put(y, "open")
	put(plain, "beyond")

	c := open(t, fake.ListenAddrs())
	tp := TP{"in", 0}
	if lso, err := c.ListStable(ctx, []TP{tp}); err != nil || lso[tp] != stable {
		t.Fatal(lso, err, stable)
	}
	f := c.NewFetcher(FetcherConfig{ReadCommitted: true, MaxWait: 50 * time.Millisecond, PartitionBytes: 600})
	defer f.Close()
	s := f.Add(tp, 0)
	var got []string
	readTo(t, s, 0, stable, func(r *Record) { got = append(got, string(r.Value)) })
	if !slices.Equal(got, want) {
		t.Fatalf("got %q\nwant %q", got, want)
	}
	// Nothing beyond the open transaction; its end brings all at once.
	for {
		c := receive(t, s)
		if !c.Empty || c.Next != stable || c.LastStable != stable {
			t.Fatalf("%+v", c)
		}
		if c.HighWatermark == stable+2 {
			break
		}
	}
	end(y, kgo.TryAbort)
	got = got[:0]
	readTo(t, s, stable, stable+3, func(r *Record) { got = append(got, string(r.Value)) })
	if !slices.Equal(got, []string{"beyond"}) {
		t.Fatalf("got %q", got)
	}
	// Any position gives the tail of the same.
	all, err := c.ListOffsets(ctx, []TP{tp}, Latest)
	if err != nil || all[tp] != stable+3 {
		t.Fatal(all, err)
	}
	for from := int64(0); from < stable; from += 7 {
		s := f.Add(tp, from)
		n := 0
		readTo(t, s, from, stable+3, func(r *Record) { n++ })
		m := 0
		s2 := f.Add(tp, 0)
		readTo(t, s2, 0, stable+3, func(r *Record) {
			if r.Offset >= from {
				m++
			}
		})
		if n != m {
			t.Fatalf("from %d: %d records, want %d", from, n, m)
		}
		s.Close()
		s2.Close()
	}
}

// TestFetchLeaderMoves: leaders wander while records are written; every record
// comes once and in order.
func TestFetchLeaderMoves(t *testing.T) {
	r := seeded(t)
	fake := cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "in"))
	c := open(t, fake.ListenAddrs())
	f := c.NewFetcher(FetcherConfig{MaxWait: 100 * time.Millisecond})
	defer f.Close()
	const n = 3000
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				fake.MoveTopicPartition("in", int32(r.IntN(4)), int32(r.IntN(3)))
			}
		}
	}()
	var wg sync.WaitGroup
	for p := int32(0); p < 4; p++ {
		wg.Go(func() {
			cl := franz(t, fake)
			for i := 0; i < n; i += 100 {
				write(t, cl, "in", p, i, 100)
				time.Sleep(5 * time.Millisecond)
			}
		})
		s := f.Add(TP{"in", p}, 0)
		wg.Go(func() {
			i := 0
			readTo(t, s, 0, n, func(r *Record) {
				if r.Offset != int64(i) || string(r.Value) != fmt.Sprint(i) {
					t.Errorf("partition %d: offset %d value %q, want %d", p, r.Offset, r.Value, i)
				}
				i++
			})
		})
	}
	wg.Wait()
	close(done)
}

// TestFetchBrokerGoesAway: a broker is taken out of the cluster and its
// partitions elsewhere; and connections that break in the middle.
func TestFetchBrokerGoesAway(t *testing.T) {
	fake := cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in"))
	c := open(t, fake.ListenAddrs())
	f := c.NewFetcher(FetcherConfig{MaxWait: 100 * time.Millisecond})
	defer f.Close()
	cl := franz(t, fake)
	var sources []*Source
	for p := int32(0); p < 6; p++ {
		write(t, cl, "in", p, 0, 10)
		sources = append(sources, f.Add(TP{"in", p}, 0))
		readTo(t, sources[p], 0, 10, func(*Record) {})
	}
	if err := fake.RemoveNode(fake.LeaderFor("in", 0)); err != nil {
		t.Fatal(err)
	}
	for p, s := range sources {
		write(t, cl, "in", int32(p), 10, 10)
		readTo(t, s, 10, 20, func(*Record) {})
	}
	var broken atomic.Int32
	fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		if broken.Add(1) < 10 {
			fake.KeepControl()
			return nil, errors.New("broken"), true
		}
		fake.DropControl()
		return nil, nil, false
	})
	for p, s := range sources {
		write(t, cl, "in", int32(p), 20, 10)
		readTo(t, s, 20, 30, func(*Record) {})
	}
	if broken.Load() < 10 {
		t.Fatalf("%d connections were broken", broken.Load())
	}
}

// TestFetchErrorsThatPass: the codes that a partition gets while its leader is
// being settled do not end it.
func TestFetchErrorsThatPass(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(2, "in"))
	c := open(t, fake.ListenAddrs())
	cl := franz(t, fake)
	f := c.NewFetcher(FetcherConfig{MaxWait: 50 * time.Millisecond})
	defer f.Close()
	s := f.Add(TP{"in", 1}, 0)
	at := 0
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.ReplicaNotAvailable, kerr.KafkaStorageError,
		kerr.OffsetNotAvailable, kerr.UnknownServerError, kerr.CorruptMessage, kerr.RequestTimedOut, kerr.OffsetOutOfRange} {
		h := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Partitions: []int32{1}, Err: e, Count: 2})
		write(t, cl, "in", 1, at, 5)
		readTo(t, s, int64(at), int64(at+5), func(*Record) {})
		at += 5
		if h.Hits() == 0 {
			// The request on its way was answered; the next is not.
			write(t, cl, "in", 1, at, 5)
			readTo(t, s, int64(at), int64(at+5), func(*Record) {})
			at += 5
		}
		if h.Hits() == 0 {
			t.Errorf("%s was not injected", e.Message)
		}
		h.Remove()
	}
}

// TestFetchPauses: a partition whose chunks are not released is not asked for
// beyond its bound, others go on, and it goes on when they are.
func TestFetchPauses(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(3, "in"))
	c := open(t, fake.ListenAddrs())
	cl := franz(t, fake, kgo.ProducerBatchMaxBytes(5000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	const n = 20_000
	for p := int32(0); p < 2; p++ {
		write(t, cl, "in", p, 0, n)
	}
	for _, chunks := range []int{1, 2, 3} {
		f := c.NewFetcher(FetcherConfig{PartitionBytes: 10_000, BufferedChunks: chunks, MaxWait: 200 * time.Millisecond})
		slow, fast := f.Add(TP{"in", 0}, 0), f.Add(TP{"in", 1}, 0)
		var held []*Chunk
		for range chunks {
			held = append(held, receive(t, slow))
		}
		count := 0
		readTo(t, fast, 0, n, func(*Record) { count++ })
		select {
		case c := <-slow.C():
			t.Fatalf("a chunk beyond %d: %+v", chunks, c)
		case <-time.After(50 * time.Millisecond):
		}
		if count != n {
			t.Fatal(count)
		}
		// The held chunks are still what they were, and the rest follows.
		next := int64(0)
		var it Iterator
		for _, c := range held {
			if len(c.Raw) > 10_000 {
				t.Fatalf("chunk of %d bytes", len(c.Raw))
			}
			for it.Reset(c); it.Next(); next++ {
				if string(it.Record().Value) != fmt.Sprint(next) {
					t.Fatalf("%q at %d", it.Record().Value, next)
				}
			}
			c.Release()
			c.Release()
		}
		start := time.Now()
		readTo(t, slow, next, n, func(r *Record) {
			if string(r.Value) != fmt.Sprint(next) {
				t.Fatalf("%q at %d", r.Value, next)
			}
			next++
		})
		t.Logf("%d chunks: rest after the pause in %v", chunks, time.Since(start))
		f.Close()
	}
}

// TestFetchJoinsLongPoll: a partition that is added, or goes on, while every
// other waits for data does not wait with them.
func TestFetchJoinsLongPoll(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(8, "in"))
	c := open(t, fake.ListenAddrs())
	cl := franz(t, fake)
	f := c.NewFetcher(FetcherConfig{MaxWait: 5 * time.Second, PartitionBytes: 1000, BufferedChunks: 1})
	defer f.Close()
	for p := int32(0); p < 6; p++ {
		s := f.Add(TP{"in", p}, 0)
		go func() {
			for range s.C() {
			}
		}()
	}
	time.Sleep(100 * time.Millisecond) // both lanes wait now
	write(t, cl, "in", 7, 0, 2000)
	start := time.Now()
	s := f.Add(TP{"in", 7}, 0)
	readTo(t, s, 0, 2000, func(*Record) {})
	if d := time.Since(start); d > 4*time.Second {
		t.Fatalf("%v", d)
	} else {
		t.Logf("added and read in %v", d)
	}
	// Idle for a while it joins the long waits, and what is written comes at once.
	time.Sleep(100 * time.Millisecond)
	start = time.Now()
	write(t, cl, "in", 7, 2000, 1)
	readTo(t, s, 2000, 2001, func(*Record) {})
	if d := time.Since(start); d > 4*time.Second {
		t.Fatalf("%v", d)
	}
}

func TestFetchOutOfRange(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(1, "in"))
	c := open(t, fake.ListenAddrs())
	cl := franz(t, fake, kgo.ProducerBatchMaxBytes(1000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	write(t, cl, "in", 0, 0, 1000)
	if err := fake.DeleteRecords("in", 0, 400); err != nil {
		t.Fatal(err)
	}
	f := c.NewFetcher(FetcherConfig{})
	defer f.Close()
	for _, at := range []int64{0, 399, 1001, 1 << 40} {
		s := f.Add(TP{"in", 0}, at)
		ch := receive(t, s)
		var e *OffsetOutOfRangeError
		if !errors.As(ch.Err, &e) || *e != (OffsetOutOfRangeError{TP{"in", 0}, at, 400, 1000}) || !errors.Is(ch.Err, kafkago.OffsetOutOfRange) {
			t.Fatalf("from %d: %+v", at, ch.Err)
		}
		t.Log(e)
		s.Close()
		if _, ok := <-s.C(); ok {
			t.Fatal("a chunk after the error")
		}
	}
	s := f.Add(TP{"in", 0}, 400)
	first := receive(t, s)
	if first.LogStart != 400 || first.From != 400 {
		t.Fatalf("%+v", first)
	}
	first.Release()
	s.Close()
	s = f.Add(TP{"in", 0}, 1000) // the end is in range
	if c := receive(t, s); c.Err != nil || !c.Empty || c.HighWatermark != 1000 || c.Next != 1000 {
		t.Fatalf("%+v", c)
	}
}

// TestFetchLargeBatch: a batch beyond every limit comes whole (KIP-74), also
// when it is not the first of the response.
func TestFetchLargeBatch(t *testing.T) {
	r := seeded(t)
	fake := cluster(t, kfake.SeedTopics(3, "in"))
	c := open(t, fake.ListenAddrs())
	cl := franz(t, fake, kgo.ProducerBatchCompression(kgo.NoCompression()))
	sizes := map[int32][]int{}
	for p := int32(0); p < 3; p++ {
		for i := 0; i < 10; i++ {
			n := 100 + r.IntN(200_000)
			sizes[p] = append(sizes[p], n)
			if err := cl.ProduceSync(testContext(t), &kgo.Record{Topic: "in", Partition: p, Value: make([]byte, n)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := c.NewFetcher(FetcherConfig{PartitionBytes: 1000, MaxBytes: 2000})
	defer f.Close()
	var wg sync.WaitGroup
	for p := int32(0); p < 3; p++ {
		s := f.Add(TP{"in", p}, 0)
		wg.Go(func() {
			i := 0
			readTo(t, s, 0, 10, func(r *Record) {
				if len(r.Value) != sizes[p][i] {
					t.Errorf("%d bytes, want %d", len(r.Value), sizes[p][i])
				}
				i++
			})
		})
	}
	wg.Wait()
}

// TestFetchIdle: an idle partition tells its offsets at once, when they move, and
// about every second.
func TestFetchIdle(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(1, "in"))
	c := open(t, fake.ListenAddrs())
	f := c.NewFetcher(FetcherConfig{ReadCommitted: true, MaxWait: 20 * time.Millisecond})
	defer f.Close()
	s := f.Add(TP{"in", 0}, 0)
	if c := receive(t, s); !c.Empty || c.HighWatermark != 0 || c.LastStable != 0 {
		t.Fatalf("%+v", c)
	}
	start := time.Now()
	receive(t, s)
	receive(t, s)
	if d := time.Since(start); d < 1500*time.Millisecond {
		t.Fatalf("two idle ones took %v", d)
	}
	x := franz(t, fake, kgo.TransactionalID("x"))
	x.BeginTransaction()
	write(t, x, "in", 0, 0, 3)
	ch := receive(t, s)
	for ch.HighWatermark < 3 { // ticks while franz-go was getting ready
		ch = receive(t, s)
	}
	if c := ch; !c.Empty || c.HighWatermark != 3 || c.LastStable != 0 {
		t.Fatalf("%+v", c)
	}
	x.EndTransaction(testContext(t), kgo.TryCommit)
	n := 0
	readTo(t, s, 0, 4, func(*Record) { n++ })
	if n != 3 {
		t.Fatal(n)
	}
}

// TestFetchSeek: closing a source and adding another is a seek; the old one
// leaves nothing behind, whenever it happens.
func TestFetchSeek(t *testing.T) {
	r := seeded(t)
	fake := cluster(t, kfake.NumBrokers(2), kfake.SeedTopics(2, "in"))
	c := open(t, fake.ListenAddrs())
	cl := franz(t, fake, kgo.ProducerBatchMaxBytes(2000))
	write(t, cl, "in", 0, 0, 5000)
	f := c.NewFetcher(FetcherConfig{PartitionBytes: 5000})
	defer f.Close()
	var it Iterator
	for i := 0; i < 200; i++ {
		from := int64(r.IntN(5000))
		s := f.Add(TP{"in", 0}, from)
		time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
		if r.IntN(2) == 0 {
			c := receive(t, s)
			if c.From != from {
				t.Fatalf("from %d, want %d", c.From, from)
			}
			if r.IntN(2) == 0 {
				s.Close()
			}
			for it.Reset(c); it.Next(); from++ {
				if string(it.Record().Value) != fmt.Sprint(from) {
					t.Fatalf("%q at %d", it.Record().Value, from)
				}
			}
			c.Release()
		}
		s.Close()
		s.Close()
	}
}

func TestFetchUnknownTopic(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(1, "in"))
	c := open(t, fake.ListenAddrs())
	f := c.NewFetcher(FetcherConfig{})
	defer f.Close()
	f.patience = 300 * time.Millisecond
	s := f.Add(TP{"absent", 0}, 0)
	late := f.Add(TP{"late", 0}, 0)
	beyond := f.Add(TP{"in", 7}, 0)
	time.Sleep(100 * time.Millisecond)
	if err := fake.CreateTopic("late", 1, nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Source{s, beyond} {
		if c := receive(t, s); !errors.Is(c.Err, kafkago.UnknownTopicOrPartition) {
			t.Fatalf("%+v", c)
		} else {
			t.Log(c.Err)
		}
	}
	if c := receive(t, late); c.Err != nil || !c.Empty {
		t.Fatalf("%+v", c)
	}
}

// TestFetchWithoutBrokers: a fetcher that cannot reach anyone waits, and Close
// does not.
func TestFetchWithoutBrokers(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, fake.ListenAddrs())
	f := c.NewFetcher(FetcherConfig{MaxWait: 10 * time.Second})
	s := f.Add(TP{"in", 0}, 0)
	receive(t, s)
	fake.Close()
	other := f.Add(TP{"in", 0}, 0)
	time.Sleep(300 * time.Millisecond)
	select {
	case c := <-other.C():
		t.Fatalf("%+v", c)
	default:
	}
	start := time.Now()
	f.Close()
	c.Close()
	if d := time.Since(start); d > 2*time.Second {
		t.Fatalf("closing took %v", d)
	}
	if _, ok := <-s.C(); ok {
		t.Fatal("a chunk after Close")
	}
	if c := f.Add(TP{"in", 0}, 0); c == nil {
		t.Fatal("Add after Close")
	} else if _, ok := <-c.C(); ok {
		t.Fatal("a chunk from a closed fetcher")
	}
}

// TestFetchStress: sources come, go, pause and seek while leaders move and
// connections break; every source's records are right.
func TestFetchStress(t *testing.T) {
	r := seeded(t)
	fake := cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in"))
	c := open(t, fake.ListenAddrs())
	cl := franz(t, fake, kgo.ProducerBatchMaxBytes(3000))
	const n = 4000
	for p := int32(0); p < 6; p++ {
		write(t, cl, "in", p, 0, n)
	}
	var calls atomic.Int32
	fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if calls.Add(1)%50 == 0 {
			return nil, errors.New("broken"), true
		}
		return nil, nil, false
	})
	stop := make(chan struct{})
	var movers sync.WaitGroup
	moves := rand.New(rand.NewPCG(r.Uint64(), 1))
	movers.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
				fake.MoveTopicPartition("in", int32(moves.IntN(6)), int32(moves.IntN(3)))
			}
		}
	})
	f := c.NewFetcher(FetcherConfig{PartitionBytes: 8000, MaxWait: 100 * time.Millisecond})
	var wg sync.WaitGroup
	for w := 0; w < 8; w++ {
		r := rand.New(rand.NewPCG(r.Uint64(), uint64(w)))
		wg.Go(func() {
			var it Iterator
			for round := 0; round < 12; round++ {
				tp := TP{"in", int32(r.IntN(6))}
				at := int64(r.IntN(n))
				s := f.Add(tp, at)
				end := min(at+int64(r.IntN(n)), n)
				for at < end {
					c := receive(t, s)
					if c.Err != nil {
						t.Error(c.Err)
						return
					}
					if r.IntN(10) == 0 {
						time.Sleep(time.Millisecond)
					}
					for it.Reset(c); it.Next(); at++ {
						if string(it.Record().Value) != fmt.Sprint(at) {
							t.Errorf("%s: %q at %d", tp, it.Record().Value, at)
							return
						}
					}
					c.Release()
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	close(stop)
	movers.Wait()
	f.Close()
}

// TestFetchBrokerHangs: a broker that takes requests and says nothing is given up
// as soon as its partitions have another leader, not after the request's time-out.
func TestFetchBrokerHangs(t *testing.T) {
	fake := cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "in"))
	c := open(t, fake.ListenAddrs())
	f := c.NewFetcher(FetcherConfig{MaxWait: 50 * time.Millisecond})
	defer f.Close()
	f.overdue = 100 * time.Millisecond
	cl := franz(t, fake)
	write(t, cl, "in", 0, 0, 10)
	s := f.Add(TP{"in", 0}, 0)
	readTo(t, s, 0, 10, func(*Record) {})
	node := fake.LeaderFor("in", 0)
	var swallowed atomic.Int32
	fake.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		// Metadata of that broker hangs, too.
		if fake.CurrentNode() == node && (r.Key() == int16(kmsg.Fetch) || r.Key() == int16(kmsg.Metadata)) {
			swallowed.Add(1)
			return nil, nil, true
		}
		return nil, nil, false
	})
	for swallowed.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	if err := fake.MoveTopicPartition("in", 0, (node+1)%3); err != nil {
		t.Fatal(err)
	}
	write(t, cl, "in", 0, 10, 10)
	readTo(t, s, 10, 20, func(*Record) {})
	t.Logf("read on after %v", time.Since(start))
}

// TestCloseLeavesNothing: no goroutine and no connection outlives the client.
func TestCloseLeavesNothing(t *testing.T) {
	fake := cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in"))
	before := runtime.NumGoroutine()
	for i := 0; i < 5; i++ {
		c, err := Open(testContext(t), Config{Brokers: fake.ListenAddrs()})
		if err != nil {
			t.Fatal(err)
		}
		f := c.NewFetcher(FetcherConfig{MaxWait: 10 * time.Second})
		for p := int32(0); p < 6; p++ {
			receive(t, f.Add(TP{"in", p}, 0))
		}
		if i%2 == 0 {
			f.Close()
			c.Close()
		} else {
			c.Close()
			f.Close()
		}
		if _, err := c.Topics(testContext(t)); !errors.Is(err, ErrClosed) {
			t.Fatalf("a closed client: %v", err)
		}
		if len(c.conns) != 0 {
			t.Fatalf("%d connections are open", len(c.conns))
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	// kfake's side of the connections ends a little later than ours.
	if n := runtime.NumGoroutine(); n > before {
		buf := make([]byte, 1<<20)
		t.Fatalf("%d goroutines more\n%s", n-before, buf[:runtime.Stack(buf, true)])
	}
}

// TestFranzReadsBatches: what Batches encodes, franz-go decodes, with every codec.
func TestFranzReadsBatches(t *testing.T) {
	r := seeded(t)
	ctx := testContext(t)
	fake := cluster(t, kfake.NumBrokers(1), kfake.SeedTopics(5, "out"))
	cl := franz(t, fake, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"out": {
		0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().AtStart(), 2: kgo.NewOffset().AtStart(),
		3: kgo.NewOffset().AtStart(), 4: kgo.NewOffset().AtStart()}}))
	want := map[int32][]plainRecord{}
	total := 0
	for p := int32(0); p < 5; p++ {
		bt := NewBatches(5000, Codec(p))
		for i := 0; i < 300; i++ {
			rec := randomRecord(r, time.Now().UnixMilli()+int64(r.IntN(10_000)))
			if err := bt.Append(rec.ts, rec.key, rec.value, rec.headers); err != nil {
				t.Fatal(err)
			}
			want[p] = append(want[p], rec)
			total++
		}
		for i := 0; i < bt.sealed(); i++ {
			b := bt.seal(i, -1, -1, -1, false)
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = -1, 5000
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = "out", fake.TopicInfo("out").TopicID
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = p, b[sizePrefix:]
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			res, err := req.RequestWith(ctx, cl)
			if err != nil || res.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatal(res, err)
			}
		}
	}
	at := map[int32]int{}
	for n := 0; n < total; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(got *kgo.Record) {
			w := want[got.Partition][at[got.Partition]]
			at[got.Partition]++
			n++
			var hs []Header
			for _, h := range got.Headers {
				hs = append(hs, Header{h.Key, h.Value})
			}
			if !same(got.Key, w.key) || !same(got.Value, w.value) || got.Timestamp.UnixMilli() != w.ts || !equalHeaders(hs, w.headers) {
				t.Fatalf("partition %d offset %d: %+v, want %+v", got.Partition, got.Offset, got, w)
			}
		})
	}
}
