package kafka

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"odradek/processor/kafka/record"
)

// fetchRequest is a Fetch of v4 to v11 for partitions of one broker, outside
// fetch sessions (KIP-227). It holds its response: the records of each partition
// in a buffer of their own, so that a partition whose consumer is slow keeps no
// other partition's bytes. After an error it may still be written to by the
// transport and must not be used again.
type fetchRequest struct {
	maxWait    time.Duration
	maxBytes   int
	committed  bool // read_committed
	partitions []fetchedPartition

	throttle time.Duration // how long the broker is not to be asked (KIP-219)
	code     kafkago.Error // of the whole response (v7)
	out      []byte
	in       wireReader
}

// fetchedPartition is one partition of a request and its answer.
type fetchedPartition struct {
	tp       record.TP
	offset   int64
	leader   record.Epoch // of the leader as we know it
	maxBytes int

	answered                        bool
	code                            kafkago.Error
	highWatermark, stable, logStart int64
	aborted                         []record.AbortedTxn
	records                         *buffer // nil: none

	// What the batch headers say, see scan.
	next        int64
	epoch       record.Epoch // of the last batch
	whole, need int
	err         error
}

const minFetch, maxFetch = 4, 11

func (*fetchRequest) ApiKey() protocol.ApiKey { return protocol.Fetch }

func (f *fetchRequest) Exchange(rw io.ReadWriter, version int16, correlation int32, clientID string) (protocol.Message, error) {
	if version < minFetch || version > maxFetch {
		return nil, fmt.Errorf("the broker has Fetch up to v%d; v%d to v%d are supported (Kafka 0.11 to 4.x): %w",
			version, minFetch, maxFetch, kafkago.UnsupportedVersion)
	}
	f.out = f.encode(f.out[:0], version, correlation, clientID)
	if err := writeRequest(rw, f.out); err != nil {
		return nil, err
	}
	return f, f.decode(rw, version, correlation)
}

func (f *fetchRequest) encode(b []byte, version int16, correlation int32, clientID string) []byte {
	be := binary.BigEndian
	b = appendRequest(b, protocol.Fetch, version, correlation, clientID, false)
	b = be.AppendUint32(b, 0xffffffff) // replica id: a consumer
	b = be.AppendUint32(b, uint32(f.maxWait.Milliseconds()))
	b = be.AppendUint32(b, 1) // any data ends the wait
	b = be.AppendUint32(b, uint32(f.maxBytes))
	isolation := byte(0)
	if f.committed {
		isolation = 1
	}
	b = append(b, isolation)
	if version >= 7 {
		b = be.AppendUint32(b, 0)          // session id
		b = be.AppendUint32(b, 0xffffffff) // session epoch: no session
	}
	topics := 0
	for i := range f.partitions {
		if i == 0 || f.partitions[i].tp.Topic != f.partitions[i-1].tp.Topic {
			topics++
		}
	}
	b = be.AppendUint32(b, uint32(topics))
	for rest := f.partitions; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].tp.Topic == rest[0].tp.Topic {
			n++
		}
		b = appendString(b, rest[0].tp.Topic)
		b = be.AppendUint32(b, uint32(n))
		for i := range rest[:n] {
			p := &rest[i]
			b = be.AppendUint32(b, uint32(p.tp.Partition))
			if version >= 9 {
				b = be.AppendUint32(b, uint32(p.leader.Number()))
			}
			b = be.AppendUint64(b, uint64(p.offset))
			if version >= 5 {
				b = be.AppendUint64(b, 0xffffffff_ffffffff) // log start: for followers
			}
			b = be.AppendUint32(b, uint32(p.maxBytes))
		}
		rest = rest[n:]
	}
	if version >= 7 {
		b = be.AppendUint32(b, 0) // forgotten topics
	}
	if version >= 11 {
		b = be.AppendUint16(b, 0) // rack
	}
	return b
}

func (f *fetchRequest) decode(from io.Reader, version int16, correlation int32) error {
	r := &f.in
	if err := r.ReadHeader(from, correlation, false); err != nil {
		return err
	}
	f.throttle = time.Duration(r.Int32()) * time.Millisecond
	f.code = 0
	if version >= 7 {
		f.code = kafkago.Error(r.Int16())
		r.Int32() // session id
	}
	at := 0 // responses are in the order of the request
	for n := r.Count(6); n > 0 && r.Err() == nil; n-- {
		topic := f.topic(r.String16())
		for n := r.Count(30); n > 0 && r.Err() == nil; n-- {
			tp := record.TP{Topic: topic, Partition: r.Int32()}
			var p *fetchedPartition
			p, at = f.partition(tp, at)
			*p = fetchedPartition{tp: tp, offset: p.offset, leader: p.leader, maxBytes: p.maxBytes, answered: true}
			p.code = kafkago.Error(r.Int16())
			p.highWatermark = r.Int64()
			p.stable = r.Int64()
			if p.stable < 0 { // absent outside of read-committed mode
				p.stable = p.highWatermark
			}
			p.logStart = -1
			if version >= 5 {
				p.logStart = r.Int64()
			}
			if n := r.Count(16); n > 0 {
				p.aborted = make([]record.AbortedTxn, n)
				for i := range p.aborted {
					p.aborted[i] = record.AbortedTxn{ProducerID: r.Int64(), FirstOffset: r.Int64()}
				}
				slices.SortFunc(p.aborted, func(a, b record.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
			}
			if version >= 11 {
				r.Int32() // preferred read replica: without a rack there is none
			}
			if size := r.Count(1); size > 0 {
				p.records = readBuffer(r, size)
			}
		}
	}
	return r.End()
}

// topic returns the request's own string, so that none is made for each response.
func (f *fetchRequest) topic(name []byte) string {
	for i := range f.partitions {
		if f.partitions[i].tp.Topic == string(name) {
			return f.partitions[i].tp.Topic
		}
	}
	return string(name)
}

// partition finds a partition of the request, beginning at index at, and returns the
// index to begin at the next time. A partition that was not asked for gets one that
// nobody reads.
func (f *fetchRequest) partition(tp record.TP, at int) (*fetchedPartition, int) {
	for i := range f.partitions {
		if k := (at + i) % len(f.partitions); f.partitions[k].tp == tp {
			return &f.partitions[k], k + 1
		}
	}
	return new(fetchedPartition), at
}

// buffer is memory for what a response has of one partition.
type buffer struct {
	b     []byte
	class int // of the pool, -1: too large for it
}

// readBuffer reads n bytes into a buffer. Beyond what the pool has, memory grows with what
// arrives, so that a false length alone allocates little.
func readBuffer(r *wireReader, n int) *buffer {
	b := getBuffer(min(n, 1<<maxBufferClass))
	r.Fill(b.b)
	for r.Err() == nil && len(b.b) < n {
		at := len(b.b)
		more := min(n-at, at)
		b = &buffer{append(b.b, make([]byte, more)...), -1}
		r.Fill(b.b[at:])
	}
	return b
}

// Buffers are pooled by size, in powers of two from 4 KiB to 64 MiB.
const minBufferClass, maxBufferClass = 12, 26

var buffers [maxBufferClass + 1]sync.Pool

// getBuffer returns a buffer of n bytes, at most 64 MiB.
func getBuffer(n int) *buffer {
	class := max(bits.Len(uint(n-1)), minBufferClass)
	if b, ok := buffers[class].Get().(*buffer); ok {
		b.b = b.b[:n]
		return b
	}
	return &buffer{make([]byte, n, 1<<class), class}
}

func putBuffer(b *buffer) {
	if b != nil && b.class >= 0 {
		buffers[b.class].Put(b)
	}
}
