package ops

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
)

// npyHead matches the header of an array: its element type and shape.
var npyHead = regexp.MustCompile(`'descr': '[<|](..)'.*'fortran_order': (True|False).*'shape': \((\d+)(?:, (\d+))?`)

// readNPZ reads a table of an npz file, NumPy's format, row by row.
func readNPZ(path, name string) (x []float64, dim int, err error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = z.Close() }()
	f, err := z.Open(name + ".npy")
	if err != nil {
		return nil, 0, err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, 0, err
	}
	const start = 10 // of the head: a magic number, a version, its length
	if len(b) < start || !bytes.HasPrefix(b, []byte("\x93NUMPY\x01")) {
		return nil, 0, fmt.Errorf("%s: %s is no array of version 1", path, name)
	}
	head := b[:min(len(b), start+int(binary.LittleEndian.Uint16(b[8:])))]
	m := npyHead.FindSubmatch(head)
	if m == nil {
		return nil, 0, fmt.Errorf("%s: %s has the head %q", path, name, head)
	}
	n, _ := strconv.Atoi(string(m[3]))
	if dim, _ = strconv.Atoi(string(m[4])); dim == 0 {
		dim = 1
	}
	kind := string(m[1])
	size, number := int(m[1][1]-'0'), numberOf(kind)
	b = b[len(head):]
	if number == nil || len(b) != n*dim*size {
		return nil, 0, fmt.Errorf("%s: %s has %d bytes of type %s, not %d x %d numbers", path, name, len(b), kind, n, dim)
	}
	x = make([]float64, n*dim)
	for i := range x {
		at := i
		if string(m[2]) == "True" { // column by column
			at = i%n*dim + i/n
		}
		x[at] = number(b[i*size:])
	}
	return x, dim, nil
}

// numberOf reads a number of a type of NumPy's; nil for one that tables do not have.
func numberOf(kind string) func(b []byte) float64 {
	le := binary.LittleEndian
	switch kind {
	case "f8":
		return func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }
	case "f4":
		return func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }
	case "i8":
		return func(b []byte) float64 { return float64(int64(le.Uint64(b))) }
	case "i4":
		return func(b []byte) float64 { return float64(int32(le.Uint32(b))) }
	case "i2":
		return func(b []byte) float64 { return float64(int16(le.Uint16(b))) }
	case "i1":
		return func(b []byte) float64 { return float64(int8(b[0])) }
	case "u1", "b1":
		return func(b []byte) float64 { return float64(b[0]) }
	}
	return nil
}
