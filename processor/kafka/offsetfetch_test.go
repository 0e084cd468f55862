package kafka

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
)

func offsetFetchResponse() []byte {
	res := kmsg.NewPtrOffsetFetchResponse()
	res.Version = offsetFetchVersion
	meta := "1;2;3"
	for _, topic := range []string{"a", "b"} {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = topic
		for p := int32(0); p < 2; p++ {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.ErrorCode = p, 100, int16(88*p)
			if p == 0 {
				rp.Metadata = &meta
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return append([]byte{0}, res.AppendTo(nil)...) // the flexible header's tagged fields
}

func TestOffsetFetchWire(t *testing.T) {
	o := &offsetFetch{group: "g", tps: []TP{brokertest.TP("a", 0), brokertest.TP("a", 1), brokertest.TP("b", 0), brokertest.TP("b", 1)}}
	w := brokertest.Answer(7, offsetFetchResponse())
	if _, err := o.Exchange(w, 5, 7, "client"); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = offsetFetchVersion
	if err := req.ReadFrom(w.Sent.Bytes()[15+len("client"):]); err != nil {
		t.Fatal(err)
	}
	if req.Group != "g" || !req.RequireStable || len(req.Topics) != 2 || req.Topics[1].Topic != "b" || len(req.Topics[1].Partitions) != 2 {
		t.Fatalf("%+v", req)
	}
	if len(o.offsets) != 4 || o.offsets[brokertest.TP("b", 0)] != (Offset{Offset: 100, Metadata: "1;2;3"}) ||
		o.codes[brokertest.TP("b", 1)] != 88 ||
		len(o.codes) != 2 || o.code != 0 {
		t.Fatalf("%+v", o)
	}
}

func FuzzOffsetFetchResponse(f *testing.F) {
	f.Add(offsetFetchResponse())
	f.Fuzz(func(t *testing.T, body []byte) {
		o := &offsetFetch{group: "g", tps: []TP{brokertest.TP("a", 0)}}
		var _ protocol.Message = o
		if _, err := o.Exchange(brokertest.Answer(1, body), 5, 1, "c"); err == nil && 16*len(o.offsets) > len(body) {
			t.Fatalf("%d offsets of %d bytes", len(o.offsets), len(body))
		}
	})
}

// TestFuzzCorpusIsKept: what fuzzing found stays in the repository, and runs with
// every test.
func TestFuzzCorpusIsKept(t *testing.T) {
	for _, target := range []string{"FuzzOffsetFetchResponse", "FuzzProduceResponse"} {
		if files, err := os.ReadDir(filepath.Join("testdata", "fuzz", target)); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", target, len(files), err)
		}
	}
}
