package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// unframe takes the framing off a record of one of our schemas.
func unframe(b []byte, fingerprint uint64) ([]byte, error) {
	switch {
	case len(b) >= 5 && b[0] == magicID:
		return b[5:], nil
	case len(b) >= 10 && b[0] == singleObject0 && b[1] == singleObject1:
		if crc := binary.LittleEndian.Uint64(b[2:]); crc != fingerprint {
			return nil, fmt.Errorf("fingerprint %016x is of another schema", crc)
		}
		return b[10:], nil
	}
	return nil, errors.New("starts with no known framing")
}

// fieldReader reads the fields of a record of known schema one by one. After
// an error it gives zeros.
type fieldReader struct {
	buf []byte
	pos int
	st  status
}

func (r *fieldReader) text() []byte {
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

func (r *fieldReader) long() int64 {
	if r.st != statusOK {
		return 0
	}
	var v uint64
	v, r.pos, r.st = varint(r.buf, r.pos)
	return unzigzag(v)
}

func (r *fieldReader) int() int32 {
	if r.st != statusOK {
		return 0
	}
	var v int32
	v, r.pos, r.st = integer32(r.buf, r.pos)
	return v
}

func (r *fieldReader) index(n int) int {
	if r.st != statusOK {
		return 0
	}
	var i int
	i, r.pos, r.st = index(r.buf, r.pos, n)
	return i
}

func (r *fieldReader) double() float64 {
	if r.st == statusOK && len(r.buf)-r.pos < 8 {
		r.st = statusTruncated
	}
	if r.st != statusOK {
		return 0
	}
	r.pos += 8
	return math.Float64frombits(binary.LittleEndian.Uint64(r.buf[r.pos-8:]))
}

func (r *fieldReader) end() error {
	if r.st != statusOK {
		return statusErrors[r.st].err
	}
	if r.pos != len(r.buf) {
		return errors.New("bytes behind the record's end")
	}
	return nil
}

// upTo reads a long that is not negative and at most most.
func (r *fieldReader) upTo(most int64) int64 {
	v := r.long()
	if r.st == statusOK && (v < 0 || v > most) {
		r.st = statusOverflow
		return 0
	}
	return v
}

// optional reads a union of null and double; null is NaN.
func (r *fieldReader) optional() float64 {
	if r.index(2) == 0 {
		return math.NaN()
	}
	return r.double()
}

// doubles reads a union of null and an array of doubles; null is nil.
func (r *fieldReader) doubles() []float64 {
	if r.index(2) == 0 {
		return nil
	}
	list := []float64{}
	for r.st == statusOK {
		n := r.long()
		if n < 0 { // the block's size in bytes follows
			n = -n
			r.long()
		}
		if n == 0 {
			break
		}
		if n < 0 || n > int64(len(r.buf)-r.pos)/8 {
			r.st = statusTruncated
			break
		}
		for range n {
			list = append(list, r.double())
		}
	}
	return list
}
