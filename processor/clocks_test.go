package processor

import (
	"strings"
	"testing"
	"time"
)

func TestComparison(t *testing.T) {
	live := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		unit  string
		event func(i int) int64 // of a record that is written i seconds after live
		gap   time.Duration     // from one record to the next
		want  string
	}{
		{"as it should be", "ms", func(i int) int64 { return live.Add(time.Duration(i) * time.Second).UnixMicro() }, time.Second, ""},
		{"seconds as ms", "ms", func(i int) int64 { return (live.Unix() + int64(i)) * 1000 }, time.Second, "in s instead of ms"},
		{"written at once", "ms", func(i int) int64 { return (live.Unix() + int64(i)) * 1000 }, 0, "in s instead of ms"},
		{"seconds of 2014 as ms", "ms", func(i int) int64 { return (1_400_000_000 + int64(i)) * 1000 }, 0, "in s instead of ms"},
		{"ms as us", "us", func(i int) int64 { return live.UnixMilli() + 1000*int64(i) }, time.Second, "in ms instead of us"},
		{"seconds as us", "us", func(i int) int64 { return live.Unix() + int64(i) }, time.Second, "in s instead of us"},
		{"us as ms, far ahead", "ms", func(i int) int64 { return (live.UnixMicro() + 1e6*int64(i)) * 1000 }, time.Second, "in us instead of ms"},
		{"seconds are the largest unit", "s", func(i int) int64 { return live.Unix() + int64(i) }, time.Second, ""},
		{"history written at once", "ms", func(i int) int64 { return 1_400_000_000_000_000 + 1e6*int64(i) }, 0, ""},
		{"history at its own pace", "ms", func(i int) int64 { return 1_400_000_000_000_000 + 1e6*int64(i) }, time.Second, ""},
		{"an hour ahead", "ms", func(i int) int64 { return live.Add(time.Hour + time.Duration(i)*time.Second).UnixMicro() }, time.Second,
			"1h0m0s ahead of"},
		{"two hours behind", "ms", func(i int) int64 { return live.Add(-2*time.Hour + time.Duration(i)*time.Second).UnixMicro() }, time.Second,
			"2h0m0s behind"},
		{"an hour ahead, written at once", "ms", func(i int) int64 { return live.Add(time.Hour).UnixMicro() }, 0, ""},
		{"a delay that varies", "ms", func(i int) int64 {
			return live.Add(-time.Duration(i*i)*time.Minute + time.Duration(i)*time.Second).UnixMicro()
		}, time.Second, ""},
		{"a clock that runs faster", "ms", func(i int) int64 { return live.Add(250 * time.Duration(i) * time.Second).UnixMicro() }, time.Second, ""},
	} {
		var c ClockComparison
		var got []string
		for i := range 200 {
			text, fix := c.Add(tt.event(i), live.Add(time.Duration(i)*tt.gap).UnixMilli(), tt.unit)
			if (text == "") != (fix == "") {
				t.Errorf("%s: %q with the remedy %q", tt.name, text, fix)
			}
			if text != "" {
				got = append(got, text)
			}
		}
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s: %q", tt.name, got)
		case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
			t.Errorf("%s: %q, not %q once", tt.name, got, tt.want)
		}
		if tt.gap > 0 && !c.Done() {
			t.Errorf("%s: it is not done after 200 records", tt.name)
		}
	}
}

// TestNoTimestamp: a record of an old producer has no timestamp, and says nothing.
func TestNoTimestamp(t *testing.T) {
	var c ClockComparison
	for range 100 {
		if text, _ := c.Add(5, -1, "ms"); text != "" {
			t.Fatal(text)
		}
	}
	if c.Done() {
		t.Error("records without a timestamp have decided")
	}
}
