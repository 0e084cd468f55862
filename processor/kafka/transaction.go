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
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"

	"odradek/processor/kafka/record"
)

// transaction is what the open transaction of a producer contains, and what has failed in it.
type transaction struct {
	added map[TP]bool     // its partitions; true: it has a batch there
	group map[string]bool // its groups

	// Send runs Produce and CommitOffsets at the same time; what both write is here.
	mu      sync.Mutex
	begun   bool      // the coordinator may have a transaction open
	since   time.Time // when begun was set: the coordinator's time-out begins later
	outputs error     // why the open transaction must not be committed: its records
	offsets error     // ... its offsets; a later CommitOffsets may mend this one
	broken  error     // why Init has to come first
}

// open notes that the coordinator may have a transaction open from now on.
func (t *transaction) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun {
		t.begun, t.since = true, time.Now()
	}
}

// reset forgets the transaction.
func (t *transaction) reset() {
	clear(t.added)
	clear(t.group)
	t.begun, t.outputs, t.offsets = false, nil, nil
}

// failure returns why Init has to come before anything else, nil where it need not.
func (t *transaction) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// note stores what a failed operation means for those that follow.
func (t *transaction) note(err error, reason *error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*reason = err
	if err != nil && t.broken == nil && needsInit(err) {
		t.broken = err
	}
}

// needsInit reports whether the epoch, or the sequences, are of no use after an error.
func needsInit(err error) bool {
	switch ClassOf(err) {
	case Unknown, Fenced:
		return true
	case Abortable:
		for _, code := range []kafkago.Error{kafkago.OutOfOrderSequenceNumber, kafkago.UnknownProducerId,
			kafkago.InvalidProducerIDMapping, kafkago.TransactionCoordinatorFenced, kafkago.TransactionalIDNotFound} {
			if errors.Is(err, code) {
				return true
			}
		}
	}
	return false
}

// AddPartitions makes partitions part of the transaction, which it begins if
// none is open. Partitions that are part of it already cost nothing.
func (p *Producer) AddPartitions(ctx context.Context, tps []TP) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.identity.transactional() {
		return nil
	}
	var fresh []TP
	for _, tp := range tps {
		if _, ok := p.txn.added[tp]; !ok {
			fresh = append(fresh, tp)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, record.TP.Compare)
	fresh = slices.Compact(fresh)
	req := &addpartitionstotxn.Request{TransactionalID: p.identity.transactionalID, ProducerID: p.identity.id, ProducerEpoch: p.identity.epoch}
	for i, tp := range fresh {
		if i == 0 || tp.Topic != fresh[i-1].Topic {
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: tp.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, tp.Partition)
	}
	p.txn.open()
	err := p.calls.call(ctx, txnCoordinator, p.identity.transactionalID, req, func(m protocol.Message) error {
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
		err = fmt.Errorf("kafka: add partitions to transaction of %q: %w", p.identity.transactionalID, err)
		if errors.Is(err, kafkago.TopicAuthorizationFailed) {
			err = fmt.Errorf("%w; the worker needs WRITE on the topic", err)
		}
		p.txn.note(err, &p.txn.outputs)
		return err
	}
	for _, tp := range fresh {
		p.txn.added[tp] = false
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
	if !p.identity.transactional() {
		return errors.New("kafka: a producer without a transactional id has no offsets; use Client.CommitOffsets")
	}
	if len(offsets) == 0 {
		return nil
	}
	err := p.commitOffsets(ctx, gen, group, offsets)
	p.txn.note(err, &p.txn.offsets)
	return err
}

func (p *Producer) commitOffsets(ctx context.Context, gen Generation, group string, offsets map[TP]Offset) error {
	if !p.txn.group[group] {
		p.txn.open()
		err := p.calls.call(ctx, txnCoordinator, p.identity.transactionalID, &addoffsetstotxn.Request{
			TransactionalID: p.identity.transactionalID, ProducerID: p.identity.id, ProducerEpoch: p.identity.epoch, GroupID: group,
		}, func(m protocol.Message) error { return newCodeError(m.(*addoffsetstotxn.Response).ErrorCode) })
		if err != nil {
			return fmt.Errorf("kafka: add offsets of group %q to transaction of %q: %w", group, p.identity.transactionalID, err)
		}
		p.txn.group[group] = true
	}
	tps := make([]TP, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, record.TP.Compare)
	req := &txnoffsetcommit.Request{
		TransactionalID: p.identity.transactionalID, GroupID: group, ProducerID: p.identity.id, ProducerEpoch: p.identity.epoch,
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
	err := p.calls.call(ctx, groupCoordinator, group, req, func(m protocol.Message) error {
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
		return fmt.Errorf("kafka: offsets in transaction of %q: %w", p.identity.transactionalID, err)
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
