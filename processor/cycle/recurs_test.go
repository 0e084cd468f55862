package cycle

import (
	"testing"
	"time"

	"odradek/processor/anomaly"
	"odradek/processor/state"
)

// TestRecurring: what recurs is said in words, with the time of day where the period is about a number of days; records and their sentences
// have it.
func TestRecurring(t *testing.T) {
	start := time.Date(2026, 3, 7, 2, 5, 59, 0, time.UTC).UnixMicro()
	for _, c := range []struct {
		period time.Duration
		count  uint32
		want   string
	}{
		{24 * time.Hour, 12, "every day about 02:05, 12th time"},
		{24*time.Hour + 28*time.Minute, 3, "every day about 02:05, 3rd time"},
		{24*time.Hour + 30*time.Minute, 3, "every 1 d, 3rd time"},
		{7*24*time.Hour - time.Hour, 21, "every 7 days about 02:05, 21st time"},
		{6*time.Hour + 39*time.Minute + 40*time.Second, 111, "every 6 h 40 min, 111th time"},
		{400*time.Second - 300*time.Millisecond, 22, "every 6 min 40 s, 22nd time"},
		{1500 * time.Millisecond, 4, "every 1 s, 4th time"},
	} {
		a := anomaly.Anomaly{Start: start, Recurs: &anomaly.Recurrence{Period: c.period.Microseconds(), Count: c.count}}
		if got := Recurring(&a); got != c.want {
			t.Errorf("%v: %q, want %q", c.period, got, c.want)
		}
		row := state.EventRow{Key: &state.Key{}, Detector: -1, Name: "d", Change: anomaly.Change{Anomaly: a}}
		r := AnomalyRecord(&row, &state.Config{})
		if v := r.Recurs; v == nil || v.Period != c.period.Microseconds() || v.Count != int64(c.count) || v.Text != c.want ||
			r.Summary != ": score 0 over 0. Recurs "+c.want {
			t.Errorf("%+v, %q", v, r.Summary)
		}
	}
	if got := Recurring(&anomaly.Anomaly{}); got != "" {
		t.Errorf("%q of one that does not recur", got)
	}
}
