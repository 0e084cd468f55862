package checkpoint

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"odradek/processor/state/changelog"
)

// This file writes the held samples of a key to the changelog, and reads them.
//
// Like the rows of a window, held samples are in records of their own (blocks), written once when full,
// so that a key that holds many does not write them with every snapshot. A block has samples
// in order of offset. The head of the key has the samples that fill no block, and names the blocks.
//
// A block does not change when its samples are released: the released ones are exactly those of a time up to the
// key's last one (series.ReorderBuffer). A block whose samples are all released is no longer named, and is
// deleted.
//
// The name of a block is its first offset and a checksum of its content. A block
// that is written again with other content, after a rollback or by another member, so
// leaves the one that an older head names.

// HeldBlock is a block that a key's head names.
type HeldBlock struct {
	first, last int64 // offsets
	newest      int64 // time
	sum         uint64
}

// BlockName is the end of the key of a block's record: its first offset and its checksum.
type BlockName struct{ First, Sum uint64 }

// Name returns the name of a block.
func (b *HeldBlock) Name() BlockName { return BlockName{uint64(b.first), b.sum} }

// BlockSum returns the checksum of a block's value.
func BlockSum(value []byte) uint64 {
	h := fnv.New64a()
	h.Write(value)
	return h.Sum64()
}

// ContainsBlock reports whether one of the blocks has the name.
func ContainsBlock(blocks []HeldBlock, name BlockName) bool {
	return slices.ContainsFunc(blocks, func(b HeldBlock) bool { return b.Name() == name })
}

// SplitBlocks separates the blocks that end before an offset from those that do not.
func SplitBlocks(blocks []HeldBlock, offset int64) (before, rest []HeldBlock) {
	n := len(blocks)
	for n > 0 && blocks[n-1].last > offset {
		n--
	}
	return blocks[:n:n], blocks[n:]
}

// HeldFormat is how samples are written.
type HeldFormat struct {
	Layout uint64 // fingerprint of the values
	Dim    int    // values a sample
}

// blockBytes is the size of a block where records may be as large.
const blockBytes = 16 << 10

// Size returns the number of samples of a block where a record has at most maxRecord bytes.
func (f *HeldFormat) Size(maxRecord int) int {
	return max(1, min(blockBytes, maxRecord/2)/(8*(2+f.Dim)))
}

// HeldSamples are held samples in order of time and offset.
type HeldSamples interface {
	Len() int
	At(i int) []uint64 // time, offset, the bits of the values
}

// BlockWriter writes the held samples of a key: Blocks, and then the rest with the head.
type BlockWriter struct {
	HeldFormat
	size int
	enc  changelog.Encoder
	tail []entry // samples that are in no block
}

// entry is a held sample that is in no block.
type entry struct {
	offset int64
	at     int // among the held samples of its key
}

// NewBlockWriter returns a Writer for records of at most maxRecord bytes.
func NewBlockWriter(f HeldFormat, maxRecord int) BlockWriter {
	return BlockWriter{HeldFormat: f, size: f.Size(maxRecord)}
}

// Blocks writes the blocks that have become full and returns those that the head has to name;
// old are those that the last head names. lastTime is the time of the key's last sample that
// is not held, born the offset of its first sample.
func (w *BlockWriter) Blocks(old []HeldBlock, held HeldSamples, lastTime, born int64, put func(name BlockName, value []byte)) []HeldBlock {
	w.tail = w.tail[:0]
	if held.Len() == 0 {
		return nil
	}
	blocks := make([]HeldBlock, 0, len(old)+held.Len()/w.size)
	written := int64(-1)
	for _, b := range old {
		if b.newest > lastTime {
			blocks = append(blocks, b)
			written = b.last
		}
	}
	for i := range held.Len() {
		switch t := held.At(i); {
		case int64(t[0]) <= lastTime:
			panic(fmt.Sprintf("checkpoint: a sample of %d is held behind the last of its series at %d", int64(t[0]), lastTime))
		case int64(t[1]) > written:
			w.tail = append(w.tail, entry{int64(t[1]), i})
		}
	}
	slices.SortFunc(w.tail, func(a, b entry) int { return cmp.Compare(a.offset, b.offset) })
	done := 0
	for ; len(w.tail)-done >= w.size; done += w.size {
		w.enc.Reset()
		b := w.block(held, born, w.tail[done:done+w.size])
		blocks = append(blocks, b)
		put(b.Name(), w.enc.B)
	}
	w.tail = slices.Delete(w.tail, 0, done)
	return blocks
}

// block writes a block's value: version, born, fingerprint of the values, values a
// sample, and the samples.
func (w *BlockWriter) block(held HeldSamples, born int64, tail []entry) HeldBlock {
	w.enc.Byte(changelog.Version)
	w.enc.Uint(uint64(born))
	w.enc.Bits(w.Layout)
	w.enc.Uint(uint64(w.Dim))
	appendSamples(&w.enc, held, tail)
	b := HeldBlock{first: tail[0].offset, last: tail[len(tail)-1].offset, newest: math.MinInt64, sum: BlockSum(w.enc.B)}
	for _, t := range tail {
		b.newest = max(b.newest, int64(held.At(t.at)[0]))
	}
	return b
}

// appendSamples appends samples in order of offset: their number, and for each the
// differences of offset and time, and the values.
func appendSamples(e *changelog.Encoder, held HeldSamples, tail []entry) {
	e.Uint(uint64(len(tail)))
	offset, time := int64(-1), int64(0)
	for _, t := range tail {
		s := held.At(t.at)
		e.Uint(uint64(t.offset - offset))
		e.Int(int64(s[0]) - time)
		offset, time = t.offset, int64(s[0])
		for _, v := range s[2:] {
			e.Bits(v)
		}
	}
}

// AppendHead appends what a head has of the held samples, after Blocks: fingerprint of the
// values, values a sample, the blocks, and the samples that are in none.
func (w *BlockWriter) AppendHead(e *changelog.Encoder, held HeldSamples, blocks []HeldBlock) {
	e.Bits(w.Layout)
	e.Uint(uint64(w.Dim))
	e.Uint(uint64(len(blocks)))
	before := int64(-1)
	for _, b := range blocks {
		e.Uint(uint64(b.first - before))
		e.Bits(b.sum)
		before = b.first
	}
	appendSamples(e, held, w.tail)
}
