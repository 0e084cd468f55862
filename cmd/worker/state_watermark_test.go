package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/processor/kafkatest"
)

// TestStateWatermark: three records of the year 2199 in a row are believed. The
// command shows it and sets it back, and the records that come then are not late.
func TestStateWatermark(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	topic, environ := checkFixture(t, c, "ODRADEK_HTTP_ADDR=off", "ODRADEK_KEY_FIELD=sensor",
		"ODRADEK_DETECTORS=change", "ODRADEK_DETECTOR_CHANGE_OP=zscore", "ODRADEK_DETECTOR_CHANGE_WINDOW=8",
		"ODRADEK_REPLICATION=1", "ODRADEK_LATENESS=5s", "ODRADEK_TIME_FIELD=", "ODRADEK_MAX_FUTURE=0")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	recs, err := c.Admin().ReadAll(ctx, topic, true)
	if err != nil {
		t.Fatal(err)
	}
	produce := func(n int, at time.Time) {
		t.Helper()
		var more []kafkatest.Record
		for i := range n {
			r := recs[0]
			r.Time = at.Add(time.Duration(i) * time.Second).UnixMilli()
			more = append(more, r)
		}
		if _, err := c.ProduceAcked(ctx, more); err != nil {
			t.Fatal(err)
		}
	}
	late := func() int {
		t.Helper()
		recs, err := c.Admin().ReadAll(ctx, topic+"-g-late", true)
		if err != nil {
			t.Fatal(err)
		}
		return len(recs)
	}
	watermark := func(args ...string) (lines []admin.PartitionWatermark, said string) {
		t.Helper()
		term, out, errs := console(environ...)
		if code := term.state(ctx, append([]string{"watermark", "-json", "-topic", topic}, args...)); code != exitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		for dec := json.NewDecoder(out); ; {
			var p admin.PartitionWatermark
			if err := dec.Decode(&p); err == io.EOF {
				return lines, errs.String()
			} else if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, p)
		}
	}
	far, now := time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMilli(recs[len(recs)-1].Time).Add(time.Minute)
	produce(4, far)
	produce(5, now)
	runUntil(t, c, environ, topic, nil)
	poisoned := late()
	if poisoned != 5 {
		t.Fatalf("%d records are late, want 5: the test tests nothing", poisoned)
	}
	lines, _ := watermark()
	if len(lines) != 4 {
		t.Fatalf("%d partitions", len(lines))
	}
	ahead := -1
	for i, p := range lines {
		if p.Newest != nil && p.Newest.Year() == 2199 {
			ahead = i
			if p.Lag > 0 || !p.Watermark.Equal(p.Newest.Add(-5*time.Second)) {
				t.Errorf("%+v", p)
			}
		}
	}
	if ahead < 0 {
		t.Fatalf("no partition is shown ahead: %+v", lines)
	}
	to := now.UTC().Format(time.RFC3339)
	if _, said := watermark("-to", to); !strings.Contains(said, "nothing was changed") || !strings.Contains(said, "set back") ||
		!strings.Contains(said, "1 series") {
		t.Errorf("without -yes: %s", said)
	}
	if lines, _ = watermark(); lines[ahead].Newest.Year() != 2199 {
		t.Error("without -yes it was changed")
	}
	if _, said := watermark("-to", to, "-yes"); !strings.Contains(said, "repaired 1 partitions, 1 series forgotten") ||
		strings.Contains(said, string(recs[0].Key)) {
		t.Errorf("with -yes: %s", said)
	}
	if lines, said := watermark("-to", to); *lines[ahead].Ahead != 0 || lines[ahead].Newest.After(now.Add(time.Second)) ||
		!strings.Contains(said, "nothing to repair") {
		t.Errorf("after the repair: %+v, %s", lines[ahead], said)
	}
	produce(20, now.Add(10*time.Second))
	runUntil(t, c, environ, topic, nil)
	if n := late(); n != poisoned {
		t.Errorf("after the repair %d more records are late", n-poisoned)
	}
}
