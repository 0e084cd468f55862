package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafkatest"
)

// TestBrokersAnswerErrors: each request is answered with each error that a broker
// in trouble gives, a few times in a row.
func TestBrokersAnswerErrors(t *testing.T) {
	ownBrokers(t)
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	o := newOrdeal(t, c, 4)
	o.start("static", "INSTANCE_ID=static").waitReady(t)
	o.start("dynamic").waitReady(t)
	o.load(1000)
	scores := o.group + "-scores"
	coordinator := []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator}
	fault := func(key kmsg.Key, err *kerr.Error) kfake.Fault {
		f := kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: 1 + o.rng.IntN(3)}
		switch key {
		case kmsg.Produce, kmsg.AddPartitionsToTxn:
			f.Topic = scores
		case kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata:
			f.Topic = o.input
		case kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.TxnOffsetCommit:
			f.Group = o.group
		}
		return f
	}
	wait := func(key kmsg.Key, err *kerr.Error, h *kfake.FaultHandle) {
		t.Helper()
		ctx, cancel := context.WithTimeout(o.ctx, patience)
		defer cancel()
		if h.Wait(ctx, 1) != nil {
			t.Fatalf("no worker has sent a %s to answer %s for 20 s", key.Name(), err.Message)
		}
	}
	for _, row := range []struct {
		key  kmsg.Key
		errs []*kerr.Error
	}{
		{kmsg.AddPartitionsToTxn, append(coordinator, kerr.ConcurrentTransactions, kerr.InvalidProducerIDMapping, kerr.UnknownServerError)},
		{kmsg.Produce, []*kerr.Error{kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.NotLeaderForPartition,
			kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch,
			kerr.UnknownServerError}},
		{kmsg.AddOffsetsToTxn, append(coordinator, kerr.ConcurrentTransactions)},
		{kmsg.TxnOffsetCommit, append(coordinator, kerr.RequestTimedOut, kerr.UnknownTopicOrPartition)},
		{kmsg.EndTxn, append(coordinator, kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.UnknownServerError)},
		{kmsg.Heartbeat, append(coordinator, kerr.RebalanceInProgress, kerr.IllegalGeneration)},
		{kmsg.Fetch, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError, kerr.OffsetNotAvailable,
			kerr.OffsetOutOfRange, kerr.FencedLeaderEpoch, kerr.UnknownServerError}},
	} {
		for _, err := range row.errs {
			wait(row.key, err, c.Fake.Fault(fault(row.key, err)))
		}
	}
	// A producer that has to begin anew does not get to.
	for _, err := range append(coordinator, kerr.ConcurrentTransactions, kerr.UnknownServerError) {
		h := c.Fake.Fault(fault(kmsg.InitProducerID, err))
		c.Fake.Fault(fault(kmsg.EndTxn, kerr.UnknownServerError))
		wait(kmsg.InitProducerID, err, h)
	}
	// And what a worker asks at its start and when partitions move.
	for _, row := range []struct {
		key  kmsg.Key
		errs []*kerr.Error
	}{
		{kmsg.Metadata, []*kerr.Error{kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition}},
		{kmsg.FindCoordinator, append(coordinator[:2:2], kerr.UnknownServerError)},
		{kmsg.JoinGroup, coordinator},
		{kmsg.SyncGroup, append(coordinator, kerr.RebalanceInProgress)},
		{kmsg.OffsetFetch, append(coordinator, kerr.UnstableOffsetCommit)},
		{kmsg.ListOffsets, []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.OffsetNotAvailable}},
	} {
		handles := map[*kerr.Error]*kfake.FaultHandle{}
		for _, err := range row.errs {
			handles[err] = c.Fake.Fault(fault(row.key, err))
		}
		w := o.start("for-" + row.key.Name())
		w.waitReady(t)
		o.waitMembers(3)
		if code := w.drain(t); code != exitOK {
			t.Errorf("%s: the worker drained with %d", row.key.Name(), code)
		}
		for err, h := range handles {
			wait(row.key, err, h)
		}
	}
	o.goesOn("the errors")
	o.end("errors")
}

// TestTopicNotKnownYet: the input topic was made a moment ago, and the broker that
// the group's leader asks when it shares partitions out does not know it yet. The
// leader must not settle for nothing until it happens to look again.
func TestTopicNotKnownYet(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	o := newOrdeal(t, c, 2)
	var joined atomic.Bool
	c.Fake.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Group: o.group, Observe: true, Count: -1,
			When: func(kmsg.Request) bool { joined.Store(true); return true }},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: o.input, Err: kerr.UnknownTopicOrPartition, Count: 2,
			When: func(kmsg.Request) bool { return joined.Load() }},
	)
	o.load(500)
	began := time.Now()
	o.start("w").waitReady(t)
	o.goesOn("the topic")
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("the input was left alone for %v", d)
	}
	o.end("topic not known yet")
}
