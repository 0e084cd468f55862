package brokertest

import (
	"bytes"
	"math/rand/v2"
	"slices"
)

// Record is a record as any client has it. A nil key or value is a null.
type Record struct {
	Offset, Time int64 // Time in ms since the epoch
	Key, Value   []byte
	Headers      []Header
}

// Header is a header as any client has it: Headers, CopyHeaders and SameHeaders take clients' own types.
type Header struct {
	Key   string
	Value []byte
}

// RandomRecord returns a record of a time: null, empty or random key and value, up to three headers.
func RandomRecord(r *rand.Rand, ms int64) Record {
	p := Record{Time: ms}
	switch r.IntN(4) {
	case 0: // null
	case 1:
		p.Key = []byte{}
	default:
		p.Key = RandomBytes(r, r.IntN(200))
	}
	switch r.IntN(5) {
	case 0:
	case 1:
		p.Value = []byte{}
	default:
		p.Value = RandomBytes(r, r.IntN(1000))
	}
	for n := r.IntN(8) - 4; n > 0; n-- {
		h := Header{Key: string(RandomBytes(r, r.IntN(80)))}
		if r.IntN(3) > 0 {
			h.Value = RandomBytes(r, r.IntN(80))
		}
		p.Headers = append(p.Headers, h)
	}
	return p
}

// RandomBytes returns n bytes of six values, so that they can be compressed.
func RandomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(6))
	}
	return b
}

// header is any client's type of a header.
type header interface {
	~struct {
		Key   string
		Value []byte
	}
}

// Headers returns a record's headers in a client's type.
func Headers[H header](p Record) []H {
	var out []H
	for _, h := range p.Headers {
		out = append(out, H(h))
	}
	return out
}

// CopyHeaders returns copies of headers in a client's type.
func CopyHeaders[H header](hs []H) []Header {
	var out []Header
	for _, h := range hs {
		out = append(out, Header{Header(h).Key, bytes.Clone(Header(h).Value)})
	}
	return out
}

// Equal reports whether two records are the same in all that they have.
func (r Record) Equal(o Record) bool {
	return r.Offset == o.Offset && r.Time == o.Time && Same(r.Key, o.Key) && Same(r.Value, o.Value) && SameHeaders(r.Headers, o.Headers)
}

// Same reports whether two keys or values are equal; a null is not empty.
func Same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// SameHeaders reports whether headers in a client's type equal a record's.
func SameHeaders[H header](got []H, want []Header) bool {
	return slices.EqualFunc(got, want, func(x H, y Header) bool { return Header(x).Key == y.Key && Same(Header(x).Value, y.Value) })
}
