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
	pt *partition

	resumer  resumer
	reader   *reader
	patience cycle.Patience
	most     int // largest batch of the internal topic, as of the chunk's begin
}

func newRekeyer(pt *partition) *rekeyer {
	h, cfg, tp := pt.host, pt.host.cfg, pt.tp
	pt.side.writer = cycle.NewWriter(h.outputs, tp, pt.mapping.State, &cfg.SchemaIDs, cfg.Scores, nil)
	return &rekeyer{pt: pt, reader: newReader(pt.mapping), resumer: pt.newResumer()}
}

func (r *rekeyer) restore(ctx context.Context, off kafka.Offset) error {
	r.pt.suspend()
	r.pt.status.SetRestoring(off.Offset)
	r.pt.fresh.Store(off.Offset < 0)
	at, leader, err := r.resumer.resume(ctx, off)
	if err != nil {
		return err
	}
	r.pt.leader = leader
	r.pt.reset()
	r.pt.setStart(at, at != off.Offset, off.Metadata)
	return r.pt.settle(ctx, at)
}

func (r *rekeyer) rollback(ctx context.Context) error {
	r.pt.reset()
	return r.pt.returnTo(ctx, r.pt.committed.Load())
}

func (r *rekeyer) prepare() {
	r.pt.host.cycles.Read(func() { r.most = r.pt.host.outputs.Outputs[cycle.Rekeyed].BatchBytes })
}

// read copies the records of the rest of the chunk.
func (r *rekeyer) read(ctx context.Context, _ int64) (retry, err error) {
	limit := r.pt.host.cycles.Room().Records
	r.pt.more = false
	for r.pt.counts.Consumed < limit {
		rec, header, ok := r.pt.next()
		if !ok {
			break
		}
		err := r.reader.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header, &r.pt.reading)
		if err != nil && r.waits(rec, err) {
			r.pt.postpone(rec)
			return err, nil
		}
		if err == nil {
			err = r.copy(rec)
		}
		if err == nil {
			r.pt.side.stop.Pass()
		} else if !r.pt.side.deadLetter(rec, err) {
			break
		}
	}
	return r.pt.endOfChunk(limit), nil
}

// waits reports whether a record that cannot be read may be readable later. A schema that the registry lacks is waited for
// as long as the grace period lasts; the records of a partition that has waited become dead letters then.
func (r *rekeyer) waits(rec *record.Record, err error) bool {
	var de *schemas.DecodeError
	if !errors.As(err, &de) {
		return false
	}
	return de.Retry && !(de.Absent && r.patience.Spent(rec.Offset, r.pt.host.cfg.SchemaGrace, time.Now()))
}

// copy copies rec to the internal topic. An error is why it becomes a dead letter, such as that no batch holds it: the
// decoder would need all of it.
func (r *rekeyer) copy(rec *record.Record) error {
	if r.pt.reading.Len() == 0 {
		r.pt.side.empty(rec, r.pt.reading.Skipped)
		return nil
	}
	if err := CheckReading(r.reader.reading, r.reader.split, rec.Timestamp, &r.pt.reading); err != nil {
		return err
	}
	if size := r.pt.side.writer.CopyByKey(rec, cycle.Rekeyed, r.pt.reading.Key, r.most); size > 0 {
		return &schemas.DecodeError{Class: "too_large", Err: fmt.Errorf(
			"the record takes %d bytes in the internal topic of rekey, of at most %d: raise max.message.bytes of %s",
			size, r.most, r.pt.host.cfg.Outputs[cycle.Rekeyed])}
	}
	r.pt.counts.Forwarded++
	return nil
}

func (r *rekeyer) write(c *cycle.Cycle[*partition], n *cycle.Result) (bytes int, err error) {
	n.Floor = state.Floor{Offset: n.Next, MaxTime: state.NoTime}
	return r.pt.side.writer.WriteCopies(c.Payload, time.Now())
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
