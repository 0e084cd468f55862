package processor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"odradek/processor/kafkatest"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

// TestEvery: each interval of a series that a later record closes has one score, of the record that closed it, although the worker is
// killed and replays; late records are in none.
func TestEvery(t *testing.T) {
	const every = 2000 // ms
	type sample struct {
		key  string
		time int64 // ms
	}
	b := newBench(t, 1)
	want, open, last := map[sample]int64{}, map[string]int64{}, map[string]int64{} // want: by interval, the offset that closes it
	at, late := int64(1_700_000_000_000), 0
	for range 3 {
		recs := make([]kafkatest.Record, 200)
		for i := range recs {
			at += b.rng.Int64N(300)
			key, event := fmt.Sprint("s", b.rng.IntN(3)), at
			if b.rng.IntN(10) == 0 {
				event -= b.rng.Int64N(4000)
			}
			value := fmt.Appendf(nil, `{"id":%q,"at":%d,"a":%d}`, key, event, b.n%7)
			recs[i] = kafkatest.Record{Topic: b.input, Partition: 0, Time: at, Value: value}
			if event < last[key] {
				late++
			} else {
				if start, begun := open[key]; begun && event/every*every > start {
					want[sample{key, start}] = int64(b.n)
				}
				last[key], open[key] = event, event/every*every
			}
			b.n++
		}
		if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
			t.Fatal(err)
		}
		cfg := b.reread(rules.Reading{Decoding: rules.Decoding{Format: "json", Key: "id", Time: "at", TimeUnit: "ms", Fields: []string{"a"}},
			Order: rules.Order{Every: every * 1000, Aggregates: []string{"max"}}})
		p, stop := b.start(cfg)
		waitFor(t, "all is committed", func() bool {
			l := p.Status()
			return len(l) == 1 && l[0].Running && l[0].Committed >= int64(b.n)
		})
		aggregated := gathered(t, cfg.Metrics, "odradek_records_aggregated_total")
		closed := gathered(t, cfg.Metrics, "odradek_intervals_closed_total")
		if fields := fieldsOf(t, cfg.Metrics, "odradek_intervals_closed_total"); !slices.Equal(fields, []string{"a"}) {
			t.Errorf("intervals are counted for the fields %q", fields)
		}
		if n := gathered(t, cfg.Metrics, "odradek_records_late_total"); closed == 0 || aggregated+n != 200 {
			t.Errorf("%v intervals of %v records, %v late", closed, aggregated, n)
		}
		stop(errors.New("killed"))
	}
	got := map[sample]int64{}
	for _, r := range b.read("scores") {
		s, err := output.DecodeScore(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		id := sample{string(s.Key), s.EventTime / 1000}
		if _, twice := got[id]; twice {
			t.Errorf("%v has two scores", id)
		}
		got[id] = s.Offset
	}
	if !maps.Equal(got, want) || len(want) < 50 || late == 0 || len(b.read("late")) != late {
		t.Errorf("%d intervals are scored, want %d; %d late records of %d\n%v\n%v", len(got), len(want), len(b.read("late")), late, got, want)
	}
}
