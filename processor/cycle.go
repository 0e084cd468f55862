package processor

import (
	"sync"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/metrics"
)

// This file defines the content of a transaction. commit.go commits it, and recovery.go
// rolls partitions back after a failed commit.
//
// A cycle is a set of results: for each partition that has joined it, the
// outputs of the records from its last committed offset to `next`, the
// snapshots of some of its keys, and the replay floor. Partitions add to the
// open cycle as they finish chunks (join.go); the main goroutine
// closes it, puts a fresh one in its place and commits:
//
//	partitions    fold score encode -> open cycle n+1 ...
//	main          close n: AddPartitions, AddOffsets | Produce, TxnOffsetCommit | EndTxn
//
// so the work on cycle n+1 overlaps the commit of n, and a transaction is open
// only while its bytes travel.

// cycle collects the results of one transaction.
type cycle struct {
	outs       *outputs
	codec      record.Codec
	newBatches func(maxBytes int, codec record.Codec) *record.Batches
	sinks      [outputCount][]sink // by output and partition of its topic
	changelog  sync.Map            // kafka.TP of the changelog -> *sink

	mu      sync.Mutex
	results results
	room    room
	bytes   int
	records int
	full    bool
	spoilt  error // results were added in part: the cycle must not be committed
}

// result is the part of a cycle that belongs to one partition.
type result struct {
	next   int64 // offset after the last record
	leader record.Epoch
	floor  keystate.Floor
	log    string // the changelog's incarnation
	work   metrics.Work
}

// extend adds the results that follow.
func (have *result) extend(r *result) {
	have.next, have.leader, have.floor = r.next, r.leader, r.floor
	have.work.Add(&r.work)
}

// sink is the growing batches of one output partition.
type sink struct {
	mu  sync.Mutex
	b   *record.Batches
	max int // bytes of a batch in b
}

// newCycle returns an empty cycle.
func newCycle(o *outputs, codec record.Codec, newBatches func(maxBytes int, codec record.Codec) *record.Batches) *cycle {
	c := &cycle{outs: o, codec: codec, newBatches: newBatches, results: results{}}
	for i := range o.topics {
		c.sinks[i] = make([]sink, o.topics[i].partitions)
	}
	return c
}

// lock locks s, making its batches for topic t at first use.
func (c *cycle) lock(s *sink, t *topic) *record.Batches {
	s.mu.Lock()
	if s.b == nil || s.max != t.batchBytes && s.b.Count() == 0 {
		s.b, s.max = c.newBatches(t.batchBytes, c.codec), t.batchBytes
	}
	return s.b
}

// each calls f for the sink of every partition of the topics but the changelogs.
func (c *cycle) each(f func(tp kafka.TP, s *sink)) {
	for o, sinks := range c.sinks {
		for i := range sinks {
			f(kafka.TP{Topic: c.outs.topics[o].name, Partition: int32(i)}, &sinks[i])
		}
	}
}

// written returns the number of the cycle's records for an output.
func (c *cycle) written(o Output) (records int) {
	for i := range c.sinks[o] {
		if b := c.sinks[o][i].b; b != nil {
			records += b.Count()
		}
	}
	return records
}

// reset empties the cycle and keeps its memory: the batches of a cycle of 32 MB
// cost more to make anew than to fill.
func (c *cycle) reset() {
	reset := func(_ kafka.TP, s *sink) {
		if s.b != nil {
			s.b.Reset()
		}
	}
	c.each(reset)
	c.changelog.Range(func(k, v any) bool {
		reset(k.(kafka.TP), v.(*sink))
		return true
	})
	c.results = results{} // not emptied: its offsets may still be in flight
	c.bytes, c.records, c.full = 0, 0, false
}

// add makes a partition's results up to r.next part of the cycle.
func (c *cycle) add(pt *partition, r result, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.results[pt]
	if have == nil {
		have = &result{work: metrics.Work{Fetched: r.work.Fetched}}
		c.results[pt] = have
	}
	have.extend(&r)
	have.log = pt.owner.now.Incarnation
	c.bytes += bytes
	c.records += int(r.work.Counts.Consumed)
	c.full = c.bytes >= c.room.bytes || c.records >= cycleRecords
}

// spoil keeps the cycle from being committed.
func (c *cycle) spoil(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spoilt == nil {
		c.spoilt = err
	}
}

// batches lists what the cycle writes; changelogs apart, because at least once
// they go after the outputs.
func (c *cycle) batches() (outs, logs map[kafka.TP]*record.Batches) {
	outs, logs = map[kafka.TP]*record.Batches{}, map[kafka.TP]*record.Batches{}
	put := func(m map[kafka.TP]*record.Batches, tp kafka.TP, s *sink) {
		if s.b != nil && s.b.Count() > 0 {
			m[tp] = s.b
		}
	}
	c.each(func(tp kafka.TP, s *sink) { put(outs, tp, s) })
	c.changelog.Range(func(k, v any) bool {
		put(logs, k.(kafka.TP), v.(*sink))
		return true
	})
	return outs, logs
}

// sourceOffsets are the source offsets of results with the replay floors as
// metadata.
func sourceOffsets(rs results) map[kafka.TP]kafka.Offset {
	m := make(map[kafka.TP]kafka.Offset, len(rs))
	for pt, r := range rs {
		m[pt.tp] = kafka.Offset{Offset: r.next, Metadata: pt.metadata(r), Epoch: r.leader}
	}
	return m
}

// forwarded is the commit metadata of a partition under ODRADEK_REKEY. It is no
// replay floor, so that state from before is not taken for present when the
// setting is turned off again.
const forwarded = "forwarded"

// stats returns what the metrics count of a committed cycle.
func (c *cycle) stats() metrics.CycleStats {
	s := metrics.CycleStats{Records: c.records, Bytes: c.bytes, Outputs: map[string]int{}}
	for o := range Outputs {
		if n := c.written(Output(o)); n > 0 {
			s.Outputs[Outputs[o].Name] = n
		}
	}
	c.changelog.Range(func(_, v any) bool {
		if b := v.(*sink).b; b != nil {
			s.ChangelogRecords += b.Count()
			s.ChangelogBytes += b.Bytes()
		}
		return true
	})
	return s
}
