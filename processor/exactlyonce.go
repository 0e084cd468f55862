package processor

import (
	"context"
	"fmt"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// exactlyOnce commits the outputs, state and offsets of a cycle in one transaction.
type exactlyOnce struct{ session *session }

// newBatches begins with a small batch, as brokers want it of a transaction.
func (*exactlyOnce) newBatches(maxBytes int, codec record.Codec) *record.Batches {
	return record.NewTransactionBatches(maxBytes, codec)
}

func (e *exactlyOnce) commit(work context.Context, c *cycle.Cycle[*partition]) error {
	ctx, cancel := context.WithTimeout(work, e.session.cfg.TransactionTimeout)
	defer cancel()
	outs, logs := c.Payload.Batches()
	for tp, b := range logs {
		outs[tp] = b
	}
	offs := sourceOffsets(c.Results)
	e.session.cfg.Hooks.step(BeforeSend, c)
	// A rebalance may be in the way of the offsets. What this cycle holds is still
	// ours until a Revoked event is done or a Lost one comes, so they go again.
	sent := false
	err := e.session.member.Load().Commit(ctx, func(gen kafka.Generation) error {
		if sent {
			return e.session.producer.CommitOffsets(ctx, gen, e.session.cfg.Group, offs)
		}
		sent = true
		return e.session.producer.Send(ctx, outs, gen, e.session.cfg.Group, offs)
	})
	if err != nil {
		return fmt.Errorf("processor: send cycle: %w", err)
	}
	e.session.cfg.Hooks.step(BeforeEnd, c)
	late := time.AfterFunc(e.session.cfg.TransactionTimeout, func() {
		e.session.trouble.Warn(e.session.log, "cycle: end", "a commit has no definite answer yet, and may be carried out in part: it is "+
			"repeated until a coordinator gives one; see that all brokers are there and that partitions have leaders")
	})
	defer late.Stop()
	if err := e.session.producer.End(work, true); err != nil {
		return fmt.Errorf("processor: commit transaction: %w", err)
	}
	e.session.cfg.Hooks.step(AfterEnd, c)
	return nil
}

func (e *exactlyOnce) abort(ctx context.Context) error { return e.session.producer.End(ctx, false) }

// Offsets are in the transaction: none follow.

func (*exactlyOnce) written(_ context.Context, r results) results        { return r }
func (*exactlyOnce) offsets() <-chan error                               { return nil }
func (*exactlyOnce) answered(context.Context, error) (committed results) { return nil }
func (*exactlyOnce) dropOffsets() (committed results)                    { return nil }
