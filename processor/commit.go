package processor

import (
	"context"
	"fmt"
	"time"

	"odradek/processor/kafka"
)

// How cycles are committed. This file and recovery.go alone begin and end transactions.

// promptBytes is the size from which on a cycle does not wait for the commit
// interval: what a transaction costs by itself is little beside its bytes then, and
// what came first in it would only wait longer.
const promptBytes = 4 << 20

// prompt reports whether the open cycle is to be committed as soon as the last
// commit is done, whatever the commit interval.
func (p *Processor) prompt() bool {
	p.joinMu.RLock()
	defer p.joinMu.RUnlock()
	p.open.mu.Lock()
	defer p.open.mu.Unlock()
	return p.open.full || p.open.bytes >= promptBytes
}

// closeOpen takes the open cycle and puts an empty one in its place.
func (p *Processor) closeOpen() *cycle {
	p.joinMu.Lock()
	c := p.open
	if p.open = p.spare; p.open == nil {
		p.open = newCycle(&p.outputs, p.cfg.Codec, p.cfg.Guarantee)
	}
	p.open.room = p.pace.room(len(p.parts))
	p.spare = nil
	close(p.swapped)
	p.swapped = make(chan struct{})
	p.joinMu.Unlock()
	return c
}

// commitOpen commits the open cycle, if there is anything in it. An error is
// one that ends the worker; everything else is recovered from here.
func (p *Processor) commitOpen(ctx context.Context) error {
	c := p.closeOpen()
	if c.spoilt != nil {
		return p.discard(ctx, c)
	}
	if len(c.parts) == 0 {
		p.spare = c
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
	err := p.commit(ctx, c)
	p.cfg.Metrics.resent(p.producer.Resent() - resent)
	p.trouble.over(p.log, "cycle")
	took := time.Since(p.lastCommit)
	if err != nil {
		p.pace.failed(c.bytes, c.records, took)
		p.cfg.Metrics.aborted(err)
		return p.recover(ctx, c, err)
	}
	p.cfg.Metrics.committed(c, took)
	p.pace.committed(c.bytes, c.records, took)
	if p.cfg.Guarantee == ExactlyOnce {
		p.settled(c.parts)
	} else {
		p.offsets.add(c.parts)
		p.commitOffsets(ctx)
	}
	// Every request was answered, so nothing reads the batches any more.
	c.reset()
	p.spare = c
	return nil
}

// settled takes in that the offsets of these results are committed.
func (p *Processor) settled(parts map[*partition]*part) {
	for pt, r := range parts {
		p.cfg.Metrics.committedPart(pt, r)
		pt.committed.Store(r.next)
		pt.committedAt.Store(time.Now().UnixNano())
		pt.fresh.Store(false)
		if pt.starting.Swap(false) {
			pt.send(goOn)
		}
	}
}

// commit makes the cycle's results visible together. A nil error is the only
// definite outcome.
func (p *Processor) commit(work context.Context, c *cycle) error {
	ctx, cancel := context.WithTimeout(work, p.cfg.TransactionTimeout)
	defer cancel()
	outs, logs, _ := c.batches()
	if p.cfg.Guarantee == ExactlyOnce {
		for tp, b := range logs {
			outs[tp] = b
		}
		offs := sourceOffsets(c.parts)
		p.cfg.Hooks.step(BeforeSend, c)
		// A rebalance may be in the way of the offsets. What this cycle holds is still
		// ours until a Revoked event is done or a Lost one comes, so they go again.
		sent := false
		err := p.member.Commit(ctx, func(gen kafka.Generation) error {
			if sent {
				return p.producer.CommitOffsets(ctx, gen, p.cfg.Group, offs)
			}
			sent = true
			return p.producer.Send(ctx, outs, gen, p.cfg.Group, offs)
		})
		if err != nil {
			return fmt.Errorf("processor: send cycle: %w", err)
		}
		p.cfg.Hooks.step(BeforeEnd, c)
		if err := p.producer.End(ctx, true); err != nil {
			return fmt.Errorf("processor: commit transaction: %w", err)
		}
		p.cfg.Hooks.step(AfterEnd, c)
		return nil
	}
	// At least once: the outputs must be there before the state that has
	// forgotten them, and both before the offsets (offsets.go).
	err := p.cfg.Hooks.beforeOutputs(c, func() error { return p.commitOutside(work, sourceOffsets(c.parts)) })
	if err != nil {
		return err
	}
	if err := p.producer.Produce(ctx, outs); err != nil {
		return fmt.Errorf("processor: produce outputs: %w", err)
	}
	p.cfg.Hooks.step(BeforeChangelog, c)
	if err := p.producer.Produce(ctx, logs); err != nil {
		return fmt.Errorf("processor: produce state: %w", err)
	}
	p.cfg.Hooks.step(BeforeOffsets, c)
	return nil
}
