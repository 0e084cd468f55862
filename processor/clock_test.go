package processor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// TestEventTimesAreCompared: seconds that are read as microseconds have one warning a topic,
// with the unit that fits; a topic of good event times has none.
func TestEventTimesAreCompared(t *testing.T) {
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	now := time.Now()
	for _, c := range []struct {
		name  string
		micro func(t time.Time) int64
		want  string
	}{
		{"seconds", time.Time.Unix, "time_unit=s"},
		{"microseconds", time.Time.UnixMicro, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3)
			var recs []kafkatest.Record
			for i := range 120 {
				at, key := now.Add(time.Duration(i)*time.Second-time.Hour), fmt.Appendf(nil, "s%d", i%30)
				recs = append(recs, kafkatest.Record{Topic: b.input, Partition: int32(i % 3), Key: key, Time: at.UnixMilli(),
					Value: enc.Append(nil, key, c.micro(at), 1, int64(i))})
			}
			if _, err := b.c.ProduceAcked(t.Context(), recs); err != nil {
				t.Fatal(err)
			}
			cfg := b.config("one")
			cfg.Mappings.TimeUnit = "us"
			l := cfg.capture()
			b.run(cfg)
			lines := l.with("WARN", "event times do not fit")
			if c.want == "" && len(lines) > 0 || c.want != "" && (len(lines) != 1 || !strings.Contains(lines[0], c.want)) {
				t.Errorf("logged %q", lines)
			}
		})
	}
}
