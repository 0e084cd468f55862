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
// Like the rows of a window, held samples are in records of their own (held segments), written once when full,
// so that a key that holds many does not write them with every snapshot. A held segment has samples
// in order of offset. The head of the key has the samples that fill no segment, and names the segments.
//
// A held segment does not change when its samples are released: the released ones are exactly the samples of a time up to the
// key's last one (series.ReorderBuffer). A held segment whose samples are all released is no longer named, and is
// deleted.
//
// The name of a segment is its first offset and a checksum of its content. A held segment
// that is written again with other content, after a rollback or by another member, so
// leaves the one that an older head names.

// HeldSegment is a held segment that a key's head names.
type HeldSegment struct {
	first, last int64 // offsets
	newest      int64 // time
	sum         uint64
}

// HeldName is the end of the key of a segment's record: its first offset and its checksum.
type HeldName struct{ First, Sum uint64 }

// Name returns the name of a segment.
func (h *HeldSegment) Name() HeldName { return HeldName{uint64(h.first), h.sum} }

// HeldSum returns the checksum of a segment's value.
func HeldSum(value []byte) uint64 {
	h := fnv.New64a()
	h.Write(value)
	return h.Sum64()
}

// ContainsHeld reports whether one of the segments has the name.
func ContainsHeld(segments []HeldSegment, name HeldName) bool {
	return slices.ContainsFunc(segments, func(b HeldSegment) bool { return b.Name() == name })
}

// SplitHeld separates the segments that end before an offset from those that do not.
func SplitHeld(segments []HeldSegment, offset int64) (before, rest []HeldSegment) {
	n := len(segments)
	for n > 0 && segments[n-1].last > offset {
		n--
	}
	return segments[:n:n], segments[n:]
}

// HeldFormat is how samples are written.
type HeldFormat struct {
	Layout uint64 // fingerprint of the values
	Dim    int    // values a sample
}

// heldSegmentBytes is the size of a segment where records may be as large.
const heldSegmentBytes = 16 << 10

// Size returns the number of samples of a segment where a record has at most maxRecord bytes.
func (f *HeldFormat) Size(maxRecord int) int {
	return max(1, min(heldSegmentBytes, maxRecord/2)/(8*(2+f.Dim)))
}

// HeldSamples are held samples in order of time and offset.
type HeldSamples interface {
	Len() int
	At(i int) []uint64 // time, offset, the bits of the values
}

// HeldWriter writes the held samples of a key: Segments, and then the rest with the head.
type HeldWriter struct {
	format HeldFormat
	size   int
	enc    changelog.Encoder
	tail   []tailSample // samples that are in no segment
}

// tailSample is a held sample that is in no segment.
type tailSample struct {
	offset int64
	at     int // among the held samples of its key
}

// NewHeldWriter returns a Writer for records of at most maxRecord bytes.
func NewHeldWriter(f HeldFormat, maxRecord int) HeldWriter {
	return HeldWriter{format: f, size: f.Size(maxRecord)}
}

// Segments writes the segments that have become full and returns those that the head has to name;
// old are those that the last head names. lastTime is the time of the key's last sample that
// is not held, born the offset of its first sample.
func (w *HeldWriter) Segments(
	old []HeldSegment, held HeldSamples, lastTime, born int64, put func(name HeldName, value []byte),
) []HeldSegment {
	w.tail = w.tail[:0]
	if held.Len() == 0 {
		return nil
	}
	segments := make([]HeldSegment, 0, len(old)+held.Len()/w.size)
	written := int64(-1)
	for _, b := range old {
		if b.newest > lastTime {
			segments = append(segments, b)
			written = b.last
		}
	}
	for i := range held.Len() {
		switch t := held.At(i); {
		case int64(t[0]) <= lastTime:
			panic(fmt.Sprintf("checkpoint: a sample of %d is held behind the last of its series at %d", int64(t[0]), lastTime))
		case int64(t[1]) > written:
			w.tail = append(w.tail, tailSample{int64(t[1]), i})
		}
	}
	slices.SortFunc(w.tail, func(a, b tailSample) int { return cmp.Compare(a.offset, b.offset) })
	done := 0
	for ; len(w.tail)-done >= w.size; done += w.size {
		w.enc.Reset()
		b := w.segment(held, born, w.tail[done:done+w.size])
		segments = append(segments, b)
		put(b.Name(), w.enc.B)
	}
	w.tail = slices.Delete(w.tail, 0, done)
	return segments
}

// segment writes a segment's value: version, born, fingerprint of the values, values a
// sample, and the samples.
func (w *HeldWriter) segment(held HeldSamples, born int64, tail []tailSample) HeldSegment {
	w.enc.Byte(changelog.Version)
	w.enc.Uint(uint64(born))
	w.enc.Bits(w.format.Layout)
	w.enc.Uint(uint64(w.format.Dim))
	appendSamples(&w.enc, held, tail)
	b := HeldSegment{first: tail[0].offset, last: tail[len(tail)-1].offset, newest: math.MinInt64, sum: HeldSum(w.enc.B)}
	for _, t := range tail {
		b.newest = max(b.newest, int64(held.At(t.at)[0]))
	}
	return b
}

// appendSamples appends samples in order of offset: their number, and for each the
// differences of offset and time, and the values.
func appendSamples(e *changelog.Encoder, held HeldSamples, tail []tailSample) {
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

// AppendHead appends what a head has of the held samples, after Segments: fingerprint of the
// values, values a sample, the segments, and the samples that are in none.
func (w *HeldWriter) AppendHead(e *changelog.Encoder, held HeldSamples, segments []HeldSegment) {
	e.Bits(w.format.Layout)
	e.Uint(uint64(w.format.Dim))
	e.Uint(uint64(len(segments)))
	before := int64(-1)
	for _, b := range segments {
		e.Uint(uint64(b.first - before))
		e.Bits(b.sum)
		before = b.first
	}
	appendSamples(e, held, w.tail)
}
