package record

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// Records whose values are encoded in place are to the byte those that Append
// copies, at all widths of the lengths.
func TestBatchesInPlace(t *testing.T) {
	r := seedtest.New(t)
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
		if n, m := a.Finish(), b.Finish(); n != m || a.count != b.count || a.bytes != b.bytes {
			t.Fatalf("%d batches of %d records in %d bytes, in place %d of %d in %d", n, a.count, a.bytes, m, b.count, b.bytes)
		}
		for i := range a.Finish() {
			if x, y := a.Seal(i, 1, 2, 3, true), b.Seal(i, 1, 2, 3, true); !bytes.Equal(x, y) || len(y)-SizePrefix > limit {
				t.Fatalf("batch %d of %v differs", i, sizes)
			}
		}
	}
}

// The first batch of a transaction's partition stays small, unless one record is
// larger; those after it are as large as others, and each round uses the memory of
// the one before.
func TestTransactionBatches(t *testing.T) {
	const limit = 100 << 10
	for _, size := range []int{100, 20 << 10} {
		for _, inPlace := range []bool{false, true} {
			b := NewTransactionBatches(limit, CodecNone)
			for round := range 3 {
				n := 400 << 10 / size
				for range n {
					if !inPlace {
						must(t, b.Append(1, []byte("key"), make([]byte, size), nil))
						continue
					}
					dst, err := b.Open(1, []byte("key"), size)
					must(t, err)
					b.Close(len(dst))
				}
				var sizes []int
				records := 0
				for i := range b.Finish() {
					sizes = append(sizes, b.Size(i))
					records += b.Records(i)
				}
				if records != n || len(sizes) < 5 || len(sizes) > 6 {
					t.Fatalf("%d records in batches of %v bytes, want %d in five or six", records, sizes, n)
				}
				if sizes[0]-SizePrefix > max(firstBatch, size+batchHeader+64) || b.Records(0) > 1 && sizes[0] < firstBatch-size-64 {
					t.Errorf("a first batch of %d records and %d bytes", b.Records(0), sizes[0])
				}
				if sizes[1] < limit-size-64 || slices.Max(sizes) > limit+SizePrefix {
					t.Errorf("batches of %v bytes, want them as large as %d", sizes, limit)
				}
				if held := cap(b.done[0].buf); round > 0 && size < firstBatch && held > 2*firstBatch {
					t.Errorf("the first batch of round %d holds %d bytes", round, held)
				}
				b.Reset()
			}
		}
	}
	small := NewTransactionBatches(1000, CodecNone)
	if err := small.Append(1, nil, make([]byte, 1000), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a record of 1,000 bytes in a batch of 1,000: %v", err)
	}
}

// TestFullBatchesAreCompressed requires, for each codec, that all batches but the last are compressed before Seal, which
// compresses the last one and no other again.
func TestFullBatchesAreCompressed(t *testing.T) {
	for _, codec := range []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd} {
		for _, inPlace := range []bool{false, true} {
			b := NewTransactionBatches(10<<10, codec)
			for range 2 {
				for range 1000 {
					if !inPlace {
						must(t, b.Append(1, []byte("key"), make([]byte, 30), nil))
						continue
					}
					dst, err := b.Open(1, []byte("key"), 30)
					must(t, err)
					clear(dst)
					b.Close(len(dst))
				}
				n := b.Finish()
				if n < 3 {
					t.Fatalf("%d batches", n)
				}
				for i := range n {
					d := &b.done[i]
					if d.compressed != (i < n-1) || len(d.packed) > 0 != (i < n-1 && codec != CodecNone) {
						t.Errorf("%v, batch %d of %d: compression was tried: %v, to %d bytes", codec, i, n, d.compressed, len(d.packed))
					}
					packed := slices.Clone(d.packed)
					if sealed := b.Seal(i, 1, 2, 3, true); codec != CodecNone && len(sealed) >= len(d.buf) {
						t.Errorf("%v, batch %d of %d: %d bytes of %d are sent", codec, i, n, len(sealed), len(d.buf))
					} else if len(packed) > 0 && !bytes.Equal(sealed[SizePrefix+batchHeader:], packed[SizePrefix+batchHeader:]) {
						t.Errorf("%v, batch %d of %d was compressed again", codec, i, n)
					}
				}
				b.Reset()
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
