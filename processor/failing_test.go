package processor

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFailingCyclesAreToldOnce: an output that is refused for a while is a line, not
// one for each cycle.
func TestFailingCyclesAreToldOnce(t *testing.T) {
	b := newBench(t, 1)
	b.produce(100)
	b.c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "scores", Err: kerr.OutOfOrderSequenceNumber, Count: 8})
	cfg := b.config("one")
	log := cfg.capture()
	b.run(cfg)
	if n := testutil.ToFloat64(cfg.Metrics.Transactions.WithLabelValues("aborted")); n != 8 {
		t.Errorf("%v cycles failed, want 8", n)
	}
	if got := log.with("cycle failed"); len(got) != 1 {
		t.Errorf("%d lines: %q", len(got), got)
	}
}
