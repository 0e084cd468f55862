package processor

import (
	"context"
	"errors"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// One of two types commits the cycles (exactlyonce.go, atleastonce.go), and it alone begins
// and ends transactions. recovery.go describes what follows a failed commit.

// results holds the results of partitions in one cycle, or in several.
type results = cycle.Results[*partition]

// sourceOffsets returns the source offsets of results with the replay floors as
// metadata.
func sourceOffsets(rs results) map[kafka.TP]kafka.Offset {
	m := make(map[kafka.TP]kafka.Offset, len(rs))
	for pt, r := range rs {
		m[pt.tp] = kafka.Offset{Offset: r.Next, Metadata: pt.metadata(r), Epoch: r.Leader}
	}
	return m
}

// committer makes cycles visible, with one of the two guarantees. A cycle is written by
// commit; its offsets are committed with it or follow. One goroutine uses it.
type committer interface {
	// newBatches returns an empty builder for a partition's batches.
	newBatches(maxBytes int, codec record.Codec) *record.Batches
	// commit writes a cycle. A nil error is the only definite outcome.
	commit(ctx context.Context, c *cycle.Cycle[*partition]) error
	// abort ends the transaction that a failed commit has left open, if there is one.
	abort(ctx context.Context) error
	// written takes the results of a cycle that commit has written, and returns those
	// whose offsets are committed, too.
	written(ctx context.Context, r results) (committed results)
	// offsets delivers the outcome of committing offsets that follow a cycle; nil while none
	// are in flight.
	offsets() <-chan error
	// answered takes the outcome that offsets has delivered, and returns the results it is of.
	answered(ctx context.Context, err error) results
	// dropOffsets drops the offsets that were to follow. It returns those that are committed
	// after all.
	dropOffsets() (committed results)
}

// commits commits the cycles, in the main goroutine.
type commits struct {
	*recovery
	changelogs *changelogs
	last       time.Time // when the last commit began
}

func newCommitter(g Guarantee, s *session) committer {
	if g == AtLeastOnce {
		return &atLeastOnce{session: s}
	}
	return &exactlyOnce{s}
}

// commitOpen commits the open cycle unless it is empty. It returns only errors that end
// the worker, and recovers from all others.
func (s *commits) commitOpen(ctx context.Context) error {
	c := s.cycles.Close(s.room())
	if c.Spoilt != nil {
		return s.discard(ctx, c)
	}
	if len(c.Results) == 0 {
		s.cycles.Reuse(c)
		return nil
	}
	if s.session.producer.NeedsInit() { // after a commit that took more than one request
		if err := s.session.reinit(ctx); err != nil {
			return err
		}
	}
	s.changelogs.recountOnce(ctx)
	s.last = time.Now()
	resent := s.session.producer.Resent()
	err := s.committer.commit(ctx, c)
	s.cfg.Metrics.Resent(s.session.producer.Resent() - resent)
	s.trouble.Over(s.log, "cycle")
	took := time.Since(s.last)
	if s.cfg.Traced != nil {
		c.Trace(s.cfg.Traced, c.Stats().Outputs, s.last, took, err)
	}
	if err != nil {
		s.pace.Failed(c.Bytes, c.Records, took)
		s.cfg.Metrics.Aborted(err)
		s.noteBackpressure(time.Now())
		return s.recover(ctx, c, err)
	}
	s.cfg.Metrics.Committed(c.Stats(), took)
	s.pace.Committed(c.Bytes, c.Records, took)
	s.assigned.committed(s.committer.written(ctx, c.Results))
	s.refusals.committed(s.recovery, c)
	s.noteBackpressure(time.Now())
	// Every request was answered, so nothing reads the batches any more.
	c.Reset()
	s.cycles.Reuse(c)
	return nil
}

// noteBackpressure tells the operator when brokers take less than the input brings: a larger cycle would time out, so
// nothing that the worker can do helps.
func (s *commits) noteBackpressure(now time.Time) {
	lag := s.assigned.lag()
	on := s.pressure.Note(s.pace.Least(), lag, now)
	s.cfg.Metrics.Paced(s.cfg.Group, s.pace.Bytes(), on)
	const kind = "pace"
	if !on {
		s.trouble.Over(s.log, kind)
		return
	}
	s.trouble.Warn(s.log, kind, "the brokers take less than the input brings: the lag grows, and cycles are as small as they get; "+
		"look for throttling (quotas), full disks and slow replicas", "lag", lag, "cycle_bytes", s.pace.Bytes())
}

// offsetsAnswered handles the outcome of an offset commit that followed its cycle. It
// returns only errors that end the worker.
func (s *commits) offsetsAnswered(ctx context.Context, err error) error {
	r := s.committer.answered(ctx, err)
	if err != nil {
		s.cfg.Metrics.Aborted(err)
		return s.recover(ctx, &cycle.Cycle[*partition]{Results: r}, err)
	}
	s.assigned.committed(r)
	return nil
}

// flushOffsets waits until everything written is committed.
func (s *commits) flushOffsets(ctx context.Context) error {
	for s.committer.offsets() != nil {
		if err := s.offsetsAnswered(ctx, <-s.committer.offsets()); err != nil {
			return err
		}
	}
	return nil
}

// discard drops a cycle that holds a part of a partition's results. It returns only
// errors that end the worker.
func (s *commits) discard(ctx context.Context, c *cycle.Cycle[*partition]) error {
	var stuck *QuarantineError
	if !errors.As(c.Spoilt, &stuck) {
		return c.Spoilt
	}
	// What was written at least once is committed first, or it would come again.
	if err := s.flushOffsets(ctx); err != nil {
		return err
	}
	s.abandonOpen()
	return s.rollback(ctx, nil)
}
