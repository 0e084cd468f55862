package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// TestTransactionsSurvive is the worker's cycle without the work: transaction i
// writes i to every partition and commits offset i+1, in a group, while brokers
// die, stop, move leaders and coordinators and give any answer. After an error
// the committed offset says where to go on. In the end every partition has every
// number once and in order.
func TestTransactionsSurvive(t *testing.T) {
	t.Run(kafkatest.KindFake, func(t *testing.T) {
		k := kafkatest.Fake(t, kafkatest.FakeOptions{})
		errs := []*kerr.Error{kerr.RequestTimedOut, kerr.NotLeaderForPartition, kerr.NotEnoughReplicasAfterAppend, kerr.UnknownServerError,
			kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions, kerr.OutOfOrderSequenceNumber,
			kerr.InvalidProducerEpoch, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.MessageTooLarge}
		survive(t, k, 1000, func(_ context.Context, r *rand.Rand) {
			switch r.IntN(4) {
			case 0:
				k.Fake.RehashCoordinators()
			case 1:
				k.Fake.ShufflePartitionLeaders()
			default:
				ks := []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.TxnOffsetCommit, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.FindCoordinator}
				h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{ks[r.IntN(len(ks))]}, Err: errs[r.IntN(len(errs))], Count: 1 + r.IntN(3),
					TopLevel: r.IntN(2) == 0})
				defer h.Remove()
			}
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		})
	})
	t.Run(kafkatest.KindNewest, func(t *testing.T) {
		if testing.Short() {
			t.Skip("real Kafka is left out with -short")
		}
		k := kafkatest.Open(t, kafkatest.KindNewest)
		if len(k.Nodes()) == 0 {
			t.Skip("the nodes are not this process's to kill")
		}
		survive(t, k, 150, func(ctx context.Context, r *rand.Rand) {
			n := k.Node(r.IntN(len(k.Nodes())))
			switch r.IntN(3) {
			case 0:
				n.Kill()
			case 1:
				n.Pause()
				time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
				n.Resume()
			case 2:
				_ = n.Stop(ctx)
			}
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			if !n.Running() {
				_ = n.Start(ctx)
			}
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		})
	})
}

func survive(t *testing.T, k *kafkatest.Cluster, transactions int, disturb func(context.Context, *rand.Rand)) {
	r := seedtest.New(t)
	ctx := brokertest.Within(t)
	in, out := k.Topic(t, "in", 1), k.Topic(t, "out", 4)
	name, id := kafkatest.Unique("g"), kafkatest.Unique("tx")
	c := kafka.OpenForTest(t, k.Brokers)
	m := kafka.JoinGroup(ctx, c, kafka.GroupConfig{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Group: name, Topics: []string{in},
		InstanceID:     "i",
		SessionTimeout: 20 * time.Second, HeartbeatInterval: 200 * time.Millisecond})
	lost := make(chan struct{}, 100)
	assigned := make(chan struct{}, 100)
	go func() {
		for e := range m.Events() {
			switch e.Kind {
			case kafka.Assigned:
				assigned <- struct{}{}
			case kafka.Lost:
				lost <- struct{}{}
			}
			e.Done()
		}
		close(assigned) // nothing waits for a member that has ended
		if err := m.Err(); err != nil && ctx.Err() == nil {
			t.Errorf("the membership has ended: %v", err)
		}
	}()
	<-assigned

	stop := make(chan struct{})
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		dr := rand.New(rand.NewPCG(r.Uint64(), 1))
		for {
			select {
			case <-stop:
				return
			default:
				disturb(ctx, dr)
			}
		}
	}()

	p := c.NewProducer(kafka.ProducerConfig{TransactionalID: id, TransactionTimeout: 10 * time.Second, Timeout: 10 * time.Second})
	brokertest.Must(t, p.Init(ctx))
	source := brokertest.TP(in, 0)
	classes := map[kafka.Class]int{}
	committed := atomic.Int64{}
	attempt := func(i int) error {
		set := map[record.TP]*record.Batches{}
		for q := range int32(4) {
			b := record.NewBatches(1<<20, record.CodecNone)
			brokertest.Must(t, b.Append(1, nil, fmt.Appendf(nil, "n-%d-%05d", q, i), nil))
			set[brokertest.TP(out, q)] = b
		}
		octx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		if err := p.Send(octx, set, m.Generation(), name, map[record.TP]kafka.Offset{source: {Offset: int64(i + 1)}}); err != nil {
			return err
		}
		return p.End(octx, true)
	}
	for i := 0; i < transactions; {
		err := attempt(i)
		if err == nil {
			i++
			committed.Store(int64(i))
			continue
		}
		classes[kafka.ClassOf(err)]++
		if ctx.Err() != nil {
			t.Fatalf("transaction %d: %v", i, err)
		}
		switch kafka.ClassOf(err) {
		case kafka.Rebalance:
			select {
			case <-lost:
				<-assigned
			case <-time.After(500 * time.Millisecond):
			}
			fallthrough
		case kafka.Retriable, kafka.Abortable, kafka.TooLarge, kafka.Unknown:
			err = p.Abort(ctx)
		default:
			err = p.Init(ctx)
		}
		if kafka.ClassOf(err) == kafka.Fenced { // the transaction timed out meanwhile
			err = p.Init(ctx)
		}
		brokertest.Must(t, err)
		at, err := c.Offsets.Committed(ctx, name, []record.TP{source})
		for try := 0; err != nil && try < 20; try++ { // FindCoordinator is given any answer, too
			at, err = c.Offsets.Committed(ctx, name, []record.TP{source})
		}
		brokertest.Must(t, err)
		switch now := max(at[source].Offset, 0); now {
		case int64(i), int64(i + 1):
			i = int(now)
		default:
			t.Fatalf("transaction %d failed, and offset %d is committed", i, now)
		}
	}
	close(stop)
	<-quiet
	t.Logf("%d transactions, errors by class: %v", transactions, classes)
	if k.Real() {
		brokertest.Must(t, k.Heal(ctx))
	}
	brokertest.WantValues(t, k, out, 4, transactions, "n")
	lctx, cancel := context.WithTimeout(context.Background(), kafkatest.Patience)
	defer cancel()
	if err := m.Leave(lctx); err != nil && !errors.Is(err, kafkago.UnknownMemberId) {
		t.Error(err)
	}
}
