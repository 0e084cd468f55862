package cycle

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

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

// Headers returns an output record's own headers and then those carried from the input record at offset, which was behind
// offsets behind the newest one; where that is more than CarryWindow, none is carried. They are valid until the next call.
func (c *Carried) Headers(own []record.Header, offset int64, behind uint32) []record.Header {
	if len(c.offsets) == 0 || behind > CarryWindow {
		return own
	}
	i, ok := slices.BinarySearch(c.offsets, offset)
	if !ok {
		return own
	}
	b := c.bytes[c.start(i):c.ends[i]]
	c.headers = append(c.headers[:0], own...)
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

// Trace is what a trace shows of a cycle that was committed, or could not be.
type Trace struct {
	Fetched      time.Time // when its oldest chunk was
	Began, Ended time.Time // of the commit
	Partitions   int
	Records      int
	Bytes        int
	Outputs      map[string]int // numbers of records, as metrics.CycleStats has them
	Traceparents []string       // header traceparent of some of its records
	Err          error          // nil: it is committed
}

// traceparent is the header of W3C Trace Context.
const traceparent = "traceparent"

// MaxTraceparents bounds the records of a cycle whose traces it is linked with.
const MaxTraceparents = 64

// Traceparents collects the traces of the records of a chunk, if they are wanted. One goroutine uses it.
type Traceparents struct {
	Wanted bool
	list   []string
}

// Note adds the trace of rec.
func (t *Traceparents) Note(rec *record.Record) {
	if !t.Wanted || rec.HeaderCount == 0 || len(t.list) >= MaxTraceparents {
		return
	}
	if v, ok := rec.Header(traceparent); ok {
		t.list = append(t.list, string(v))
	}
}

// Drain returns what was collected since the last call.
func (t *Traceparents) Drain() (list []string) {
	list, t.list = t.list, nil
	return list
}

// Trace hands what a trace shows of the cycle, which took that long to commit, to traced.
func (c *Cycle[P]) Trace(traced func(*Trace), outputs map[string]int, began time.Time, took time.Duration, err error) {
	t := Trace{Fetched: began, Began: began, Ended: began.Add(took), Partitions: len(c.Results), Records: c.Records, Bytes: c.Bytes,
		Outputs: outputs, Err: err}
	for _, r := range c.Results {
		if r.Work.Fetched.Before(t.Fetched) {
			t.Fetched = r.Work.Fetched
		}
		room := MaxTraceparents - len(t.Traceparents)
		t.Traceparents = append(t.Traceparents, r.Traceparents[:min(room, len(r.Traceparents))]...)
	}
	traced(&t)
}

// TimestampHeader has the timestamp of a copied record, in milliseconds. The copy itself has the time of writing as
// Kafka's timestamp: with the timestamp of an old record retention would delete it at once, and one ahead of the broker's clock
// would be refused, with its whole batch.
const TimestampHeader = "odradek.source.timestamp"

// Timestamp returns the timestamp of a record, or, for a copy, the timestamp of the record that was copied.
func Timestamp(rec *record.Record) int64 {
	if rec.HeaderCount == 0 {
		return rec.Timestamp
	}
	v, ok := rec.Header(TimestampHeader)
	if !ok {
		return rec.Timestamp
	}
	ms, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return rec.Timestamp
	}
	return ms
}
