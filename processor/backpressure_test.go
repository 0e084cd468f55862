package processor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// TestBackpressure: a lag that grows while cycles are as small as they get is in the log and in the metrics.
func TestBackpressure(t *testing.T) {
	var log logBuffer
	m := metrics.New("scores")
	s := &commits{cfg: &Config{Metrics: m}, log: slog.New(slog.NewTextHandler(&log, nil)), trouble: &metrics.FailureLog{},
		pace: cycle.NewPace(4 * time.Second), assigned: newAssignment(&cycle.Budget{}, m)}
	pt := &partition{tp: kafka.TP{Topic: "in"}}
	s.assigned.partitions[pt.tp] = pt
	gauges := func(want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(m.Registry, strings.NewReader(want),
			"odradek_cycle_limit_bytes", "odradek_backpressure"); err != nil {
			t.Error(err)
		}
	}
	const help = "# HELP odradek_backpressure 1 if the lag has grown for a minute though cycles are as small as they get.\n" +
		"# TYPE odradek_backpressure gauge\n" +
		"# HELP odradek_cycle_limit_bytes Size at which a cycle is full, by the brokers' pace; 65,536 is the smallest.\n" +
		"# TYPE odradek_cycle_limit_bytes gauge\n"
	now := time.Now()
	minute := func() {
		for range 70 {
			now = now.Add(time.Second)
			pt.end.Add(100)
			pt.committed.Add(10)
			s.noteBackpressure(now)
		}
	}
	minute()
	gauges(help + "odradek_backpressure 0\nodradek_cycle_limit_bytes 1.048576e+06\n")
	for range 3 {
		s.pace.Failed(s.pace.Bytes(), 100, 4*time.Second)
	}
	minute()
	gauges(help + "odradek_backpressure 1\nodradek_cycle_limit_bytes 65536\n")
	if lines := log.lines("brokers take less than the input brings"); len(lines) != 1 || !strings.Contains(lines[0], "lag=") {
		t.Errorf("the log has %q", lines)
	}
}
