package cycle

import (
	"time"

	"odradek/processor/kafka/record"
)

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
