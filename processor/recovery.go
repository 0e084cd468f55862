package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/kafka"
)

// What breaks, and what is done about it. Transactions of version 1 can be torn
// when a request of unknown outcome is followed by anything else of the same
// producer id and epoch (KIP-890 tells how). So after any error but a definite
// success the producer is abandoned: abort if it can still be said, Init again
// (a new epoch: whatever is still under way is refused), and only then ask for
// the committed offsets. Init returns after the old transaction has ended one
// way or the other, so the offsets read after it are the truth: they equal the
// cycle's (it was committed, the reply was lost), or the previous ones (it was
// not). Each partition goes back to the mark that equals them; a partition
// whose offsets are neither has been taken by another member and is dropped.
//
// EndTxn(commit) alone is repeated when its outcome is not known, with the same
// epoch (kafka/end.go): a coordinator that dies with it in hand may have told some
// partitions already, and Init at its successor could abort the rest. If a
// repetition is answered with success, the cycle is committed and nothing goes back.
// But a request of before may still be on its way, and would end the transaction
// that follows: Init comes first then, too (commitOpen). What a repetition is
// refused with, or no answer until the transaction's time-out is near, leaves the
// outcome open: Init, and the offsets tell.

// recover brings every partition back to its committed offset after a cycle
// whose outcome is not a definite success. See the head of this file.
func (p *Processor) recover(ctx context.Context, c *cycle, cause error) error {
	p.committed(p.committer.giveUp())
	class := kafka.ClassOf(cause)
	p.trouble.warn(p.log, "cycle: "+class.String(), "cycle failed, going back to the committed offsets", "err", cause, "class", class.String())
	switch class {
	case kafka.InstanceFenced:
		// While the membership lasts, the instance id is ours: the commit carried
		// the member id of a session that was lost, and a Lost event is on its way.
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
	// new epoch at their next join and throw away what they have.
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
			p.trouble.warn(p.log, "cycle: abort", "abort failed, the producer is abandoned", "err", err)
		}
		cancel()
	}
	if err := p.reinit(ctx); err != nil {
		return err
	}
	return p.rollback(ctx, c)
}

// abandonOpen begins a new epoch with an empty open cycle: what partitions have done since
// the last one is dropped.
func (p *Processor) abandonOpen() { p.cycles.abandon(p.pace.room(len(p.partitions))) }

// shrink halves the batches of a topic that takes less than it did: its
// max.message.bytes was lowered. The same batches again would be refused again.
func (p *Processor) shrink(name string) {
	p.cycles.mu.Lock()
	defer p.cycles.mu.Unlock()
	for _, t := range p.outputs.all() {
		if t.name == name {
			t.batchBytes = max(t.batchBytes/2, leastBatch)
			p.log.Warn("the topic takes smaller batches than it did", "topic", name, "bytes", t.batchBytes)
		}
	}
}

// reinit gives the producer a new epoch; whatever the old one has under way is
// refused by the brokers from here on.
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
		p.trouble.warn(p.log, "cycle: restart", "producer restart failed, trying again", "err", err)
		select {
		case <-time.After(wait):
		case err := <-p.fatal:
			return err
		}
	}
}

// rollback puts every partition at its committed offset. c, which may be nil,
// is the cycle whose outcome was not known; its partitions may have advanced.
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
	// in the open cycle already. They are dropped and it goes back as all others:
	// told to go back with its results kept, it would bring them twice.
	p.abandonOpen()
	for tp, pt := range p.partitions {
		if !pt.running.Load() {
			continue // it will begin with the epoch of now
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
			// Neither mark is ours: another member has committed. Whatever we
			// have is worthless; start over from what is committed.
			p.log.Warn("committed offset is another member's, restoring", "topic", tp.Topic, "partition", tp.Partition,
				"committed", off, "ours", before)
			pt.restart(true)
			continue
		}
		pt.restart(false)
	}
	return nil
}

// committedOffsets reads stable offsets, for as long as it takes: while a
// transaction of a dead worker is open its offsets are not known.
func (p *Processor) committedOffsets(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		offs, err := p.cfg.Client.Committed(cctx, p.cfg.Group, tps)
		cancel()
		if err == nil {
			p.trouble.over(p.log, "committed")
			return offs, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if kafka.ClassOf(err) == kafka.Fatal {
			return nil, fmt.Errorf("processor: read committed offsets of group %q: %w", p.cfg.Group, err)
		}
		p.trouble.warn(p.log, "committed", "committed offsets cannot be read yet", "err", err)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
