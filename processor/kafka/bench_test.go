package kafka

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// BenchmarkDecode reads a response of 16 partitions with 64 KiB each, from memory, and
// scans its batch headers.
func BenchmarkDecode(b *testing.B) {
	batches := simple(b, 0, 5000)
	res := kmsg.NewPtrFetchResponse()
	res.Version = 11
	rt := kmsg.NewFetchResponseTopic()
	rt.Topic = "in"
	var tps []record.TP
	for p := range int32(16) {
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition, rp.HighWatermark, rp.LastStableOffset, rp.RecordBatches = p, 5000, 5000, batches
		rt.Partitions = append(rt.Partitions, rp)
		tps = append(tps, brokertest.TP("in", p))
	}
	res.Topics = append(res.Topics, rt)
	whole := brokertest.Answer(1, res.AppendTo(nil)).Reader.(*bytes.Reader)
	q := fetchOf(tps...)
	b.SetBytes(whole.Size())
	b.ReportAllocs()
	for b.Loop() {
		whole.Seek(0, 0)
		if err := q.decode(whole, 11, 1); err != nil {
			b.Fatal(err)
		}
		for i := range q.partitions {
			p := &q.partitions[i]
			if _, n, _, err := record.Scan(p.records.b, 0, 5000); n != len(batches) || err != nil {
				b.Fatal(n, err)
			}
			putBuffer(p.records)
			p.records = nil
		}
	}
}

// BenchmarkFetch reads 8 partitions of a kfake cluster from the start to the end, up to
// the last chunk's release. Most of the time is kfake's.
func BenchmarkFetch(b *testing.B) {
	const partitions, records, size = 8, 4000, 100
	fake := brokertest.Cluster(b, kfake.NumBrokers(3), kfake.SeedTopics(partitions, "in"))
	cl := brokertest.Franz(b, fake.ListenAddrs(), kgo.ProducerLinger(0))
	var rs []*kgo.Record
	for i := range partitions * records {
		rs = append(rs, &kgo.Record{Topic: "in", Partition: int32(i % partitions), Value: make([]byte, size)})
	}
	if err := cl.ProduceSync(brokertest.Within(b), rs...).FirstErr(); err != nil {
		b.Fatal(err)
	}
	c := OpenForTest(b, fake.ListenAddrs())
	b.SetBytes(partitions * records * size)
	b.ReportAllocs()
	for b.Loop() {
		f := NewFetcher(c, FetchConfig{ReadCommitted: true, PartitionBytes: 64 << 10})
		for p := range int32(partitions) {
			s := f.Add(brokertest.TP("in", p), 0)
			for next := int64(0); next < records; {
				ch := <-s.C()
				if ch.Err != nil {
					b.Fatal(ch.Err)
				}
				next = ch.Next
				ch.Release()
			}
		}
		f.Close()
	}
}
