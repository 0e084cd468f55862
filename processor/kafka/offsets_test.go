package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var noGroup = Generation{ID: -1}

func TestCommitAndCommitted(t *testing.T) {
	ctx := brokertest.Within(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "a", "b"))
	c := open(t, fake.ListenAddrs())
	tps := []TP{brokertest.TP("b", 3), brokertest.TP("a", 0), brokertest.TP("a", 2), brokertest.TP("b", 0)}
	got, err := c.Offsets.Committed(ctx, "g", tps)
	if err != nil || len(got) != 4 || got[tps[0]].Offset != -1 {
		t.Fatalf("unknown group: %v, %v", got, err)
	}
	want := map[TP]Offset{brokertest.TP("a", 2): {Offset: 7, Metadata: "1;2;3"}, brokertest.TP("b", 3): {Offset: 1 << 40}}
	if err := c.Offsets.CommitOffsets(ctx, noGroup, "g", want); err != nil {
		t.Fatal(err)
	}
	// The other client sees the same.
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = "g"
	res, err := req.RequestWith(ctx, brokertest.Franz(t, fake.ListenAddrs()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, topic := range res.Topics {
		for _, p := range topic.Partitions {
			n++
			meta := ""
			if p.Metadata != nil {
				meta = *p.Metadata
			}
			if w := want[brokertest.TP(topic.Topic, p.Partition)]; p.Offset != w.Offset || meta != w.Metadata || p.LeaderEpoch != -1 {
				t.Errorf("%s/%d: %+v, want %+v", topic.Topic, p.Partition, p, w)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d partitions", n)
	}
	got, err = c.Offsets.Committed(ctx, "g", tps)
	if err != nil || len(got) != 4 || got[brokertest.TP("a", 2)] != want[brokertest.TP("a", 2)] || got[brokertest.TP("b",
		3)] != want[brokertest.TP("b", 3)] ||
		got[brokertest.TP("a", 0)].Offset != -1 || got[brokertest.TP("b", 0)].Offset != -1 {
		t.Fatalf("%v, %v", got, err)
	}

	// A coordinator that moves, and one that is not ready.
	fake.RehashCoordinators()
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch, kmsg.OffsetCommit}, Group: "g", Err: kerr.CoordinatorLoadInProgress, Count: 3})
	if err := c.Offsets.CommitOffsets(ctx, noGroup, "g", map[TP]Offset{brokertest.TP("a", 2): {Offset: 8, Metadata: "x"}}); err != nil {
		t.Fatal(err)
	}
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "g", Err: kerr.NotCoordinator, Count: 2})
	if got, err = c.Offsets.Committed(ctx, "g", tps); err != nil || got[brokertest.TP("a", 2)] != (Offset{Offset: 8, Metadata: "x"}) {
		t.Fatalf("%v, %v", got, err)
	}
	// Outside of the membership, a commit is refused and says so.
	err = c.Offsets.CommitOffsets(ctx, Generation{ID: 5, MemberID: "nobody"}, "g", want)
	var oe *OffsetError
	if !errors.As(err, &oe) || ClassOf(err) != Rebalance {
		t.Fatalf("%v", err)
	}
	t.Log(err)
}

// TestCommittedWaitsForTransaction: a position in an open transaction is waited
// for, and not the one before it taken.
func TestCommittedWaitsForTransaction(t *testing.T) {
	ctx := brokertest.Within(t)
	fake := brokertest.Cluster(t, kfake.SeedTopics(1, "in"))
	c := open(t, fake.ListenAddrs())
	tp := brokertest.TP("in", 0)
	if err := c.Offsets.CommitOffsets(ctx, noGroup, "g", map[TP]Offset{tp: {Offset: 1, Metadata: "before"}}); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []bool{false, true} {
		x := brokertest.Franz(t, fake.ListenAddrs(), kgo.TransactionalID("x"), kgo.MaxVersions(kversion.V3_9_0())) // topics by name
		if err := x.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		brokertest.Write(t, x, "in", 0, 0, 1)
		id, epoch, err := x.ProducerID(ctx)
		if err != nil {
			t.Fatal(err)
		}
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "x", id, epoch, "g"
		if res, err := add.RequestWith(ctx, x); err != nil || res.ErrorCode != 0 {
			t.Fatal(res, err)
		}
		put := kmsg.NewPtrTxnOffsetCommitRequest()
		put.TransactionalID, put.ProducerID, put.ProducerEpoch, put.Group, put.Generation = "x", id, epoch, "g", -1
		after := "after"
		put.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{
			{Partition: 0, Offset: 2, LeaderEpoch: -1, Metadata: &after}}}}
		if res, err := put.RequestWith(ctx, x); err != nil || res.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatal(res, err)
		}

		for limit := 500 * time.Millisecond; ; limit *= 2 { // more on a busy machine
			short, cancel := context.WithTimeout(ctx, limit)
			got, err := c.Offsets.Committed(short, "g", []TP{tp})
			cancel()
			if errors.Is(err, kafkago.UnstableOffsetCommit) {
				t.Log(err)
				break
			}
			if err == nil || limit > 5*time.Second {
				t.Fatalf("%v, %v", got, err)
			}
		}
		how, want := kgo.TryAbort, Offset{Offset: 1, Metadata: "before"}
		if commit {
			how, want = kgo.TryCommit, Offset{Offset: 2, Metadata: "after"}
		}
		time.AfterFunc(200*time.Millisecond, func() {
			if err := x.EndTransaction(ctx, how); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		got, err := c.Offsets.Committed(ctx, "g", []TP{tp})
		if err != nil || got[tp] != want {
			t.Fatalf("commit %v: %v, %v; want %v", commit, got, err, want)
		}
		t.Logf("waited %v", time.Since(start))
		x.Close()
	}
}

func TestListOffsets(t *testing.T) {
	ctx := brokertest.Within(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(3, "in"))
	c := open(t, fake.ListenAddrs())
	cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ProducerBatchMaxBytes(2000))
	base := time.Now().Truncate(time.Second).Add(-time.Hour)
	var tps []TP
	for p := int32(0); p < 3; p++ {
		tps = append(tps, brokertest.TP("in", p))
		for i := 0; i < 100*int(p); i++ {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "in", Partition: p, Value: []byte(fmt.Sprint(i)),
				Timestamp: base.Add(time.Duration(i) * time.Second)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := fake.DeleteRecords("in", 2, 50); err != nil {
		t.Fatal(err)
	}
	check := func(at int64, want ...int64) {
		t.Helper()
		got, err := c.Offsets.ListOffsets(ctx, tps, at)
		if err != nil || len(got) != 3 {
			t.Fatal(got, err)
		}
		for p, w := range want {
			if got[tps[p]] != w {
				t.Errorf("at %d: %v, want %v", at, got, want)
			}
		}
	}
	check(Latest, 0, 100, 200)
	check(Earliest, 0, 0, 50)
	check(base.UnixMilli(), 0, 0, 50)
	check(base.Add(60*time.Second).UnixMilli(), 0, 60, 60)
	check(base.Add(60*time.Second+1).UnixMilli(), 0, 60, 60) // ms
	check(base.Add(99*time.Second+time.Millisecond).UnixMilli(), 0, 100, 100)
	check(base.Add(10000*time.Second).UnixMilli(), 0, 100, 200)
	// Leaders that moved since they were learnt, and one not known at first.
	for p := int32(0); p < 3; p++ {
		fake.MoveTopicPartition("in", p, (fake.LeaderFor("in", p)+1)%3)
	}
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "in", Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: 2})
	check(Latest, 0, 100, 200)
	if got, err := c.Offsets.ListStable(ctx, tps); err != nil || got[tps[2]] != 200 {
		t.Fatal(got, err)
	}
	if got, err := c.Offsets.ListOffsets(ctx, nil, Latest); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second) // of which nearly all is between two attempts
	defer cancel()
	if _, err := c.Offsets.ListOffsets(short, []TP{brokertest.TP("absent", 0)}, Latest); !errors.Is(err, kafkago.UnknownTopicOrPartition) {
		t.Fatal(err)
	} else {
		t.Log(err)
	}
}

// TestCommittedEpoch: the epoch of a position is committed with it, in a
// transaction or not, and comes back; so do positions without one.
func TestCommittedEpoch(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		in := k.Topic(t, "in", 3)
		group := kafkatest.Unique("g")
		want := map[TP]Offset{brokertest.TP(in, 0): {Offset: 7, Metadata: "m", Epoch: record.EpochOf(3)}, brokertest.TP(in, 1): {Offset: 8},
			brokertest.TP(in, 2): {Offset: 9, Epoch: record.EpochOf(0)}}
		tps := []TP{brokertest.TP(in, 0), brokertest.TP(in, 1), brokertest.TP(in, 2)}
		for _, commit := range []func() error{
			func() error { return c.Offsets.CommitOffsets(ctx, noGroup, group, want) },
			func() error {
				p := newProducer(t, c, kafkatest.Unique("tx"))
				for tp, off := range want {
					off.Offset += 10
					want[tp] = off
				}
				return errors.Join(p.Send(ctx, nil, noGroup, group, want), p.End(ctx, true))
			},
		} {
			brokertest.Must(t, commit())
			got, err := c.Offsets.Committed(ctx, group, tps)
			brokertest.Must(t, err)
			for tp, w := range want {
				if got[tp] != w {
					t.Errorf("%s: %+v, want %+v", tp, got[tp], w)
				}
			}
		}
	})
}
