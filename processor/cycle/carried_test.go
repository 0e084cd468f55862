package cycle

import (
	"bytes"
	"fmt"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/record"
)

// records returns records with these headers, as they are read.
func records(t *testing.T, headers [][]record.Header) (list []record.Record) {
	t.Helper()
	b := record.NewBatches(1<<20, record.CodecNone)
	for _, h := range headers {
		if err := b.Append(0, nil, nil, h); err != nil {
			t.Fatal(err)
		}
	}
	var it record.Iterator
	for i := range b.Finish() {
		it.Reset(&record.Chunk{Raw: b.Seal(i, -1, -1, -1, false)[record.SizePrefix:]})
		for it.Next() {
			rec := *it.Record()
			rec.Headers = bytes.Clone(rec.Headers)
			list = append(list, rec)
		}
	}
	return list
}

// TestCarried: headers are there from CarryWindow before the committed offset on, regardless of what is rolled back and noted again,
// and are the record's.
func TestCarried(t *testing.T) {
	r := seedtest.New(t)
	names := []string{"traceparent", "x-site"}
	var headers [][]record.Header
	for i := range 500 {
		var h []record.Header
		for _, name := range append(names, "other", "x-site") {
			if r.IntN(2) == 0 {
				h = append(h, record.Header{Key: name, Value: [][]byte{nil, {}, fmt.Append(nil, i), bytes.Repeat([]byte("x"), 300)}[r.IntN(4)]})
			}
		}
		headers = append(headers, h)
	}
	recs := records(t, headers)
	want := func(offset int64) (list []record.Header) {
		size := 0
		for _, name := range names {
			if v, ok := recs[offset%500].Header(name); ok {
				list = append(list, record.Header{Key: name, Value: v})
				size += len(v)
			}
		}
		if size > maxCarried {
			return nil
		}
		return list
	}
	c := NewCarried(names)
	for next, committed := int64(0), int64(0); next < 5*CarryWindow; {
		for range r.IntN(4000) {
			rec := recs[next%500]
			rec.Offset = next
			c.Note(&rec)
			next++
		}
		if r.IntN(2) == 0 {
			committed += r.Int64N(next - committed + 1)
			c.Committed(committed)
		}
		if r.IntN(4) == 0 {
			next = committed + r.Int64N(next-committed+1)
			c.Return(next)
		}
		for range 50 {
			offset := max(0, committed-CarryWindow)
			if next == offset {
				break
			}
			offset += r.Int64N(next - offset)
			own := []record.Header{{Key: "own", Value: []byte("1")}}[:r.IntN(2)]
			got, want := c.Headers(own, offset, uint32(min(next-1-offset, CarryWindow))), want(offset)
			if len(got) < len(own) || len(own) > 0 && got[0].Key != "own" {
				t.Fatalf("offset %d: %q, without its own headers", offset, got)
			}
			got = got[len(own):]
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || len(got) > 0 && (got[0].Value == nil) != (want[0].Value == nil) {
				t.Fatalf("offset %d, committed %d, next %d: %q, want %q", offset, committed, next, got, want)
			}
			if got := c.Headers(nil, offset, CarryWindow+1); got != nil {
				t.Fatalf("too far behind, and has %q", got)
			}
		}
		if got := c.Headers(nil, next, 0); got != nil {
			t.Fatalf("offset %d is not read, and has %q", next, got)
		}
	}
	if n := len(c.offsets); n > 4*CarryWindow {
		t.Errorf("%d records are kept", n)
	}
}
