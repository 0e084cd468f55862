package changelog

import "math"

// String appends a string with its length.
func (e *Encoder) String(v string) {
	e.Uint(uint64(len(v)))
	e.B = append(e.B, v...)
}

// Sparse appends the number of floats, then alternating runs of zeros, of which only the
// length is written, and of other floats: a young key's history is mostly zeros.
func (e *Encoder) Sparse(v []float32) {
	e.Uint(uint64(len(v)))
	for len(v) > 0 {
		n := 0
		for n < len(v) && math.Float32bits(v[n]) == 0 {
			n++
		}
		e.Uint(uint64(n))
		v = v[n:]
		// A run of others ends where two zeros save more than they cost.
		for n = 0; n < len(v) && (math.Float32bits(v[n]) != 0 || n+1 < len(v) && math.Float32bits(v[n+1]) != 0); n++ {
		}
		e.Floats(v[:n])
		v = v[n:]
	}
}

// maxSparse bounds the floats that Sparse reads, the state of a threshold: a few bytes can
// claim any number of zeros.
const maxSparse = 1 << 18

// Sparse reads the output of Encoder.Sparse.
func (d *Decoder) Sparse() []float32 {
	n := d.Small()
	if n > maxSparse {
		d.Fail()
	}
	if n == 0 || d.Bad {
		return nil
	}
	v := make([]float32, n)
	for at := 0; at < n && !d.Bad; {
		zeros := d.Small()
		others := d.Floats()
		if zeros > n-at || len(others) > n-at-zeros || zeros+len(others) == 0 {
			d.Fail()
			return nil
		}
		copy(v[at+zeros:], others)
		at += zeros + len(others)
	}
	return v
}

// String reads a string.
func (d *Decoder) String() string {
	n := d.Len(1)
	v := string(d.B[:n])
	d.B = d.B[n:]
	return v
}
