package processor

import (
	"time"

	"odradek/processor/kafka/record"
)

// CycleTrace is what a trace shows of a cycle that was committed, or could not be.
type CycleTrace struct {
	Fetched      time.Time // when its oldest chunk was
	Began, Ended time.Time // of the commit
	Partitions   int
	Records      int
	Bytes        int
	Outputs      map[string]int // numbers of records, as CycleStats has them
	Traceparents []string       // header traceparent of some of its records
	Err          error          // nil: it is committed
}

// traceparent is the header of W3C Trace Context.
const traceparent = "traceparent"

// maxTraceparents bounds the records of a cycle whose traces it is linked with.
const maxTraceparents = 64

// traceparents collects the traces of the records of a chunk, if they are wanted. One goroutine uses it.
type traceparents struct {
	wanted bool
	list   []string
}

// note adds the trace of rec.
func (t *traceparents) note(rec *record.Record) {
	if !t.wanted || rec.HeaderCount == 0 || len(t.list) >= maxTraceparents {
		return
	}
	if v, ok := rec.Header(traceparent); ok {
		t.list = append(t.list, string(v))
	}
}

// take returns what was collected since the last call.
func (t *traceparents) take() (list []string) {
	list, t.list = t.list, nil
	return list
}

// trace hands a cycle to Config.Traced.
func (c *cycle) trace(traced func(*CycleTrace), outputs map[string]int, began time.Time, took time.Duration, err error) {
	t := CycleTrace{Fetched: began, Began: began, Ended: began.Add(took), Partitions: len(c.results), Records: c.records, Bytes: c.bytes,
		Outputs: outputs, Err: err}
	for _, r := range c.results {
		if r.work.Fetched.Before(t.Fetched) {
			t.Fetched = r.work.Fetched
		}
		room := maxTraceparents - len(t.Traceparents)
		t.Traceparents = append(t.Traceparents, r.traces[:min(room, len(r.traces))]...)
	}
	traced(&t)
}
