package processor

import (
	"context"
	"fmt"
	"maps"

	"odradek/processor/kafka"
)

// The offsets of at least once. A cycle's outputs, and then its state, are
// written by commit; the offsets follow here, while the outputs of the next cycle
// are on their way already. Brokers take their time for offsets (Kafka 4 gathers
// them for 5 ms), and a consumer of the outputs need not wait for that. One
// commit is under way at a time, and the next one has everything that was written
// meanwhile. Only what is committed counts: until then a partition can be rolled
// back to its last committed mark, which brings the outputs a second time.

// offsetQueue is owned by the main goroutine.
type offsetQueue struct {
	sent map[*partition]*part // under way
	done chan error           // what came of it; nil: none is under way
	next map[*partition]*part // written since
}

// add takes the results of a cycle whose outputs and state are written.
func (q *offsetQueue) add(parts map[*partition]*part) {
	if q.next == nil {
		q.next = maps.Clone(parts)
		return
	}
	for pt, r := range parts {
		if have := q.next[pt]; have != nil {
			have.extend(r)
		} else {
			q.next[pt] = r
		}
	}
}

// commitOffsets sends what waits, if nothing is under way.
func (p *Processor) commitOffsets(ctx context.Context) {
	q := &p.offsets
	if q.done != nil || len(q.next) == 0 {
		return
	}
	q.sent, q.next = q.next, nil
	q.done = make(chan error, 1)
	offs, done := sourceOffsets(q.sent), q.done
	go func() {
		err := p.commitOutside(ctx, offs)
		if err != nil {
			err = fmt.Errorf("processor: commit offsets: %w", err)
		}
		done <- err
	}()
}

// commitOutside commits offsets outside of a transaction. A request has the time of
// a transaction; a rebalance may take the group's own time-outs: for as long as the
// member keeps its partitions, giving up would only bring outputs a second time.
func (p *Processor) commitOutside(ctx context.Context, offs map[kafka.TP]kafka.Offset) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.TransactionTimeout+p.cfg.Session+p.cfg.Rebalance)
	defer cancel()
	return p.member.Commit(ctx, func(gen kafka.Generation) error {
		ctx, cancel := context.WithTimeout(ctx, p.cfg.TransactionTimeout)
		defer cancel()
		return p.cfg.Client.CommitOffsets(ctx, gen, p.cfg.Group, offs)
	})
}

// offsetsCommitted takes in what came of the commit under way. An error is one
// that ends the worker.
func (p *Processor) offsetsCommitted(ctx context.Context, err error) error {
	q := &p.offsets
	sent := q.sent
	q.sent, q.done = nil, nil
	if err != nil {
		p.cfg.Metrics.aborted(err)
		return p.recover(ctx, &cycle{parts: sent}, err)
	}
	p.settled(sent)
	p.commitOffsets(ctx)
	return nil
}

// flushOffsets waits until everything written is committed.
func (p *Processor) flushOffsets(ctx context.Context) error {
	for p.offsets.done != nil {
		if err := p.offsetsCommitted(ctx, <-p.offsets.done); err != nil {
			return err
		}
	}
	return nil
}

// giveUpOffsets waits for the commit under way, so that the committed offsets
// can be asked for, and forgets what was to come after it.
func (p *Processor) giveUpOffsets() {
	q := &p.offsets
	if q.done != nil {
		if err := <-q.done; err == nil {
			p.settled(q.sent)
		}
	}
	*q = offsetQueue{}
}
