package record

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Header is a record header; a nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record as it came from the broker. Its slices alias the chunk
// or, in a compressed batch, the iterator's buffer: they hold until the next
// call of Next or Reset, and no longer than the chunk.
type Record struct {
	Offset      int64
	Timestamp   int64  // ms since the epoch
	Key, Value  []byte // nil: null
	Headers     []byte // as encoded; see Header and AppendHeaders
	HeaderCount int
}

// Header returns the value of the last header of that name. It allocates
// nothing; a null value is nil and ok.
func (r *Record) Header(name string) (value []byte, ok bool) {
	p := r.Headers
	for i := 0; i < r.HeaderCount; i++ {
		var k, v []byte
		var err error
		if k, v, p, err = nextHeader(p); err != nil {
			break
		}
		if string(k) == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// AppendHeaders appends the headers in their order. Values alias the record,
// keys are copies.
func (r *Record) AppendHeaders(dst []Header) []Header {
	p := r.Headers
	for i := 0; i < r.HeaderCount; i++ {
		var k, v []byte
		var err error
		if k, v, p, err = nextHeader(p); err != nil {
			break
		}
		dst = append(dst, Header{Key: string(k), Value: v})
	}
	return dst
}

// nextHeader takes one header off p.
func nextHeader(p []byte) (key, value, rest []byte, err error) {
	kl, i := varint(p, 0)
	if i < 0 || kl < 0 || kl > int64(len(p)-i) {
		return nil, nil, nil, errHeaders
	}
	key = p[i : i+int(kl)]
	vl, j := varint(p, i+int(kl))
	if j < 0 || vl > int64(len(p)-j) {
		return nil, nil, nil, errHeaders
	}
	if vl < 0 {
		return key, nil, p[j:], nil
	}
	e := j + int(vl)
	return key, p[j:e:e], p[e:], nil
}

// TP names one partition of a topic.
type TP struct {
	Topic     string
	Partition int32
}

// Compare orders partitions by topic, then by number.
func (tp TP) Compare(other TP) int {
	return cmp.Or(strings.Compare(tp.Topic, other.Topic), cmp.Compare(tp.Partition, other.Partition))
}

// String returns topic/partition.
func (tp TP) String() string { return tp.Topic + "/" + strconv.Itoa(int(tp.Partition)) }

// Chunk is a section of a partition's log as one fetch returned it: whole record
// batches, the last of which may be cut off.
type Chunk struct {
	TP   TP
	From int64 // the position asked for: records before it are skipped
	Next int64 // the position after the batches; 0: unknown

	Raw     []byte       // record batches; see Iterator
	Aborted []AbortedTxn // in read-committed mode, by first offset
}

// AbortedTxn says that the transactional records of a producer from an offset
// on, up to its next abort marker, are not to be seen.
type AbortedTxn struct{ ProducerID, FirstOffset int64 }

// CorruptError says that bytes of a partition's log cannot be read. Offset is
// the first that could not be; what comes before it was delivered.
type CorruptError struct {
	TP     TP
	Offset int64
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("record: %s: corrupt data at offset %d: %v", e.TP, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

var (
	errCRC      = errors.New("batch does not match its CRC")
	errLength   = errors.New("batch length is impossible")
	errRecord   = errors.New("record is malformed")
	errHeaders  = errors.New("record headers are malformed")
	errCount    = errors.New("record count of the batch does not match its content")
	errSequence = errors.New("offsets do not ascend")
)

// ErrNowhere is returned by Scan for a header that leads past the end of the log.
var ErrNowhere = errors.New("batch header leads past the end of the log, and no batch follows that would say where to go on")

func errMagic(m byte) error {
	if m < 2 {
		return fmt.Errorf(
			"message format v%d, written for brokers before Kafka 0.11; only v2 (0.11 and later) is read: rewrite the topic with a newer client", m)
	}
	return fmt.Errorf("message format v%d is not known; only v2 is read", m)
}

// Iterator reads the visible records of a chunk: at or after the chunk's From,
// no control records and none of aborted transactions. One goroutine; it keeps
// its buffers from chunk to chunk, and reading a record allocates nothing.
//
//	for it.Reset(c); it.Next(); {
//		r := it.Record()
//		...
//	}
//	if it.Err() != nil { ... }
//	next := it.NextOffset()
type Iterator struct {
	rec Record

	recs  []byte // rest of the open batch, decompressed
	left  int    // records in it
	open  int    // records that were left in it when it turned out to be unreadable
	delta int64  // the last record's offset delta, -1 before the first
	last  int64  // the batch's last offset delta
	base  int64
	first int64 // timestamp that deltas count from
	fixed bool  // log append time: every record has the timestamp first

	raw      []byte // rest of the chunk
	batch    []byte // the batch opened last; nil: what is next in raw cannot be told apart
	damaged  bool   // it does not match its CRC: nothing in its header is sure
	cut      bool   // see Cut
	from     int64
	until    int64 // the chunk's Next
	next     int64
	end      int64 // after the last batch seen, visible or not
	tp       TP
	txns     []AbortedTxn // rest of the chunk's, by first offset
	aborted  []int64      // producers whose records are being dropped
	skipped  Skipped
	inflated []byte
	err      error
}

// Skipped are records that are in the log and not visible.
type Skipped struct {
	Aborted int64 // of aborted transactions
	Control int64 // markers
}

// Skipped returns what has been passed over since Reset.
func (it *Iterator) Skipped() Skipped { return it.skipped }

// maxKept is how much memory for decompression an iterator keeps from one chunk
// to the next.
const maxKept = 16 << 20

// Reset starts on a chunk.
func (it *Iterator) Reset(c *Chunk) {
	inflated, aborted := it.inflated, it.aborted[:0]
	if cap(inflated) > maxKept {
		inflated = nil
	}
	*it = Iterator{raw: c.Raw, from: c.From, next: c.From, until: c.Next, tp: c.TP, txns: c.Aborted, inflated: inflated, aborted: aborted}
}

// Record returns the record that Next found.
func (it *Iterator) Record() *Record { return &it.rec }

// Err returns what ended Next early: a *CorruptError, or nil.
func (it *Iterator) Err() error { return it.err }

// NextOffset returns the position after what has been read. When Next has
// returned false that is after the last batch, regardless of its content: markers and
// batches that are aborted or emptied by compaction count. After an error it is
// the error's offset.
func (it *Iterator) NextOffset() int64 { return it.next }

// Next advances to the next visible record and says whether there is one.
func (it *Iterator) Next() bool {
	for {
		if it.left == 0 {
			if !it.openBatch() {
				return false
			}
			continue
		}
		// length attributes timestampDelta offsetDelta key value headers
		p := it.recs
		size, i := varint(p, 0)
		if i < 0 || size < 6 || size > int64(len(p)-i) {
			return it.fail(errRecord)
		}
		end := i + int(size)
		it.recs = p[end:]
		p = p[:end:end]
		i++ // attributes
		ts, i := varint(p, i)
		if i < 0 {
			return it.fail(errRecord)
		}
		delta, i := varint(p, i)
		if i < 0 {
			return it.fail(errRecord)
		}
		if delta <= it.delta || delta > it.last {
			return it.fail(errSequence)
		}
		it.delta = delta
		r := &it.rec
		kl, i := varint(p, i)
		if i < 0 || kl > int64(end-i) {
			return it.fail(errRecord)
		}
		r.Key = nil
		if kl >= 0 {
			e := i + int(kl)
			r.Key = p[i:e:e]
			i = e
		}
		vl, i := varint(p, i)
		if i < 0 || vl > int64(end-i) {
			return it.fail(errRecord)
		}
		r.Value = nil
		if vl >= 0 {
			e := i + int(vl)
			r.Value = p[i:e:e]
			i = e
		}
		if i == end-1 && p[i] == 0 {
			r.HeaderCount, r.Headers = 0, nil
		} else if !it.headers(p, i) {
			return false
		}
		r.Offset = it.base + delta
		r.Timestamp = it.first
		if !it.fixed {
			r.Timestamp += ts
		}
		it.left--
		if it.left == 0 {
			if len(it.recs) != 0 {
				return it.fail(errCount)
			}
			it.next = it.base + it.last + 1
		} else {
			it.next = r.Offset + 1
		}
		if r.Offset < it.from {
			if it.next < it.from {
				it.next = it.from
			}
			continue
		}
		return true
	}
}

// headers checks the headers that begin at p[i] and keeps them as they are.
func (it *Iterator) headers(p []byte, i int) bool {
	n, i := varint(p, i)
	if i < 0 || n < 0 || n > int64(len(p)-i)/2 {
		return it.fail(errHeaders)
	}
	it.rec.HeaderCount, it.rec.Headers = int(n), p[i:]
	rest := p[i:]
	for ; n > 0; n-- {
		var err error
		if _, _, rest, err = nextHeader(rest); err != nil {
			return it.fail(err)
		}
	}
	if len(rest) != 0 {
		return it.fail(errHeaders)
	}
	return true
}

// openBatch goes to the next batch with records to look at. It returns false at
// the end of the chunk or on an error.
func (it *Iterator) openBatch() bool {
	be := binary.BigEndian
	for it.err == nil {
		b, rest, err := cutBatch(it.raw)
		if err != nil {
			return it.fail(err)
		}
		if b == nil { // the end, or a batch cut off by the fetch's byte limit
			if len(it.raw) >= 8 && int64(be.Uint64(it.raw)) < it.end {
				return it.fail(errSequence)
			}
			it.raw, it.recs = nil, nil
			return false
		}
		it.raw, it.batch = rest, nil
		base := int64(be.Uint64(b))
		last := int64(int32(be.Uint32(b[23:])))
		if base < 0 || base > math.MaxInt64-math.MaxInt32-1 {
			return it.fail(errLength)
		}
		if base < it.end {
			return it.fail(errSequence)
		}
		it.batch, it.base = b, base
		// The CRC comes first: without it not even the last offset is sure.
		if it.damaged = crc32.Checksum(b[21:], castagnoli) != be.Uint32(b[17:]); it.damaged {
			if len(rest) >= 8 && int64(be.Uint64(rest)) <= it.from {
				continue // all of it is before the position
			}
			return it.fail(errCRC)
		}
		if last < 0 {
			return it.fail(errLength)
		}
		it.end = base + last + 1
		if base+last < it.from {
			continue
		}
		attrs := be.Uint16(b[21:])
		producer := int64(be.Uint64(b[43:]))
		for len(it.txns) > 0 && it.txns[0].FirstOffset <= base+last {
			if !slices.Contains(it.aborted, it.txns[0].ProducerID) {
				it.aborted = append(it.aborted, it.txns[0].ProducerID)
			}
			it.txns = it.txns[1:]
		}
		if attrs&attrControl != 0 {
			if isAbortMarker(b[batchHeader:]) {
				if i := slices.Index(it.aborted, producer); i >= 0 {
					it.aborted = slices.Delete(it.aborted, i, i+1)
				}
			}
			it.skipped.Control++
			it.next = base + last + 1
			continue
		}
		n := int32(be.Uint32(b[57:]))
		if n == 0 || attrs&attrTransactional != 0 && slices.Contains(it.aborted, producer) {
			it.skipped.Aborted += int64(max(n, 0))
			it.next = base + last + 1
			continue
		}
		// A record takes 7 bytes at least, and its offset a place of its own.
		if n < 0 || int64(n) > last+1 {
			return it.fail(errCount)
		}
		recs := b[batchHeader:]
		if codec := Codec(attrs & attrCodec); codec != CodecNone {
			if it.inflated, err = decompress(codec, it.inflated, recs); err != nil {
				return it.fail(fmt.Errorf("%v: %w", codec, err))
			}
			recs = it.inflated
		}
		it.recs, it.left, it.delta, it.last = recs, int(n), -1, last
		it.base, it.first, it.fixed = base, int64(be.Uint64(b[27:])), attrs&attrAppendTime != 0
		if it.fixed {
			it.first = int64(be.Uint64(b[35:]))
		}
		return true
	}
	return false
}

// fail ends the iteration. It always returns false.
func (it *Iterator) fail(err error) bool {
	it.err = &CorruptError{TP: it.tp, Offset: it.next, Err: err}
	it.open, it.left, it.recs = it.left, 0, nil
	return false
}

// cutBatch takes one batch off raw; nil when there is no whole one.
func cutBatch(raw []byte) (batch, rest []byte, err error) {
	if len(raw) < 17 {
		return nil, nil, nil
	}
	if raw[16] != 2 {
		return nil, nil, errMagic(raw[16])
	}
	n := int64(int32(binary.BigEndian.Uint32(raw[8:]))) + 12
	if n < batchHeader {
		return nil, nil, errLength
	}
	if n > int64(len(raw)) {
		return nil, nil, nil
	}
	return raw[:n:n], raw[n:], nil
}

// isAbortMarker reads a control batch: its one record's key is version int16,
// type int16, where 0 is abort and 1 commit (KIP-98).
func isAbortMarker(recs []byte) bool {
	_, i := varint(recs, 0) // length
	if i < 0 {
		return false
	}
	i++ // attributes
	for k := 0; k < 2; k++ {
		if _, i = varint(recs, i); i < 0 {
			return false
		}
	}
	n, i := varint(recs, i)
	return i >= 0 && n >= 4 && int64(len(recs)-i) >= 4 && binary.BigEndian.Uint16(recs[i+2:]) == 0
}

// varint reads a zigzag varint at p[i:] and returns the index after it, -1 when
// there is none.
func varint(p []byte, i int) (int64, int) {
	if uint(i) < uint(len(p)) {
		if b := p[i]; b < 0x80 {
			return int64(b>>1) ^ -int64(b&1), i + 1
		}
		if uint(i+1) < uint(len(p)) && p[i+1] < 0x80 {
			u := uint64(p[i]&0x7f) | uint64(p[i+1])<<7
			return int64(u>>1) ^ -int64(u&1), i + 2
		}
		return longVarint(p, i)
	}
	return 0, -1
}

func longVarint(p []byte, i int) (int64, int) {
	u, n := binary.Uvarint(p[i:])
	if n <= 0 {
		return 0, -1
	}
	return int64(u>>1) ^ -int64(u&1), i + n
}

// Scan walks the batch headers of a fetch response. next is the offset after the
// last whole batch (from when there is none), whole how many bytes those take,
// and need the size of a batch that did not fit, 0 if nothing was cut off. end is
// where the log ends: a header that leads past the batch that follows is damaged, and that batch is the next
// position. A header that leads past the end is damaged too, unless end is older than raw, so a caller may
// fetch again (ErrNowhere).
func Scan(raw []byte, from, end int64) (next int64, whole, need int, err error) {
	next = from
	rest := raw
	for {
		b, r, err := cutBatch(rest)
		if err != nil {
			return next, whole, 0, err
		}
		if b == nil {
			if len(rest) >= 12 {
				need = int(binary.BigEndian.Uint32(rest[8:])) + 12
			}
			return next, whole, need, nil
		}
		after := batchEnd(b, r, end)
		if after < 0 {
			return next, whole, 0, ErrNowhere
		}
		next = max(next, after)
		whole += len(b)
		rest = r
	}
}

// batchEnd returns the offset after batch b: what its header says, unless that is
// past the batch at the beginning of rest, or past end where nothing follows. Then
// it is where the next batch begins, and -1 if that is not known.
func batchEnd(b, rest []byte, end int64) int64 {
	be := binary.BigEndian
	base, last := int64(be.Uint64(b)), int64(int32(be.Uint32(b[23:])))
	after, follows := base+last+1, len(rest) >= 8
	if follows {
		end = int64(be.Uint64(rest))
	}
	switch {
	case last >= 0 && after <= end:
		return after
	case follows && end > base:
		return end
	}
	return -1
}
