package processor

import (
	"context"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/group"
	"odradek/processor/kafka/record"
)

// One of two types commits the cycles (exactlyonce.go, atleastonce.go), and it alone begins
// and ends transactions. recovery.go describes what follows a failed commit.

// results holds the results of partitions in one cycle, or in several.
type results = map[*partition]*result

// committer makes cycles visible, with one of the two guarantees. A cycle is written by
// commit; its offsets are committed with it or follow. One goroutine uses it.
type committer interface {
	// newBatches returns an empty builder for a partition's batches.
	newBatches(maxBytes int, codec record.Codec) *record.Batches
	// commit writes a cycle. A nil error is the only definite outcome.
	commit(ctx context.Context, c *cycle) error
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

// session is what a committer needs of the worker.
type session struct {
	client             *kafka.Client
	producer           *kafka.Producer
	member             *group.Member
	group              string
	timeout, rebalance time.Duration // of a transaction; added for a rebalance
	hooks              *Hooks
}

func newCommitter(g Guarantee, s *session) committer {
	if g == AtLeastOnce {
		return &atLeastOnce{session: s}
	}
	return &exactlyOnce{s}
}

// commitOpen commits the open cycle unless it is empty. It returns only errors that end
// the worker, and recovers from all others.
func (p *Processor) commitOpen(ctx context.Context) error {
	c := p.cycles.close(p.pace.Room(len(p.partitions)))
	if c.spoilt != nil {
		return p.discard(ctx, c)
	}
	if len(c.results) == 0 {
		p.cycles.spare = c
		return nil
	}
	if p.producer.NeedsInit() { // after a commit that took more than one request
		if err := p.reinit(ctx); err != nil {
			return err
		}
	}
	p.recountOnce(ctx)
	p.lastCommit = time.Now()
	resent := p.producer.Resent()
	err := p.committer.commit(ctx, c)
	p.cfg.Metrics.Resent(p.producer.Resent() - resent)
	p.trouble.Over(p.log, "cycle")
	took := time.Since(p.lastCommit)
	if err != nil {
		p.pace.Failed(c.bytes, c.records, took)
		p.cfg.Metrics.Aborted(err)
		return p.recover(ctx, c, err)
	}
	p.cfg.Metrics.Committed(c.stats(), took)
	p.pace.Committed(c.bytes, c.records, took)
	p.committed(p.committer.written(ctx, c.results))
	// Every request was answered, so nothing reads the batches any more.
	c.reset()
	p.cycles.spare = c
	return nil
}

// committed records that the offsets of these results are committed.
func (p *Processor) committed(rs results) {
	for pt, r := range rs {
		p.cfg.Metrics.Worked(pt.tp, &r.work, r.floor.Offset, r.next, pt.end.Load())
		pt.committed.Store(r.next)
		pt.status.CommittedNow()
		pt.fresh.Store(false)
		if pt.starting.Swap(false) {
			pt.commands.send(goOn)
		}
	}
}

// offsetsAnswered handles the outcome of an offset commit that followed its cycle. It
// returns only errors that end the worker.
func (p *Processor) offsetsAnswered(ctx context.Context, err error) error {
	r := p.committer.answered(ctx, err)
	if err != nil {
		p.cfg.Metrics.Aborted(err)
		return p.recover(ctx, &cycle{results: r}, err)
	}
	p.committed(r)
	return nil
}

// flushOffsets waits until everything written is committed.
func (p *Processor) flushOffsets(ctx context.Context) error {
	for p.committer.offsets() != nil {
		if err := p.offsetsAnswered(ctx, <-p.committer.offsets()); err != nil {
			return err
		}
	}
	return nil
}
