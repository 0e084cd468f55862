package series

import (
	"iter"
	"math/bits"
)

// Segments are the segments of a window that the key's head names: rows from to to.
// They begin at multiples of their size, but for the first, which may begin
// later: where the window had moved on when it was written.
type Segments struct{ From, To int64 }

// All returns the first rows of the segments.
func (s Segments) All(seg int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for first := s.From; first < s.To && yield(first); {
			first = first&^(seg-1) + seg
		}
	}
}

// Has reports whether a segment of seg rows begins with row first.
func (s Segments) Has(seg, first int64) bool {
	return first == s.From && first < s.To || first > s.From && first < s.To && first&(seg-1) == 0
}

// SegmentID names the segment of seg rows that begins with row first, and says
// all about its content: segments of different sizes, or of which the beginning
// was not there any more, are different segments.
func SegmentID(seg, first int64) uint64 {
	return uint64(bits.TrailingZeros64(uint64(seg)))<<56 | uint64(first)
}

// segmentRows returns the size of a segment: a power of two near an eighth of the
// window, between 1 KiB and 256 KiB (or half of a record). A window of less
// than two segments has none.
func segmentRows(need int64, cols, maxRecord int) int64 {
	row := int64(8 * (1 + cols))
	least, most := int64(1<<10), min(int64(256<<10), int64(maxRecord)/2)
	n := int64(1)
	for n*2*row <= most && (n*row < least || 3*n < need/4) { // 3n < 2(need/8): 2n is nearer
		n *= 2
	}
	if 2*n > need {
		if n*row <= most {
			return 0
		}
		return 1 // rows of more than the limit: one a segment
	}
	return n
}

// Full returns the segments that the next head is to name, and the ones among them that have to
// be written before it.
func (w *Window) Full(sw *SetWindow) (live, unwritten Segments) {
	if sw.SegmentRows == 0 {
		return Segments{}, Segments{}
	}
	oldest := w.Count - int64(w.Rows)
	start, to := oldest&^(sw.SegmentRows-1), w.Count&^(sw.SegmentRows-1)
	live, unwritten = Segments{start, to}, Segments{w.Named.To, to}
	switch {
	case start == to:
		return Segments{to, to}, Segments{}
	case w.Named.To <= start: // nothing that there is has been written
		live.From, unwritten.From = oldest, oldest
	case w.Named.From > start:
		live.From = w.Named.From
	}
	return live, unwritten
}
