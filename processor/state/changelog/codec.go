package changelog

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"odradek/detectors"
)

// Version is the first byte of every value. A value of another version is not read.
const Version = 9

// Encoder appends values to B: integers as varints, floats as their bits, little-endian.
type Encoder struct{ B []byte }

// Reset empties the encoder.
func (e *Encoder) Reset() { e.B = e.B[:0] }

// Byte appends a byte.
func (e *Encoder) Byte(v byte) { e.B = append(e.B, v) }

// Uint appends a varint.
func (e *Encoder) Uint(v uint64) { e.B = binary.AppendUvarint(e.B, v) }

// Int appends a signed varint.
func (e *Encoder) Int(v int64) { e.B = binary.AppendVarint(e.B, v) }

// Bits appends a number of eight bytes.
func (e *Encoder) Bits(v uint64) { e.B = binary.LittleEndian.AppendUint64(e.B, v) }

// Words appends the number of words and the words.
func (e *Encoder) Words(v detectors.Words) {
	e.Uint(uint64(len(v)))
	for _, w := range v {
		e.B = binary.LittleEndian.AppendUint32(e.B, w)
	}
}

// Floats appends the number of floats and the floats.
func (e *Encoder) Floats(v []float32) { e.Words(detectors.WordsOf(v)) }

// Flag appends 1 or 0.
func (e *Encoder) Flag(v bool) {
	if v {
		e.Byte(1)
	} else {
		e.Byte(0)
	}
}

// Decoder reads the output of Encoder. After the first fault it returns zeros and
// Bad is set; no length that it returns is larger than the remaining bytes can hold.
type Decoder struct {
	B   []byte
	Bad bool

	reason error // for Bad; nil: the bytes are damaged
}

// Fail ends the decoding: the bytes are not what an Encoder wrote.
func (d *Decoder) Fail() {
	d.B, d.Bad = nil, true
}

// refuse ends the decoding: another version has written the bytes.
func (d *Decoder) refuse(reason error) {
	if d.Fail(); d.reason == nil {
		d.reason = reason
	}
}

// Err returns why the decoding has ended: ErrCorrupt, ErrNewer or ErrOlder; nil where Bad is not set.
func (d *Decoder) Err() error {
	if !d.Bad {
		return nil
	}
	return cmp.Or(d.reason, ErrCorrupt)
}

// End returns Err or, if bytes are left, ErrCorrupt.
func (d *Decoder) End() error {
	if len(d.B) > 0 {
		d.Fail()
	}
	return d.Err()
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if len(d.B) == 0 {
		d.Fail()
		return 0
	}
	v := d.B[0]
	d.B = d.B[1:]
	return v
}

// Uint reads a varint.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Offset reads the number of a record or row.
func (d *Decoder) Offset() int64 {
	v := d.Uint()
	if v > 1<<62 {
		d.Fail()
		return 0
	}
	return int64(v)
}

// Int reads a signed varint.
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Bits reads a number of eight bytes.
func (d *Decoder) Bits() uint64 {
	if len(d.B) < 8 {
		d.Fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(d.B)
	d.B = d.B[8:]
	return v
}

// Len reads a number of items of at least size bytes each.
func (d *Decoder) Len(size int) int {
	v := d.Uint()
	if v > uint64(len(d.B)/size) {
		d.Fail()
		return 0
	}
	return int(v)
}

// Small reads a number that fits an int32.
func (d *Decoder) Small() int {
	v := d.Uint()
	if v > math.MaxInt32 {
		d.Fail()
		return 0
	}
	return int(v)
}

// Version reads the version that begins a value, and ends the decoding of another one than Version.
func (d *Decoder) Version() {
	switch v := d.Byte(); {
	case d.Bad:
	case v > Version:
		d.refuse(ErrNewer)
	case v == 0:
		d.Fail()
	case v < Version:
		d.refuse(ErrOlder)
	}
}

// Flags reads flags, of which the reader knows some, and ends the decoding of others.
func (d *Decoder) Flags(known uint64) uint64 {
	v := d.Uint()
	if v&^known != 0 {
		d.refuse(ErrNewer)
		return 0
	}
	return v
}

// Words reads the number of words and the words.
func (d *Decoder) Words() detectors.Words {
	n := d.Len(4)
	if n == 0 {
		return nil
	}
	v := make(detectors.Words, n)
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(d.B[4*i:])
	}
	d.B = d.B[4*n:]
	return v
}

// Floats reads the output of Encoder.Floats.
func (d *Decoder) Floats() []float32 { return d.Words().F32() }

// Times reads the number of rows and their times, and checks that the rows' values
// follow.
func (d *Decoder) Times(dst []uint64, cols int) []uint64 {
	n := d.Len(1 + 8*cols)
	if n == 0 {
		return dst
	}
	last, step := d.Int(), int64(0)
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	dst[at] = uint64(last)
	for rest := dst[at+1:]; len(rest) > 0; {
		// At a steady rate a second difference is a byte. Len has made sure that there are as many bytes as rows.
		i, b := 0, d.B[:min(len(rest), len(d.B))]
		for ; i < len(b) && b[i] < 0x80; i++ {
			step += int64(b[i]>>1) ^ -int64(b[i]&1)
			last += step
			rest[i] = uint64(last)
		}
		d.B, rest = d.B[i:], rest[i:]
		if len(rest) > 0 {
			step += d.Int()
			last += step
			rest[0] = uint64(last)
			rest = rest[1:]
		}
	}
	if len(d.B) < n*8*cols {
		d.Fail()
	}
	if d.Bad {
		return dst[:0]
	}
	return dst
}

// Uint32 reads a varint of at most 32 bits.
func (d *Decoder) Uint32() uint32 {
	v := d.Uint()
	if v > math.MaxUint32 {
		d.Fail()
		return 0
	}
	return uint32(v)
}

// Float reads a float32 of four bytes.
func (d *Decoder) Float() float32 {
	if v := d.Slice(4); v != nil {
		return math.Float32frombits(binary.LittleEndian.Uint32(v))
	}
	return 0
}

// Slice reads n bytes, without a copy.
func (d *Decoder) Slice(n int) []byte {
	if n > len(d.B) {
		d.Fail()
		return nil
	}
	v := d.B[:n]
	d.B = d.B[n:]
	return v
}

// Skip skips n bytes.
func (d *Decoder) Skip(n int) { d.Slice(n) }
