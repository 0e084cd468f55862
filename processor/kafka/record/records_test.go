package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"

	"github.com/klauspost/compress/s2"
)

// rebase gives a sealed batch its place in a log.
func rebase(sealed []byte, offset int64) []byte {
	b := slices.Clone(sealed[SizePrefix:])
	binary.BigEndian.PutUint64(b, uint64(offset))
	return b
}

// fixCRC makes every whole batch of raw match its CRC.
func fixCRC(raw []byte) {
	for len(raw) >= batchHeader {
		n := int(int32(binary.BigEndian.Uint32(raw[8:]))) + 12
		if n < batchHeader || n > len(raw) {
			return
		}
		binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:n], castagnoli))
		raw = raw[n:]
	}
}

// rawBatch returns a batch with a header of the test's choice.
func rawBatch(base int64, lastDelta, count int32, attrs uint16, producer int64, recs []byte) []byte {
	b := make([]byte, batchHeader, batchHeader+len(recs))
	be := binary.BigEndian
	be.PutUint64(b, uint64(base))
	be.PutUint32(b[8:], uint32(batchHeader-12+len(recs)))
	b[16] = 2
	be.PutUint16(b[21:], attrs)
	be.PutUint32(b[23:], uint32(lastDelta))
	be.PutUint64(b[43:], uint64(producer))
	be.PutUint32(b[57:], uint32(count))
	b = append(b, recs...)
	fixCRC(b)
	return b
}

func marker(base, producer int64, commit bool) []byte {
	kind := byte(0)
	if commit {
		kind = 1
	}
	// attributes, timestamp and offset deltas, key of 4 bytes, value of 6, no headers
	rec := []byte{0, 0, 0, 8, 0, 0, 0, kind, 12, 0, 0, 0, 0, 0, 0, 0}
	return rawBatch(base, 0, 1, attrTransactional|attrControl, producer, append([]byte{byte(len(rec) << 1)}, rec...))
}

// simple returns a batch of n records with the value's first byte counting up.
func simple(base int64, n int, attrs uint16, producer int64) []byte {
	bt := NewBatches(1<<20, Codec(attrs&attrCodec))
	for i := 0; i < n; i++ {
		bt.Append(1000+int64(i), nil, []byte(fmt.Sprintf("%d", base+int64(i))), nil)
	}
	bt.Finish()
	b := rebase(bt.Seal(0, producer, 0, 0, attrs&attrTransactional != 0), base)
	binary.BigEndian.PutUint16(b[21:], binary.BigEndian.Uint16(b[21:])|attrs)
	fixCRC(b)
	return b
}

func offsets(t *testing.T, c *Chunk) (got []int64, next int64, err error) {
	t.Helper()
	var it Iterator
	for it.Reset(c); it.Next(); {
		if string(it.Record().Value) != fmt.Sprint(it.Record().Offset) {
			t.Fatalf("offset %d holds %q", it.Record().Offset, it.Record().Value)
		}
		got = append(got, it.Record().Offset)
	}
	return got, it.NextOffset(), it.Err()
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func TestIteratorVisibility(t *testing.T) {
	const txn = attrTransactional
	for _, tc := range []struct {
		name    string
		raw     []byte
		from    int64
		aborted []AbortedTxn
		want    []int64
		next    int64
	}{
		{name: "nothing", from: 5, next: 5},
		{
			name: "aborted, then committed by the same producer",
			raw:  join(simple(0, 2, txn, 7), marker(2, 7, false), simple(3, 2, txn, 7), marker(5, 7, true)),
			want: []int64{3, 4}, next: 6, aborted: []AbortedTxn{{7, 0}},
		},
		{
			name: "committed, then aborted",
			raw:  join(simple(0, 2, txn, 7), marker(2, 7, true), simple(3, 2, txn, 7), marker(5, 7, false)),
			want: []int64{0, 1}, next: 6, aborted: []AbortedTxn{{7, 3}},
		},
		{
			name: "two producers between each other, and one without transactions",
			raw: join(simple(0, 1, txn, 7), simple(1, 1, txn, 8), simple(2, 1, 0, -1), simple(3, 1, txn, 7),
				marker(4, 8, true), simple(5, 1, txn, 8), marker(6, 7, false), simple(7, 1, txn, 7), marker(8, 8, false), marker(9, 7, true)),
			want: []int64{1, 2, 7}, next: 10, aborted: []AbortedTxn{{7, 0}, {8, 5}},
		},
		{
			name: "transaction that began before the chunk",
			raw:  join(simple(10, 2, txn, 7), marker(12, 7, false), simple(13, 1, 0, -1)),
			from: 11, want: []int64{13}, next: 14, aborted: []AbortedTxn{{7, 3}},
		},
		{
			name: "a producer aborted twice",
			raw:  join(simple(0, 1, txn, 7), marker(1, 7, false), simple(2, 1, txn, 7), marker(3, 7, false)),
			next: 4, aborted: []AbortedTxn{{7, 0}, {7, 2}},
		},
		{
			name: "batches emptied by compaction, a gap, and a batch cut off",
			raw: join(rawBatch(0, 9, 0, txn, 7, nil), rawBatch(10, 4, 0, txn, 7, nil), simple(15, 2, 0, -1),
				rawBatch(20, 9, 0, txn, 7, nil), simple(40, 3, 0, -1)[:70]),
			want: []int64{15, 16}, next: 30,
		},
		{
			name: "position inside a batch's empty end",
			raw:  join(rawBatch(0, 9, 0, 0, 7, nil), simple(10, 1, 0, -1)),
			from: 5, want: []int64{10}, next: 11,
		},
		{
			name: "batches wholly before the position",
			raw:  join(simple(0, 3, 0, -1), simple(3, 3, 0, -1)),
			from: 4, want: []int64{4, 5}, next: 6,
		},
		{
			name: "only the header of a batch",
			raw:  simple(0, 3, 0, -1)[:20], from: 0, next: 0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, next, err := offsets(t, &Chunk{From: tc.from, Raw: tc.raw, Aborted: tc.aborted})
			if err != nil || !slices.Equal(got, tc.want) || next != tc.next {
				t.Fatalf("offsets %v, next %d, %v; want %v, next %d", got, next, err, tc.want, tc.next)
			}
			if pos, _, _, err := Scan(tc.raw, tc.from, math.MaxInt64); err != nil || pos != tc.next {
				t.Fatalf("position by headers %d, %v; want %d", pos, err, tc.next)
			}
		})
	}
}

// TestIteratorLastDeltaBeyondRecords: compaction removes the last records of a
// batch and keeps its last offset.
func TestIteratorLastDeltaBeyondRecords(t *testing.T) {
	b := simple(10, 3, 0, -1)
	binary.BigEndian.PutUint32(b[23:], 7)
	fixCRC(b)
	got, next, err := offsets(t, &Chunk{From: 10, Raw: b})
	if err != nil || len(got) != 3 || next != 18 {
		t.Fatal(got, next, err)
	}
	// From the removed part there is nothing, and it is not read for ever.
	got, next, err = offsets(t, &Chunk{From: 15, Raw: b})
	if err != nil || len(got) != 0 || next != 18 {
		t.Fatal(got, next, err)
	}
}

func TestIteratorLogAppendTime(t *testing.T) {
	b := simple(0, 3, attrAppendTime, -1)
	binary.BigEndian.PutUint64(b[35:], 777)
	fixCRC(b)
	var it Iterator
	n := 0
	for it.Reset(&Chunk{Raw: b}); it.Next(); n++ {
		if it.Record().Timestamp != 777 {
			t.Fatal(it.Record().Timestamp)
		}
	}
	if n != 3 || it.Err() != nil {
		t.Fatal(n, it.Err())
	}
}

func TestIteratorCorruption(t *testing.T) {
	good := simple(0, 3, 0, -1)
	edit := func(f func(b []byte)) []byte {
		b := slices.Clone(simple(3, 3, 0, -1))
		f(b)
		return append(slices.Clone(good), b...)
	}
	old := make([]byte, 40) // an entry of a v1 message set
	binary.BigEndian.PutUint64(old, 3)
	binary.BigEndian.PutUint32(old[8:], 28)
	old[16] = 1
	bomb := rawBatch(3, 0, 1, uint16(CodecZstd), -1, compress(CodecZstd, nil, make([]byte, 80<<20)))
	gzBomb := rawBatch(3, 0, 1, uint16(CodecGzip), -1, compress(CodecGzip, nil, make([]byte, 80<<20)))
	lzBomb := rawBatch(3, 0, 1, uint16(CodecLZ4), -1, compress(CodecLZ4, nil, make([]byte, 80<<20)))
	snBomb := rawBatch(3, 0, 1, uint16(CodecSnappy), -1, s2.EncodeSnappy(nil, make([]byte, 80<<20)))
	liar := rawBatch(3, 0, 1, uint16(CodecSnappy), -1, binary.AppendUvarint(nil, 60<<20))
	for _, tc := range []struct {
		name string
		raw  []byte
		text string
	}{
		{"flipped bit", edit(func(b []byte) { b[70] ^= 4 }), "CRC"},
		{"old format", append(slices.Clone(good), old...), "0.11"},
		{"future format", edit(func(b []byte) { b[16] = 3 }), "v3"},
		{"length too small", edit(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 40) }), "length"},
		{"negative length", edit(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1<<31+5) }), "length"},
		{"negative last delta", edit(func(b []byte) { binary.BigEndian.PutUint32(b[23:], 1<<31); fixCRC(b) }), "length"},
		{"count too high", edit(func(b []byte) { binary.BigEndian.PutUint32(b[57:], 4); fixCRC(b) }), "count"},
		{"count too low", edit(func(b []byte) { binary.BigEndian.PutUint32(b[57:], 2); fixCRC(b) }), "count"},
		{"negative count", edit(func(b []byte) { binary.BigEndian.PutUint32(b[57:], 1<<31); fixCRC(b) }), "count"},
		{"record length", edit(func(b []byte) { b[61] = 200; b[62] = 3; fixCRC(b) }), "malformed"},
		{"key length", edit(func(b []byte) { b[65] = 60; fixCRC(b) }), "malformed"},
		{"header count", edit(func(b []byte) { b[68] = 60; fixCRC(b) }), "headers"},
		{"offsets", edit(func(b []byte) { b[64] = 6; fixCRC(b) }), "ascend"},
		{"unknown codec", edit(func(b []byte) { b[22] = 5; fixCRC(b) }), "codec 5"},
		{"not gzip", edit(func(b []byte) { b[22] = 1; fixCRC(b) }), "gzip"},
		{"not snappy", edit(func(b []byte) { b[22] = 2; fixCRC(b) }), "snappy"},
		{"not lz4", edit(func(b []byte) { b[22] = 3; fixCRC(b) }), "lz4"},
		{"not zstd", edit(func(b []byte) { b[22] = 4; fixCRC(b) }), "zstd"},
		{"zstd bomb", append(slices.Clone(good), bomb...), "64 MiB"},
		{"gzip bomb", append(slices.Clone(good), gzBomb...), "64 MiB"},
		{"lz4 bomb", append(slices.Clone(good), lzBomb...), "64 MiB"},
		{"snappy bomb", append(slices.Clone(good), snBomb...), "64 MiB"},
		{"snappy lie", append(slices.Clone(good), liar...), "snappy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, next, err := offsets(t, &Chunk{TP: TP{"in", 4}, Raw: tc.raw})
			var ce *CorruptError
			if !errors.As(err, &ce) || ce.TP != (TP{"in", 4}) || ce.Offset != next {
				t.Fatalf("%v (next %d)", err, next)
			}
			if len(got) < 3 || next < 3 || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("offsets %v, next %d, error %q; want %q in it", got, next, err, tc.text)
			}
			t.Log(err)
		})
	}
}

// TestSnappyFraming: the Java client's stream of blocks.
func TestSnappyFraming(t *testing.T) {
	r := seedtest.New(t)
	want := make([]byte, 100_000)
	for i := range want {
		want[i] = byte('a' + r.IntN(6))
	}
	framed := append(slices.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
	for rest := want; len(rest) > 0; {
		n := min(len(rest), 32<<10)
		block := s2.EncodeSnappy(nil, rest[:n])
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
		framed = append(framed, block...)
		rest = rest[n:]
	}
	got, err := decompress(CodecSnappy, nil, framed)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatal(err, len(got))
	}
	for cut := 1; cut < len(framed); cut += 1 + r.IntN(997) {
		if got, err := decompress(CodecSnappy, nil, framed[:cut]); err == nil && len(got)%(32<<10) != 0 {
			t.Fatalf("cut at %d: %d bytes and no error", cut, len(got))
		}
	}
}

func TestAppendTooLarge(t *testing.T) {
	bt := NewBatches(1000, CodecNone)
	fits := 1000 - batchHeader - 2 - 7 // length of the record and of the value: two bytes each
	if err := bt.Append(1, nil, make([]byte, fits), nil); err != nil {
		t.Fatal(err)
	}
	if err := bt.Append(1, nil, make([]byte, fits+1), nil); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	} else {
		t.Log(err)
	}
	if bt.Count() != 1 || bt.Finish() != 1 || len(bt.Seal(0, -1, -1, -1, false)) != 1004 {
		t.Fatal(bt.Count(), bt.Finish(), len(bt.Seal(0, -1, -1, -1, false)))
	}
}

func TestIteratorAllocatesNothing(t *testing.T) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		raw := benchmarkLog(codec, 500)
		var it Iterator
		c := &Chunk{Raw: raw}
		read := func() {
			for it.Reset(c); it.Next(); {
				if _, ok := it.Record().Header("none"); ok {
					t.Fatal("header")
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		}
		read()
		// Two batches of 500 records: a codec may allocate a little for each batch.
		if n := testing.AllocsPerRun(100, read); codec == CodecNone && n != 0 || n > 20 {
			t.Errorf("%v: %v allocations for 1,000 records", codec, n)
		}
	}
}

func TestBatchesAllocateNothing(t *testing.T) {
	bt := NewBatches(1<<16, CodecNone)
	value := make([]byte, 60)
	hs := []Header{{"a", value[:3]}}
	fill := func() {
		bt.Reset()
		for i := 0; i < 5000; i++ {
			if bt.Append(int64(i), value[:8], value, hs[:i&1]) != nil {
				t.Fatal()
			}
		}
		for i := 0; i < bt.Finish(); i++ {
			bt.Seal(i, 1, 2, 3, true)
		}
	}
	fill()
	if n := testing.AllocsPerRun(50, fill); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzIterator: arbitrary bytes never panic, never run for ever, keep offsets
// in order and at or after the position, and cost bounded memory.
func FuzzIterator(f *testing.F) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		f.Add(true, int64(0), simple(0, 3, uint16(codec), -1))
	}
	f.Add(false, int64(1), join(simple(0, 2, attrTransactional, 7), marker(2, 7, false)))
	f.Add(true, int64(3), join(rawBatch(0, 9, 0, 0, 7, nil), marker(10, 8, true), simple(11, 1, attrAppendTime, -1)[:66]))
	bt := NewBatches(1<<16, CodecNone)
	bt.Append(-5, []byte{}, nil, []Header{{"h", nil}, {"", []byte("x")}})
	bt.Finish()
	f.Add(true, int64(0), rebase(bt.Seal(0, 1, 1, 1, false), 1<<40))
	f.Fuzz(func(t *testing.T, fix bool, from int64, raw []byte) {
		raw = slices.Clone(raw)
		if fix {
			fixCRC(raw)
		}
		var it Iterator
		c := &Chunk{From: from, Raw: raw, Aborted: []AbortedTxn{{7, 0}, {1, 5}}}
		last := from - 1
		n := 0
		for it.Reset(c); it.Next(); n++ {
			r := it.Record()
			if r.Offset <= last || it.NextOffset() <= r.Offset {
				t.Fatalf("offset %d after %d, next %d", r.Offset, last, it.NextOffset())
			}
			last = r.Offset
			r.Header("h")
			if hs := r.AppendHeaders(nil); len(hs) != r.HeaderCount {
				t.Fatalf("%d headers of %d", len(hs), r.HeaderCount)
			}
		}
		if it.NextOffset() <= last || it.Next() {
			t.Fatalf("next %d after %d", it.NextOffset(), last)
		}
		next, whole, _, err := Scan(raw, from, math.MaxInt64)
		if whole > len(raw) || next < from {
			t.Fatal(next, whole)
		}
		// Without damage the fetch position and the reader's agree.
		if err == nil && it.Err() == nil && next != it.NextOffset() {
			t.Fatalf("position by headers %d, by records %d", next, it.NextOffset())
		}
	})
}

// TestFuzzCorpusIsKept: what fuzzing found stays in the repository, and runs with
// every test.
func TestFuzzCorpusIsKept(t *testing.T) {
	for _, target := range []string{"FuzzIterator"} {
		if files, err := os.ReadDir(filepath.Join("testdata", "fuzz", target)); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", target, len(files), err)
		}
	}
}

// benchmarkLog is two batches of n records with a key of 8 bytes and a value of
// 60, half of it random.
func benchmarkLog(codec Codec, n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	bt := NewBatches(1<<20, codec)
	value := make([]byte, 60)
	var raw []byte
	for b := 0; b < 2; b++ {
		bt.Reset()
		for i := 0; i < n; i++ {
			for k := 0; k < 30; k++ {
				value[k] = byte(r.Uint32())
			}
			bt.Append(1_700_000_000_000+int64(i), value[:8], value, nil)
		}
		bt.Finish()
		raw = append(raw, rebase(bt.Seal(0, -1, -1, -1, false), int64(b*n))...)
	}
	return raw
}

func BenchmarkIterator(b *testing.B) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			const n = 5000
			c := &Chunk{Raw: benchmarkLog(codec, n)}
			var it Iterator
			sum := 0
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				for it.Reset(c); it.Next(); {
					r := it.Record()
					sum += len(r.Value) + int(r.Offset)
				}
				if it.Err() != nil {
					b.Fatal(it.Err())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(2*n), "ns/record")
			runtime.KeepAlive(sum)
		})
	}
}

func BenchmarkBatches(b *testing.B) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			const n = 5000
			r := rand.New(rand.NewPCG(1, 2))
			noise := make([]byte, 1<<16)
			for i := range noise {
				noise[i] = byte(r.Uint32())
			}
			value := make([]byte, 60)
			bt := NewBatches(1<<20, codec)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				bt.Reset()
				for k := 0; k < n; k++ {
					copy(value[:30], noise[(k*30)&0x7fff:])
					bt.Append(1_700_000_000_000+int64(k), value[:8], value, nil)
				}
				for k := 0; k < bt.Finish(); k++ {
					bt.Seal(k, 1, 2, 3, true)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
