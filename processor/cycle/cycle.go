// Package cycle defines what a transaction contains, and holds the one that partitions add to.
//
// A cycle is a set of results: for each partition that has joined it, the
// outputs of the records from its last committed offset to Next, the
// snapshots of some of its keys, and the replay floor. Partitions add to the
// open cycle as they finish chunks; the main goroutine closes it, opens
// another one and commits:
//
//	partitions    fold score encode -> open cycle n+1 ...
//	main          close n: AddPartitions, AddOffsets | Produce, TxnOffsetCommit | EndTxn
//
// so the work on cycle n+1 overlaps the commit of n, and a transaction is open
// only while its bytes travel. How a cycle is committed, and how partitions return to
// their committed offsets when that fails, is the processor's.
package cycle

import (
	"sync"

	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// Results holds the results of partitions in one cycle, or in several. P identifies a partition.
type Results[P comparable] = map[P]*Result

// Cycle collects the results of one transaction. Its counts are for its committer: they are complete once it is closed.
type Cycle[P comparable] struct {
	Payload *Payload // outputs and snapshots
	Room    Room

	mu      sync.Mutex
	Results Results[P]
	Bytes   int
	Records int
	Spoilt  error // results were added in part: the cycle must not be committed
	full    bool
}

// Result is the part of a cycle that belongs to one partition.
type Result struct {
	Next         int64 // offset after the last record
	Leader       record.Epoch
	Floor        state.Floor
	Incarnation  string // of the changelog
	Window       LetterWindow
	Work         metrics.Work
	Advance      bool     // an idle partition's watermark advances, at the offset that is committed already
	Traceparents []string // see Trace
}

// Extend adds the results that follow.
func (rs *Result) Extend(r *Result) {
	rs.Advance = rs.Advance || r.Advance
	rs.Next, rs.Leader, rs.Floor = r.Next, r.Leader, r.Floor
	rs.Incarnation, rs.Window = r.Incarnation, r.Window
	rs.Work.Add(&r.Work)
	rs.Traceparents = append(rs.Traceparents, r.Traceparents[:min(len(r.Traceparents), MaxTraceparents-len(rs.Traceparents))]...)
}

// New returns an empty cycle, whose batches newBatches builds.
func New[P comparable](topics *Topics, newBatches func(maxBytes int) *record.Batches) *Cycle[P] {
	return &Cycle[P]{Payload: NewPayload(topics, newBatches), Results: Results[P]{}}
}

// Reset empties the cycle for another transaction.
func (c *Cycle[P]) Reset() {
	c.Payload.Reset()
	c.Results = Results[P]{} // a new map: offsets of the old one may still be in flight
	c.Bytes, c.Records, c.full = 0, 0, false
}

// Add adds a partition's results up to r.Next to the cycle.
func (c *Cycle[P]) Add(partition P, r *Result, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.Results[partition]
	if have == nil {
		have = &Result{Work: metrics.Work{Fetched: r.Work.Fetched}}
		c.Results[partition] = have
	}
	have.Extend(r)
	c.Bytes += bytes
	c.Records += int(r.Work.Counts.Consumed)
	c.full = c.Room.Full(c.Bytes, c.Records)
}

// spoil marks the cycle as one that must not be committed.
func (c *Cycle[P]) spoil(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Spoilt == nil {
		c.Spoilt = err
	}
}

// Stats returns what the metrics count of a committed cycle.
func (c *Cycle[P]) Stats() metrics.CycleStats {
	s := metrics.CycleStats{Records: c.Records, Bytes: c.Bytes}
	c.Payload.Stats(&s)
	return s
}
