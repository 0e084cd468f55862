package kafka

import (
	"encoding/binary"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopics(t *testing.T) {
	ctx := brokertest.Within(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(3))
	c := open(t, fake.ListenAddrs())
	configs := map[string]string{"cleanup.policy": "compact", "max.message.bytes": "2000000"}
	if err := c.Admin.CreateTopic(ctx, "log", 5, 3, configs); err != nil {
		t.Fatal(err)
	}
	if err := c.Admin.CreateTopic(ctx, "log", 7, 1, nil); err != nil {
		t.Fatalf("again: %v", err)
	}
	if err := c.Admin.CreateTopic(ctx, "default", 2, -1, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Admin.CreateTopic(ctx, "wide", 2, 9, nil); err == nil {
		t.Fatal("nine replicas on three brokers")
	} else {
		t.Log(err)
	}
	if _, err := c.Cluster.findLeader(ctx, brokertest.TP("log", 4)); err != nil {
		t.Fatal(err)
	}
	infos, err := c.Admin.Topics(ctx, "log", "absent")
	if err != nil {
		t.Fatal(err)
	}
	if i := infos["log"]; !i.Exists || !i.Authorized || i.Partitions != 5 || i.Replication != 3 || i.Leaderless != 0 ||
		!i.Operations.Has(OpWrite) {
		t.Errorf("%+v", i)
	}
	if i := infos["absent"]; i.Exists || !i.Authorized || i.Partitions != 0 {
		t.Errorf("%+v", i)
	}
	all, err := c.Admin.Topics(ctx)
	if err != nil || !all["log"].Exists || !all["default"].Exists {
		t.Errorf("%+v %v", all, err)
	}
	cfg, err := c.Admin.TopicConfig(ctx, "log")
	if err != nil || cfg["cleanup.policy"] != "compact" || cfg["max.message.bytes"] != "2000000" || cfg["retention.ms"] == "" {
		t.Errorf("%v %v", cfg, err)
	}
	if _, err := c.Admin.TopicConfig(ctx, "absent"); err == nil {
		t.Error("configuration of an absent topic")
	} else {
		t.Log(err)
	}
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteTopics}, Topic: "log", Err: kerr.NotController})
	if err := c.Admin.DeleteTopic(ctx, "log"); err != nil {
		t.Error(err)
	}
	if err := c.Admin.DeleteTopic(ctx, "log"); err != nil {
		t.Error(err)
	}
	if infos, err = c.Admin.Topics(ctx, "log"); err != nil || infos["log"].Exists {
		t.Errorf("%+v %v", infos, err)
	}
}

// TestPartition: the values of Kafka's own test (UtilsTest.testMurmur2), and the
// same partitions as franz-go's partitioner, which keeps to the Java client's.
func TestPartition(t *testing.T) {
	for in, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(in))); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
	r := seedtest.New(t)
	franz := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for i := 0; i < 2000; i++ {
		key := brokertest.RandomBytes(r, 1+r.IntN(40))
		if i%2 == 0 {
			key = binary.LittleEndian.AppendUint64(key, r.Uint64())
		}
		n := 1 + r.IntN(100)
		if got, want := Partition(key, n), franz.Partition(&kgo.Record{Key: key}, n); int(got) != want {
			t.Fatalf("%x of %d: %d, want %d", key, n, got, want)
		}
	}
}
