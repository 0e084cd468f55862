package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/kafka"
)

// This file recovers from failed commits. A transaction of version 1 can be committed in part
// when a request of unknown outcome is followed by another one of the same producer id
// and epoch (KIP-890 explains how). So after anything but a definite success the
// producer is abandoned: abort if possible, Init again (a new epoch: brokers refuse
// requests of the old one that are still in flight), and only then read the committed
// offsets. Init returns after the old transaction has ended one way or the other, so
// the offsets read after it are authoritative: they equal the cycle's (it was
// committed, the reply was lost), or the previous ones (it was not). Each partition is
// rolled back to the mark that equals them; a partition whose offsets are neither has
// been taken by another member and is dropped.
//
// Only EndTxn(commit) is repeated when its outcome is unknown, with the same epoch
// (kafka/end.go): a coordinator that fails while it handles the request may have
// written markers to some partitions, and Init at its successor could abort the rest.
// If a repetition is answered with success, the cycle is committed and nothing is
// rolled back. But an earlier request may still be in flight, and would end the
// transaction that follows: so Init comes first in this case, too (commitOpen). If a
// repetition is refused, or no answer comes until the transaction's time-out is near,
// the outcome stays unknown: Init, then the committed offsets decide.

// recover brings every partition back to its committed offset after a cycle
// whose outcome is not a definite success. See the head of this file.
func (p *Processor) recover(ctx context.Context, c *cycle, cause error) error {
	p.committed(p.committer.dropOffsets())
	class := kafka.ClassOf(cause)
	p.trouble.Warn(p.log, "cycle: "+class.String(), "cycle failed, rolling back to the committed offsets", "err", cause,
		"class", class.String())
	switch class {
	case kafka.InstanceFenced:
		// While the membership lasts, the instance id is ours: the commit carried
		// the member id of a session that was lost, and a Lost event will follow.
		if p.member.Err() != nil {
			return fmt.Errorf("%w: %w", ErrInstanceFenced, cause)
		}
	case kafka.Fatal:
		if !p.blame(cause) {
			return cause
		}
	case kafka.Abortable:
		p.blame(cause)
	}
	// Refuse further results before the producer is touched: partitions see the
	// new epoch at their next join and drop their results.
	p.abandonOpen()
	var refused *kafka.ProduceError
	if class == kafka.TooLarge && errors.As(cause, &refused) {
		p.shrink(refused.TP.Topic)
	}
	if class == kafka.Fenced {
		if err := p.stillMember(ctx); err != nil {
			return err
		}
	}
	if class != kafka.Unknown && class != kafka.Fenced {
		actx, cancel := context.WithTimeout(ctx, p.cfg.TransactionTimeout)
		if err := p.committer.abort(actx); err != nil {
			p.trouble.Warn(p.log, "cycle: abort", "abort failed, the producer is abandoned", "err", err)
		}
		cancel()
	}
	if err := p.reinit(ctx); err != nil {
		return err
	}
	return p.rollback(ctx, c)
}

// abandonOpen begins a new epoch with an empty open cycle: the results of the old one are
// dropped.
func (p *Processor) abandonOpen() { p.cycles.abandon(p.pace.Room(len(p.partitions))) }

// shrink halves the batches of a topic whose max.message.bytes was lowered: batches of
// the same size would be refused again.
func (p *Processor) shrink(name string) {
	p.cycles.mu.Lock()
	defer p.cycles.mu.Unlock()
	if n := p.outputs.Shrink(name); n > 0 {
		p.log.Warn("the topic refuses batches of the former size, halving them", "topic", name, "bytes", n)
	}
}

// reinit gives the producer a new epoch; from then on brokers refuse the old one's
// requests in flight.
func (p *Processor) reinit(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		ictx, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := p.producer.Init(ictx)
		cancel()
		if err == nil {
			return nil
		}
		if kafka.ClassOf(err) == kafka.Fatal || ctx.Err() != nil {
			return fmt.Errorf("processor: restart the producer: %w", err)
		}
		p.trouble.Warn(p.log, "cycle: restart", "producer restart failed, trying again", "err", err)
		select {
		case <-time.After(wait):
		case err := <-p.fatal:
			return err
		}
	}
}

// rollback returns every partition to its committed offset. c, which may be nil,
// is the cycle whose outcome was unknown; its partitions may have advanced.
func (p *Processor) rollback(ctx context.Context, c *cycle) error {
	var tps []kafka.TP
	for tp, pt := range p.partitions {
		if pt.running.Load() {
			tps = append(tps, tp)
		}
	}
	if len(tps) == 0 {
		return nil
	}
	offs, err := p.known(ctx, tps)
	if err != nil {
		return err
	}
	// A partition that was restored while the producer began anew may have results
	// in the open cycle already. They are dropped, and it is rolled back like all
	// others: rolled back with its results in the cycle, it would add them twice.
	p.abandonOpen()
	for tp, pt := range p.partitions {
		if !pt.running.Load() {
			continue // it will begin with the present epoch
		}
		known, ok := offs[tp]
		if !ok {
			pt.restart(false)
			continue
		}
		off, before := known.Offset, pt.committed.Load()
		if off != before && c != nil && c.results[pt] != nil && c.results[pt].next == off {
			// The transaction was committed after all, only its reply was lost.
			pt.committed.Store(off)
			r := c.results[pt]
			p.cfg.Metrics.Worked(pt.tp, &r.work, r.floor.Offset, r.next, pt.end.Load())
		} else if off != before && !(off == -1 && pt.fresh.Load()) {
			// Neither mark is ours: another member has committed. Our results and
			// our state are void, and the partition is restored.
			p.log.Warn("committed offset is another member's, restoring", "topic", tp.Topic, "partition", tp.Partition,
				"committed", off, "ours", before)
			pt.restart(true)
			continue
		}
		pt.restart(false)
	}
	return nil
}

// committedOffsets reads stable offsets and waits until they are known: while a
// transaction of a dead worker is open, they are not.
func (p *Processor) committedOffsets(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		offs, err := p.cfg.Client.Committed(cctx, p.cfg.Group, tps)
		cancel()
		if err == nil {
			p.trouble.Over(p.log, "committed")
			return offs, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if kafka.ClassOf(err) == kafka.Fatal {
			return nil, fmt.Errorf("processor: read committed offsets of group %q: %w", p.cfg.Group, err)
		}
		p.trouble.Warn(p.log, "committed", "committed offsets cannot be read yet", "err", err)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
