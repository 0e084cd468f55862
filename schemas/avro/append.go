package avro

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// AppendOptional appends a union of null, which NaN stands for, and double.
func AppendOptional(dst []byte, v float64) []byte {
	if v != v {
		return append(dst, 0)
	}
	return binary.LittleEndian.AppendUint64(append(dst, 2), math.Float64bits(v))
}

// AppendBool appends a boolean.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// PutLong writes a long to the front of b, which has room for the longest one,
// and returns the number of bytes written. Up to 8 bytes are encoded at once: the groups
// of seven bits are spread apart in pairs, the reverse of what varint does.
func PutLong(b []byte, v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	if u < 0x80 {
		b[0] = byte(u)
		return 1
	}
	if u < 1<<56 {
		n := (bits.Len64(u) + 6) / 7
		u = u&0x000000000fffffff | u&0x00fffffff0000000<<4
		u = u&0x00003fff00003fff | u&0x0fffc0000fffc000<<2
		u = u&0x007f007f007f007f | u&0x3f803f803f803f80<<1
		u |= 0x8080808080808080 & (1<<(8*(n-1)) - 1)
		binary.LittleEndian.PutUint64(b, u)
		return n
	}
	return binary.PutUvarint(b, u)
}

// AppendLong appends a long or an int in Avro's binary encoding.
func AppendLong(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// AppendText appends a string or bytes.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	return append(AppendLong(dst, int64(len(s))), s...)
}
