package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas"
)

// Where the records of a series lie in several partitions of the input, a Processor of its own stands in front of the one
// that scores: it reads the input, and writes each record to an internal topic, to the partition of its series. It is a
// Processor whose Config names that topic (cycle.Rekeyed), with a group and a producer of its own, so its transactions
// have copies of records and the offsets of the input. The one that scores has the internal topic as its input, and knows
// nothing of this: a header of each copy has the record's place and timestamp in the input.

// rekeyer is the work of a partition whose records are keyed by series. It has no state: the committed offset is all that a
// restore or a rollback needs.
type rekeyer struct {
	*partition

	resumer  resumer
	reader   *reader
	patience cycle.Patience
	most     int // largest batch of the internal topic, as of the chunk's begin
}

func newRekeyer(pt *partition) *rekeyer {
	h, cfg, tp := pt.host, pt.host.cfg, pt.tp
	pt.side.writer = cycle.NewWriter(h.outputs, tp, pt.mapping.State, &cfg.SchemaIDs, cfg.Scores, nil)
	return &rekeyer{partition: pt, reader: newReader(pt.mapping), resumer: pt.newResumer()}
}

func (r *rekeyer) restore(ctx context.Context, off kafka.Offset) error {
	r.suspend()
	r.status.SetRestoring(off.Offset)
	r.fresh.Store(off.Offset < 0)
	at, leader, err := r.resumer.resume(ctx, off)
	if err != nil {
		return err
	}
	r.leader = leader
	r.reset()
	r.setStart(at, at != off.Offset, off.Metadata)
	return r.settle(ctx, at)
}

func (r *rekeyer) rollback(ctx context.Context) error {
	r.reset()
	return r.returnTo(ctx, r.committed.Load())
}

func (r *rekeyer) prepare() {
	r.host.cycles.Read(func() { r.most = r.host.outputs.Outputs[cycle.Rekeyed].BatchBytes })
}

// read copies the records of the rest of the chunk.
func (r *rekeyer) read(ctx context.Context, _ int64) (retry, err error) {
	limit := r.host.cycles.Room().Records
	r.more = false
	for r.counts.Consumed < limit {
		rec, header, ok := r.next()
		if !ok {
			break
		}
		err := r.reader.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header, &r.reading)
		if err != nil && r.waits(rec, err) {
			r.postpone(rec)
			return err, nil
		}
		if err == nil {
			err = r.copy(rec)
		}
		if err == nil {
			r.side.stop.Pass()
		} else if !r.side.deadLetter(rec, err) {
			break
		}
	}
	return r.endOfChunk(limit), nil
}

// waits reports whether a record that cannot be read may be readable later. A schema that the registry lacks is waited for
// as long as the grace period lasts; the records of a partition that has waited become dead letters then.
func (r *rekeyer) waits(rec *record.Record, err error) bool {
	var de *schemas.DecodeError
	if !errors.As(err, &de) {
		return false
	}
	return de.Retry && !(de.Absent && r.patience.Spent(rec.Offset, r.host.cfg.SchemaGrace, time.Now()))
}

// copy copies rec to the internal topic. An error is why it becomes a dead letter, such as that no batch holds it: the
// decoder would need all of it.
func (r *rekeyer) copy(rec *record.Record) error {
	if r.reading.Len() == 0 {
		r.side.empty(rec, r.reading.Skipped)
		return nil
	}
	if err := CheckReading(r.reader.reading, r.reader.split, rec.Timestamp, &r.reading); err != nil {
		return err
	}
	if size := r.side.writer.CopyByKey(rec, cycle.Rekeyed, r.reading.Key, r.most); size > 0 {
		return &schemas.DecodeError{Class: "too_large", Err: fmt.Errorf(
			"the record takes %d bytes in the internal topic of rekey, of at most %d: raise max.message.bytes of %s",
			size, r.most, r.host.cfg.Outputs[cycle.Rekeyed])}
	}
	r.counts.Forwarded++
	return nil
}

func (r *rekeyer) write(c *cycle.Cycle[*partition], n *cycle.Result) (bytes int, err error) {
	n.Floor = state.Floor{Offset: n.Next, MaxTime: state.NoTime}
	return r.side.writer.WriteCopies(c.Payload, time.Now())
}

func (r *rekeyer) writeStart(_ *cycle.Cycle[*partition], n *cycle.Result) (bytes int, err error) {
	n.Floor = state.Floor{Offset: n.Next, MaxTime: state.NoTime}
	return 0, nil
}

func (r *rekeyer) handOver(context.Context) error { return nil }

func (r *rekeyer) examine(ctx context.Context, off kafka.Offset) (from, start int64, err error) {
	at, _, err := r.resumer.resume(ctx, off)
	return at, at, err
}
