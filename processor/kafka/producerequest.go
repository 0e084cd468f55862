package kafka

import (
	"encoding/binary"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// The Produce request, written by hand: kafka-go encodes records itself, with no
// producer id, and its raw form copies every batch through pages of a pool.
// Versions 3 to 8 differ in the response only.
// https://kafka.apache.org/protocol#The_Messages_Produce
const (
	produceMinVersion = 3
	produceMaxVersion = 8 // from 12 on the request adds partitions to the transaction by itself, see txnversion.go

)

// produceRequest carries sealed batches, one a partition, to the leader of all
// of them. It has copied the batches: when its sender gives up waiting, a
// connection may still be writing it, and what the sender does with the batches
// must not reach the broker.
type produceRequest struct{ buf []byte }

// start starts a request in buf's memory. Topics follow in the given number.
func (r *produceRequest) start(buf []byte, clientID, transactionalID string, timeoutMs int32, topics int) {
	be := binary.BigEndian
	b := appendRequest(buf[:0], protocol.Produce, produceMaxVersion, 0, clientID, false)
	if transactionalID == "" {
		b = be.AppendUint16(b, 0xffff) // null
	} else {
		b = appendString(b, transactionalID)
	}
	b = be.AppendUint16(b, 0xffff) // acks = -1: all in-sync replicas
	b = be.AppendUint32(b, uint32(timeoutMs))
	r.buf = be.AppendUint32(b, uint32(topics))
}

func (r *produceRequest) topic(name string, partitions int) {
	r.buf = binary.BigEndian.AppendUint32(appendString(r.buf, name), uint32(partitions))
}

// partition adds a sealed batch, which comes with its length before it.
func (r *produceRequest) partition(p int32, sealed []byte) {
	r.buf = append(binary.BigEndian.AppendUint32(r.buf, uint32(p)), sealed...)
}

func (*produceRequest) ApiKey() protocol.ApiKey { return protocol.Produce }

func (r *produceRequest) Exchange(rw io.ReadWriter, version int16, correlation int32, _ string) (protocol.Message, error) {
	if version < produceMinVersion {
		return nil, fmt.Errorf("kafka: the broker speaks Produce up to version %d; %d is needed (Kafka 0.11)", version, produceMinVersion)
	}
	version = min(version, produceMaxVersion)
	binary.BigEndian.PutUint16(r.buf[6:], uint16(version))
	binary.BigEndian.PutUint32(r.buf[8:], uint32(correlation))
	if err := writeRequest(rw, r.buf); err != nil {
		return nil, err
	}
	return readProduceResponse(rw, version, correlation)
}

type produceResponse struct{ results []produceResult }

func (*produceResponse) ApiKey() protocol.ApiKey { return protocol.Produce }

type produceResult struct {
	tp      TP
	code    kafkago.Error
	offset  int64 // of the batch's first record, -1 unknown
	message string
}

func readProduceResponse(from io.Reader, version int16, correlation int32) (*produceResponse, error) {
	var r wireReader
	if err := r.ReadHeader(from, correlation, false); err != nil {
		return nil, err
	}
	res := &produceResponse{}
	for topics := r.Count(6); topics > 0 && r.Err() == nil; topics-- {
		name := string(r.String16())
		for n := r.Count(22); n > 0 && r.Err() == nil; n-- {
			p := produceResult{tp: TP{Topic: name, Partition: r.Int32()}, code: kafkago.Error(r.Int16()), offset: r.Int64()}
			r.Int64() // log append time
			if version >= 5 {
				r.Int64() // log start offset
			}
			if version >= 8 {
				for k := r.Count(6); k > 0 && r.Err() == nil; k-- {
					index := r.Int32()
					if m := r.String16(); len(m) > 0 && p.message == "" {
						p.message = fmt.Sprintf("record %d: %s", index, m)
					}
				}
				if m := r.String16(); len(m) > 0 {
					p.message = string(m)
				}
			}
			res.results = append(res.results, p)
		}
	}
	r.Int32() // throttle time
	return res, r.End()
}
