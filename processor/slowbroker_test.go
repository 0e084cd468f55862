package processor

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSlowBroker: a broker takes 512 KiB/s and a transaction may last for 2 s. Cycles
// become as small as it needs, and hardly anything is scored twice.
func TestSlowBroker(t *testing.T) {
	b := newBench(t, 4)
	b.produce(25000)
	const rate = 512 << 10
	var taken, free atomic.Int64 // bytes; when the broker is free (Unix ns)
	b.c.Fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		n := int64(0)
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				n += int64(len(p.Records))
			}
		}
		taken.Add(n)
		at := max(free.Load(), time.Now().UnixNano()) + n*int64(time.Second)/rate
		free.Store(at)
		b.c.Fake.SleepControl(func() { time.Sleep(time.Until(time.Unix(0, at))) })
		return nil, nil, false
	})
	var log logBuffer
	cfg := b.config("one")
	cfg.TransactionTimeout, cfg.Fetch.PartitionBytes = 2*time.Second, 1<<20
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	b.run(cfg)
	b.ledger()
	recs, err := b.c.Admin().ReadAll(context.Background(), "scores", true)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for i := range recs {
		written += len(recs[i].Key) + len(recs[i].Value)
	}
	failed := testutil.ToFloat64(cfg.Metrics.Transactions.WithLabelValues("aborted"))
	t.Logf("%d KiB of scores, %d KiB sent, %v cycles failed", written>>10, taken.Load()>>10, failed)
	if failed > 2 {
		t.Errorf("%v cycles failed: %q", failed, log.lines("cycle failed"))
	}
}
