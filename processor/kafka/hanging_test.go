package kafka

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafkatest"
)

// TestHangingWire compares the two requests and their responses with another client's codec.
func TestHangingWire(t *testing.T) {
	d := &describeProducers{tps: []TP{brokertest.TP("a", 0), brokertest.TP("a", 2), brokertest.TP("b", 1)}}
	res := kmsg.NewPtrDescribeProducersResponse()
	for _, tp := range []TP{brokertest.TP("b", 1), brokertest.TP("a", 0)} {
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = tp.Topic
		p := kmsg.NewDescribeProducersResponseTopicPartition()
		p.Partition, p.ErrorMessage = tp.Partition, kmsg.StringPtr("why")
		if tp.Topic == "b" {
			p.ErrorCode = 29
		}
		for _, start := range []int64{-1, 1 << 40} {
			p.ActiveProducers = append(p.ActiveProducers, kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
				ProducerID: 1 << 41, ProducerEpoch: 32766, LastSequence: 7, LastTimestamp: 8, CoordinatorEpoch: 3, CurrentTxnStartOffset: start})
		}
		topic.Partitions = append(topic.Partitions, p)
		res.Topics = append(res.Topics, topic)
	}
	w := brokertest.Answer(42, res.AppendTo([]byte{0})) // after the header's tagged fields
	_, err := d.Exchange(w, 0, 42, "client")
	brokertest.Must(t, err)
	asked := kmsg.NewPtrDescribeProducersRequest()
	brokertest.Must(t, asked.ReadFrom(w.Sent.Bytes()[15+len("client"):]))
	if fmt.Sprint(asked.Topics[0].Topic, asked.Topics[0].Partitions, asked.Topics[1].Topic, asked.Topics[1].Partitions) != "a[0 2]b[1]" {
		t.Errorf("%+v", asked)
	}
	open := OpenTransaction{TP: brokertest.TP("a", 0), ProducerID: 1 << 41, Epoch: 32766, Start: 1 << 40, coordinator: 3}
	if len(d.open) != 2 || d.open[1] != open || d.code != kafkago.TopicAuthorizationFailed || d.refused != brokertest.TP("b", 1) {
		t.Errorf("%+v", d)
	}

	for _, commit := range []bool{false, true} {
		answer := kmsg.NewPtrWriteTxnMarkersResponse()
		answer.Version = writeMarkersVersion
		answer.Markers = []kmsg.WriteTxnMarkersResponseMarker{{ProducerID: open.ProducerID, Topics: []kmsg.WriteTxnMarkersResponseMarkerTopic{
			{Topic: "a", Partitions: []kmsg.WriteTxnMarkersResponseMarkerTopicPartition{{Partition: 0, ErrorCode: 47}}}}}}
		w := brokertest.Answer(42, answer.AppendTo([]byte{0}))
		m := &writeMarker{open: open, commit: commit}
		_, err := m.Exchange(w, 0, 42, "client")
		brokertest.Must(t, err)
		sent := kmsg.NewPtrWriteTxnMarkersRequest()
		sent.Version = writeMarkersVersion
		brokertest.Must(t, sent.ReadFrom(w.Sent.Bytes()[15+len("client"):]))
		got := sent.Markers[0]
		if m.code != kafkago.InvalidProducerEpoch || got.ProducerID != open.ProducerID || got.ProducerEpoch != open.Epoch ||
			got.Committed != commit || got.CoordinatorEpoch != 3 || got.Topics[0].Topic != "a" ||
			!slices.Equal(got.Topics[0].Partitions, []int32{0}) {
			t.Errorf("%+v, code %d", got, m.code)
		}
	}
}

// TestHanging: what is open in partitions, what the coordinator's log says of it, and the marker that ends it. Transactions hang only
// where all brokers are killed (bench faults), so here the marker ends one that its producer has open.
func TestHanging(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		if !k.Real() {
			t.Skip("kfake has no log of its coordinators")
		}
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 2)
		group, prefix := kafkatest.Unique("g"), kafkatest.Unique("tx")+"-"
		outputs := []TP{brokertest.TP(out, 0), brokertest.TP(out, 1)}
		opened := func() map[TP]OpenTransaction {
			t.Helper()
			list, err := c.Cluster.OpenTransactions(ctx, group, []string{out})
			brokertest.Must(t, err)
			by := map[TP]OpenTransaction{}
			for _, o := range list {
				by[o.TP] = o
			}
			return by
		}
		p := newProducer(t, c, prefix+"1")
		begin := func(prefix string) {
			t.Helper()
			brokertest.Must(t, p.Send(ctx, brokertest.Batches(t, out, 2, 10, prefix), noGroup, group,
				map[TP]Offset{brokertest.TP(in, 0): {Offset: 1}}))
		}
		var all []OpenTransaction
		want := map[int16]bool{}
		for i, commit := range []bool{true, false, true} {
			begin(fmt.Sprint("n", i))
			id, epoch := p.ID()
			by := opened()
			n, err := c.Cluster.Partitions(ctx, offsetsTopic)
			brokertest.Must(t, err)
			for _, tp := range append(outputs, partitionOf(offsetsTopic, group, n)) {
				if o := by[tp]; o.ProducerID != id || o.Epoch != epoch || i == 0 && tp.Topic == out && o.Start != 0 {
					t.Fatalf("%s: %+v, want producer %d with epoch %d", tp, o, id, epoch)
				}
				all = append(all, by[tp])
			}
			brokertest.Must(t, p.End(ctx, commit))
			want[epoch] = commit
		}
		begin("last")
		id, epoch := p.ID()
		last := opened()
		all = append(all, slices.Collect(maps.Values(last))...)
		if !k.TransactionsV2() {
			want = nil // an epoch is not of one transaction
		}
		decided := func(prefix string) map[OpenTransaction]bool {
			t.Helper()
			d, err := Decisions(ctx, c, TransactionalIDs{Prefix: prefix}, all)
			brokertest.Must(t, err)
			one, err := Decisions(ctx, c, TransactionalIDs{ID: prefix + "1"}, all)
			brokertest.Must(t, err)
			if len(d) > len(one) {
				t.Errorf("of the prefix %v, of the id %v", d, one)
			}
			return d
		}
		got := map[int16]bool{}
		brokertest.Eventually(t, "all decisions are carried out", func() bool {
			clear(got)
			for o, commit := range decided(prefix) {
				got[o.Epoch] = commit
			}
			return len(got) >= len(want)
		})
		if !maps.Equal(got, want) {
			t.Errorf("decided %v, want %v; the open one has epoch %d", got, want, epoch)
		}
		if other := decided("other-"); len(other) > 0 {
			t.Errorf("of another application: %v", other)
		}

		tp := brokertest.TP(out, 0)
		stale := last[tp]
		stale.Epoch--
		if err := c.Cluster.EndTransaction(ctx, stale, false); k.TransactionsV2() && ClassOf(err) != Fenced {
			t.Errorf("the marker of an older transaction: %v, want a refusal", err)
		}
		brokertest.Must(t, c.Cluster.EndTransaction(ctx, last[tp], true))
		brokertest.Eventually(t, "the marker is there", func() bool { _, still := opened()[tp]; return !still })
		if o := opened()[brokertest.TP(out, 1)]; o.ProducerID != id {
			t.Errorf("the marker of a partition has ended others: %+v", o)
		}
		if v := brokertest.Values(t, k, out, true)[0]; len(v) != 30 {
			t.Errorf("%d committed values, want 30", len(v))
		}
	})
}

// TestTransactionState: a value that is cut is an error, and one that is not known is not believed.
func TestTransactionState(t *testing.T) {
	old := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 5, 0, 0, 0, 1, completeCommit, 0xff, 0xff, 0xff, 0xff}
	if s, err := parseTransactionState(old); err != nil || s != (transactionState{producerID: 9, epoch: 5, status: completeCommit}) {
		t.Errorf("%+v, %v", s, err)
	}
	flexible := append(slices.Clone(old[:17]), 2, 2, 'a', 2, 0, 0, 0, 7, 0)
	flexible = append(flexible, make([]byte, 16)...)
	flexible = append(flexible, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 3, clientVersionTag, 2, 0, 2)
	flexible[1] = 1
	known := transactionState{producerID: 9, epoch: 5, status: completeCommit, version: 2}
	if s, err := parseTransactionState(flexible); err != nil || s != known {
		t.Errorf("%+v, %v", s, err)
	}
	later := slices.Clone(flexible)
	later[1] = 2
	if s, err := parseTransactionState(later); err != nil || s.version != 0 {
		t.Errorf("of a later format: %+v, %v", s, err)
	}
	for i := range flexible {
		if s, err := parseTransactionState(flexible[:i]); err == nil && s.version == 2 {
			t.Errorf("%d of %d bytes: %+v", i, len(flexible), s)
		}
	}
	_, ok := transactionalID([]byte{0, 1, 0, 1, 'a'})
	if id, known := transactionalID([]byte{0, 0, 0, 1, 'a'}); ok || !known || id != "a" {
		t.Errorf("ids: %t, %q %t", ok, id, known)
	}
}

// TestDecisionsOfVersions: only in version 2 has each transaction an epoch of its own.
func TestDecisionsOfVersions(t *testing.T) {
	o := OpenTransaction{ProducerID: 9, Epoch: 5}
	for _, c := range []struct {
		what    string
		records []transactionState
		want    map[OpenTransaction]bool
	}{
		{"committed", []transactionState{{9, 6, completeCommit, 2}}, map[OpenTransaction]bool{o: true}},
		{"aborted", []transactionState{{9, 6, completeAbort, 2}}, map[OpenTransaction]bool{o: false}},
		{"not carried out", []transactionState{{9, 6, 2, 2}, {9, 6, 3, 2}}, map[OpenTransaction]bool{}},
		{"of another producer", []transactionState{{8, 6, completeCommit, 2}}, map[OpenTransaction]bool{}},
		{"of version 1", []transactionState{{9, 5, completeCommit, 1}, {9, 6, completeCommit, 1}}, map[OpenTransaction]bool{}},
		{"committed in version 1, the next one fenced in 2", []transactionState{{9, 5, completeCommit, 1}, {9, 6, completeAbort, 2}},
			map[OpenTransaction]bool{}},
		{"the same in another order", []transactionState{{9, 6, completeAbort, 2}, {9, 5, completeCommit, 0}}, map[OpenTransaction]bool{}},
	} {
		d := decisions{open: []OpenTransaction{o}, decided: map[OpenTransaction]bool{}, unclear: map[OpenTransaction]bool{}}
		for i := range c.records {
			d.note(&c.records[i])
		}
		if got := d.certain(); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestOffsetsPartition: where the coordinator of a group keeps its offsets.
func TestOffsetsPartition(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		if !k.Real() {
			t.Skip("kfake keeps offsets elsewhere")
		}
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		in := k.Topic(t, "in", 1)
		for _, group := range []string{kafkatest.Unique("g"), kafkatest.Unique("grün-€-😀"), kafkatest.Unique("a.b_c-9")} {
			p := newProducer(t, c, kafkatest.Unique("tx"))
			brokertest.Must(t, p.CommitOffsets(ctx, noGroup, group, map[TP]Offset{brokertest.TP(in, 0): {Offset: 2}}))
			id, _ := p.ID()
			list, err := c.Cluster.OpenTransactions(ctx, group, nil)
			brokertest.Must(t, err)
			if !slices.ContainsFunc(list, func(o OpenTransaction) bool { return o.ProducerID == id }) {
				t.Errorf("%s: its offsets of producer %d are not among %+v", group, id, list)
			}
			brokertest.Must(t, p.End(ctx, false))
		}
	})
}
