package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// fields returns a response with every kind of field.
func fields(topics []string, compact string, number int64) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(nil, 42)
	b = append(b, 1, 7, 2, 'x', 'y') // one tagged field, number 7, of two bytes
	b = be.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = appendString(b, t)
	}
	b = appendCompactString(b, compact)
	b = be.AppendUint64(b, uint64(number))
	b = be.AppendUint16(b, 0xffff) // null
	b = append(b, 3, 'a', 'b')     // a compact array of two elements of a byte
	b = append(b, "unread"...)
	return append(be.AppendUint32(nil, uint32(len(b))), b...)
}

// TestReader: fields come back as they were written, and a response that is cut at any
// place is an error and never a panic, with zeros for what is missing.
func TestReader(t *testing.T) {
	r := seedtest.New(t)
	for range 100 {
		topics := make([]string, r.IntN(5))
		for i := range topics {
			topics[i] = strings.Repeat("t", []int{0, 1, 255, 256, 257, r.IntN(1000)}[r.IntN(6)])
		}
		compact, number := strings.Repeat("c", []int{0, 1, 126, 127, 128, r.IntN(1000)}[r.IntN(6)]), int64(r.Uint64())
		whole := fields(topics, compact, number)
		read := func(b []byte) (err error, same bool) {
			var in wireReader
			if err := in.ReadHeader(bytes.NewReader(b), 42, true); err != nil {
				return err, false
			}
			n := in.Count(2)
			same = n == len(topics)
			for i := 0; i < n && in.Err() == nil; i++ {
				s := string(in.String16())
				same = same && s == topics[i]
			}
			same = string(in.CompactString()) == compact && same
			same = in.Int64() == number && same
			same = in.String16() == nil && same
			same = in.CompactCount(1) == 2 && same
			same = string(in.Bytes(2)) == "ab" && same
			return in.End(), same
		}
		if err, same := read(whole); err != nil || !same {
			t.Fatalf("%d topics: %v, the same: %t", len(topics), err, same)
		}
		if err, _ := read(whole[:r.IntN(len(whole))]); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a response that is cut: %v", err)
		}
	}
}

// TestReaderLengths: a length beyond what is left is an error before it is memory.
func TestReaderLengths(t *testing.T) {
	huge := []byte{0x7f, 0xff, 0xff, 0xff}
	varint := binary.AppendUvarint(nil, 1<<40)
	for name, read := range map[string]func() (*wireReader, int){
		"count":          func() (*wireReader, int) { r := newWireReader(huge); return r, r.Count(1) },
		"elements":       func() (*wireReader, int) { r := newWireReader([]byte{0, 0, 0, 3, 1, 2, 3, 4, 5}); return r, r.Count(2) },
		"compact count":  func() (*wireReader, int) { r := newWireReader(varint); return r, r.CompactCount(1) },
		"string":         func() (*wireReader, int) { r := newWireReader(huge); return r, len(r.String16()) },
		"compact string": func() (*wireReader, int) { r := newWireReader(varint); return r, len(r.CompactString()) },
		"bytes":          func() (*wireReader, int) { r := newWireReader(huge); return r, len(r.Bytes(1 << 40)) },
		"tags":           func() (*wireReader, int) { r := newWireReader(append(varint, 1, 200)); r.Tags(); return r, 0 },
		"varint": func() (*wireReader, int) {
			r := newWireReader(bytes.Repeat([]byte{0xff}, 20))
			return r, r.CompactCount(1)
		},
	} {
		if r, n := read(); !errors.Is(r.Err(), io.ErrUnexpectedEOF) || n != 0 {
			t.Errorf("%s: %d, %v", name, n, r.Err())
		}
	}
	if r := newWireReader([]byte{0xff, 0xff, 0xff, 0xff, 9}); r.Count(1) != 0 || r.Err() != nil {
		t.Errorf("a null array: %v", r.Err())
	}
}
