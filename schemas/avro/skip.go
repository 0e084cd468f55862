package avro

import (
	"encoding/binary"
	"math/bits"
)

// gather takes a variable-length number out of its first eight bytes: the
// lowest clear top bit marks its end, then the groups of seven bits are drawn
// together pairwise. n is its length, 9 if it does not end within the eight.
// It is inlined where it matters.
func gather(x uint64) (v uint64, n int) {
	stop := ^x & 0x8080808080808080
	x &= (stop ^ (stop - 1)) & 0x7f7f7f7f7f7f7f7f
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	x = x&0x000000000fffffff | x&0x0fffffff00000000>>4
	return x, bits.TrailingZeros64(stop)>>3 + 1
}

// varint reads a variable-length number at pos: its bits, before the zigzag is
// undone, and the position after it. It has up to 10 bytes; the tenth must be 0 or 1 (Avro: 64 bits).
func varint(buf []byte, pos int) (v uint64, next int, st status) {
	if uint(pos) >= uint(len(buf)) {
		return 0, pos, statusTruncated
	}
	b := buf[pos:]
	if b[0] < 0x80 {
		return uint64(b[0]), pos + 1, statusOK
	}
	if len(b) >= 8 {
		if v, n := gather(binary.LittleEndian.Uint64(b)); n <= 8 {
			return v, pos + n, statusOK
		}
	} else if len(buf) >= 8 { // the last bytes of the record, and zeros
		v, n := gather(binary.LittleEndian.Uint64(buf[len(buf)-8:]) >> (64 - 8*len(b)))
		if n > len(b) {
			return 0, pos, statusTruncated
		}
		return v, pos + n, statusOK
	}
	return slowVarint(b, pos)
}

func slowVarint(b []byte, pos int) (uint64, int, status) {
	var v uint64
	for i := 0; i < len(b); i++ {
		c := b[i]
		if i == 9 && c > 1 {
			return 0, pos, statusOverflow
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, pos + i + 1, statusOK
		}
	}
	return 0, pos, statusTruncated
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// length reads the length of a string or of bytes and checks that as many bytes follow.
func length(buf []byte, pos int) (n, next int, st status) {
	v, pos, st := varint(buf, pos)
	if st != statusOK {
		return 0, pos, st
	}
	if v&1 != 0 {
		return 0, pos, statusNegative
	}
	if v>>1 > uint64(len(buf)-pos) {
		return 0, pos, statusTruncated
	}
	return int(v >> 1), pos, statusOK
}

// integer32 reads an int.
func integer32(buf []byte, pos int) (int32, int, status) {
	v, pos, st := varint(buf, pos)
	if st != statusOK {
		return 0, pos, st
	}
	if v>>32 != 0 {
		return 0, pos, statusOverflow
	}
	return int32(unzigzag(v)), pos, statusOK
}

// index reads the index of a union's branch or an enum's symbol, one of n.
func index(buf []byte, pos, n int) (int, int, status) {
	v, pos, st := varint(buf, pos)
	if st != statusOK {
		return 0, pos, st
	}
	if v&1 != 0 || v>>1 >= uint64(n) {
		return 0, pos, statusIndex
	}
	return int(v >> 1), pos, statusOK
}

// block reads the head of a block of an array or a map: how many items, 0 at
// the end, and where they end if the writer says so, else -1. A count that
// the remaining bytes cannot hold is refused at once.
func block(buf []byte, pos, least int) (n, end, next int, st status) {
	v, pos, st := varint(buf, pos)
	if st != statusOK {
		return 0, 0, pos, st
	}
	count, end := unzigzag(v), -1
	if count < 0 {
		size, after, st := length(buf, pos)
		if st != statusOK {
			return 0, 0, pos, st
		}
		if count == -1<<63 {
			return 0, 0, pos, statusOverflow
		}
		count, pos, end = -count, after, after+size
	}
	room := len(buf) - pos
	if end >= 0 {
		room = end - pos
	}
	switch {
	case least == 0 && count > maxEmptyItems:
		return 0, 0, pos, statusCount
	case least > 0 && count > int64(room/least):
		return 0, 0, pos, statusTruncated
	}
	return int(count), end, pos, statusOK
}

// leastItem returns the least size of one entry of an array or a map.
func (n *node) leastItem() int {
	if n.kind == kindMap {
		return 1 + n.items.least
	}
	return n.items.least
}

// skip goes over one value and checks its form. Blocks of items whose size is
// given are jumped over, unless all is set: then they are gone through as
// well and must be of that size. It never allocates.
func skip(buf []byte, pos int, n *node, depth int, all bool) (int, status) {
	if depth > maxDepth {
		return pos, statusDeep
	}
	var st status
	switch n.kind {
	case kindNull:
		return pos, statusOK
	case kindBoolean:
		if pos >= len(buf) {
			return pos, statusTruncated
		}
		if buf[pos] > 1 {
			return pos, statusIndex
		}
		return pos + 1, statusOK
	case kindInt:
		_, pos, st = integer32(buf, pos)
		return pos, st
	case kindLong:
		_, pos, st = varint(buf, pos)
		return pos, st
	case kindFloat, kindDouble, kindFixed:
		if len(buf)-pos < n.constant {
			return pos, statusTruncated
		}
		return pos + n.constant, statusOK
	case kindBytes, kindString:
		size, next, st := length(buf, pos)
		return next + size, st
	case kindEnum:
		_, pos, st = index(buf, pos, len(n.symbols))
		return pos, st
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return skip(buf, next, n.branches[i], depth+1, all)
	case kindRecord:
		for i := range n.fields {
			if pos, st = skip(buf, pos, n.fields[i].typ, depth+1, all); st != statusOK {
				return pos, st
			}
		}
		return pos, statusOK
	}
	for { // kindArray, kindMap
		count, end, next, st := block(buf, pos, n.leastItem())
		if pos = next; st != statusOK || count == 0 {
			return pos, st
		}
		if end >= 0 && !all {
			pos = end
			continue
		}
		if n.kind == kindArray && (n.items.constant == 0 || n.items.kind >= kindFloat && n.items.kind <= kindDouble) {
			pos += count * n.items.constant
			count = 0
		}
		for range count {
			if n.kind == kindMap {
				size, next, st := length(buf, pos)
				if pos = next + size; st != statusOK {
					return pos, st
				}
			}
			if pos, st = skip(buf, pos, n.items, depth+1, all); st != statusOK {
				return pos, st
			}
		}
		if end >= 0 && pos != end {
			return pos, statusBlock
		}
	}
}
