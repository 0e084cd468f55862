package processor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafka"
)

// TestHeldOffset: a worker whose committed offset an open transaction holds says so: it is not ready, and once the transaction is
// older than one of a worker may be, its log has the commands that end it. It goes on by itself after the end.
func TestHeldOffset(t *testing.T) {
	b := newBench(t, 1)
	b.produce(100)
	dead := b.client.NewProducer(kafka.ProducerConfig{TransactionalID: "dead"})
	err := dead.Init(t.Context())
	if err == nil {
		err = dead.CommitOffsets(t.Context(), kafka.Generation{ID: -1}, "g", map[kafka.TP]kafka.Offset{{Topic: b.input}: {Offset: 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := b.config("")
	cfg.TransactionTimeout = time.Second
	var log logBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	p, _ := b.start(cfg)
	waitFor(t, "not ready for the open transaction", func() bool {
		err := p.NotReady()
		return err != nil && strings.Contains(err.Error(), "an open transaction has held a committed offset for") &&
			strings.Contains(err.Error(), b.input+"/0")
	})
	waitFor(t, "the way out in the log", func() bool { return len(log.lines("find-hanging --broker-id")) > 0 })
	if err := dead.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "ready", func() bool { return p.Ready() && p.Status()[0].Committed == 100 })
}
