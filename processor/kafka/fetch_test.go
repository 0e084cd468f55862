package kafka

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// The other client of these tests is franz-go: it writes what is fetched here
// and reads what is produced here.

// receive waits for the next chunk.
func receive(t testing.TB, s *FetchSource) *Chunk {
	t.Helper()
	select {
	case c, ok := <-s.C():
		if !ok {
			t.Fatalf("%s: closed", s.TP())
		}
		return c
	case <-time.After(kafkatest.Patience):
		t.Fatalf("%s: no chunk for %v", s.TP(), kafkatest.Patience)
	}
	return nil
}

// readTo reads a source until its position is end, checking that positions join.
func readTo(t testing.TB, s *FetchSource, from, end int64, each func(r *record.Record)) {
	t.Helper()
	var it record.Iterator
	for pos := from; pos < end; {
		c := receive(t, s)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		if c.From != pos {
			t.Fatalf("%s: chunk from %d after %d", s.TP(), c.From, pos)
		}
		for it.Reset(&c.Chunk); it.Next(); {
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
	r := seedtest.New(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(5, "a", "b"))
	want := map[record.TP][]brokertest.Record{}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
		kgo.ZstdCompression()}
	for i, codec := range codecs {
		cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ProducerBatchCompression(codec),
			kgo.ProducerBatchMaxBytes(int32(20_000+r.IntN(100_000))))
		for round := 0; round < 3; round++ {
			var rs []*kgo.Record
			for k := 0; k < 1500; k++ {
				tp := brokertest.TP(string('a'+rune(r.IntN(2))), int32(r.IntN(5)))
				p := brokertest.RandomRecord(r, time.Now().UnixMilli()+int64(r.IntN(100_000)))
				p.Offset = int64(len(want[tp]))
				want[tp] = append(want[tp], p)
				rs = append(rs, brokertest.FranzRecord(tp.Topic, tp.Partition, p))
			}
			if err := cl.ProduceSync(brokertest.Within(t), rs...).FirstErr(); err != nil {
				t.Fatalf("codec %d: %v", i, err)
			}
		}
	}
	c := OpenForTest(t, fake.ListenAddrs())
	for round := 0; round < 3; round++ {
		f := NewFetcher(c, FetchConfig{PartitionBytes: 1 << (12 + r.IntN(9)), MaxBytes: 1 << (13 + r.IntN(10)), ReadCommitted: round > 0})
		var wg sync.WaitGroup
		for tp, rs := range want {
			from := int64(0)
			if round > 0 {
				from = int64(r.IntN(len(rs)))
			}
			s := f.Add(tp, from)
			wg.Go(func() {
				var it record.Iterator
				at := from
				for c := range s.C() {
					if c.Err != nil {
						t.Error(c.Err)
						return
					}
					n := 0
					for it.Reset(&c.Chunk); it.Next(); n++ {
						got, w := it.Record(), rs[at]
						if got.Offset != at || got.Timestamp != w.Time || !brokertest.SameHeaders(got.AppendHeaders(nil), w.Headers) ||
							!brokertest.Same(got.Key, w.Key) || !brokertest.Same(got.Value, w.Value) {
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
	ctx := brokertest.Within(t)
	fake := brokertest.Cluster(t, kfake.SeedTopics(1, "in"))
	plain := brokertest.Franz(t, fake.ListenAddrs())
	txn := func(id string) *kgo.Client { return brokertest.Franz(t, fake.ListenAddrs(), kgo.TransactionalID(id)) }
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
	beginTxn := func(cl *kgo.Client) {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	endTxn := func(cl *kgo.Client, how kgo.TransactionEndTry) {
		if err := cl.EndTransaction(ctx, how); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 20; i++ {
		beginTxn(x)
		beginTxn(y)
		put(x, fmt.Sprint("c x", i))
		put(y, fmt.Sprint("aborted y", i))
		put(plain, fmt.Sprint("c plain", i))
		put(y, fmt.Sprint("aborted y again", i))
		if i%3 == 0 {
			endTxn(y, kgo.TryAbort)
			put(x, fmt.Sprint("c x again", i))
			endTxn(x, kgo.TryCommit)
		} else {
			endTxn(x, kgo.TryCommit)
			endTxn(y, kgo.TryAbort)
		}
	}
	stable := fake.PartitionInfo("in", 0).HighWatermark
	beginTxn(y)
	put(y, "open")
	put(plain, "beyond")

	c := OpenForTest(t, fake.ListenAddrs())
	tp := brokertest.TP("in", 0)
	if lso, err := c.Offsets.ListStable(ctx, []record.TP{tp}); err != nil || lso[tp] != stable {
		t.Fatal(lso, err, stable)
	}
	f := NewFetcher(c, FetchConfig{ReadCommitted: true, MaxWait: 50 * time.Millisecond, PartitionBytes: 600})
	defer f.Close()
	s := f.Add(tp, 0)
	var got []string
	readTo(t, s, 0, stable, func(r *record.Record) { got = append(got, string(r.Value)) })
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
	endTxn(y, kgo.TryAbort)
	got = got[:0]
	readTo(t, s, stable, stable+3, func(r *record.Record) { got = append(got, string(r.Value)) })
	if !slices.Equal(got, []string{"beyond"}) {
		t.Fatalf("got %q", got)
	}
	// Any position gives the tail of the same.
	all, err := c.Offsets.ListOffsets(ctx, []record.TP{tp}, Latest)
	if err != nil || all[tp] != stable+3 {
		t.Fatal(all, err)
	}
	for from := int64(0); from < stable; from += 7 {
		s := f.Add(tp, from)
		n := 0
		readTo(t, s, from, stable+3, func(r *record.Record) { n++ })
		m := 0
		s2 := f.Add(tp, 0)
		readTo(t, s2, 0, stable+3, func(r *record.Record) {
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

// TestFetchPauses: a partition whose chunks are not released is fetched up to its limit
// and no further until they are; other partitions continue.
func TestFetchPauses(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.SeedTopics(3, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ProducerBatchMaxBytes(5000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	const n = 20_000
	for p := int32(0); p < 2; p++ {
		brokertest.Write(t, cl, "in", p, 0, n)
	}
	for _, chunks := range []int{1, 2, 3} {
		f := NewFetcher(c, FetchConfig{PartitionBytes: 10_000, BufferedChunks: chunks, MaxWait: 200 * time.Millisecond})
		slow, fast := f.Add(brokertest.TP("in", 0), 0), f.Add(brokertest.TP("in", 1), 0)
		var held []*Chunk
		for range chunks {
			held = append(held, receive(t, slow))
		}
		count := 0
		readTo(t, fast, 0, n, func(*record.Record) { count++ })
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
		var it record.Iterator
		for _, c := range held {
			if len(c.Raw) > 10_000 {
				t.Fatalf("chunk of %d bytes", len(c.Raw))
			}
			for it.Reset(&c.Chunk); it.Next(); next++ {
				if string(it.Record().Value) != fmt.Sprint(next) {
					t.Fatalf("%q at %d", it.Record().Value, next)
				}
			}
			c.Release()
			c.Release()
		}
		start := time.Now()
		readTo(t, slow, next, n, func(r *record.Record) {
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
	fake := brokertest.Cluster(t, kfake.SeedTopics(8, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{MaxWait: 5 * time.Second, PartitionBytes: 1000, BufferedChunks: 1})
	defer f.Close()
	for p := int32(0); p < 6; p++ {
		s := f.Add(brokertest.TP("in", p), 0)
		go func() {
			for range s.C() {
			}
		}()
	}
	time.Sleep(100 * time.Millisecond) // both lanes wait now
	brokertest.Write(t, cl, "in", 7, 0, 2000)
	start := time.Now()
	s := f.Add(brokertest.TP("in", 7), 0)
	readTo(t, s, 0, 2000, func(*record.Record) {})
	if d := time.Since(start); d > 4*time.Second {
		t.Fatalf("%v", d)
	} else {
		t.Logf("added and read in %v", d)
	}
	// Idle for a while it joins the long waits, and what is written comes at once.
	time.Sleep(100 * time.Millisecond)
	start = time.Now()
	brokertest.Write(t, cl, "in", 7, 2000, 1)
	readTo(t, s, 2000, 2001, func(*record.Record) {})
	if d := time.Since(start); d > 4*time.Second {
		t.Fatalf("%v", d)
	}
}

func TestFetchOutOfRange(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.SeedTopics(1, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ProducerBatchMaxBytes(1000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	brokertest.Write(t, cl, "in", 0, 0, 1000)
	if err := fake.DeleteRecords("in", 0, 400); err != nil {
		t.Fatal(err)
	}
	f := NewFetcher(c, FetchConfig{})
	defer f.Close()
	for _, at := range []int64{0, 399, 1001, 1 << 40} {
		s := f.Add(brokertest.TP("in", 0), at)
		ch := receive(t, s)
		var e *OffsetOutOfRangeError
		if !errors.As(ch.Err, &e) || *e != (OffsetOutOfRangeError{brokertest.TP("in", 0), at, 400, 1000}) || !errors.Is(ch.Err,
			kafkago.OffsetOutOfRange) {
			t.Fatalf("from %d: %+v", at, ch.Err)
		}
		t.Log(e)
		s.Close()
		if _, ok := <-s.C(); ok {
			t.Fatal("a chunk after the error")
		}
	}
	s := f.Add(brokertest.TP("in", 0), 400)
	first := receive(t, s)
	if first.LogStart != 400 || first.From != 400 {
		t.Fatalf("%+v", first)
	}
	first.Release()
	s.Close()
	s = f.Add(brokertest.TP("in", 0), 1000) // the end is in range
	if c := receive(t, s); c.Err != nil || !c.Empty || c.HighWatermark != 1000 || c.Next != 1000 {
		t.Fatalf("%+v", c)
	}
}

// TestFetchLargeBatch: a batch beyond every limit comes whole (KIP-74), also
// when it is not the first of the response.
func TestFetchLargeBatch(t *testing.T) {
	r := seedtest.New(t)
	fake := brokertest.Cluster(t, kfake.SeedTopics(3, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	sizes := map[int32][]int{}
	for p := int32(0); p < 3; p++ {
		for i := 0; i < 10; i++ {
			n := 100 + r.IntN(200_000)
			sizes[p] = append(sizes[p], n)
			if err := cl.ProduceSync(brokertest.Within(t), &kgo.Record{Topic: "in", Partition: p, Value: make([]byte,
				n)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := NewFetcher(c, FetchConfig{PartitionBytes: 1000, MaxBytes: 2000})
	defer f.Close()
	var wg sync.WaitGroup
	for p := int32(0); p < 3; p++ {
		s := f.Add(brokertest.TP("in", p), 0)
		wg.Go(func() {
			i := 0
			readTo(t, s, 0, 10, func(r *record.Record) {
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
	fake := brokertest.Cluster(t, kfake.SeedTopics(1, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{ReadCommitted: true, MaxWait: 20 * time.Millisecond})
	defer f.Close()
	s := f.Add(brokertest.TP("in", 0), 0)
	if c := receive(t, s); !c.Empty || c.HighWatermark != 0 || c.LastStable != 0 {
		t.Fatalf("%+v", c)
	}
	start := time.Now()
	receive(t, s)
	receive(t, s)
	if d := time.Since(start); d < 1500*time.Millisecond {
		t.Fatalf("two idle ones took %v", d)
	}
	x := brokertest.Franz(t, fake.ListenAddrs(), kgo.TransactionalID("x"))
	x.BeginTransaction()
	brokertest.Write(t, x, "in", 0, 0, 3)
	ch := receive(t, s)
	for ch.HighWatermark < 3 { // ticks while franz-go was getting ready
		ch = receive(t, s)
	}
	if c := ch; !c.Empty || c.HighWatermark != 3 || c.LastStable != 0 {
		t.Fatalf("%+v", c)
	}
	x.EndTransaction(brokertest.Within(t), kgo.TryCommit)
	n := 0
	readTo(t, s, 0, 4, func(*record.Record) { n++ })
	if n != 3 {
		t.Fatal(n)
	}
}

// TestFetchSeek: closing a source and adding another is a seek; the old one
// leaves nothing behind, whenever it happens.
func TestFetchSeek(t *testing.T) {
	r := seedtest.New(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(2), kfake.SeedTopics(2, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ProducerBatchMaxBytes(2000))
	brokertest.Write(t, cl, "in", 0, 0, 5000)
	f := NewFetcher(c, FetchConfig{PartitionBytes: 5000})
	defer f.Close()
	var it record.Iterator
	for i := 0; i < 200; i++ {
		from := int64(r.IntN(5000))
		s := f.Add(brokertest.TP("in", 0), from)
		time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
		if r.IntN(2) == 0 {
			c := receive(t, s)
			if c.From != from {
				t.Fatalf("from %d, want %d", c.From, from)
			}
			if r.IntN(2) == 0 {
				s.Close()
			}
			for it.Reset(&c.Chunk); it.Next(); from++ {
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
