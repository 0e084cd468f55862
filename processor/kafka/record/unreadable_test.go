package record

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// readOn reads a chunk to its end and skips what cannot be read.
func readOn(t *testing.T, c *Chunk) (got []int64, bad []Unreadable, it Iterator) {
	t.Helper()
	for it.Reset(c); ; it.Skip() {
		for it.Next() {
			got = append(got, it.Record().Offset)
		}
		if it.Err() == nil {
			return got, bad, it
		}
		u, ok := it.Unreadable()
		if !ok {
			t.Fatalf("%v, and no batch to skip", it.Err())
		}
		bad = append(bad, u)
	}
}

// TestSkipUnreadable: a batch that cannot be read is named by its offsets, count
// and bytes, and what is before and after it is read.
func TestSkipUnreadable(t *testing.T) {
	be := binary.BigEndian
	edit := func(f func(b []byte)) []byte {
		b := slices.Clone(simple(3, 3, 0, -1))
		f(b)
		return b
	}
	bomb := func(codec Codec) []byte {
		return rawBatch(3, 2, 3, uint16(codec), -1, compress(codec, nil, make([]byte, MaxInflated+1)))
	}
	for _, tc := range []struct {
		name    string
		batch   []byte
		first   int64 // not delivered
		records int64
		large   bool
	}{
		{"flipped bit", edit(func(b []byte) { b[70] ^= 4 }), 3, 3, false},
		{"last offset too high", edit(func(b []byte) { be.PutUint32(b[23:], 1<<20) }), 3, 3, false},
		{"last offset negative", edit(func(b []byte) { be.PutUint32(b[23:], 1<<31) }), 3, 3, false},
		{"count too high", edit(func(b []byte) { be.PutUint32(b[57:], 77) }), 3, 3, false},
		{"count negative", edit(func(b []byte) { be.PutUint32(b[57:], 1<<31) }), 3, 3, false},
		{"count and CRC", edit(func(b []byte) { be.PutUint32(b[57:], 4); fixCRC(b) }), 3, 3, false},
		{"last record", edit(func(b []byte) { b[len(b)-4] = 60; fixCRC(b) }), 5, 1, false},
		{"unknown codec", edit(func(b []byte) { b[22] = 5; fixCRC(b) }), 3, 3, false},
		{"zstd bomb", bomb(CodecZstd), 3, 3, true},
		{"gzip bomb", bomb(CodecGzip), 3, 3, true},
		{"lz4 bomb", bomb(CodecLZ4), 3, 3, true},
		{"snappy bomb", bomb(CodecSnappy), 3, 3, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw := slices.Concat(simple(0, 3, 0, -1), tc.batch, simple(6, 3, 0, -1))
			next, whole, _, err := Scan(raw, 0, 9)
			if err != nil || next != 9 || whole != len(raw) {
				t.Fatalf("scan: next %d, %d bytes, %v", next, whole, err)
			}
			got, bad, it := readOn(t, &Chunk{Raw: raw, Next: next})
			want := []int64{0, 1, 2}
			for o := int64(3); o < tc.first; o++ {
				want = append(want, o)
			}
			if want = append(want, 6, 7, 8); !slices.Equal(got, want) || it.NextOffset() != 9 || it.Cut() {
				t.Errorf("read %v, next %d, cut %v; want %v", got, it.NextOffset(), it.Cut(), want)
			}
			if len(bad) != 1 {
				t.Fatalf("%d unreadable batches", len(bad))
			}
			u := bad[0]
			if u.First != tc.first || u.Last != 5 || u.Records != tc.records || u.TooLarge != tc.large ||
				!bytes.Equal(u.Raw, tc.batch) || u.Err == nil {
				t.Errorf("offsets %d to %d, %d records, too large %v, %d bytes, %v", u.First, u.Last, u.Records, u.TooLarge, len(u.Raw), u.Err)
			}
		})
	}
}

// TestHeaderThatLeadsNowhere: where a header cannot be believed and nothing
// follows, there is no position to go on at, and what is before it is delivered.
func TestHeaderThatLeadsNowhere(t *testing.T) {
	bad := simple(3, 3, 0, -1)
	binary.BigEndian.PutUint32(bad[23:], 1<<20)
	good := simple(0, 3, 0, -1)
	next, whole, _, err := Scan(slices.Concat(good, bad), 0, 6)
	if err != ErrNowhere || next != 3 || whole != len(good) {
		t.Errorf("next %d, %d bytes, %v", next, whole, err)
	}
}

// TestSkippedMarker: the marker that ends an aborted transaction is damaged. What
// follows of that producer may be committed, so the rest is to be fetched again.
func TestSkippedMarker(t *testing.T) {
	m := marker(2, 7, false)
	m[70] ^= 1
	raw := slices.Concat(simple(0, 2, attrTransactional, 7), m, simple(3, 2, attrTransactional, 7))
	got, bad, it := readOn(t, &Chunk{Raw: raw, Next: 5, Aborted: []AbortedTxn{{7, 0}}})
	if len(got) != 0 || len(bad) != 1 || it.NextOffset() != 3 || !it.Cut() {
		t.Errorf("read %v, %d bad, next %d, cut %v", got, len(bad), it.NextOffset(), it.Cut())
	}
	// The broker lists no transaction for what comes after the marker.
	if got, _, _ = readOn(t, &Chunk{From: 3, Raw: raw, Next: 5}); !slices.Equal(got, []int64{3, 4}) {
		t.Errorf("read %v after the marker", got)
	}
}

// TestSkipEnds: skipping always goes forward, over any bytes.
func TestSkipEnds(t *testing.T) {
	r := seedtest.New(t)
	for range 2000 {
		raw := slices.Concat(simple(0, 3, 0, -1), marker(3, 7, false), simple(4, 5, attrTransactional, 7), simple(9, 2, 0, -1))
		for range 1 + r.IntN(6) {
			raw[r.IntN(len(raw))] ^= 1 << r.IntN(8)
		}
		if r.IntN(2) == 0 {
			fixCRC(raw)
		}
		from := int64(r.IntN(9))
		next, whole, _, _ := Scan(raw, from, math.MaxInt64)
		var it Iterator
		at := from
		for it.Reset(&Chunk{From: from, Raw: raw[:whole], Next: next, Aborted: []AbortedTxn{{7, 4}}}); ; it.Skip() {
			for it.Next() {
				if it.Record().Offset < at {
					t.Fatalf("offset %d again", it.Record().Offset)
				}
				at = it.Record().Offset + 1
			}
			u, ok := it.Unreadable()
			if !ok {
				break
			}
			if u.First < at || u.Last < u.First || u.Records < 1 || u.Records > u.Last-u.First+1 {
				t.Fatalf("at %d: %+v", at, u)
			}
			at = u.Last + 1
		}
	}
}
