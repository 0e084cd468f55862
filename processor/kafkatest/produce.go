package kafkatest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Producer writes records with franz-go, idempotent and acknowledged by all
// in-sync replicas, and keeps a ledger of what became of each. It is safe for
// concurrent use.
type Producer struct {
	cl  *kgo.Client
	led *Ledger
}

func producerOpts(brokers []string, opts []kgo.Opt) []kgo.Opt {
	hash := kgo.StickyKeyPartitioner(nil) // Java's murmur2 for keys
	return append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(partitioner{hash}),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(100_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)
}

// partitioner honours a record's partition unless it is negative.
type partitioner struct{ byKey kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.byKey.ForTopic(topic)}
}

type topicPartitioner struct{ byKey kgo.TopicPartitioner }

func (t topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (t topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return t.byKey.Partition(r, n)
}

func kgoRecord(r *Record) *kgo.Record {
	out := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	if r.Time != 0 {
		out.Timestamp = time.UnixMilli(r.Time)
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

// NewProducer returns a producer; options may add TLS, SASL, a codec.
func NewProducer(brokers []string, opts ...kgo.Opt) (*Producer, error) {
	cl, err := kgo.NewClient(producerOpts(brokers, opts)...)
	if err != nil {
		return nil, err
	}
	return &Producer{cl, new(Ledger)}, nil
}

// Produce hands records over and returns when they are buffered; it waits
// where the buffer is full. Key, value and headers must not change afterwards.
func (p *Producer) Produce(ctx context.Context, records ...Record) {
	for i := range records {
		p.cl.Produce(ctx, kgoRecord(&records[i]), p.led.note)
	}
}

// Flush waits until each record handed over has its answer.
func (p *Producer) Flush(ctx context.Context) error { return p.cl.Flush(ctx) }

// Ledger returns the outcomes of the records; it grows while the producer is open.
func (p *Producer) Ledger() *Ledger { return p.led }

// Close ends the producer; records that have no answer yet become unknown.
func (p *Producer) Close() { p.cl.Close() }

// ProduceAcked writes records and returns them as acknowledged: with partition,
// offset and time, by topic, partition and offset. It is an error if one is not.
func ProduceAcked(ctx context.Context, brokers []string, records []Record, opts ...kgo.Opt) ([]Record, error) {
	p, err := NewProducer(brokers, opts...)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	p.Produce(ctx, records...)
	if err := p.Flush(ctx); err != nil {
		return nil, fmt.Errorf("kafkatest: produce: %w", err)
	}
	acked := p.led.Acked()
	if len(acked) != len(records) {
		return acked, fmt.Errorf("kafkatest: produce: %d of %d records acknowledged, %d refused, %d unknown",
			len(acked), len(records), len(p.led.Refused()), len(p.led.Unknown()))
	}
	return acked, nil
}

// ProduceAcked writes records to the cluster; see the function ProduceAcked.
func (c *Cluster) ProduceAcked(ctx context.Context, records []Record, opts ...kgo.Opt) ([]Record, error) {
	return ProduceAcked(ctx, c.Brokers, records, append(c.Security.adminOpts(c), opts...)...)
}

// ProduceBatch writes records, which must have times, to one partition as one batch: a
// reader sees all of them or none. A Producer may cut a batch anywhere, regardless of its
// options, because it begins to send while records still wait for the topic's metadata.
func (a *Admin) ProduceBatch(ctx context.Context, topic string, partition int32, records []Record) error {
	m, err := a.metadata(ctx, topic)
	if err != nil {
		return err
	}
	if err := failed("topic "+topic, m.Topics[0].ErrorCode, nil); err != nil {
		return err
	}
	leader := int32(-1)
	for _, p := range m.Topics[0].Partitions {
		if p.Partition == partition {
			leader = p.Leader
		}
	}
	if leader < 0 {
		return fmt.Errorf("kafkatest: produce a batch: %s/%d has no leader", topic, partition)
	}
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, encodeBatch(records)
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, m.Topics[0].TopicID
	rt.Partitions = append(rt.Partitions, rp)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	req.Topics = append(req.Topics, rt)
	kr, err := a.cl.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return fmt.Errorf("kafkatest: produce a batch: %w", err)
	}
	res := kr.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return failed(fmt.Sprintf("produce a batch to %s/%d", topic, partition), res.ErrorCode, res.ErrorMessage)
}

// encodeBatch encodes records as one uncompressed record batch without a producer id.
func encodeBatch(records []Record) []byte {
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	b.FirstTimestamp, b.MaxTimestamp = records[0].Time, records[0].Time
	b.NumRecords, b.LastOffsetDelta = int32(len(records)), int32(len(records)-1)
	for i := range records {
		r := &records[i]
		b.MaxTimestamp = max(b.MaxTimestamp, r.Time)
		k := kmsg.Record{TimestampDelta64: r.Time - b.FirstTimestamp, OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		k.Length = int32(len(k.AppendTo(nil))) - 1 // less the length itself, a byte while it is 0
		b.Records = k.AppendTo(b.Records)
	}
	const length, crc, summed = 8, 17, 21 // offsets of the fields, and of what the checksum covers
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[length:], uint32(len(raw)-length-4))
	binary.BigEndian.PutUint32(raw[crc:], crc32.Checksum(raw[summed:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// TxnProducer writes records in transactions; one goroutine at a time.
type TxnProducer struct {
	cl   *kgo.Client
	led  Ledger
	txn  Ledger // of the open transaction
	open bool
}

// NewTxnProducer returns a transactional producer. A transaction left open by
// one with the same id is aborted when it begins its first.
func NewTxnProducer(brokers []string, id string, opts ...kgo.Opt) (*TxnProducer, error) {
	cl, err := kgo.NewClient(producerOpts(brokers, append([]kgo.Opt{kgo.TransactionalID(id)}, opts...))...)
	if err != nil {
		return nil, err
	}
	return &TxnProducer{cl: cl}, nil
}

// Write begins a transaction if none is open, writes records and waits until
// all are acknowledged. They stay invisible to readers of committed records.
func (p *TxnProducer) Write(ctx context.Context, records ...Record) error {
	if !p.open {
		if err := p.cl.BeginTransaction(); err != nil {
			return fmt.Errorf("kafkatest: begin transaction: %w", err)
		}
		p.open = true
	}
	for i := range records {
		p.cl.Produce(ctx, kgoRecord(&records[i]), p.txn.note)
	}
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("kafkatest: produce in a transaction: %w", err)
	}
	p.txn.mu.Lock()
	defer p.txn.mu.Unlock()
	if n := len(p.txn.refused) + len(p.txn.unknown); n > 0 {
		return fmt.Errorf("kafkatest: produce in a transaction: %d records not acknowledged", n)
	}
	return nil
}

// End commits or aborts the open transaction.
func (p *TxnProducer) End(ctx context.Context, commit bool) error {
	if !p.open {
		return errors.New("kafkatest: end transaction: none is open")
	}
	if err := p.cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		return fmt.Errorf("kafkatest: end transaction: %w", err)
	}
	p.open = false
	p.led.mu.Lock()
	defer p.led.mu.Unlock()
	if commit {
		p.led.acked = append(p.led.acked, p.txn.acked...)
	} else {
		p.led.aborted = append(p.led.aborted, p.txn.acked...)
	}
	p.txn.acked = nil
	return nil
}

// Ledger returns the records by what became of their transactions.
func (p *TxnProducer) Ledger() *Ledger { return &p.led }

// Close ends the producer and leaves an open transaction open, as a crash would:
// it ends by its timeout, or when the id is used again.
func (p *TxnProducer) Close() { p.cl.Close() }

// ProduceTransactions writes one transaction after the other with one producer
// and aborts those for which abort says so (nil: none).
func ProduceTransactions(ctx context.Context, brokers []string, id string, txns [][]Record, abort func(i int) bool,
	opts ...kgo.Opt) (*Ledger, error) {
	p, err := NewTxnProducer(brokers, id, opts...)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	for i, records := range txns {
		if err := p.Write(ctx, records...); err != nil {
			return p.Ledger(), err
		}
		if err := p.End(ctx, abort == nil || !abort(i)); err != nil {
			return p.Ledger(), err
		}
	}
	return p.Ledger(), nil
}
