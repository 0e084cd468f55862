package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// TestAlternateFields: where records have the fields of a detector in turns, and so none all of them, the worker logs it once. It does
// not where some have all.
func TestAlternateFields(t *testing.T) {
	for _, whole := range []int{0, 3} {
		b := newBench(t, 1)
		recs := make([]kafkatest.Record, 3000)
		for i := range recs {
			fields := [...]string{`"a":1`, `"b":2`}[i%2]
			if i < whole {
				fields = `"a":1,"b":2`
			}
			at := int64(1_700_000_000_000 + 1000*i)
			recs[i] = kafkatest.Record{Topic: b.input, Partition: 0, Time: at,
				Value: fmt.Appendf(nil, `{"id":"s%d","at":%d,%s}`, i/2%2, at, fields)}
		}
		_, err := b.c.ProduceAcked(context.Background(), recs)
		if err != nil {
			t.Fatal(err)
		}
		b.n = len(recs)
		cfg := b.reread(rules.Reading{Decoding: rules.Decoding{Format: "json", Key: "id", Time: "at", TimeUnit: "ms",
			Fields: []string{"a", "b"}}})
		cfg.Mappings.State.Windows = []series.WindowConfig{{Columns: []int{0, 1}, Fingerprint: 1}}
		l := cfg.capture()
		b.run(cfg)
		lines := l.with("WARN", "no record has all fields that a detector needs")
		if want := map[bool]int{true: 1}[whole == 0]; len(lines) != want ||
			want > 0 && (!strings.Contains(lines[0], "topic="+b.input) || !strings.Contains(lines[0], "series_fields")) {
			t.Errorf("%d whole records: %q", whole, lines)
		}
	}
}
