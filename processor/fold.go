package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/detectors"
	"odradek/processor/keystate"
	"odradek/schemas"
)

// foldChunk folds and scores the rest of the chunk, or as much of it as a cycle has room
// for at a time; then it sets pt.more. retry is the reason to stop before the iterator's
// current record and to try it again.
func (pt *partition) foldChunk(ctx context.Context) (retry, err error) {
	s := pt.state
	limit := pt.chunkRecords(pt.position.Load())
	pt.more = false
	for pt.counts.Consumed < limit && (pt.again || pt.nextRecord()) {
		pt.again = false
		rec := pt.it.Record()
		if pt.header == nil {
			pt.header = rec.Header // one method value: the iterator reuses its record
		}
		pt.counts.Consumed++
		pt.counts.Bytes += int64(len(rec.Key) + len(rec.Value))
		header := pt.header
		if rec.HeaderCount == 0 {
			header = nil // the decoder need not ask for headers
		}
		if err := pt.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header, &pt.reading); err != nil {
			var de *schemas.DecodeError
			if errors.As(err, &de) && (de.Retry || de.Absent) && !pt.condemn(rec, header, de) {
				pt.counts.Consumed--
				pt.counts.Bytes -= int64(len(rec.Key) + len(rec.Value))
				pt.again = true
				return err, pt.finish(ctx)
			}
			pt.deadLetter(rec, err)
			continue
		}
		if pt.state.Decisions.Subjects(keystate.Verdict) > 0 {
			pt.acquit(rec, header)
		}
		if err := pt.checkReading(rec); err != nil {
			pt.deadLetter(rec, err)
			continue
		}
		if pt.forward {
			pt.forwardRecord(rec)
			continue
		}
		if err := pt.makeRoom(ctx); err != nil {
			return nil, err
		}
		if pt.state.Bytes() > pt.limit {
			pt.trim(rec.Offset)
		}
		if pt.growing {
			pt.decideGrown(rec.Offset)
		}
		if pt.host.cfg.Mutes != nil {
			pt.muted = pt.host.cfg.Mutes().Follow(pt.muted, &pt.state.Decisions, rec.Offset)
		}
		sample := keystate.Sample{Key: pt.reading.Key, Time: pt.reading.Time, Offset: rec.Offset, Values: pt.reading.Values}
		switch s.Fold(&sample, pt.batch) {
		case keystate.Late:
			pt.lateRecord(rec, pt.reading.Key)
		case keystate.Held:
			pt.attachSuspect(rec)
		}
		if len(s.Suspects.Refused) > 0 {
			pt.sendRefused()
		}
	}
	if pt.it.Err() == nil {
		pt.more = pt.counts.Consumed >= limit
	}
	return pt.it.Err(), pt.finish(ctx)
}

// makeRoom scores until the batch has room for the tasks of one more sample.
// One sample may release many held ones, a batch at a time.
func (pt *partition) makeRoom(ctx context.Context) error {
	for !pt.state.Fits(pt.batch) {
		if err := pt.score(ctx); err != nil {
			return err
		}
	}
	return nil
}

// finish scores everything folded so far.
func (pt *partition) finish(ctx context.Context) error {
	if err := pt.makeRoom(ctx); err != nil {
		return err
	}
	return pt.score(ctx)
}

// score executes the packed tasks and applies their results.
func (pt *partition) score(ctx context.Context) error {
	if n := len(pt.batch.Tasks); n > 0 {
		began := time.Now()
		err := pt.host.cfg.Executor.Execute(ctx, pt.batch)
		if errors.Is(err, detectors.ErrCacheLost) {
			pt.state.Repack(pt.batch)
			err = pt.host.cfg.Executor.Execute(ctx, pt.batch)
		}
		if err != nil {
			return fmt.Errorf("processor: %s/%d: score: %w", pt.tp.Topic, pt.tp.Partition, err)
		}
		pt.host.cfg.Metrics.Executed(n, time.Since(began))
	}
	pt.state.Apply(pt.batch)
	pt.batch.Reset()
	return nil
}
