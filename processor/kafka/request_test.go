package kafka

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

func fetchResponse(t testing.TB, version int16) []byte {
	res := kmsg.NewPtrFetchResponse()
	res.Version = version
	for _, topic := range []string{"a", "b"} {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic = topic
		for p := int32(0); p < 2; p++ {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = p, 9, 7, 1
			rp.RecordBatches = simple(t, 3, 2)
			if p == 1 {
				rp.ErrorCode, rp.RecordBatches = 6, nil
			} else {
				rp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 8, FirstOffset: 5},
					{ProducerID: 7, FirstOffset: 2}}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res.AppendTo(nil)
}

func fetchOf(tps ...record.TP) *fetchRequest {
	q := &fetchRequest{maxBytes: 1000}
	for _, tp := range tps {
		q.partitions = append(q.partitions, fetchedPartition{tp: tp, offset: 3, maxBytes: 100})
	}
	return q
}

// TestFetchWire: requests and responses of every version against franz-go's
// codec, which comes from the protocol's own definition.
func TestFetchWire(t *testing.T) {
	for version := int16(minFetch); version <= maxFetch; version++ {
		q := fetchOf(brokertest.TP("a", 0), brokertest.TP("a", 1), brokertest.TP("b", 0), brokertest.TP("b", 1))
		q.committed = true
		w := brokertest.Answer(42, fetchResponse(t, version))
		if _, err := q.Exchange(w, version, 42, "client"); err != nil {
			t.Fatal(err)
		}
		b := w.Sent.Bytes()
		if int(binary.BigEndian.Uint32(b)) != len(b)-4 || binary.BigEndian.Uint16(b[4:]) != 1 ||
			int16(binary.BigEndian.Uint16(b[6:])) != version {
			t.Fatalf("v%d: header %x", version, b[:14])
		}
		req := kmsg.NewPtrFetchRequest()
		req.Version = version
		if err := req.ReadFrom(b[14+len("client"):]); err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		if req.ReplicaID != -1 || req.MinBytes != 1 || req.MaxBytes != 1000 || req.IsolationLevel != 1 || len(req.Topics) != 2 ||
			version >= 7 && (req.SessionID != 0 || req.SessionEpoch != -1) {
			t.Fatalf("v%d: %+v", version, req)
		}
		for i, topic := range []string{"a", "b"} {
			rt := req.Topics[i]
			if rt.Topic != topic || len(rt.Partitions) != 2 {
				t.Fatalf("v%d: %+v", version, rt)
			}
			for p, rp := range rt.Partitions {
				if rp.Partition != int32(p) || rp.FetchOffset != 3 || rp.PartitionMaxBytes != 100 || rp.CurrentLeaderEpoch != -1 ||
					rp.LogStartOffset != -1 {
					t.Fatalf("v%d: %+v", version, rp)
				}
			}
		}
		for i := range q.partitions {
			p := &q.partitions[i]
			logStart := int64(1)
			if version < 5 {
				logStart = -1
			}
			if !p.answered || p.highWatermark != 9 || p.stable != 7 || p.logStart != logStart || p.offset != 3 {
				t.Fatalf("v%d: %+v", version, p)
			}
			if p.tp.Partition == 1 {
				if p.code != 6 || p.records != nil {
					t.Fatalf("v%d: %+v", version, p)
				}
				continue
			}
			if len(p.aborted) != 2 || p.aborted[0] != (record.AbortedTxn{ProducerID: 7, FirstOffset: 2}) ||
				!bytes.Equal(p.records.b, simple(t, 3, 2)) {
				t.Fatalf("v%d: %+v", version, p)
			}
		}
	}
}

func TestResponseErrors(t *testing.T) {
	body := fetchResponse(t, 11)
	for _, tc := range []struct {
		name, text string
		w          *brokertest.Connection
	}{
		{"other request", "request 43", brokertest.Answer(43, body)},
		{"cut off", "EOF", &brokertest.Connection{Reader: io.LimitReader(brokertest.Answer(42, body).Reader, 100)}},
		{"content longer than the response", "shorter", brokertest.Answer(42, body[:len(body)-30])},
		{"another protocol", "not a Kafka broker", &brokertest.Connection{Reader: strings.NewReader("HTTP/1.1 400 Bad Request\r\n")}},
	} {
		_, err := fetchOf(brokertest.TP("a", 0)).Exchange(tc.w, 11, 42, "client")
		if err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := fetchOf(brokertest.TP("a", 0)).Exchange(brokertest.Answer(42, body), 3, 42, ""); ClassOf(err) != Fatal {
		t.Error(err)
	}
	// What is left of a response is read, so that the connection can be used.
	w := brokertest.Answer(42, append(bytes.Clone(body), 1, 2, 3))
	if _, err := fetchOf(brokertest.TP("a", 0)).Exchange(w, 11, 42, ""); err != nil {
		t.Error(err)
	}
	if rest, _ := io.ReadAll(w.Reader); len(rest) != 0 {
		t.Errorf("%d bytes left", len(rest))
	}
}

// FuzzFetchResponse: arbitrary responses never panic and cost no more memory
// than they are long.
func FuzzFetchResponse(f *testing.F) {
	for version := int16(minFetch); version <= maxFetch; version++ {
		f.Add(uint8(version), fetchResponse(f, version))
	}
	f.Fuzz(func(t *testing.T, version uint8, body []byte) {
		v := minFetch + int16(version)%(maxFetch-minFetch+1)
		q := fetchOf(brokertest.TP("a", 0), brokertest.TP("a", 1), brokertest.TP("b", 0))
		_, err := q.Exchange(brokertest.Answer(1, body), v, 1, "c")
		total := 0
		for i := range q.partitions {
			p := &q.partitions[i]
			total += 16 * len(p.aborted)
			if p.records != nil {
				total += len(p.records.b)
				record.Scan(p.records.b, p.offset, p.highWatermark)
			}
		}
		if err == nil && total > len(body) {
			t.Fatalf("%d bytes made of %d", total, len(body))
		}
	})
}

// TestFetchFuzzCorpusIsKept: what fuzzing found stays in the repository, and runs with
// every test.
func TestFetchFuzzCorpusIsKept(t *testing.T) {
	for _, target := range []string{"FuzzFetchResponse"} {
		if files, err := os.ReadDir(filepath.Join("testdata", "fuzz", target)); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", target, len(files), err)
		}
	}
}
