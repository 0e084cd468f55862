package kafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// TestFetchLeaderMoves: leaders wander while records are written; every record
// comes once and in order.
func TestFetchLeaderMoves(t *testing.T) {
	r := seedtest.New(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{MaxWait: 100 * time.Millisecond})
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
			cl := brokertest.Franz(t, fake.ListenAddrs())
			for i := 0; i < n; i += 100 {
				brokertest.Write(t, cl, "in", p, i, 100)
				time.Sleep(5 * time.Millisecond)
			}
		})
		s := f.Add(brokertest.TP("in", p), 0)
		wg.Go(func() {
			i := 0
			readTo(t, s, 0, n, func(r *record.Record) {
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
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{MaxWait: 100 * time.Millisecond})
	defer f.Close()
	cl := brokertest.Franz(t, fake.ListenAddrs())
	var sources []*FetchSource
	for p := int32(0); p < 6; p++ {
		brokertest.Write(t, cl, "in", p, 0, 10)
		sources = append(sources, f.Add(brokertest.TP("in", p), 0))
		readTo(t, sources[p], 0, 10, func(*record.Record) {})
	}
	if err := fake.RemoveNode(fake.LeaderFor("in", 0)); err != nil {
		t.Fatal(err)
	}
	for p, s := range sources {
		brokertest.Write(t, cl, "in", int32(p), 10, 10)
		readTo(t, s, 10, 20, func(*record.Record) {})
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
		brokertest.Write(t, cl, "in", int32(p), 20, 10)
		readTo(t, s, 20, 30, func(*record.Record) {})
	}
	if broken.Load() < 10 {
		t.Fatalf("%d connections were broken", broken.Load())
	}
}

// TestFetchErrorsThatPass: the codes that a partition gets while its leader changes
// do not end it.
func TestFetchErrorsThatPass(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.SeedTopics(2, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{MaxWait: 50 * time.Millisecond})
	defer f.Close()
	s := f.Add(brokertest.TP("in", 1), 0)
	at := 0
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.ReplicaNotAvailable, kerr.KafkaStorageError,
		kerr.OffsetNotAvailable, kerr.UnknownServerError, kerr.CorruptMessage, kerr.RequestTimedOut, kerr.OffsetOutOfRange} {
		h := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "in", Partitions: []int32{1}, Err: e, Count: 2})
		brokertest.Write(t, cl, "in", 1, at, 5)
		readTo(t, s, int64(at), int64(at+5), func(*record.Record) {})
		at += 5
		if h.Hits() == 0 {
			// The request on its way was answered; the next is not.
			brokertest.Write(t, cl, "in", 1, at, 5)
			readTo(t, s, int64(at), int64(at+5), func(*record.Record) {})
			at += 5
		}
		if h.Hits() == 0 {
			t.Errorf("%s was not injected", e.Message)
		}
		h.Remove()
	}
}

func TestFetchUnknownTopic(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.SeedTopics(1, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{})
	defer f.Close()
	f.patience = 300 * time.Millisecond
	s := f.Add(brokertest.TP("absent", 0), 0)
	late := f.Add(brokertest.TP("late", 0), 0)
	beyond := f.Add(brokertest.TP("in", 7), 0)
	time.Sleep(100 * time.Millisecond)
	if err := fake.CreateTopic("late", 1, nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*FetchSource{s, beyond} {
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
	c := OpenForTest(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{MaxWait: 10 * time.Second})
	s := f.Add(brokertest.TP("in", 0), 0)
	receive(t, s)
	fake.Close()
	other := f.Add(brokertest.TP("in", 0), 0)
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
	if c := f.Add(brokertest.TP("in", 0), 0); c == nil {
		t.Fatal("Add after Close")
	} else if _, ok := <-c.C(); ok {
		t.Fatal("a chunk from a closed fetcher")
	}
}

// TestFetchStress: sources come, go, pause and seek while leaders move and
// connections break; every source's records are right.
func TestFetchStress(t *testing.T) {
	r := seedtest.New(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ProducerBatchMaxBytes(3000))
	const n = 4000
	for p := int32(0); p < 6; p++ {
		brokertest.Write(t, cl, "in", p, 0, n)
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
	f := NewFetcher(c, FetchConfig{PartitionBytes: 8000, MaxWait: 100 * time.Millisecond})
	var wg sync.WaitGroup
	for w := 0; w < 8; w++ {
		r := rand.New(rand.NewPCG(r.Uint64(), uint64(w)))
		wg.Go(func() {
			var it record.Iterator
			for round := 0; round < 12; round++ {
				tp := brokertest.TP("in", int32(r.IntN(6)))
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
					for it.Reset(&c.Chunk); it.Next(); at++ {
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
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "in"))
	c := OpenForTest(t, fake.ListenAddrs())
	f := NewFetcher(c, FetchConfig{MaxWait: 50 * time.Millisecond})
	defer f.Close()
	f.overdue = 100 * time.Millisecond
	cl := brokertest.Franz(t, fake.ListenAddrs())
	brokertest.Write(t, cl, "in", 0, 0, 10)
	s := f.Add(brokertest.TP("in", 0), 0)
	readTo(t, s, 0, 10, func(*record.Record) {})
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
	brokertest.Write(t, cl, "in", 0, 10, 10)
	readTo(t, s, 10, 20, func(*record.Record) {})
	t.Logf("read on after %v", time.Since(start))
}
