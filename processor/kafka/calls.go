package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
)

// calls sends a producer's requests to coordinators, and repeats them while the answer is "later".
type calls struct {
	identity     *identity
	cluster      *Cluster
	coordinators *coordinators
	gates        *gates
	timeout      time.Duration // of a call with its retries
}

// gates let one request at a time to each broker.
//
// Before a broker takes a transaction's first batch of a partition, or its
// offsets, it asks the transaction's coordinator whether they are part of it
// (KIP-890), for one request of a transaction at a time: while it asks for a
// second, the first fails with NOT_ENOUGH_REPLICAS or COORDINATOR_LOAD_IN_PROGRESS,
// and a retry is a wait of 20 ms and more. So a broker gets these one by one.
type gates struct {
	mu       sync.Mutex
	byBroker map[int32]*sync.Mutex
}

// gate returns the lock to hold around a request that a broker verifies.
func (g *gates) gate(broker int32) *sync.Mutex {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.byBroker[broker]
	if m == nil {
		m = new(sync.Mutex)
		g.byBroker[broker] = m
	}
	return m
}

// init makes one attempt of InitProducerId, at the coordinator of the transactional id or at any broker. It asks the
// coordinator first for the version of the transactions' protocol.
func (c *calls) init(ctx context.Context, req *initproducerid.Request) (_ *initproducerid.Response, v2 bool, err error) {
	node := int32(-1)
	if c.identity.transactional() {
		if node, err = c.find(ctx, txnCoordinator, c.identity.transactionalID); err != nil {
			return nil, false, err
		}
		v2, err = c.cluster.transactionsV2(ctx, node)
	}
	var m protocol.Message
	if err == nil {
		m, err = c.cluster.roundTrip(ctx, node, req)
	}
	if err != nil {
		c.coordinators.forget(txnCoordinator, c.identity.transactionalID)
		return nil, false, err
	}
	res := m.(*initproducerid.Response)
	if res.ErrorCode != 0 {
		code := kafkago.Error(res.ErrorCode)
		if movedCoordinator(code) {
			c.coordinators.forget(txnCoordinator, c.identity.transactionalID)
		}
		return nil, false, newCodeError(code)
	}
	return res, v2, nil
}

// call sends a request to a coordinator until it is answered with something
// other than "later". check turns a response into an error.
func (c *calls) call(ctx context.Context, kind int8, key string, req protocol.Message, check func(protocol.Message) error) error {
	retry := newPatience(c.timeout)
	for {
		node, err := c.find(ctx, kind, key)
		if err == nil {
			var m protocol.Message
			if kind == groupCoordinator { // offsets
				g := c.gates.gate(node)
				g.Lock()
				m, err = c.cluster.roundTrip(ctx, node, req)
				g.Unlock()
			} else {
				m, err = c.cluster.roundTrip(ctx, node, req)
			}
			if err != nil {
				c.coordinators.forget(kind, key)
			} else if err = check(m); movedCoordinator(err) {
				c.coordinators.forget(kind, key)
			}
		}
		if err == nil || ClassOf(err) != Retriable {
			return err
		}
		if err := retry.wait(ctx, err); err != nil {
			return &classed{Retriable, err}
		}
	}
}

// find looks a coordinator up. That changes nothing, so that every error but
// a fatal one is Retriable.
func (c *calls) find(ctx context.Context, kind int8, key string) (int32, error) {
	node, err := c.coordinators.find(ctx, kind, key)
	if err != nil && ClassOf(err) != Fatal {
		err = &classed{Retriable, err}
	}
	return node, err
}

// partitionError is a code for one partition of a request about several.
type partitionError struct {
	tp   TP
	code kafkago.Error
}

func (e partitionError) Error() string { return fmt.Sprintf("%s: %v", e.tp, newCodeError(e.code)) }
func (e partitionError) Unwrap() error { return e.code }

// worst picks the error to act on from the errors of one request: the gravest, of
// equals the first. One partition often explains the others
// (OPERATION_NOT_ATTEMPTED), so that code counts only if there is no other.
func worst(errs []error) error {
	var out error
	rank := -1
	for _, err := range errs {
		r := slices.Index(gravity, ClassOf(err)) * 2
		if errors.Is(err, codeOperationNotAttempted) {
			r = 0
		}
		if r > rank {
			out, rank = err, r
		}
	}
	return out
}

func movedCoordinator(err error) bool {
	return errors.Is(err, kafkago.NotCoordinatorForGroup) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable)
}

// patience bounds the retries of one operation.
type patience struct {
	limit time.Duration // 0: as long as the context lasts
	began time.Time
	slow  backoff
}

func newPatience(limit time.Duration) *patience {
	return &patience{limit: limit, began: time.Now(), slow: newBackoff(20*time.Millisecond, time.Second)}
}

// markersDelay returns how long to wait before the next attempt while a coordinator is still
// writing the markers of the transaction before. waited is the time so far. Markers take
// milliseconds, on a busy broker tens of them, and every transaction waits for the one
// before, so an attempt comes at most an eighth of the time late.
func markersDelay(waited time.Duration) time.Duration {
	return min(max(waited/8, time.Millisecond), 10*time.Millisecond)
}

// wait waits before the next try after err, or returns err with why there is none.
func (p *patience) wait(ctx context.Context, err error) error {
	waited := time.Since(p.began)
	if p.limit > 0 && waited > p.limit {
		return fmt.Errorf("%w; tried for %v", err, p.limit)
	}
	var end error
	if errors.Is(err, kafkago.ConcurrentTransactions) { // coordinators and leaders take longer to move
		end = sleep(ctx, markersDelay(waited))
	} else {
		end = p.slow.Wait(ctx)
	}
	if end != nil {
		return fmt.Errorf("%w; gave up: %w", err, end)
	}
	return nil
}
