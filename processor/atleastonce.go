package processor

import (
	"context"
	"fmt"
	"maps"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// atLeastOnce writes the outputs of a cycle, then its state, and commits its offsets
// outside of a transaction.
//
// The offsets follow while the outputs of the next cycle are already being written:
// brokers delay offset commits (Kafka 4 collects them for 5 ms), and consumers of the
// outputs need not wait for that. One commit is in flight at a time, and the next one
// covers everything that was written meanwhile. Until its commit a cycle can be rolled
// back to the last committed mark, and its outputs are then written a second time.
type atLeastOnce struct {
	session *session

	// Owned by the main goroutine.
	sent results    // offsets in flight
	done chan error // outcome of their commit; nil: none are in flight
	next results    // written since
}

func (*atLeastOnce) newBatches(maxBytes int, codec record.Codec) *record.Batches {
	return record.NewBatches(maxBytes, codec)
}

func (a *atLeastOnce) commit(work context.Context, c *cycle.Cycle[*partition]) error {
	ctx, cancel := context.WithTimeout(work, a.session.cfg.TransactionTimeout)
	defer cancel()
	outs, logs := c.Payload.Batches()
	// Outputs are written before the state, which does not contain them any more, and
	// both before the offsets.
	err := a.session.cfg.Hooks.beforeOutputs(c, func() error { return a.commitOffsets(work, sourceOffsets(c.Results)) })
	if err != nil {
		return err
	}
	if err := a.session.producer.Produce(ctx, outs); err != nil {
		return fmt.Errorf("processor: produce outputs: %w", err)
	}
	a.session.cfg.Hooks.step(BeforeChangelog, c)
	if err := a.session.producer.Produce(ctx, logs); err != nil {
		return fmt.Errorf("processor: produce state: %w", err)
	}
	a.session.cfg.Hooks.step(BeforeOffsets, c)
	return nil
}

// commitOffsets commits offsets outside of a transaction. A request may take as long as
// a transaction, and a rebalance may add the group's own time-outs: while the member
// owns its partitions, an early failure would only write outputs a second time.
func (a *atLeastOnce) commitOffsets(ctx context.Context, offs map[kafka.TP]kafka.Offset) error {
	ctx, cancel := context.WithTimeout(ctx, a.session.cfg.TransactionTimeout+a.session.cfg.Session+a.session.cfg.Rebalance)
	defer cancel()
	return a.session.member.Load().Commit(ctx, func(gen kafka.Generation) error {
		ctx, cancel := context.WithTimeout(ctx, a.session.cfg.TransactionTimeout)
		defer cancel()
		return a.session.cfg.Client.Offsets.CommitOffsets(ctx, gen, a.session.cfg.Group, offs)
	})
}

func (*atLeastOnce) abort(context.Context) error { return nil }

// written sends the offsets, or queues them behind those in flight.
func (a *atLeastOnce) written(ctx context.Context, rs results) results {
	if a.next == nil {
		a.next = maps.Clone(rs)
	} else {
		for pt, r := range rs {
			if have := a.next[pt]; have != nil {
				have.Extend(r)
			} else {
				a.next[pt] = r
			}
		}
	}
	a.send(ctx)
	return nil
}

// send sends the offsets that wait, if none are in flight.
func (a *atLeastOnce) send(ctx context.Context) {
	if a.done != nil || len(a.next) == 0 {
		return
	}
	a.sent, a.next = a.next, nil
	a.done = make(chan error, 1)
	offs, done := sourceOffsets(a.sent), a.done
	go func() {
		err := a.commitOffsets(ctx, offs)
		if err != nil {
			err = fmt.Errorf("processor: commit offsets: %w", err)
		}
		done <- err
	}()
}

func (a *atLeastOnce) offsets() <-chan error { return a.done }

func (a *atLeastOnce) answered(ctx context.Context, err error) results {
	sent := a.sent
	a.sent, a.done = nil, nil
	if err == nil {
		a.send(ctx)
	}
	return sent
}

// dropOffsets waits for the commit in flight, so that the committed offsets can be read,
// and discards the offsets that wait behind it.
func (a *atLeastOnce) dropOffsets() (committed results) {
	if a.done != nil {
		if err := <-a.done; err == nil {
			committed = a.sent
		}
	}
	a.sent, a.done, a.next = nil, nil, nil
	return committed
}
