package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"
)

// Record batch v2 (KIP-98), all integers big-endian:
//
//	 0 base offset          int64    27 first timestamp  int64
//	 8 length after this    int32    35 max timestamp    int64
//	12 leader epoch         int32    43 producer id      int64
//	16 magic = 2            int8     51 producer epoch   int16
//	17 CRC-32C of 21..      uint32   53 base sequence    int32
//	21 attributes           int16    57 record count     int32
//	23 last offset delta    int32    61 records
//
// Attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control.
const (
	batchHeader = 61

	attrCodec         = 7
	attrAppendTime    = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

// SizePrefix is the number of bytes before a batch in a Produce request: the length of
// its BYTES field.
const SizePrefix = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrTooLarge is wrapped by the error for a record that does not fit into a
// batch of its own.
var ErrTooLarge = errors.New("record is larger than a batch may be")

// Batches collects the records for one partition as record batches, each closed
// before it exceeds the limit. The bodies are encoded once; Seal stamps a producer's id,
// epoch and sequence on them when they are sent, and a retry sends the same bytes.
// It keeps its memory over Reset. One goroutine at a time.
type Batches struct {
	max   int
	first int // size from which on the first batch takes no more records
	codec Codec

	open  body   // being filled
	done  []body // closed, in order
	spare []body // memory of earlier rounds
	count int    // records in all
	// Of the record between Open and Close: where its value begins in open.buf, and
	// its timestamp.
	valueAt int
	valueTS int64
	bytes   int // encoded, uncompressed bytes in all
}

// body is one batch: size prefix, header and records.
type body struct {
	buf          []byte
	packed       []byte // compressed form; empty: not smaller or no codec
	codec        Codec  // of what is sent
	compressed   bool   // compression has been tried
	records      int
	firstTS      int64
	maxTimestamp int64
}

// compress makes the compressed form, unless it has been tried.
func (b *body) compress(codec Codec) {
	if b.compressed {
		return
	}
	b.compressed = true
	if codec == CodecNone {
		return
	}
	b.packed = append(b.packed[:0], b.buf[:SizePrefix+batchHeader]...)
	b.packed = compress(codec, b.packed, b.buf[SizePrefix+batchHeader:])
	b.codec = codec
	if len(b.packed) >= len(b.buf) { // noise does not compress: send it as it is
		b.packed, b.codec = b.packed[:0], CodecNone
	}
}

// NewBatches returns an empty builder. A batch's encoded size before compression,
// header included, stays within maxBytes, which belongs below the topic's
// max.message.bytes.
func NewBatches(maxBytes int, codec Codec) *Batches {
	return &Batches{max: maxBytes, first: maxBytes, codec: codec}
}

// firstBatch bounds the first batch of a partition in a transaction, unless a single
// record is larger: a request of requestBytes holds the first batches of 64 partitions.
const firstBatch = 16 << 10

// NewTransactionBatches returns an empty builder as NewBatches does, of which the
// first batch is small. Brokers take the first batches of a transaction one request
// at a time (KIP-890), so these should be few; the batches after them travel
// beside one another.
func NewTransactionBatches(maxBytes int, codec Codec) *Batches {
	return &Batches{max: maxBytes, first: min(maxBytes, firstBatch), codec: codec}
}

// Count returns the number of records appended since the last Reset.
func (b *Batches) Count() int { return b.count }

// Bytes returns the size of the batches before compression.
func (b *Batches) Bytes() int { return b.bytes }

// Reset empties b and keeps its memory. It invalidates what Seal returned.
func (b *Batches) Reset() {
	if b.open.records > 0 {
		b.spare = append(b.spare, b.open)
	}
	slices.Reverse(b.done) // each gets the memory it had: the first may be small
	b.spare = append(b.spare, b.done...)
	b.done = b.done[:0]
	b.open = body{}
	b.count, b.bytes = 0, 0
}

// BatchSize returns the size of a batch with this record alone.
func BatchSize(key, value []byte, headers []Header) int {
	size := 3 + bytesSize(key) + bytesSize(value) + headersSize(headers) // attributes and deltas take a byte each
	return batchHeader + size + uvarintSize(zigzag(int64(size)))
}

// Append adds a record: a timestamp in ms since the epoch, key and value (nil
// is null, empty is not) and headers. An error wraps ErrTooLarge, leaves b as it
// was, and means that no batch can hold the record.
func (b *Batches) Append(timestampMs int64, key, value []byte, headers []Header) error {
	// Sizes first: whether the record fits is known before anything is written.
	// Deltas depend on the batch it lands in; a new batch only makes them smaller.
	o := &b.open
	var ts, delta uint64
	if o.records > 0 {
		ts, delta = zigzag(timestampMs-o.firstTS), zigzag(int64(o.records))
	}
	size := 1 + uvarintSize(ts) + uvarintSize(delta) + bytesSize(key) + bytesSize(value)
	if len(headers) == 0 {
		size++
	} else {
		size += headersSize(headers)
	}
	whole := size + uvarintSize(zigzag(int64(size)))
	if o.records > 0 && len(o.buf)-SizePrefix+whole > b.limit() {
		b.closeFull()
		return b.Append(timestampMs, key, value, headers)
	}
	if o.records == 0 {
		if batchHeader+whole > b.max {
			return fmt.Errorf("record: record of %d bytes in a batch of at most %d: %w", whole, b.max, ErrTooLarge)
		}
		b.start(timestampMs)
	}
	n := len(o.buf)
	if cap(o.buf)-n < whole {
		o.buf = growBody(o.buf, whole, b.max+SizePrefix)
	}
	p := o.buf[n : n+whole]
	i := putUvarint(p, 0, zigzag(int64(size)))
	p[i] = 0 // attributes: none are defined
	i = putUvarint(p, i+1, ts)
	i = putUvarint(p, i, delta)
	i = putBytes(p, i, key)
	i = putBytes(p, i, value)
	if len(headers) == 0 {
		p[i] = 0
	} else {
		putHeaders(p, i, headers)
	}
	o.buf = o.buf[:n+whole]
	o.records++
	if timestampMs > o.maxTimestamp {
		o.maxTimestamp = timestampMs
	}
	b.count++
	b.bytes += whole
	return nil
}

// Open begins a record whose value the caller encodes in place, in at most most
// bytes, and ends it with Close: it returns the memory for the value. Between the
// two b must not be used otherwise. A record that might not fit into a batch
// of its own is refused as by Append.
func (b *Batches) Open(timestampMs int64, key []byte, most int) ([]byte, error) {
	o := &b.open
	// The record with its length, and nothing in it at its smallest.
	whole := 3*binary.MaxVarintLen32 + 2*binary.MaxVarintLen64 + 2 + len(key) + most
	if o.records > 0 && len(o.buf)-SizePrefix+whole > b.limit() {
		b.closeFull()
	}
	if o.records == 0 {
		if batchHeader+whole > b.max {
			return nil, fmt.Errorf("record: record of up to %d bytes in a batch of at most %d: %w", whole, b.max, ErrTooLarge)
		}
		b.start(timestampMs)
	}
	n := len(o.buf)
	if cap(o.buf)-n < whole {
		o.buf = growBody(o.buf, whole, b.max+SizePrefix)
	}
	p := o.buf[n : n+whole]
	i := 2 // bytes of most lengths
	p[i] = 0
	i = putUvarint(p, i+1, zigzag(timestampMs-o.firstTS))
	i = putUvarint(p, i, zigzag(int64(o.records)))
	i = putBytes(p, i, key)
	b.valueAt = n + i + 2
	b.valueTS = timestampMs
	return p[i+2 : i+2+most], nil
}

// Close ends the record that Open began; its value has n bytes.
func (b *Batches) Close(n int) {
	o := &b.open
	start, at := len(o.buf), b.valueAt
	buf := o.buf[:cap(o.buf)]
	length := uint64(n) << 1
	if w := uvarintSize(length); w != 2 {
		copy(buf[at-2+w:], buf[at:at+n])
		at += w - 2
	}
	putUvarint(buf, at-uvarintSize(length), length)
	end := at + n
	buf[end] = 0 // no headers
	end++
	size := zigzag(int64(end - start - 2))
	if w := uvarintSize(size); w != 2 {
		copy(buf[start+w:], buf[start+2:end])
		end += w - 2
	}
	putUvarint(buf, start, size)
	o.buf = buf[:end]
	o.records++
	o.maxTimestamp = max(o.maxTimestamp, b.valueTS)
	b.count++
	b.bytes += end - start
}

// start makes the open batch ready for its first record.
func (b *Batches) start(timestampMs int64) {
	if n := len(b.spare); n > 0 {
		b.open = b.spare[n-1]
		b.spare = b.spare[:n-1]
	}
	o := &b.open
	*o = body{buf: o.buf, packed: o.packed[:0], firstTS: timestampMs, maxTimestamp: timestampMs}
	if cap(o.buf) < SizePrefix+batchHeader {
		o.buf = make([]byte, 0, min(4096, max(b.max, batchHeader)+SizePrefix))
	}
	o.buf = o.buf[:SizePrefix+batchHeader]
	b.bytes += batchHeader
}

// limit returns the size up to which the open batch takes a further record.
func (b *Batches) limit() int {
	if len(b.done) == 0 {
		return b.first
	}
	return b.max
}

// closeFull closes the open batch, which the next record does not fit into, and compresses it here, in the goroutine that
// fills it, so that no commit waits for that.
func (b *Batches) closeFull() {
	b.open.compress(b.codec)
	b.closeOpen()
}

// Cut closes the open batch: the next record begins another one.
func (b *Batches) Cut() {
	if b.open.records > 0 {
		b.closeFull()
	}
}

func (b *Batches) closeOpen() {
	b.done = append(b.done, b.open)
	b.open = body{}
}

// Finish closes the batch being filled and returns the number of batches.
func (b *Batches) Finish() int {
	if b.open.records > 0 {
		b.closeOpen()
	}
	return len(b.done)
}

// Records returns the number of records of batch i.
func (b *Batches) Records(i int) int { return b.done[i].records }

// Size returns the encoded size of batch i before compression.
func (b *Batches) Size(i int) int { return len(b.done[i].buf) }

// Seal stamps batch i and returns it with its four-byte size prefix, as a Produce
// request carries it; valid until Reset or until i is sealed again. The first call
// compresses the last batch, those before it are compressed when they are full. Later calls only rewrite
// header and CRC, and with the same arguments return the same bytes.
func (b *Batches) Seal(i int, producerID int64, epoch int16, sequence int32, transactional bool) []byte {
	d := &b.done[i]
	d.compress(b.codec)
	out := d.buf
	if len(d.packed) > 0 {
		out = d.packed
	}
	attrs := uint16(d.codec)
	if transactional {
		attrs |= attrTransactional
	}
	be := binary.BigEndian
	be.PutUint32(out, uint32(len(out)-SizePrefix))
	h := out[SizePrefix:]
	be.PutUint64(h[0:], 0) // the broker assigns offsets
	be.PutUint32(h[8:], uint32(len(h)-12))
	be.PutUint32(h[12:], 0xffffffff) // no leader epoch
	h[16] = 2
	be.PutUint16(h[21:], attrs)
	be.PutUint32(h[23:], uint32(d.records-1))
	be.PutUint64(h[27:], uint64(d.firstTS))
	be.PutUint64(h[35:], uint64(d.maxTimestamp))
	be.PutUint64(h[43:], uint64(producerID))
	be.PutUint16(h[51:], uint16(epoch))
	be.PutUint32(h[53:], uint32(sequence))
	be.PutUint32(h[57:], uint32(d.records))
	be.PutUint32(h[17:], crc32.Checksum(h[21:], castagnoli))
	return out
}

func zigzag(x int64) uint64 { return uint64(x<<1) ^ uint64(x>>63) }

// uvarintSize returns how many bytes x takes: one for each seven bits.
func uvarintSize(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

func bytesSize(b []byte) int { return uvarintSize(uint64(len(b))<<1) + len(b) }

func headersSize(hs []Header) int {
	n := uvarintSize(uint64(len(hs)) << 1)
	for i := range hs {
		h := &hs[i]
		n += uvarintSize(uint64(len(h.Key))<<1) + len(h.Key) + bytesSize(h.Value)
	}
	return n
}

// putUvarint writes x at p[i:] and returns the index after it.
func putUvarint(p []byte, i int, x uint64) int {
	for x >= 0x80 {
		p[i] = byte(x) | 0x80
		x >>= 7
		i++
	}
	p[i] = byte(x)
	return i + 1
}

// putBytes writes b with its length, -1 for nil.
func putBytes(p []byte, i int, b []byte) int {
	if b == nil {
		p[i] = 1 // zigzag of -1
		return i + 1
	}
	i = putUvarint(p, i, uint64(len(b))<<1)
	return i + copy(p[i:], b)
}

func putHeaders(p []byte, i int, hs []Header) int {
	i = putUvarint(p, i, uint64(len(hs))<<1)
	for k := range hs {
		h := &hs[k]
		i = putUvarint(p, i, uint64(len(h.Key))<<1)
		i += copy(p[i:], h.Key)
		i = putBytes(p, i, h.Value)
	}
	return i
}

// growBody makes room for n more bytes, doubling up to the limit.
func growBody(b []byte, n, limit int) []byte {
	c := max(2*cap(b), len(b)+n)
	if c > limit {
		c = max(limit, len(b)+n)
	}
	nb := make([]byte, len(b), c)
	copy(nb, b)
	return nb
}
