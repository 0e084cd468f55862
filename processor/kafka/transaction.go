package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"

	"odradek/processor/kafka/backoff"
	"odradek/processor/kafka/record"
	"odradek/processor/kafka/wire"
)

// AddPartitions makes partitions part of the transaction, which it begins if
// none is open. Partitions that are part of it already cost nothing.
func (p *Producer) AddPartitions(ctx context.Context, tps []TP) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.transactional() {
		return nil
	}
	var fresh []TP
	for _, tp := range tps {
		if _, ok := p.added[tp]; !ok {
			fresh = append(fresh, tp)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, record.TP.Compare)
	fresh = slices.Compact(fresh)
	req := &addpartitionstotxn.Request{TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch}
	for i, tp := range fresh {
		if i == 0 || tp.Topic != fresh[i-1].Topic {
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: tp.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, tp.Partition)
	}
	p.open()
	err := p.call(ctx, txnCoordinator, p.cfg.TransactionalID, req, func(m protocol.Message) error {
		var errs []error
		for _, t := range m.(*addpartitionstotxn.Response).Results {
			for _, r := range t.Results {
				if r.ErrorCode != 0 {
					errs = append(errs, partitionError{TP{Topic: t.Name, Partition: r.PartitionIndex}, kafkago.Error(r.ErrorCode)})
				}
			}
		}
		return worst(errs)
	})
	if err != nil {
		err = fmt.Errorf("kafka: add partitions to transaction of %q: %w", p.cfg.TransactionalID, err)
		if errors.Is(err, kafkago.TopicAuthorizationFailed) {
			err = fmt.Errorf("%w; the worker needs WRITE on the topic", err)
		}
		p.note(err, &p.outputs)
		return err
	}
	for _, tp := range fresh {
		p.added[tp] = false
	}
	return nil
}

func (p *Producer) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun, p.since = true, time.Now()
	}
}

// partitionError is a code for one partition of a request about several.
type partitionError struct {
	tp   TP
	code kafkago.Error
}

func (e partitionError) Error() string { return e.tp.String() + ": " + e.code.Error() }
func (e partitionError) Unwrap() error { return e.code }

// worst picks the error to act on from those of one request: the gravest, the
// first of those. One partition often explains the others
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

// call sends a request to a coordinator until it is answered with something
// other than "later". check turns a response into an error.
func (p *Producer) call(ctx context.Context, kind int8, key string, req protocol.Message, check func(protocol.Message) error) error {
	retry := newPatience(p.cfg.Timeout)
	for {
		node, err := p.findCoordinator(ctx, kind, key)
		if err == nil {
			var m protocol.Message
			if kind == groupCoordinator { // offsets
				g := p.gate(node)
				g.Lock()
				m, err = p.c.roundTrip(ctx, node, req)
				g.Unlock()
			} else {
				m, err = p.c.roundTrip(ctx, node, req)
			}
			if err != nil {
				p.c.forgetCoordinator(kind, key)
			} else if err = check(m); movedCoordinator(err) {
				p.c.forgetCoordinator(kind, key)
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

// findCoordinator looks a coordinator up. That changes nothing, so that every error but
// a fatal one is Retriable.
func (p *Producer) findCoordinator(ctx context.Context, kind int8, key string) (int32, error) {
	node, err := p.c.coordinator(ctx, kind, key)
	if err != nil && ClassOf(err) != Fatal {
		err = &classed{Retriable, err}
	}
	return node, err
}

func movedCoordinator(err error) bool {
	return errors.Is(err, kafkago.NotCoordinatorForGroup) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable)
}

// patience bounds the retries of one operation.
type patience struct {
	limit time.Duration // 0: as long as the context lasts
	began time.Time
	slow  backoff.Delay
}

func newPatience(limit time.Duration) *patience {
	return &patience{limit: limit, began: time.Now(), slow: backoff.New(20*time.Millisecond, time.Second)}
}

// markersDelay returns how long to wait until a transaction whose markers are still
// being written is asked for again, when it has been waited for so long. That is
// over in milliseconds, on a busy broker in tens of them, and every transaction
// waits for the one before: an eighth more is lost at most.
func markersDelay(waited time.Duration) time.Duration {
	return min(max(waited/8, time.Millisecond), 10*time.Millisecond)
}

// wait waits before the next try after err, or returns err with why there is none.
func (w *patience) wait(ctx context.Context, err error) error {
	waited := time.Since(w.began)
	if w.limit > 0 && waited > w.limit {
		return fmt.Errorf("%w; tried for %v", err, w.limit)
	}
	var end error
	if errors.Is(err, kafkago.ConcurrentTransactions) { // coordinators and leaders take longer to move
		end = backoff.Sleep(ctx, markersDelay(waited))
	} else {
		end = w.slow.Wait(ctx)
	}
	if end != nil {
		return fmt.Errorf("%w; gave up: %w", err, end)
	}
	return nil
}

// CommitOffsets makes offsets part of the transaction: they take effect when it
// commits. The generation fences off a member that has lost its partitions
// (KIP-447). An error of class Rebalance leaves the rest of the transaction as it
// is: where the partitions are still held, CommitOffsets may be called again with
// the newer generation. Offsets must be the same partitions each time.
func (p *Producer) CommitOffsets(ctx context.Context, gen Generation, group string, offsets map[TP]Offset) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.transactional() {
		return errors.New("kafka: a producer without a transactional id has no offsets; use Client.CommitOffsets")
	}
	if len(offsets) == 0 {
		return nil
	}
	err := p.commitOffsets(ctx, gen, group, offsets)
	p.note(err, &p.offsets)
	return err
}

func (p *Producer) commitOffsets(ctx context.Context, gen Generation, group string, offsets map[TP]Offset) error {
	if !p.group[group] {
		p.open()
		err := p.call(ctx, txnCoordinator, p.cfg.TransactionalID, &addoffsetstotxn.Request{
			TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch, GroupID: group,
		}, func(m protocol.Message) error { return wire.CodeError(m.(*addoffsetstotxn.Response).ErrorCode) })
		if err != nil {
			return fmt.Errorf("kafka: add offsets of group %q to transaction of %q: %w", group, p.cfg.TransactionalID, err)
		}
		p.group[group] = true
	}
	tps := make([]TP, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, record.TP.Compare)
	req := &txnoffsetcommit.Request{
		TransactionalID: p.cfg.TransactionalID, GroupID: group, ProducerID: p.id, ProducerEpoch: p.epoch,
		GenerationID: gen.ID, MemberID: gen.MemberID, GroupInstanceID: gen.InstanceID,
	}
	for i, tp := range tps {
		if i == 0 || tp.Topic != tps[i-1].Topic {
			req.Topics = append(req.Topics, txnoffsetcommit.RequestTopic{Name: tp.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		o := offsets[tp]
		t.Partitions = append(t.Partitions, txnoffsetcommit.RequestPartition{
			Partition: tp.Partition, CommittedOffset: o.Offset, CommittedLeaderEpoch: o.Epoch.Number(), CommittedMetadata: o.Metadata})
	}
	err := p.call(ctx, groupCoordinator, group, req, func(m protocol.Message) error {
		var errs []error
		for _, t := range m.(*txnoffsetcommit.Response).Topics {
			for _, r := range t.Partitions {
				if r.ErrorCode != 0 {
					errs = append(errs, &OffsetError{group, TP{Topic: t.Name, Partition: r.Partition}, kafkago.Error(r.ErrorCode)})
				}
			}
		}
		return worst(errs)
	})
	if err != nil {
		return fmt.Errorf("kafka: offsets in transaction of %q: %w", p.cfg.TransactionalID, err)
	}
	return nil
}

// Send does all of a transaction but its end: it adds the partitions, produces
// the batches and commits the offsets, in as few waits as the protocol has. The
// coordinator takes one change of a transaction at a time and answers a second
// one CONCURRENT_TRANSACTIONS, so the group is added after the partitions, while the batches are already in flight:
//
//	AddPartitionsToTxn -> Produce to all leaders
//	                   -> AddOffsetsToTxn -> TxnOffsetCommit
//
// If the error is of class Rebalance, the batches were produced, and
// CommitOffsets may be tried again; see there.
func (p *Producer) Send(ctx context.Context, out map[TP]*record.Batches, gen Generation, group string, offsets map[TP]Offset) error {
	tps := make([]TP, 0, len(out))
	for tp, b := range out {
		if b.Count() > 0 {
			tps = append(tps, tp)
		}
	}
	if err := p.AddPartitions(ctx, tps); err != nil {
		return err
	}
	if len(tps) == 0 {
		return p.CommitOffsets(ctx, gen, group, offsets)
	}
	var committed chan error
	if len(offsets) > 0 {
		committed = make(chan error, 1)
		go func() { committed <- p.CommitOffsets(ctx, gen, group, offsets) }()
	}
	err := p.Produce(ctx, out)
	if committed != nil {
		err = gravest(err, <-committed)
	}
	return err
}
