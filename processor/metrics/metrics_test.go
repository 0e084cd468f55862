package metrics

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/schemas/registry"
)

// Every metric of a scrape is on docs/metrics.md with its type and labels, and
// the page names none that is not there.
func TestMetricsDoc(t *testing.T) {
	m := New("scores")
	tp := kafka.TP{Topic: "in", Partition: 2}
	m.Watch(func() []PartitionStatus {
		return []PartitionStatus{{Topic: "in", Partition: 2, Running: true, Lag: 3, Committed: 5, End: 8, LagKnown: true, HighWatermark: 9,
			HighLag: 4, HighLagKnown: true, Fetching: true, Watermark: 1e15, Open: map[string]int64{"level": 2}},
			{Topic: "in", Partition: 3, Quarantine: &Quarantine{Reason: "unreadable"}}}
	})
	m.SetBudget(1 << 30)
	m.WatchReady(func() error { return nil })
	m.WatchRegistry(func() registry.Stats { return registry.Stats{Requests: 1} })
	m.WatchExecutor(func() ExecutorStats {
		return ExecutorStats{Kind: "cuda", Devices: []DeviceStats{{Device: "0", Name: "H", Starts: 1}}}
	})
	m.SetInfo("v", "go", "cpu")
	m.SettingsLoaded("0a", time.Unix(1, 0))
	m.Committed(CycleStats{Records: 1}, time.Millisecond)
	m.Worked(tp, &Work{Fetched: time.Now(), Samples: []int64{time.Now().UnixMicro()},
		Counts: Counts{Consumed: 1, Skipped: Tally{"tombstone": 1}, Rejected: Tally{"value": 1},
			Fields: FieldCounts{"value": {Resets: 1, Closed: 1, Empty: 1}}, Rises: Tally{"level": 1},
			Changes: Changes{"level": {1, 0, 2}}, Shadow: Changes{"level": {1}}, Marked: Changes{"level": {1}}}}, 0, 1, 1)
	m.Paced("g", 1<<20, true)
	m.Aborted(errors.New("x"))
	m.DeadLetters(tp, "magic", 1)
	m.Executed(3, time.Millisecond)
	m.Restored(tp, 0, time.Second)
	m.OffsetLost(tp, 3)
	m.Rebalanced("assigned")

	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := Documented(string(page))
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), metricPrefix) {
			continue
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		want, ok := documented[f.GetName()]
		delete(documented, f.GetName())
		typ, names, _ := strings.Cut(want, " ")
		for _, l := range strings.Split(names, ", ") {
			if l != "" && !strings.Contains(","+strings.Join(labels, ",")+",", ","+l+",") {
				t.Errorf("%s: the page has a label %q, the scrape %v", f.GetName(), l, labels)
			}
		}
		if !ok || strings.ToUpper(typ) != f.GetType().String() || len(labels) > strings.Count(names, ",")+1 {
			t.Errorf("%s is a %v of %v, the page says %q", f.GetName(), f.GetType(), labels, want)
		}
	}
	for name := range documented {
		t.Errorf("%s is on the page and not in a scrape", name)
	}
	if problems, err := testutil.GatherAndLint(m.Registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// Both sides of the accounting equation stay equal over commits, a restore and
// a hand-over.
func TestAccounting(t *testing.T) {
	m := New("scores")
	tp := kafka.TP{Topic: "in", Partition: 0}
	sides := func() (in, out float64) {
		pm := m.Partition(tp)
		v := testutil.ToFloat64
		in = v(pm.Consumed) + v(pm.HeldAssigned)
		out = v(pm.Scored) + v(pm.WarmingUp) + v(pm.Missing) + v(pm.Filtered) + v(pm.Late) + v(pm.Duplicate) +
			v(pm.DeadLettered) + v(pm.Forwarded) + v(pm.HeldEvicted) + v(pm.HeldRevoked) + float64(pm.held)
		return in, out
	}
	commit := func(held int64, consumed, dead int64, outcomes map[state.Outcome]int64) {
		t.Helper()
		w := &Work{Fetched: time.Now(), Held: held}
		w.Counts.Consumed, w.Counts.Dead = consumed, dead
		for o, n := range outcomes {
			w.Counts.Outcomes[o] = n
		}
		m.Worked(tp, w, 0, 0, 0)
		if in, out := sides(); in != out {
			t.Errorf("%v in, %v out", in, out)
		}
	}
	m.Restored(tp, 0, 0)
	commit(4, 20, 2, map[state.Outcome]int64{state.Scored: 5, state.WarmingUp: 3, state.Missing: 1, state.Filtered: 2,
		state.Late: 2, state.Duplicate: 1})
	commit(0, 0, 0, map[state.Outcome]int64{state.Scored: 4})
	commit(6, 6, 0, nil)
	m.DropPartition(tp)
	m.Restored(tp, 9, 0) // another worker has had it
	commit(10, 1, 0, nil)
	m.Restored(tp, 10, 0) // restored in place
	commit(0, 0, 0, map[state.Outcome]int64{state.Scored: 10})
	m.DropPartition(tp)
	if in, out := sides(); in != out {
		t.Errorf("%v in, %v out at the end", in, out)
	}
}

func TestNilMetrics(t *testing.T) {
	var m *Metrics
	m.Committed(CycleStats{}, 0)
	m.Worked(kafka.TP{}, &Work{}, 0, 0, 0)
	m.Aborted(nil)
	m.DeadLetters(kafka.TP{}, "x", 1)
	m.Restored(kafka.TP{}, 0, 0)
	m.DropPartition(kafka.TP{})
	m.OffsetLost(kafka.TP{}, 1)
	m.Rebalanced("lost")
}
