package kafka

import (
	"bytes"
	"errors"
	"testing"
)

// Records whose values are encoded in place are to the byte those that Append
// copies, at all widths of the lengths.
func TestBatchesInPlace(t *testing.T) {
	r := seeded(t)
	for range 50 {
		limit := 1 << (12 + r.IntN(9))
		a, b := NewBatches(limit, CodecNone), NewBatches(limit, CodecNone)
		var sizes []int
		for range r.IntN(200) {
			value := make([]byte, []int{0, 1, 63, 64, 65, 100, 8100, 8191, 8192, 20000, r.IntN(300)}[r.IntN(11)])
			for i := range value {
				value[i] = byte(r.Uint32())
			}
			var key []byte
			if r.IntN(8) > 0 {
				key = make([]byte, r.IntN(100))
			}
			ts := 1_700_000_000_000 + int64(r.IntN(100000)) - 50000
			most := len(value) + r.IntN(80)
			dst, err := b.Open(ts, key, most)
			if err != nil {
				if !errors.Is(err, ErrTooLarge) || most+len(key)+batchHeader+64 < limit {
					t.Fatalf("%d bytes into %d: %v", most, limit, err)
				}
				continue
			}
			if len(dst) != most {
				t.Fatalf("room for %d of %d bytes", len(dst), most)
			}
			b.Close(copy(dst, value))
			if b.open.records == 1 && a.open.records > 0 {
				a.closeOpen() // the one that knows sizes later closes earlier
			}
			if err := a.Append(ts, key, value, nil); err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(value))
		}
		if n, m := a.sealed(), b.sealed(); n != m || a.count != b.count || a.bytes != b.bytes {
			t.Fatalf("%d batches of %d records in %d bytes, in place %d of %d in %d", n, a.count, a.bytes, m, b.count, b.bytes)
		}
		for i := range a.sealed() {
			if x, y := a.seal(i, 1, 2, 3, true), b.seal(i, 1, 2, 3, true); !bytes.Equal(x, y) || len(y)-sizePrefix > limit {
				t.Fatalf("batch %d of %v differs", i, sizes)
			}
		}
	}
}
