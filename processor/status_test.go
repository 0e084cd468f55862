package processor

import (
	"strings"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// TestStatus follows a partition from its restore over a hold to a quarantine: what it shows,
// whether the worker is ready, and whether the partition is stalled.
func TestStatus(t *testing.T) {
	p := newPartitionStatus(kafka.TP{Topic: "in", Partition: 3}, 0)
	var at progress
	check := func(name, notReady string, stalled bool) metrics.PartitionStatus {
		t.Helper()
		s := p.Status(at)
		list := []metrics.PartitionStatus{{Running: true}, s}
		if err := notReadyError(list); (err == nil) != (notReady == "") || err != nil && !strings.Contains(err.Error(), notReady) {
			t.Errorf("%s: NotReady gives %v, want %q", name, err, notReady)
		}
		if err := stalledError(list, time.Hour); (err != nil) != stalled {
			t.Errorf("%s: Stalled gives %v", name, err)
		}
		return s
	}
	if s := check("assigned", "restored", false); s.LagKnown || s.HighLagKnown || s.Watermark != state.NoTime {
		t.Errorf("of a partition that was just assigned the lag is known: %+v", s)
	}
	p.SetRestoring(40)
	p.restoring.stable.Store(100)
	p.restoring.high.Store(110)
	if s := check("restoring", "restored", false); s.Lag != 60 || s.HighLag != 70 || s.Committed != 40 {
		t.Errorf("while it is restored: %+v", s)
	}
	at = progress{Running: true, Starting: true, Position: 40, Committed: 40, End: 40}
	p.CommittedNow()
	check("starting", "start is not committed", false)
	at.Starting = false
	check("at the end", "", false)
	long := time.Now().Add(-2 * time.Hour).UnixNano()
	p.committedAt.Store(long)
	check("nothing to commit for long", "", false)
	at.End = 50
	check("behind for long", "", true)
	if !p.Hold("no answer", 41) || p.Hold("no answer", 41) || !p.Hold("no answer", 42) {
		t.Error("a hold is news once for a record")
	}
	if s := check("held", "", false); s.Hold != "no answer" {
		t.Errorf("the hold is %q", s.Hold)
	}
	if offset, _, held := p.Release(); !held || offset != 42 {
		t.Errorf("released %t at %d", held, offset)
	}
	if _, _, held := p.Release(); held {
		t.Error("released twice")
	}
	check("released, the time begins anew", "", false)
	p.behindAt.Store(long)
	check("stalled again", "", true)
	at.Running, at.Quarantine = false, &metrics.Quarantine{Reason: "unreadable"}
	check("in quarantine", "", false)
	at.Quarantine = &metrics.Quarantine{Reason: Undecided, Detail: "another key"}
	check("undecided beside one that runs", "", false)
	all := []metrics.PartitionStatus{p.Status(at), p.Status(at)}
	if err := notReadyError(all); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("with all partitions undecided, NotReady gives %v", err)
	}
}
