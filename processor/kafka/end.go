package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// The end of a transaction.
//
// EndTxn(commit) is the one request that is repeated although its outcome is not
// known. A coordinator that dies while it handles the request may already have written markers to some
// partitions: one that starts again writes the markers of the decisions in its own log, also of those that are not replicated
// (Kafka 4.4.0). The dead coordinator's successor finishes the commit if the decision was replicated; if it was not, it has the
// transaction open, and Init would abort it: a part of its records would be committed and the others not. The
// same request again, with the same epoch, makes the successor commit all of it, and where the decision
// stands it is answered 0. Only a request of another epoch can be refused for its age, so what a repeated one
// is refused with does not tell what became of those before it: the class is Unknown, and Init and the
// committed offsets tell. So a commit that may have arrived is repeated until a coordinator answers, also after the transaction's
// time-out: without a coordinator nothing aborts the transaction, and Init would wait for the same one.
//
// In version 1 of the protocol EndTxn does not raise the epoch, so a first request that was held
// up on its way would end the transaction that follows. In version 2 a late request has the epoch of the
// transaction that has ended, and is refused; the answer to a repeated request is the new epoch, as to the first (KIP-890). In
// both Init comes before the next transaction when a request was not answered, or not by the coordinator: where all brokers have failed
// meanwhile, a partition may have lost the marker, and would add the next transaction to the one before (see hanging.go).

// errEndRepeated is why Init has to come first although the transaction is over.
var errEndRepeated = &classed{Unknown, errors.New(
	"kafka: the last transaction was ended by more than one request, and one may still be in flight")}

// End commits or aborts the transaction. Without one it does nothing. A commit
// is refused if something in the transaction has failed. An error of class
// Unknown leaves open which way the transaction went: after Init the committed
// offsets tell. Nil is definite; NeedsInit may be true nevertheless, and means that
// Init has to come before the next transaction.
//
// When End returns, the outcome is decided and will become visible; the
// coordinator may still be telling the partitions.
func (p *Producer) End(ctx context.Context, commit bool) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.txn.begun {
		return nil
	}
	reason := p.txn.outputs
	if reason == nil {
		reason = p.txn.offsets
	}
	if commit && reason != nil {
		return &classed{ClassOf(reason), fmt.Errorf("kafka: transaction of %q cannot be committed: %w", p.identity.transactionalID, reason)}
	}
	res, requests, failed, err := p.calls.end(ctx, commit, p.txn.since, p.cfg.TransactionTimeout)
	if err == nil {
		p.txn.reset()
		if p.identity.v2 {
			p.renew(res.next.id, res.next.epoch)
		}
		if failed || requests > 1 && !p.identity.v2 {
			p.txn.note(errEndRepeated, new(error))
		}
		return nil
	}
	what := "abort"
	if commit {
		what = "commit"
	}
	err = fmt.Errorf("kafka: %s transaction of %q: %w", what, p.identity.transactionalID, err)
	if c := ClassOf(err); requests > 1 && c != Fatal || c == Retriable {
		// A coordinator that could not replicate its decision answers "not
		// available"; the decision may stand nevertheless.
		err = &classed{Unknown, err}
	}
	p.txn.note(err, &p.txn.outputs)
	return err
}

// end sends EndTxn until the answer is definite and counts the requests that a coordinator may have got. Where that is none, or it
// is no commit, it gives up when the time-out of the transaction, which began at since, is near. failed: a request was not answered,
// or not by a coordinator that knows the transaction.
func (c *calls) end(ctx context.Context, commit bool, since time.Time, timeout time.Duration) (
	res *endTxn, requests int, failed bool, err error) {
	limit := since.Add(timeout * 9 / 10)
	retry := newPatience(max(time.Until(limit), 1))
	if commit { // a new coordinator must not abort for age before it hears this
		retry.slow = newBackoff(20*time.Millisecond, 250*time.Millisecond)
	}
	least := timeout / 10 // for one try
	for {
		sent := false
		left := max(time.Until(limit), least)
		if left == least { // the time is over: the next try gets more, or distant brokers would never be reached
			least = min(2*least, max(least, 30*time.Second))
		}
		fctx, cancel := context.WithTimeout(ctx, left)
		node, err := c.find(fctx, txnCoordinator, c.identity.transactionalID)
		cancel()
		if err == nil {
			req := &endTxn{identity: *c.identity, commit: commit} // the transport may still write and read the one before
			// A coordinator that hangs must leave time for its successor.
			within := min(c.cluster.transport.timeoutOf(req), max(left/3, timeout/10))
			if _, err = c.cluster.RoundTripWithin(ctx, within, node, req); err == nil {
				sent, res = true, req
				if err = newCodeError(res.code); err == nil && res.identity.v2 && res.next.id < 0 {
					err = &classed{Unknown, errors.New("kafka: EndTxn was answered without a producer id")}
				}
			} else {
				sent = ClassOf(err) != Retriable
			}
			if err != nil && (!answered(err) || movedCoordinator(err)) {
				c.coordinators.forget(txnCoordinator, c.identity.transactionalID)
			}
		}
		if sent {
			requests++
		}
		if sent && commit && ClassOf(err) != Fatal { // no login, and no handshake, becomes right by itself
			retry.limit = 0 // none
		}
		failed = failed || err != nil && !errors.Is(err, kafkago.ConcurrentTransactions)
		lost := sent && commit && !answered(err)
		if err == nil || ctx.Err() != nil || !lost && ClassOf(err) != Retriable {
			return res, requests, failed, err
		}
		if err := retry.wait(ctx, err); err != nil {
			return nil, requests, failed, &classed{Retriable, err}
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
