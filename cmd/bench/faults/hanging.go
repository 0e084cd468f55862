package faults

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka 4.4.0 forgets some transactions when all nodes are killed: their coordinator has decided, and has them as completed, but
// some or all of their partitions never get a marker. endHanging writes those markers, with the request that
// kafka-transactions.sh abort sends, but with the decision that the coordinator's log has: to abort what is committed in other
// partitions would lose outputs, or double them.

// hanging is a transaction of a partition that is open and that nobody will end.
type hanging struct {
	topic     string
	partition int32
	leader    int32
	kmsg.DescribeProducersResponseTopicPartitionActiveProducer
}

// endHanging ends the transactions that began before a time and are open, transactions with offsets last: workers wait for these.
func (r *round) endHanging(before time.Time) error {
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	var all []hanging
	input := "in-" + r.name
	for _, topic := range []string{r.group() + "-scores", r.group() + "-anomalies", changelog(r.group(), input), "__consumer_offsets"} {
		open, err := r.openBefore(ctx, topic, before)
		if err != nil {
			return err
		}
		all = append(all, open...)
	}
	if len(all) == 0 {
		return nil
	}
	decided, err := r.decisions(ctx)
	if err != nil {
		return err
	}
	// Records of outputs may be older than the end of the transaction before; records of offsets are not.
	last := map[int64]int64{}
	for _, h := range all {
		last[h.ProducerID] = max(last[h.ProducerID], h.LastTimestamp)
	}
	for _, h := range all {
		commit := false
		for _, d := range decided[h.ProducerID] {
			if d.at >= last[h.ProducerID] {
				commit = d.commit
				break
			}
		}
		if err := r.write(ctx, h, commit); err != nil {
			return err
		}
		r.say("the brokers had forgotten a transaction of producer %d in %s/%d, open since offset %d; committed: %t", h.ProducerID, h.topic,
			h.partition, h.CurrentTxnStartOffset, commit)
	}
	r.hanging += len(last)
	return nil
}

// openBefore returns the transactions of a topic whose last record is older than a time.
func (r *round) openBefore(ctx context.Context, topic string, before time.Time) (open []hanging, err error) {
	places, err := r.c.Admin().Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, []int32{p.ID}
		req.Topics = append(req.Topics, t)
		res, err := req.RequestWith(ctx, r.c.Admin().Client().Broker(int(p.Leader)))
		if err != nil {
			return nil, fmt.Errorf("faults: producers of %s/%d: %w", topic, p.ID, err)
		}
		for _, a := range res.Topics[0].Partitions[0].ActiveProducers {
			if a.CurrentTxnStartOffset >= 0 && a.LastTimestamp < before.UnixMilli() {
				open = append(open, hanging{topic, p.ID, p.Leader, a})
			}
		}
	}
	slices.SortFunc(open, func(a, b hanging) int { return cmp.Compare(a.CurrentTxnStartOffset, b.CurrentTxnStartOffset) })
	return open, nil
}

// decision is what a coordinator has decided about a transaction.
type decision struct {
	at     int64 // ms since 1970
	commit bool
}

// decisions returns the decisions on each producer's transactions, in order.
func (r *round) decisions(ctx context.Context) (map[int64][]decision, error) {
	by := map[int64][]decision{}
	err := r.c.Admin().ReadLog(ctx, "__transaction_state", func(rec *kgo.Record) error {
		if len(rec.Value) == 0 {
			return nil // the id is forgotten
		}
		var v kmsg.TxnMetadataValue
		if err := v.ReadFrom(rec.Value); err != nil {
			return fmt.Errorf("faults: a record of __transaction_state: %w", err)
		}
		if commit := v.State == kmsg.TransactionStatePrepareCommit; commit || v.State == kmsg.TransactionStatePrepareAbort {
			by[v.ProducerID] = append(by[v.ProducerID], decision{v.LastUpdateTimestamp, commit})
		}
		return nil
	})
	return by, err
}

// write writes the marker of a transaction.
func (r *round) write(ctx context.Context, h hanging, commit bool) error {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch = h.ProducerID, int16(h.ProducerEpoch), commit, max(0, h.CoordinatorEpoch)
	t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	t.Topic, t.Partitions = h.topic, []int32{h.partition}
	m.Topics = append(m.Topics, t)
	req.Markers = append(req.Markers, m)
	res, err := req.RequestWith(ctx, r.c.Admin().Client().Broker(int(h.leader)))
	if err == nil {
		err = kerr.ErrorForCode(res.Markers[0].Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("faults: end a transaction of producer %d in %s/%d: %w", h.ProducerID, h.topic, h.partition, err)
	}
	return nil
}
