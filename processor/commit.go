package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
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

// metadata returns the metadata of the offset commit of r.
func (pt *partition) metadata(r *cycle.Result) string {
	text := Metadata(r.Floor.String(), r.Incarnation)
	if pt.side.stop.On() {
		text = r.Window.AppendTo(text)
	}
	return text
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

// commits commits the cycles, and returns the partitions to their committed offsets where a commit fails. The main goroutine
// owns it.
type commits struct {
	cfg        *Config
	log        *slog.Logger
	trouble    *metrics.FailureLog
	session    *session
	committer  committer
	cycles     *cycle.Current[*partition]
	pace       cycle.Pace
	pressure   cycle.Backpressure
	outputs    *cycle.Topics
	changelogs *changelogs
	assigned   *assignment
	refusals   refusals
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
func (cm *commits) commitOpen(ctx context.Context) error {
	c := cm.cycles.Close(cm.room())
	if c.Spoilt != nil {
		return cm.discard(ctx, c)
	}
	if len(c.Results) == 0 {
		cm.cycles.Reuse(c)
		return nil
	}
	if cm.session.producer.NeedsInit() { // after a commit that took more than one request
		if err := cm.session.reinit(ctx); err != nil {
			return err
		}
	}
	cm.changelogs.recountOnce(ctx)
	cm.last = time.Now()
	resent := cm.session.producer.Resent()
	err := cm.committer.commit(ctx, c)
	cm.cfg.Metrics.Resent(cm.session.producer.Resent() - resent)
	cm.trouble.Over(cm.log, "cycle")
	took := time.Since(cm.last)
	if cm.cfg.Traced != nil {
		c.Trace(cm.cfg.Traced, c.Stats().Outputs, cm.last, took, err)
	}
	if err != nil {
		cm.pace.Failed(c.Bytes, c.Records, took)
		cm.cfg.Metrics.Aborted(err)
		cm.noteBackpressure(time.Now())
		return cm.recover(ctx, c, err)
	}
	cm.cfg.Metrics.Committed(c.Stats(), took)
	cm.pace.Committed(c.Bytes, c.Records, took)
	cm.assigned.committed(cm.committer.written(ctx, c.Results))
	cm.refusals.committed(cm, c)
	cm.noteBackpressure(time.Now())
	// Every request was answered, so nothing reads the batches any more.
	c.Reset()
	cm.cycles.Reuse(c)
	return nil
}

// noteBackpressure tells the operator when brokers take less than the input brings: a larger cycle would time out, so
// nothing that the worker can do helps.
func (cm *commits) noteBackpressure(now time.Time) {
	lag := cm.assigned.lag()
	on := cm.pressure.Note(cm.pace.Least(), lag, now)
	cm.cfg.Metrics.Paced(cm.cfg.Group, cm.pace.Bytes(), on)
	const kind = "pace"
	if !on {
		cm.trouble.Over(cm.log, kind)
		return
	}
	cm.trouble.Warn(cm.log, kind, "the brokers take less than the input brings: the lag grows, and cycles are as small as they get; "+
		"look for throttling (quotas), full disks and slow replicas", "lag", lag, "cycle_bytes", cm.pace.Bytes())
}

// offsetsAnswered handles the outcome of an offset commit that followed its cycle. It
// returns only errors that end the worker.
func (cm *commits) offsetsAnswered(ctx context.Context, err error) error {
	r := cm.committer.answered(ctx, err)
	if err != nil {
		cm.cfg.Metrics.Aborted(err)
		return cm.recover(ctx, &cycle.Cycle[*partition]{Results: r}, err)
	}
	cm.assigned.committed(r)
	return nil
}

// flushOffsets waits until everything written is committed.
func (cm *commits) flushOffsets(ctx context.Context) error {
	for cm.committer.offsets() != nil {
		if err := cm.offsetsAnswered(ctx, <-cm.committer.offsets()); err != nil {
			return err
		}
	}
	return nil
}

// discard drops a cycle that holds a part of a partition's results. It returns only
// errors that end the worker.
func (cm *commits) discard(ctx context.Context, c *cycle.Cycle[*partition]) error {
	var stuck *QuarantineError
	if !errors.As(c.Spoilt, &stuck) {
		return c.Spoilt
	}
	// What was written at least once is committed first, or it would come again.
	if err := cm.flushOffsets(ctx); err != nil {
		return err
	}
	cm.abandonOpen()
	return cm.rollback(ctx, nil)
}
