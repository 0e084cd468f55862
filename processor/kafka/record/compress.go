package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression of a record batch, numbered as in the batch's
// attributes.
type Codec int8

// The codecs of Kafka, all of which are read and written.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the name that Kafka's compression.type uses.
func (c Codec) String() string {
	if c < 0 || int(c) >= len(codecNames) {
		return fmt.Sprintf("codec %d", int8(c))
	}
	return codecNames[c]
}

// ParseCodec reads none, gzip, snappy, lz4 or zstd.
func ParseCodec(name string) (Codec, error) {
	for i, n := range codecNames {
		if strings.EqualFold(n, name) {
			return Codec(i), nil
		}
	}
	return 0, fmt.Errorf("record: unknown compression %q; one of %s", name, strings.Join(codecNames[:], ", "))
}

// MaxInflated bounds the decompressed size of one batch: a batch of a megabyte can be
// made to claim gigabytes.
const MaxInflated = 64 << 20

var (
	errInflated = fmt.Errorf("batch decompresses to more than %d MiB", MaxInflated>>20)
	errSnappy   = errors.New("record: snappy: bad block")
)

// Compressors are large (a gzip writer 800 KiB, zstd more) and there may be
// hundreds of partitions: they are shared by all.
var (
	gzipWriters = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
		return w
	}}
	gzipReaders sync.Pool // *gzip.Reader; it cannot be made without input
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		// 64 KiB independent blocks, as the Java client writes; no checksums, the
		// batch has its own.
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
			panic(err)
		}
		return w
	}}
	lz4Readers = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdWriter = sync.OnceValue(func() *zstd.Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithZeroFrames(true))
		if err != nil {
			panic(err) // constant options
		}
		return w
	})
	zstdReader = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxInflated))
		if err != nil {
			panic(err)
		}
		return r
	})
)

// compress appends src, compressed, to dst.
func compress(codec Codec, dst, src []byte) []byte {
	switch codec {
	case CodecNone:
		return append(dst, src...)
	case CodecGzip:
		out := appendWriter{dst}
		w := gzipWriters.Get().(*gzip.Writer)
		w.Reset(&out)
		w.Write(src) // an appendWriter does not fail
		w.Close()
		gzipWriters.Put(w)
		return out.b
	case CodecSnappy:
		// One raw block, as librdkafka and franz-go write; every client reads it.
		n, need := len(dst), s2.MaxEncodedLen(len(src))
		dst = grow(dst, need)
		return dst[:n+len(s2.EncodeSnappy(dst[n:n+need], src))]
	case CodecLZ4:
		out := appendWriter{dst}
		w := lz4Writers.Get().(*lz4.Writer)
		w.Reset(&out)
		w.Write(src)
		w.Close()
		lz4Writers.Put(w)
		return out.b
	case CodecZstd:
		return zstdWriter().EncodeAll(src, dst)
	}
	panic(fmt.Sprintf("record: compress with %v", codec))
}

// decompress writes what src holds over dst and returns it; at most
// MaxInflated bytes.
func decompress(codec Codec, dst, src []byte) ([]byte, error) {
	dst = dst[:0]
	switch codec {
	case CodecGzip:
		in := bytes.NewReader(src)
		r, _ := gzipReaders.Get().(*gzip.Reader)
		var err error
		if r == nil {
			r, err = gzip.NewReader(in)
		} else {
			err = r.Reset(in)
		}
		if err != nil {
			return dst, err
		}
		dst, err = readAll(dst, r, 4*len(src))
		gzipReaders.Put(r)
		return dst, err
	case CodecSnappy:
		return unsnappy(dst, src)
	case CodecLZ4:
		in := bytes.NewReader(src)
		r := lz4Readers.Get().(*lz4.Reader)
		r.Reset(in)
		dst, err := readAll(dst, r, 4*len(src))
		lz4Readers.Put(r)
		return dst, err
	case CodecZstd:
		dst, err := zstdReader().DecodeAll(src, dst)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			err = errInflated
		}
		return dst, err
	}
	return dst, fmt.Errorf("unknown %v", codec)
}

// xerial is the header of snappy-java's stream: magic, version and the oldest
// compatible version, 16 bytes in all; then blocks with a four-byte length each.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func unsnappy(dst, src []byte) ([]byte, error) {
	if !bytes.HasPrefix(src, xerial) {
		return snappyBlock(dst, src)
	}
	if len(src) < 16 {
		return dst, io.ErrUnexpectedEOF
	}
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 {
			return dst, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return dst, io.ErrUnexpectedEOF
		}
		var err error
		if dst, err = snappyBlock(dst, src[:n]); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

// snappyBlock appends one decompressed block to dst.
func snappyBlock(dst, src []byte) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, errSnappy
	}
	// The densest element of the format makes 64 bytes of 3: a longer claim is
	// false, and is refused before memory is spent on it.
	if n > 22*len(src) {
		return dst, errSnappy
	}
	if n > MaxInflated-len(dst) {
		return dst, errInflated
	}
	at := len(dst)
	dst = grow(dst, n)
	if _, err := s2.Decode(dst[at:at+n], src); err != nil {
		return dst, errSnappy
	}
	return dst[:at+n], nil
}

// readAll appends all of r to dst; guess is how much to make room for at first.
func readAll(dst []byte, r io.Reader, guess int) ([]byte, error) {
	dst = grow(dst, max(min(guess, MaxInflated), 512))
	for {
		if len(dst) == cap(dst) {
			dst = grow(dst, min(len(dst), 4<<20)+512)
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), MaxInflated+1)])
		dst = dst[:len(dst)+n]
		if len(dst) > MaxInflated {
			return dst[:0], errInflated
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// grow returns b with room for n more bytes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	nb := make([]byte, len(b), max(len(b)+n, min(2*cap(b), MaxInflated)))
	copy(nb, b)
	return nb
}

// appendWriter is an io.Writer on a slice.
type appendWriter struct{ b []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
