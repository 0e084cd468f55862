package processor

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/record"
)

// TestCommitRepeated: a commit that is repeated and then answered with success is
// a success. Nothing goes back, and the next transaction has a new epoch, another InitProducerId's, so that
// a request of the former one that is still on its way cannot end it.
func TestCommitRepeated(t *testing.T) {
	for level := range int16(2) {
		t.Run(fmt.Sprint("version=", level+1), func(t *testing.T) { testCommitRepeated(t, level+1) })
	}
}

func testCommitRepeated(t *testing.T, level int16) {
	b := newBench(t, 2)
	if err := b.c.Admin().SetFeature(t.Context(), "transaction.version", level, level < 2); err != nil {
		t.Fatal(err)
	}
	b.produce(5000)
	var mu sync.Mutex
	var ended *kmsg.EndTxnRequest // the last one
	disturbed := map[int16]bool{} // epochs whose EndTxn was
	inits := 0
	b.c.Fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		r := req.(*kmsg.EndTxnRequest)
		if !r.Commit {
			t.Error("a transaction was aborted")
		}
		before := ended
		ended = r
		if before != nil && before.ProducerEpoch == r.ProducerEpoch && disturbed[r.ProducerEpoch] || len(disturbed) >= 4 {
			return nil, nil, false
		}
		disturbed[r.ProducerEpoch] = true
		if len(disturbed)%2 == 0 {
			return nil, fmt.Errorf("cut"), true
		}
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.NotCoordinator.Code
		return resp, nil, true
	})
	b.c.Fake.ControlKey(int16(kmsg.AddPartitionsToTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if epoch := req.(*kmsg.AddPartitionsToTxnRequest).ProducerEpoch; disturbed[epoch] {
			t.Errorf("a transaction begins with epoch %d, whose last EndTxn was repeated", epoch)
		}
		return nil, nil, false
	})
	b.c.Fake.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		inits++
		return nil, nil, false
	})
	var log logBuffer
	cfg := b.config("one")
	cfg.Fetch.PartitionBytes = 1 << 10
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	b.run(cfg)
	if len(disturbed) < 2 { // one of each kind
		t.Errorf("%d commits were disturbed", len(disturbed))
	}
	if want := 1 + len(disturbed); inits != want && inits != want-1 { // none follows the last commit
		t.Errorf("%d InitProducerId for %d repeated commits, want %d", inits, len(disturbed), want)
	}
	for _, line := range log.lines("cycle failed") {
		t.Error(line)
	}
	b.ledger()
}

// TestBatchesOfGuarantee: the first batch of a partition is small where transactions
// make its request wait, and else no smaller than the others.
func TestBatchesOfGuarantee(t *testing.T) {
	const limit = 100 << 10
	fill := func(b *record.Batches) int {
		for range 300 {
			if err := b.Append(1, nil, make([]byte, 200), nil); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes() // with a header for each batch
	}
	for g, want := range map[Guarantee]int{
		ExactlyOnce: fill(record.NewTransactionBatches(limit, record.CodecNone)),
		AtLeastOnce: fill(record.NewBatches(limit, record.CodecNone)),
	} {
		if got := fill(newCommitter(g, nil).newBatches(limit, record.CodecNone)); got != want {
			t.Errorf("guarantee %d: %d bytes, with the batches that belong to it %d", g, got, want)
		}
	}
}
