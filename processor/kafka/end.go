package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/kafka/wire"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/endtxn"
)

// The end of a transaction.
//
// EndTxn(commit) is the one request that is repeated although its outcome is not
// known. A coordinator that dies while it handles the request may already have written markers to some
// partitions. Its successor finishes the commit if the decision was replicated; if it was not, it has the
// transaction open, and Init would abort it: a part of its records would be committed and the others not. The
// same request again, with the same epoch, makes the successor commit all of it, and where the decision
// stands it is answered 0. Only a request of another epoch can be refused for its age, so what a repeated one
// is refused with does not tell what became of those before it: the class is Unknown, and Init and the
// committed offsets tell.
//
// EndTxn up to version 4 does not raise the epoch, so a first request that was held
// up on its way would end the transaction that follows. Hence Init comes before the
// next transaction when one took more than one request to end.

// errEndRepeated is why Init has to come first although the transaction is over.
var errEndRepeated = &classed{Unknown, errors.New(
	"kafka: the last transaction was ended by more than one request, and one may still be in flight")}

// End commits or aborts the transaction. Without one it does nothing. A commit
// is refused if something in the transaction has failed. An error of class
// Unknown leaves open which way the transaction went: after Init the committed
// offsets tell. Nil is definite; NeedsInit may be true all the same, and says that
// Init has to come before the next transaction.
//
// When End returns, the outcome is decided and will become visible; the
// coordinator may still be telling the partitions.
func (p *Producer) End(ctx context.Context, commit bool) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.begun {
		return nil
	}
	reason := p.outputs
	if reason == nil {
		reason = p.offsets
	}
	if commit && reason != nil {
		return &classed{ClassOf(reason), fmt.Errorf("kafka: transaction of %q cannot be committed: %w", p.cfg.TransactionalID, reason)}
	}
	requests, err := p.end(ctx, commit)
	if err == nil {
		p.reset()
		if requests > 1 {
			p.note(errEndRepeated, new(error))
		}
		return nil
	}
	what := "abort"
	if commit {
		what = "commit"
	}
	err = fmt.Errorf("kafka: %s transaction of %q: %w", what, p.cfg.TransactionalID, err)
	if c := ClassOf(err); requests > 1 && c != Fatal || c == Retriable {
		// A coordinator that could not replicate its decision answers "not
		// available"; the decision may stand all the same.
		err = &classed{Unknown, err}
	}
	p.note(err, &p.outputs)
	return err
}

// end sends EndTxn until the answer is definite or the transaction's time-out is
// near, and counts the requests that a coordinator may have got.
func (p *Producer) end(ctx context.Context, commit bool) (requests int, err error) {
	req := &endtxn.Request{TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch, Committed: commit}
	// After its time-out the coordinator aborts the transaction, and there is nothing
	// left to wait for.
	limit := p.since.Add(p.cfg.TransactionTimeout * 9 / 10)
	retry := newPatience(max(time.Until(limit), 1))
	for {
		sent := false
		left := max(time.Until(limit), p.cfg.TransactionTimeout/10) // for one try at least
		fctx, cancel := context.WithTimeout(ctx, left)
		node, err := p.findCoordinator(fctx, txnCoordinator, p.cfg.TransactionalID)
		cancel()
		if err == nil {
			// A coordinator that hangs must leave time for its successor.
			within := min(p.c.timeoutOf(req), max(left/3, p.cfg.TransactionTimeout/10))
			var m protocol.Message
			if m, err = p.c.RoundTripWithin(ctx, within, node, req); err == nil {
				sent = true
				err = wire.CodeError(m.(*endtxn.Response).ErrorCode)
			} else {
				sent = ClassOf(err) != Retriable
			}
			if err != nil && (!answered(err) || movedCoordinator(err)) {
				p.c.forgetCoordinator(txnCoordinator, p.cfg.TransactionalID)
			}
		}
		if sent {
			requests++
		}
		lost := sent && commit && !answered(err)
		if err == nil || ctx.Err() != nil || !lost && ClassOf(err) != Retriable {
			return requests, err
		}
		if err := retry.wait(ctx, err); err != nil {
			return requests, &classed{Retriable, err}
		}
	}
}

// answered reports whether an error is a broker's response.
func answered(err error) bool {
	var broken *BrokerError
	return !errors.As(err, &broken)
}

// Abort gives the transaction up and leaves the producer ready for the next one:
// by End where that is possible, else by Init. Not after an error of class Fenced,
// where Init would take the id back from the producer that has it now: then it
// returns that error.
func (p *Producer) Abort(ctx context.Context) error {
	err := p.usable()
	if err == nil {
		if err = p.End(ctx, false); err == nil && !p.NeedsInit() {
			return nil
		}
	}
	if c := ClassOf(err); c == Fenced || c == Fatal {
		return err
	}
	return p.Init(ctx)
}
