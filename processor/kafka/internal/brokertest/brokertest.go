// Package brokertest has what the tests of the Kafka client, of its consumer group, of its fetcher and of the log's batches share:
// clusters, franz-go as the other client, random records, and waiting. It does not import the client, so that the client's own
// tests can import it.
package brokertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// Cluster starts a kfake cluster that ends with the test.
func Cluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Kinds runs a test on real Kafka, unless -short, and on kfake, unless real Kafka is required, as in CI, and the run is no long one.
func Kinds(t *testing.T, f func(t *testing.T, k *kafkatest.Cluster)) {
	for _, kind := range kafkatest.Kinds {
		t.Run(kind, func(t *testing.T) {
			if kind != kafkatest.KindFake && testing.Short() {
				t.Skip("real Kafka is left out with -short")
			}
			if kind == kafkatest.KindFake && kafkatest.Required("kafka") {
				kafkatest.LongOnly(t)
			}
			f(t, kafkatest.Open(t, kind))
		})
	}
}

// Franz returns a franz-go client, which is closed with the test.
func Franz(t testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// FranzRecord returns a record as franz-go writes it.
func FranzRecord(topic string, partition int32, p Record) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: p.Key, Value: p.Value, Timestamp: time.UnixMilli(p.Time),
		Headers: Headers[kgo.RecordHeader](p)}
}

// Write has franz-go append n records to a partition; their values count on from from, in decimal.
func Write(t testing.TB, cl *kgo.Client, topic string, partition int32, from, n int) {
	t.Helper()
	var rs []*kgo.Record
	for i := from; i < from+n; i++ {
		rs = append(rs, &kgo.Record{Topic: topic, Partition: partition, Value: strconv.AppendInt(nil, int64(i), 10)})
	}
	if err := cl.ProduceSync(Within(t), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Connection is one whose broker answers every request with the same bytes.
type Connection struct {
	io.Reader              // what the broker sends
	Sent      bytes.Buffer // what it has got
}

// Write implements io.Writer.
func (c *Connection) Write(b []byte) (int, error) { return c.Sent.Write(b) }

// Answer returns a connection with a response: size, correlation id and body.
func Answer(correlation int32, body []byte) *Connection {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return &Connection{Reader: bytes.NewReader(append(b, body...))}
}

// Within returns a context that ends after kafkatest.Patience, or with the test.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), kafkatest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// Eventually waits until f is true.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for start := time.Now(); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > kafkatest.Patience {
			t.Fatalf("%s: not within %v", what, kafkatest.Patience)
		}
	}
}

// TP names a partition.
func TP(topic string, partition int32) record.TP {
	return record.TP{Topic: topic, Partition: partition}
}

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
