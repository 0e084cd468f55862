package processor

import (
	"sync"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/limits"
	"odradek/processor/metrics"
	"odradek/processor/outputs"
)

// This file defines the content of a transaction. commit.go commits it, and recovery.go
// rolls partitions back after a failed commit.
//
// A cycle is a set of results: for each partition that has joined it, the
// outputs of the records from its last committed offset to `next`, the
// snapshots of some of its keys, and the replay floor. Partitions add to the
// open cycle as they finish chunks (join.go); the main goroutine closes it, opens
// another one and commits:
//
//	partitions    fold score encode -> open cycle n+1 ...
//	main          close n: AddPartitions, AddOffsets | Produce, TxnOffsetCommit | EndTxn
//
// so the work on cycle n+1 overlaps the commit of n, and a transaction is open
// only while its bytes travel.

// cycle collects the results of one transaction.
type cycle struct {
	payload *outputs.Payload // outputs and snapshots

	mu      sync.Mutex
	results results
	room    limits.Room
	bytes   int
	records int
	full    bool
	spoilt  error // results were added in part: the cycle must not be committed
}

// result is the part of a cycle that belongs to one partition.
type result struct {
	next    int64 // offset after the last record
	leader  record.Epoch
	floor   keystate.Floor
	log     string // the changelog's incarnation
	window  limits.LetterWindow
	work    metrics.Work
	advance bool     // an idle partition's watermark advances, at the offset that is committed already
	traces  []string // see CycleTrace.Traceparents
}

// extend adds the results that follow.
func (have *result) extend(r *result) {
	have.advance = have.advance || r.advance
	have.next, have.leader, have.floor = r.next, r.leader, r.floor
	have.work.Add(&r.work)
	have.traces = append(have.traces, r.traces[:min(len(r.traces), maxTraceparents-len(have.traces))]...)
}

// newCycle returns an empty cycle, whose batches newBatches builds.
func newCycle(topics *outputs.Topics, newBatches func(maxBytes int) *record.Batches) *cycle {
	return &cycle{payload: outputs.NewPayload(topics, newBatches), results: results{}}
}

// reset empties the cycle for another transaction.
func (c *cycle) reset() {
	c.payload.Reset()
	c.results = results{} // a new map: offsets of the old one may still be in flight
	c.bytes, c.records, c.full = 0, 0, false
}

// add adds a partition's results up to r.next to the cycle.
func (c *cycle) add(pt *partition, r result, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.results[pt]
	if have == nil {
		have = &result{work: metrics.Work{Fetched: r.work.Fetched}}
		c.results[pt] = have
	}
	have.extend(&r)
	have.log, have.window = pt.restorer.Owner.Incarnation, pt.side.stop.Window()
	c.bytes += bytes
	c.records += int(r.work.Counts.Consumed)
	c.full = c.room.Full(c.bytes, c.records)
}

// spoil marks the cycle as one that must not be committed.
func (c *cycle) spoil(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spoilt == nil {
		c.spoilt = err
	}
}

// sourceOffsets returns the source offsets of results with the replay floors as
// metadata.
func sourceOffsets(rs results) map[kafka.TP]kafka.Offset {
	m := make(map[kafka.TP]kafka.Offset, len(rs))
	for pt, r := range rs {
		m[pt.tp] = kafka.Offset{Offset: r.next, Metadata: pt.metadata(r), Epoch: r.leader}
	}
	return m
}

// forwarded is the commit metadata of a partition under ODRADEK_REKEY. It is no
// replay floor, so that older state is not taken for current when the setting is
// turned off again.
const forwarded = "forwarded"

// stats returns what the metrics count of a committed cycle.
func (c *cycle) stats() metrics.CycleStats {
	s := metrics.CycleStats{Records: c.records, Bytes: c.bytes}
	c.payload.Stats(&s)
	return s
}
