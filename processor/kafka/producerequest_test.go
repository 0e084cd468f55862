package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestProduceRequest reads what is written with another client's decoder.
func TestProduceRequest(t *testing.T) {
	r := seedtest.New(t)
	for range 200 {
		id := []string{"", "tx-1"}[r.IntN(2)]
		want := map[TP][]byte{}
		var req produceRequest
		topics := r.IntN(4)
		req.start(nil, "client", id, 1234, topics)
		for i := range topics {
			name := fmt.Sprint("topic", i)
			n := 1 + r.IntN(3)
			req.topic(name, n)
			for p := range n {
				batch := make([]byte, r.IntN(100))
				for k := range batch {
					batch[k] = byte(r.Uint32())
				}
				want[brokertest.TP(name, int32(p))] = batch
				req.partition(int32(p), append(binary.BigEndian.AppendUint32(nil, uint32(len(batch))), batch...))
			}
		}
		version := int16(3 + r.IntN(8))
		c := &brokertest.Connection{Reader: bytes.NewReader(nil)}
		if _, err := req.Exchange(c, version, 77, "client"); err == nil {
			t.Fatal("no error without an answer")
		}
		b := c.Sent.Bytes()
		be := binary.BigEndian
		if int(be.Uint32(b)) != len(b)-4 || be.Uint16(b[4:]) != 0 || int16(be.Uint16(b[6:])) != min(version, 8) || be.Uint32(b[8:]) != 77 {
			t.Fatalf("header % x", b[:12])
		}
		if string(b[14:20]) != "client" {
			t.Fatalf("client id %q", b[14:20])
		}
		got := kmsg.NewPtrProduceRequest()
		got.SetVersion(min(version, 8))
		if err := got.ReadFrom(b[20:]); err != nil {
			t.Fatal(err)
		}
		if (got.TransactionID == nil) != (id == "") || id != "" && *got.TransactionID != id {
			t.Fatalf("transactional id %v, want %q", got.TransactionID, id)
		}
		if got.Acks != -1 || got.TimeoutMillis != 1234 || len(got.Topics) != topics {
			t.Fatalf("%+v", got)
		}
		n := 0
		for _, topic := range got.Topics {
			for _, p := range topic.Partitions {
				n++
				if !bytes.Equal(p.Records, want[brokertest.TP(topic.Topic, p.Partition)]) {
					t.Fatalf("%s/%d differs", topic.Topic, p.Partition)
				}
			}
		}
		if n != len(want) {
			t.Fatalf("%d partitions, want %d", n, len(want))
		}
	}
}

func produceResponseBytes(version int16, correlation int32, want []produceResult) []byte {
	res := kmsg.NewPtrProduceResponse()
	res.SetVersion(version)
	for _, w := range want {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = w.tp.Topic
		rp := kmsg.NewProduceResponseTopicPartition()
		rp.Partition, rp.ErrorCode, rp.BaseOffset = w.tp.Partition, int16(w.code), w.offset
		if w.message != "" {
			rp.ErrorMessage = &w.message
			er := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			er.RelativeOffset, er.ErrorMessage = 3, kmsg.StringPtr("bad record")
			rp.ErrorRecords = append(rp.ErrorRecords, er)
		}
		rt.Partitions = append(rt.Partitions, rp)
		res.Topics = append(res.Topics, rt)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	b = res.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestProduceResponse(t *testing.T) {
	for version := int16(3); version <= 8; version++ {
		want := []produceResult{{brokertest.TP("a", 0), 0, 42, ""}, {brokertest.TP("b", 7), kafkago.MessageSizeTooLarge, -1, ""}}
		if version == 8 {
			want[1].message = "much too large"
		}
		b := produceResponseBytes(version, 9, want)
		got, err := readProduceResponse(bytes.NewReader(b), version, 9)
		if err != nil || !reflect.DeepEqual(got.results, want) {
			t.Errorf("v%d: %+v, %v; want %+v", version, got, err, want)
		}
		for i := range b {
			if _, err := readProduceResponse(bytes.NewReader(b[:i]), version, 9); err == nil {
				t.Errorf("v%d: no error for %d of %d bytes", version, i, len(b))
			}
		}
		if _, err := readProduceResponse(bytes.NewReader(b), version, 10); err == nil {
			t.Errorf("v%d: another request's answer is taken", version)
		}
	}
	var req produceRequest
	req.start(nil, "", "", 0, 0)
	if _, err := req.Exchange(&brokertest.Connection{}, 2, 1, ""); err == nil {
		t.Error("Produce v2 knows no transactions")
	}
}

func FuzzProduceResponse(f *testing.F) {
	for version := int16(3); version <= 8; version++ {
		f.Add(version, produceResponseBytes(version, 1, []produceResult{{brokertest.TP("a", 0), 0, 42, ""}, {brokertest.TP("b", 7), 10,
			-1, "m"}}))
	}
	f.Add(int16(8), []byte{0, 0, 0, 12, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, version int16, b []byte) {
		if version < 3 || version > 8 {
			version = 8
		}
		res, err := readProduceResponse(bytes.NewReader(b), version, 1)
		if err == nil && len(res.results)*22 > len(b) {
			t.Fatalf("%d results from %d bytes", len(res.results), len(b))
		}
	})
}
