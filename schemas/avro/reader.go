package avro

import (
	"encoding/binary"
	"errors"
	"math"
)

// FieldReader reads the fields of a record of known schema one by one. After
// an error it gives zeros.
type FieldReader struct {
	buf []byte
	pos int
	st  status
}

// NewFieldReader makes a reader of a record's Avro bytes.
func NewFieldReader(b []byte) *FieldReader { return &FieldReader{buf: b} }

// OK reports whether all fields so far could be read.
func (r *FieldReader) OK() bool { return r.st == statusOK }

// More reports whether bytes of the record are left, all fields so far being read.
func (r *FieldReader) More() bool { return r.st == statusOK && r.pos < len(r.buf) }

// Text reads a string or bytes, which alias the record.
func (r *FieldReader) Text() []byte {
	if r.st != statusOK {
		return nil
	}
	var n int
	if n, r.pos, r.st = length(r.buf, r.pos); r.st != statusOK {
		return nil
	}
	r.pos += n
	return r.buf[r.pos-n : r.pos : r.pos]
}

// Long reads a long.
func (r *FieldReader) Long() int64 {
	if r.st != statusOK {
		return 0
	}
	var v uint64
	v, r.pos, r.st = varint(r.buf, r.pos)
	return unzigzag(v)
}

// Int reads an int.
func (r *FieldReader) Int() int32 {
	if r.st != statusOK {
		return 0
	}
	var v int32
	v, r.pos, r.st = integer32(r.buf, r.pos)
	return v
}

// Index reads the index of one of n branches or symbols.
func (r *FieldReader) Index(n int) int {
	if r.st != statusOK {
		return 0
	}
	var i int
	i, r.pos, r.st = index(r.buf, r.pos, n)
	return i
}

// Float reads a float.
func (r *FieldReader) Float() float32 {
	if r.st == statusOK && len(r.buf)-r.pos < 4 {
		r.st = statusTruncated
	}
	if r.st != statusOK {
		return 0
	}
	r.pos += 4
	return math.Float32frombits(binary.LittleEndian.Uint32(r.buf[r.pos-4:]))
}

// Double reads a double.
func (r *FieldReader) Double() float64 {
	if r.st == statusOK && len(r.buf)-r.pos < 8 {
		r.st = statusTruncated
	}
	if r.st != statusOK {
		return 0
	}
	r.pos += 8
	return math.Float64frombits(binary.LittleEndian.Uint64(r.buf[r.pos-8:]))
}

// End reports what was wrong, or that bytes of the record are left.
func (r *FieldReader) End() error {
	if r.st != statusOK {
		return statusErrors[r.st].err
	}
	if r.pos != len(r.buf) {
		return errors.New("bytes behind the record's end")
	}
	return nil
}

// UpTo reads a long that is not negative and at most most.
func (r *FieldReader) UpTo(most int64) int64 {
	v := r.Long()
	if r.st == statusOK && (v < 0 || v > most) {
		r.st = statusOverflow
		return 0
	}
	return v
}

// Optional reads a union of null and double; null is NaN.
func (r *FieldReader) Optional() float64 {
	if r.Index(2) == 0 {
		return math.NaN()
	}
	return r.Double()
}

// Doubles reads a union of null and an array of doubles; null is nil.
func (r *FieldReader) Doubles() []float64 {
	if r.Index(2) == 0 {
		return nil
	}
	list := []float64{}
	for r.st == statusOK {
		n := r.Long()
		if n < 0 { // the block's size in bytes follows
			n = -n
			r.Long()
		}
		if n == 0 {
			break
		}
		if n < 0 || n > int64(len(r.buf)-r.pos)/8 {
			r.st = statusTruncated
			break
		}
		for range n {
			list = append(list, r.Double())
		}
	}
	return list
}
