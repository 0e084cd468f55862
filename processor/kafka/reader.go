package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// maxResponse is more than any broker sends: a size beyond it is not Kafka.
const maxResponse = 1 << 30

// wireReader reads a response field by field from the connection, so that the records
// of a fetch go from the socket to their own buffer in one copy. The first error
// sticks, and everything after it reads as zero: one look at Err, or at what End
// returns, does for many fields. No length is believed beyond what the response has
// left, so that a broken one cannot make the reader allocate.
type wireReader struct {
	r    io.Reader
	left int // bytes of the response not yet read
	err  error
	tmp  [256]byte
}

// newWireReader reads from memory what has neither size nor header, such as what another
// member of a group wrote: nothing in it is trusted.
func newWireReader(b []byte) *wireReader { return &wireReader{r: bytes.NewReader(b), left: len(b)} }

// Ask sends the request that appendRequest began, and reads size and header of its response.
func (r *wireReader) Ask(rw io.ReadWriter, request []byte, correlation int32, flexible bool) error {
	if err := writeRequest(rw, request); err != nil {
		return err
	}
	return r.ReadHeader(rw, correlation, flexible)
}

// ReadHeader reads size and header of the response to a request. flexible says that the
// header ends with tagged fields (KIP-482).
func (r *wireReader) ReadHeader(from io.Reader, correlation int32, flexible bool) error {
	r.r, r.left, r.err = from, 4, nil
	size := r.Int32()
	if r.err == nil && (size < 4 || size > maxResponse) {
		r.err = fmt.Errorf("response of %d bytes: not a Kafka broker", size)
	}
	r.left = int(size)
	if got := r.Int32(); r.err == nil && got != correlation {
		r.err = fmt.Errorf("response to request %d where %d was expected", got, correlation)
	}
	if flexible {
		r.Tags()
	}
	return r.err
}

// End skips what is left, so that the connection can be used again, and returns the
// first error.
func (r *wireReader) End() error {
	if r.err == nil && r.left > 0 {
		_, r.err = io.CopyN(io.Discard, r.r, int64(r.left))
		r.left = 0
	}
	return r.err
}

// Err returns the first error.
func (r *wireReader) Err() error { return r.err }

// Fill reads len(b) bytes.
func (r *wireReader) Fill(b []byte) {
	if r.err == nil && len(b) > r.left {
		r.err = errTruncated
	}
	if r.err == nil {
		if _, err := io.ReadFull(r.r, b); err != nil {
			r.err = err
		}
		r.left -= len(b)
	}
	if r.err != nil {
		clear(b)
	}
}

func (r *wireReader) uint8() uint8 {
	r.Fill(r.tmp[:1])
	return r.tmp[0]
}

// Int16 reads two bytes.
func (r *wireReader) Int16() int16 {
	r.Fill(r.tmp[:2])
	return int16(binary.BigEndian.Uint16(r.tmp[:]))
}

// Int32 reads four bytes.
func (r *wireReader) Int32() int32 {
	r.Fill(r.tmp[:4])
	return int32(binary.BigEndian.Uint32(r.tmp[:]))
}

// Int64 reads eight bytes.
func (r *wireReader) Int64() int64 {
	r.Fill(r.tmp[:8])
	return int64(binary.BigEndian.Uint64(r.tmp[:]))
}

func (r *wireReader) uvarint() uint64 {
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		b := r.uint8()
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x
		}
	}
	if r.err == nil {
		r.err = errTruncated
	}
	return 0
}

// Bytes reads n bytes. Up to 256 are valid until the next read only.
func (r *wireReader) Bytes(n int) []byte {
	if r.err == nil && (n < 0 || n > r.left) {
		r.err = errTruncated
	}
	if r.err != nil || n == 0 {
		return nil
	}
	b := r.tmp[:]
	if n > len(b) {
		b = make([]byte, n)
	}
	r.Fill(b[:n])
	return b[:n]
}

// String16 reads a string with its length in two bytes, -1 for null; as Bytes.
func (r *wireReader) String16() []byte { return r.Bytes(max(int(r.Int16()), 0)) }

// CompactString reads a string with its length plus one as a varint, 0 for null
// (KIP-482); as Bytes.
func (r *wireReader) CompactString() []byte {
	n := r.uvarint()
	if n > uint64(r.left) && r.err == nil {
		r.err = errTruncated
	}
	return r.Bytes(max(int(n)-1, 0))
}

// Count reads the length of an array whose elements take size bytes at least, and
// fails where the response has not as many bytes left. A null array has none.
func (r *wireReader) Count(size int) int {
	n := int(r.Int32())
	if r.err == nil && n > r.left/size {
		r.err = errTruncated
	}
	if r.err != nil {
		return 0
	}
	return max(n, 0)
}

// CompactCount is Count for flexible versions, which write the length plus one as a
// varint (KIP-482).
func (r *wireReader) CompactCount(size int) int {
	n := r.uvarint()
	if r.err == nil && n > uint64(r.left/size)+1 {
		r.err = errTruncated
	}
	if r.err != nil {
		return 0
	}
	return max(int(n)-1, 0)
}

// Tags skips tagged fields (KIP-482).
func (r *wireReader) Tags() {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		r.uvarint()
		r.Bytes(int(min(r.uvarint(), maxResponse)))
	}
}

// errTruncated is a response that ends before it should.
var errTruncated = fmt.Errorf("kafka: response is shorter than its content: %w", io.ErrUnexpectedEOF)
