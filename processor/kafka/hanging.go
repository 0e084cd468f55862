package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf16"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"odradek/processor/kafka/record"
)

// Hanging transactions (KIP-664). When all nodes of Kafka 4.4.0 are killed, a coordinator may count a decision as carried out of which
// some partitions never get the marker. Readers of committed records stop there, and workers wait for offsets that are open.
// kafka-transactions.sh abort ends such a transaction without looking at the decision, which loses or doubles what the other
// partitions have as committed. The coordinator's log still has the decision, and the marker that is missing can be written.
//
// Nothing here depends on a clock. With transactions version 2 (KIP-890) each end of a transaction raises the producer's epoch
// by one, so that a record of the log is about one transaction. The decision is carried out when the log says so: every
// partition has acknowledged its marker by then. One that still has the transaction open, with the same epoch, has lost it. The marker is
// written with the transaction's own epoch, so that a broker refuses it where the producer has gone on meanwhile.

// OpenTransaction is a transaction that is open in a partition.
type OpenTransaction struct {
	TP         TP
	ProducerID int64
	Epoch      int16 // of the producer
	Start      int64 // offset of its first record

	coordinator int32 // epoch of the coordinator that has last written a marker of the producer, -1: none
}

const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"
)

// OpenTransactions returns what is open in the partitions of topics, and in the one of the committed offsets of a group, of producers
// of all applications. It needs the permission to read the topics. Leaders are asked for anew, as a replica that follows answers, too.
func (c *Cluster) OpenTransactions(ctx context.Context, group string, topics []string) ([]OpenTransaction, error) {
	if err := c.Refresh(ctx, append(slices.Clone(topics), offsetsTopic)...); err != nil {
		return nil, err
	}
	var tps []TP
	for _, topic := range topics {
		n, err := c.metadata.partitions(topic)
		if err != nil {
			return nil, fmt.Errorf("kafka: partitions of topic %q: %w", topic, err)
		}
		for p := range int32(n) {
			tps = append(tps, TP{Topic: topic, Partition: p})
		}
	}
	if n, err := c.metadata.partitions(offsetsTopic); err == nil {
		tps = append(tps, partitionOf(offsetsTopic, group, n))
	} else if !errors.Is(err, kafkago.UnknownTopicOrPartition) { // the first group makes the topic
		return nil, fmt.Errorf("kafka: partitions of topic %q: %w", offsetsTopic, err)
	}
	by := map[int32]*describeProducers{}
	for _, tp := range tps {
		leader, _, err := c.Leader(tp)
		if err != nil {
			return nil, fmt.Errorf("kafka: leader of %s: %w", tp, err)
		}
		if by[leader] == nil {
			by[leader] = &describeProducers{}
		}
		by[leader].tps = append(by[leader].tps, tp)
	}
	var open []OpenTransaction
	for _, leader := range slices.Sorted(maps.Keys(by)) {
		q := by[leader]
		slices.SortFunc(q.tps, TP.Compare)
		if _, err := c.roundTrip(ctx, leader, q); err != nil {
			return nil, err
		}
		if q.code != 0 {
			return nil, fmt.Errorf("kafka: producers of %s: %w", q.refused, q.code)
		}
		open = append(open, q.open...)
	}
	return open, nil
}

// partitionOf returns the partition of a coordinators' log, of n partitions, that has a group or a transactional id.
func partitionOf(topic, id string, n int) TP {
	hash := int32(0)
	for _, unit := range utf16.Encode([]rune(id)) { // Java's String.hashCode
		hash = 31*hash + int32(unit)
	}
	if hash == math.MinInt32 { // which Kafka's Utils.abs makes 0
		hash = 0
	}
	return TP{Topic: topic, Partition: max(hash, -hash) % int32(n)}
}

// TransactionalIDs says whose decisions are looked for: one id's, in one partition of the coordinators' log, or those of all
// that begin with a prefix, in the whole log.
type TransactionalIDs struct{ ID, Prefix string }

func (t *TransactionalIDs) has(id string) bool {
	if t.ID != "" {
		return id == t.ID
	}
	return strings.HasPrefix(id, t.Prefix)
}

func (t *TransactionalIDs) partitions(n int) (tps []TP) {
	if t.ID != "" {
		return []TP{partitionOf(transactionsTopic, t.ID, n)}
	}
	for p := range int32(n) {
		tps = append(tps, TP{Topic: transactionsTopic, Partition: p})
	}
	return tps
}

// decisions collects what the coordinators' log says about open transactions; true: committed.
type decisions struct {
	open    []OpenTransaction
	decided map[OpenTransaction]bool
	unclear map[OpenTransaction]bool // more than one transaction has the epoch
}

// note notes what a record of the coordinators' log says. Where the record has the transaction's own epoch, its producer wrote it in
// version 1: the record with the next epoch is then about another transaction.
func (d *decisions) note(s *transactionState) {
	if s.status != completeCommit && s.status != completeAbort {
		return
	}
	for _, o := range d.open {
		switch {
		case o.ProducerID != s.producerID:
		case o.Epoch == s.epoch && s.version < 2:
			d.unclear[o] = true
		case o.Epoch+1 == s.epoch && s.version >= 2:
			d.decided[o] = s.status == completeCommit
		}
	}
}

// certain returns the decisions about transactions whose epoch no other has.
func (d *decisions) certain() map[OpenTransaction]bool {
	maps.DeleteFunc(d.decided, func(o OpenTransaction, _ bool) bool { return d.unclear[o] })
	return d.decided
}

// Decisions returns which of some open transactions the coordinator has decided and counts as carried out; true: committed.
func Decisions(ctx context.Context, c *Client, ids TransactionalIDs, open []OpenTransaction) (map[OpenTransaction]bool, error) {
	n, err := c.Cluster.Partitions(ctx, transactionsTopic)
	if errors.Is(err, kafkago.UnknownTopicOrPartition) { // not Apache Kafka
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	tps := ids.partitions(n)
	first, err := c.Offsets.ListOffsets(ctx, tps, Earliest)
	if err != nil {
		return nil, err
	}
	end, err := c.Offsets.ListOffsets(ctx, tps, Latest)
	if err != nil {
		return nil, err
	}
	f := NewFetcher(c, FetchConfig{})
	defer f.Close()
	found := decisions{open: open, decided: map[OpenTransaction]bool{}, unclear: map[OpenTransaction]bool{}}
	for _, tp := range tps {
		if first[tp] >= end[tp] {
			continue
		}
		err := readLog(ctx, f.Add(tp, first[tp]), end[tp], func(r *record.Record) error {
			id, ok := transactionalID(r.Key)
			if !ok || !ids.has(id) || len(r.Value) == 0 {
				return nil
			}
			d, err := parseTransactionState(r.Value)
			if err != nil {
				return fmt.Errorf("kafka: %s: the state of transactional id %q at offset %d: %w", tp, id, r.Offset, err)
			}
			found.note(&d)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found.certain(), nil
}

// readLog calls fn for the records from where a source begins up to an offset, and closes the source.
func readLog(ctx context.Context, src *FetchSource, end int64, fn func(*record.Record) error) error {
	defer src.Close()
	var it record.Iterator
	for next := int64(0); next < end; next = it.NextOffset() {
		var c *Chunk
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case c = <-src.C():
		}
		if c == nil {
			return ErrClosed
		}
		if c.Err != nil {
			return c.Err
		}
		it.Reset(&c.Chunk)
		var err error
		for err == nil && it.Next() {
			err = fn(it.Record())
		}
		c.Release()
		if err = errors.Join(err, it.Err()); err != nil {
			return err
		}
	}
	return nil
}

// EndTransaction writes the marker of a hanging transaction. It needs the permission ClusterAction.
func (c *Cluster) EndTransaction(ctx context.Context, o OpenTransaction, commit bool) error {
	leader, err := c.findLeader(ctx, o.TP)
	if err != nil {
		return err
	}
	q := &writeMarker{open: o, commit: commit}
	if _, err = c.roundTrip(ctx, leader, q); err == nil && q.code != 0 {
		err = q.code
	}
	if err != nil {
		return fmt.Errorf("kafka: end the transaction of producer %d in %s, open since offset %d: %w", o.ProducerID, o.TP, o.Start, err)
	}
	return nil
}

// describeProducers is a DescribeProducers v0 (KIP-664) for partitions of one broker, and its response. kafka-go does not know it.
type describeProducers struct {
	tps []TP // sorted

	open    []OpenTransaction
	code    kafkago.Error // of a partition that is not described; 0: none
	refused TP
}

const describeProducersAPI = protocol.ApiKey(61)

func (*describeProducers) ApiKey() protocol.ApiKey { return describeProducersAPI }

func (d *describeProducers) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	b := appendRequest(nil, describeProducersAPI, 0, correlation, clientID, true)
	b = appendTopics(b, d.tps)
	b = append(b, 0)
	var r wireReader
	if err := r.Ask(rw, b, correlation, true); err != nil {
		return nil, err
	}
	r.Int32() // throttle time
	for n := r.CompactCount(3); n > 0 && r.Err() == nil; n-- {
		topic := string(r.CompactString())
		for n := r.CompactCount(9); n > 0 && r.Err() == nil; n-- {
			tp := TP{Topic: topic, Partition: r.Int32()}
			if code := kafkago.Error(r.Int16()); code != 0 && (d.code == 0 || ClassOf(d.code) == Retriable) {
				d.code, d.refused = code, tp
			}
			r.CompactString()
			for n := r.CompactCount(37); n > 0 && r.Err() == nil; n-- {
				o := OpenTransaction{TP: tp, ProducerID: r.Int64(), Epoch: int16(r.Int32())}
				r.Int32() // last sequence
				r.Int64() // last time stamp
				o.coordinator, o.Start = r.Int32(), r.Int64()
				r.Tags()
				if o.Start >= 0 {
					d.open = append(d.open, o)
				}
			}
			r.Tags()
		}
		r.Tags()
	}
	r.Tags()
	return d, r.End()
}

// appendTopics appends partitions by topic, with the lengths and tags of KIP-482.
func appendTopics(b []byte, tps []TP) []byte {
	topics := 0
	for i := range tps {
		if i == 0 || tps[i].Topic != tps[i-1].Topic {
			topics++
		}
	}
	b = binary.AppendUvarint(b, uint64(topics+1))
	for rest := tps; len(rest) > 0; {
		k := 1
		for k < len(rest) && rest[k].Topic == rest[0].Topic {
			k++
		}
		b = appendCompactString(b, rest[0].Topic)
		b = binary.AppendUvarint(b, uint64(k+1))
		for _, tp := range rest[:k] {
			b = binary.BigEndian.AppendUint32(b, uint32(tp.Partition))
		}
		b = append(b, 0)
		rest = rest[k:]
	}
	return b
}

// writeMarker is a WriteTxnMarkers v1 with one marker of one partition, and its response.
type writeMarker struct {
	open   OpenTransaction
	commit bool

	code kafkago.Error
}

const writeMarkersVersion = 1

func (*writeMarker) ApiKey() protocol.ApiKey { return protocol.WriteTxnMarkers }

func (w *writeMarker) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	be := binary.BigEndian
	b := appendRequest(nil, protocol.WriteTxnMarkers, writeMarkersVersion, correlation, clientID, true)
	b = append(b, 2) // one marker
	b = be.AppendUint64(b, uint64(w.open.ProducerID))
	b = be.AppendUint16(b, uint16(w.open.Epoch))
	b = append(b, map[bool]byte{true: 1}[w.commit])
	b = appendTopics(b, []TP{w.open.TP})
	b = be.AppendUint32(b, uint32(max(0, w.open.coordinator)))
	b = append(b, 0, 0)
	var r wireReader
	if err := r.Ask(rw, b, correlation, true); err != nil {
		return nil, err
	}
	w.code = kafkago.Unknown // where the response has not the partition
	for n := r.CompactCount(10); n > 0 && r.Err() == nil; n-- {
		r.Int64() // producer id
		for n := r.CompactCount(3); n > 0 && r.Err() == nil; n-- {
			r.CompactString()
			for n := r.CompactCount(7); n > 0 && r.Err() == nil; n-- {
				r.Int32() // partition
				w.code = kafkago.Error(r.Int16())
				r.Tags()
			}
			r.Tags()
		}
		r.Tags()
	}
	r.Tags()
	return w, r.End()
}

// transactionState is a record of a coordinator about a transactional id.
type transactionState struct {
	producerID int64
	epoch      int16
	status     uint8
	version    int16 // of transactions; 0: not known
}

// States of a transaction whose decision all of its partitions have acknowledged.
const (
	completeCommit = 4
	completeAbort  = 5
)

// transactionalID returns the id that a record is about; ok is false for other records.
func transactionalID(key []byte) (id string, ok bool) {
	r := newWireReader(key)
	version := r.Int16()
	id = string(r.String16())
	return id, version == 0 && r.Err() == nil
}

// parseTransactionState reads the value of a record (Kafka's TransactionLogValue). Format 0 does not say which version of
// transactions it is about, and where later formats say it is not known.
func parseTransactionState(value []byte) (s transactionState, err error) {
	r := newWireReader(value)
	format := r.Int16()
	s.producerID, s.epoch = r.Int64(), r.Int16()
	r.Int32() // time-out
	s.status = r.uint8()
	if format != 1 || r.Err() != nil {
		return s, r.Err()
	}
	for n := r.CompactCount(3); n > 0 && r.Err() == nil; n-- {
		r.CompactString()
		for n := r.CompactCount(4); n > 0 && r.Err() == nil; n-- {
			r.Int32()
		}
		r.Tags()
	}
	r.Int64() // last update
	r.Int64() // start
	for n := r.uvarint(); n > 0 && r.Err() == nil; n-- {
		tag, size := r.uvarint(), r.uvarint()
		if b := r.Bytes(int(min(size, maxResponse))); tag == clientVersionTag && len(b) == 2 {
			s.version = int16(binary.BigEndian.Uint16(b))
		}
	}
	return s, r.Err()
}

const clientVersionTag = 2
