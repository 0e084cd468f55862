package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// emptyMetadata asks for the brokers and no topic.
func emptyMetadata() *metadata.Request { return &metadata.Request{TopicNames: []string{}} }

// appendRequest begins a request: a place for its size, and the header (v2 for
// a flexible version, KIP-482, else v1).
func appendRequest(b []byte, key protocol.ApiKey, version int16, correlation int32, clientID string, flexible bool) []byte {
	be := binary.BigEndian
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint16(b, uint16(key))
	b = be.AppendUint16(b, uint16(version))
	b = be.AppendUint32(b, uint32(correlation))
	b = be.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	if flexible {
		b = append(b, 0) // no tagged fields
	}
	return b
}

// writeRequest fills in the size and sends.
func writeRequest(w io.Writer, b []byte) error {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := w.Write(b)
	return err
}

func appendCompactString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s)+1)), s...)
}

// maxResponse is more than any broker sends: a size beyond it is not Kafka.
const maxResponse = 1 << 30

// responseReader reads a response field by field from the connection, so that
// the records of a fetch go from the socket to their own buffer in one copy. The
// first error sticks, and everything after it reads as zero.
type responseReader struct {
	r    io.Reader
	left int // bytes of the response not yet read
	err  error
	tmp  [256]byte
}

// begin reads size and header of the response to a request.
func (r *responseReader) begin(from io.Reader, correlation int32, flexible bool) error {
	r.r, r.left, r.err = from, 4, nil
	size := r.int32()
	if r.err == nil && (size < 4 || size > maxResponse) {
		r.err = fmt.Errorf("response of %d bytes: not a Kafka broker", size)
	}
	r.left = int(size)
	if got := r.int32(); r.err == nil && got != correlation {
		r.err = fmt.Errorf("response to request %d where %d was expected", got, correlation)
	}
	if flexible {
		r.tags()
	}
	return r.err
}

// end skips what is left, so that the connection can be used again.
func (r *responseReader) end() error {
	if r.err == nil && r.left > 0 {
		_, r.err = io.CopyN(io.Discard, r.r, int64(r.left))
		r.left = 0
	}
	return r.err
}

// fill reads len(b) bytes.
func (r *responseReader) fill(b []byte) {
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

func (r *responseReader) int8() int8 {
	r.fill(r.tmp[:1])
	return int8(r.tmp[0])
}

func (r *responseReader) int16() int16 {
	r.fill(r.tmp[:2])
	return int16(binary.BigEndian.Uint16(r.tmp[:]))
}

func (r *responseReader) int32() int32 {
	r.fill(r.tmp[:4])
	return int32(binary.BigEndian.Uint32(r.tmp[:]))
}

func (r *responseReader) int64() int64 {
	r.fill(r.tmp[:8])
	return int64(binary.BigEndian.Uint64(r.tmp[:]))
}

func (r *responseReader) uvarint() uint64 {
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		b := uint8(r.int8())
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

// bytes reads n bytes; valid until the next read when they are few.
func (r *responseReader) bytes(n int) []byte {
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
	r.fill(b[:n])
	return b[:n]
}

// string16 reads a string with its length in two bytes, -1 for null.
func (r *responseReader) string16() []byte { return r.bytes(max(int(r.int16()), 0)) }

// compactString reads a string with its length plus one as a varint, 0 for null.
func (r *responseReader) compactString() []byte {
	n := r.uvarint()
	if n > uint64(r.left) && r.err == nil {
		r.err = errTruncated
	}
	return r.bytes(max(int(n)-1, 0))
}

// count reads the length of an array whose elements take size bytes at least.
func (r *responseReader) count(size int) int {
	n := int(r.int32())
	if r.err == nil && n > r.left/size {
		r.err = errTruncated
	}
	if r.err != nil {
		return 0
	}
	return max(n, 0)
}

// compactCount is count for flexible versions.
func (r *responseReader) compactCount(size int) int {
	n := r.uvarint()
	if r.err == nil && n > uint64(r.left/size)+1 {
		r.err = errTruncated
	}
	if r.err != nil {
		return 0
	}
	return max(int(n)-1, 0)
}

// tags skips tagged fields.
func (r *responseReader) tags() {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		r.uvarint()
		r.bytes(int(min(r.uvarint(), maxResponse)))
	}
}

// retryDelay grows from one attempt to the next, with jitter so that workers do
// not come all at once.
type retryDelay struct{ first, max, next time.Duration }

// duration returns how long to wait this time.
func (d *retryDelay) duration() time.Duration {
	if d.next == 0 {
		d.next = d.first
	}
	now := d.next
	d.next = min(2*now, d.max)
	return now/2 + rand.N(now/2+1)
}

// wait sleeps, or returns the context's error.
func (d *retryDelay) wait(ctx context.Context) error { return sleep(ctx, d.duration()) }

// sleep returns the context's error where that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errTruncated is a response that ends before it should.
var errTruncated = fmt.Errorf("kafka: response is shorter than its content: %w", io.ErrUnexpectedEOF)
