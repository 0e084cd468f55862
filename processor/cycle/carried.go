package cycle

import (
	"encoding/binary"
	"slices"

	"odradek/processor/kafka/record"
)

// CarryWindow is how many offsets the record of a sample may be behind the newest record, when the sample is scored, to
// have its headers carried. That depends on the log alone, so a replay carries the same headers; a restore reads as many
// records again.
const CarryWindow = 1 << 14

// maxCarried bounds the bytes of a record's carried headers. None of a record with more is carried.
const maxCarried = 512

// Carried holds the headers of input records that are carried to scores and anomalies, of the last CarryWindow
// offsets before the committed one and of those after it. One goroutine uses it.
type Carried struct {
	names   []string
	offsets []int64 // of records with such headers, ascending
	ends    []int   // of each record's part of bytes
	bytes   []byte  // of each header its index in names, its length + 1 (0: null) and its value
	headers []record.Header
}

// NewCarried returns an empty set of headers of these names.
func NewCarried(names []string) *Carried { return &Carried{names: names} }

// Any reports whether there are headers to carry.
func (c *Carried) Any() bool { return len(c.names) > 0 }

// Note keeps the headers of rec that are to be carried: of several of one name the last. Offsets ascend.
func (c *Carried) Note(rec *record.Record) {
	if rec.HeaderCount == 0 || len(c.names) == 0 {
		return
	}
	if n := len(c.offsets); n > 0 && c.offsets[n-1] >= rec.Offset {
		return // it comes again
	}
	from := len(c.bytes)
	for i, name := range c.names {
		v, ok := rec.Header(name)
		if !ok {
			continue
		}
		length := uint64(0)
		if v != nil {
			length = uint64(len(v)) + 1
		}
		c.bytes = append(binary.AppendUvarint(append(c.bytes, byte(i)), length), v...)
	}
	switch n := len(c.bytes) - from; {
	case n == 0:
	case n > maxCarried:
		c.bytes = c.bytes[:from]
	default:
		c.offsets, c.ends = append(c.offsets, rec.Offset), append(c.ends, len(c.bytes))
	}
}

// Headers returns the headers of the record at offset, which was behind offsets behind the newest one; none where that is more
// than CarryWindow. They are valid until the next call.
func (c *Carried) Headers(offset int64, behind uint32) []record.Header {
	if len(c.offsets) == 0 || behind > CarryWindow {
		return nil
	}
	i, ok := slices.BinarySearch(c.offsets, offset)
	if !ok {
		return nil
	}
	b := c.bytes[c.start(i):c.ends[i]]
	c.headers = c.headers[:0]
	for len(b) > 0 {
		h := record.Header{Key: c.names[b[0]]}
		length, n := binary.Uvarint(b[1:])
		b = b[1+n:]
		if length > 0 {
			h.Value, b = b[:length-1:length-1], b[length-1:]
		}
		c.headers = append(c.headers, h)
	}
	return c.headers
}

func (c *Carried) start(i int) int {
	if i == 0 {
		return 0
	}
	return c.ends[i-1]
}

// Committed drops what no record from the committed offset on needs.
func (c *Carried) Committed(offset int64) {
	n, _ := slices.BinarySearch(c.offsets, offset-CarryWindow)
	if n < len(c.offsets)/2 || n == 0 {
		return // moving the rest costs no more than adding what is dropped did
	}
	from := c.ends[n-1]
	c.bytes = append(c.bytes[:0], c.bytes[from:]...)
	c.offsets = append(c.offsets[:0], c.offsets[n:]...)
	c.ends = append(c.ends[:0], c.ends[n:]...)
	for i := range c.ends {
		c.ends[i] -= from
	}
}

// Return drops the records from offset on, which come again.
func (c *Carried) Return(offset int64) {
	n, _ := slices.BinarySearch(c.offsets, offset)
	c.bytes = c.bytes[:c.start(n)]
	c.offsets, c.ends = c.offsets[:n], c.ends[:n]
}

// Reset drops everything.
func (c *Carried) Reset() {
	c.offsets, c.ends, c.bytes = c.offsets[:0], c.ends[:0], c.bytes[:0]
}
