package processor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTrouble: a line at first, one a minute with the count, and one at the end.
func TestTrouble(t *testing.T) {
	now := time.Unix(1700000000, 0)
	lines := new(logLines)
	log := slog.New(slog.NewTextHandler(lines, nil))
	tr := trouble{now: func() time.Time { return now }}
	for range 150 { // a second apart: 0, 60 and 120 are logged
		tr.warn(log, "cycle unknown", "cycle failed", "err", "x")
		now = now.Add(time.Second)
	}
	tr.warn(log, "cycle fenced", "cycle failed", "err", "y") // another kind
	if got := lines.with("cycle failed"); len(got) != 4 || !strings.Contains(got[1], "times=60 ") || !strings.Contains(got[3], "err=y") {
		t.Errorf("%q", got)
	}
	tr.over(log, "cycle") // every other one succeeds: the trouble lasts
	if got := lines.with("over:"); len(got) != 0 {
		t.Errorf("over too early: %q", got)
	}
	now = now.Add(calm)
	tr.over(log, "cycle")
	tr.over(log, "cycle")
	if got := lines.with("over: cycle failed"); len(got) != 1 || !strings.Contains(got[0], "times=150 lasted=2m40s") {
		t.Errorf("%q", got)
	}
	tr.warn(log, "cycle unknown", "cycle failed", "err", "again")
	if got := lines.with("err=again"); len(got) != 1 {
		t.Errorf("a trouble that comes back: %q", got)
	}
}

// TestFailingCyclesAreToldOnce: an output that is refused for a while is a line, not
// one for each cycle.
func TestFailingCyclesAreToldOnce(t *testing.T) {
	b := newBench(t, 1)
	b.produce(100)
	b.c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "scores", Err: kerr.InvalidRecord, Count: 8})
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
