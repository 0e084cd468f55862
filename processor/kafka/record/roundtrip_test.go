package record_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// TestIteratorReadsWhatBatchesWrote: random records through every codec, read
// from random positions.
func TestIteratorReadsWhatBatchesWrote(t *testing.T) {
	r := seedtest.New(t)
	var it record.Iterator
	for round := 0; round < 200; round++ {
		codec := record.Codec(round % 5)
		limit := 2000 + r.IntN(20000)
		bt := record.NewBatches(limit, codec)
		var want []brokertest.Record
		ts := int64(r.Uint64() >> 20)
		for k := 0; k < 2; k++ { // the second time on used memory
			bt.Reset()
			want = want[:0]
			size := 0
			for n := 1 + r.IntN(100); n > 0; n-- {
				ts += int64(r.IntN(2000) - 500)
				p := brokertest.RandomRecord(r, ts)
				if err := bt.Append(p.Time, p.Key, p.Value, brokertest.Headers[record.Header](p)); err != nil {
					t.Fatal(err)
				}
				want = append(want, p)
			}
			if bt.Count() != len(want) {
				t.Fatalf("count %d, want %d", bt.Count(), len(want))
			}
			var raw []byte
			offset, at := int64(r.IntN(1000)), 0
			for i := 0; i < bt.Finish(); i++ {
				first := slices.Clone(bt.Seal(i, 7, 1, int32(at), true))
				if again := bt.Seal(i, 7, 1, int32(at), true); !bytes.Equal(first, again) {
					t.Fatal("a batch sealed again differs")
				}
				if len(first)-record.SizePrefix > limit {
					t.Fatalf("batch of %d bytes, limit %d", len(first)-record.SizePrefix, limit)
				}
				if int(binary.BigEndian.Uint32(first)) != len(first)-record.SizePrefix {
					t.Fatal("size prefix")
				}
				binary.BigEndian.PutUint64(first[record.SizePrefix:], uint64(offset)) // its place in a log
				raw = append(raw, first[record.SizePrefix:]...)
				size += bt.Size(i) - record.SizePrefix
				for n := 0; n < bt.Records(i); n++ {
					want[at].Offset = offset
					at++
					offset++
				}
			}
			if at != len(want) || size != bt.Bytes() {
				t.Fatalf("batches hold %d records and %d bytes, want %d and %d", at, size, len(want), bt.Bytes())
			}
			from := want[0].Offset + int64(r.IntN(len(want)))
			checkChunk(t, &it, &record.Chunk{From: from, Raw: raw}, want[from-want[0].Offset:], offset)
		}
	}
}

func checkChunk(t *testing.T, it *record.Iterator, c *record.Chunk, want []brokertest.Record, next int64) {
	t.Helper()
	n := 0
	for it.Reset(c); it.Next(); n++ {
		got := it.Record()
		if n >= len(want) {
			t.Fatalf("record %d beyond the %d expected", got.Offset, len(want))
		}
		w := want[n]
		if got.Offset != w.Offset || got.Timestamp != w.Time || !brokertest.Same(got.Key, w.Key) || !brokertest.Same(got.Value, w.Value) {
			t.Fatalf("record %d: got %d %d %q %q, want %+v", n, got.Offset, got.Timestamp, got.Key, got.Value, w)
		}
		if hs := got.AppendHeaders(nil); got.HeaderCount != len(w.Headers) || !brokertest.SameHeaders(hs, w.Headers) {
			t.Fatalf("record %d: headers %v, want %v", n, hs, w.Headers)
		}
		for _, h := range w.Headers {
			i := len(w.Headers) - 1
			for w.Headers[i].Key != h.Key {
				i--
			}
			if v, ok := got.Header(h.Key); !ok || !brokertest.Same(v, w.Headers[i].Value) {
				t.Fatalf("header %q: %q %v, want %q", h.Key, v, ok, w.Headers[i].Value)
			}
		}
		if _, ok := got.Header("absent"); ok {
			t.Fatal("an absent header was found")
		}
	}
	if it.Err() != nil || n != len(want) || it.NextOffset() != next {
		t.Fatalf("%d records of %d, next %d, want %d: %v", n, len(want), it.NextOffset(), next, it.Err())
	}
}
