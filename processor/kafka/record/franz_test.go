package record_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// TestFranzReadsBatches: what Batches encodes, franz-go decodes, with every codec.
func TestFranzReadsBatches(t *testing.T) {
	r := seedtest.New(t)
	ctx := brokertest.Within(t)
	fake := brokertest.Cluster(t, kfake.NumBrokers(1), kfake.SeedTopics(5, "out"))
	cl := brokertest.Franz(t, fake.ListenAddrs(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"out": {
		0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().AtStart(), 2: kgo.NewOffset().AtStart(),
		3: kgo.NewOffset().AtStart(), 4: kgo.NewOffset().AtStart()}}))
	want := map[int32][]brokertest.Record{}
	total := 0
	for p := int32(0); p < 5; p++ {
		bt := record.NewBatches(5000, record.Codec(p))
		for i := 0; i < 300; i++ {
			rec := brokertest.RandomRecord(r, time.Now().UnixMilli()+int64(r.IntN(10_000)))
			if err := bt.Append(rec.Time, rec.Key, rec.Value, brokertest.Headers[record.Header](rec)); err != nil {
				t.Fatal(err)
			}
			want[p] = append(want[p], rec)
			total++
		}
		for i := 0; i < bt.Finish(); i++ {
			b := bt.Seal(i, -1, -1, -1, false)
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = -1, 5000
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = "out", fake.TopicInfo("out").TopicID
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = p, b[record.SizePrefix:]
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
			if !brokertest.Same(got.Key, w.Key) || !brokertest.Same(got.Value, w.Value) || got.Timestamp.UnixMilli() != w.Time ||
				!brokertest.SameHeaders(got.Headers, w.Headers) {
				t.Fatalf("partition %d offset %d: %+v, want %+v", got.Partition, got.Offset, got, w)
			}
		})
	}
}
