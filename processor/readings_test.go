package processor

import (
	"fmt"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/schemas"
	"odradek/schemas/formats"
)

// TestReadingsRestored: the state of records with arrays of readings after rollbacks is the one that a restore makes, to the
// byte: with samples that wait for their order, records that are suspects and series that are evicted.
func TestReadingsRestored(t *testing.T) {
	b := newBench(t, 2)
	m := schemas.Mapping{Key: "machine+points.s", Time: "points.at", Fields: []string{"points.v"}, Readings: "points"}
	dec, err := formats.NewDecoder(m, nil, formats.Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	produce := func(n int) {
		var recs []kafkatest.Record
		for i := range n {
			b.n++
			machine, points := b.rng.IntN(4), []string{}
			last := i+2 >= n // of its partition
			if last {
				machine = n - i
			}
			for j := range 4 + b.rng.IntN(26) {
				at := 1_700_000_000_000 + int64(b.n)*100 + b.rng.Int64N(500)
				if b.rng.IntN(200) == 0 || last && j == 2 {
					at += 1 << 32 // the record is a suspect
				}
				points = append(points, fmt.Sprintf(`{"s":%d,"at":%d,"v":%v}`, b.rng.IntN(3), at, b.rng.NormFloat64()))
			}
			recs = append(recs, kafkatest.Record{Topic: b.input, Partition: int32(machine % 2), Time: 1_700_000_000_000 + int64(b.n)*100,
				Value: fmt.Appendf(nil, `{"machine":%d,"points":[%s]}`, machine, strings.Join(points, ","))})
		}
		_, err := b.c.ProduceAcked(t.Context(), recs)
		if err != nil {
			t.Fatal(err)
		}
	}
	var h handovers
	config := func() Config {
		cfg := b.config("one") // static: it has its partitions back at once
		cfg.Mappings.Decoder, cfg.Numbered = dec, true
		st := cfg.Mappings.State
		st.SampleBits, st.Reading.Lateness, st.Reading.MaxJump, st.MaxKeys = state.SeveralBits, 400_000, 60e6, 5
		h.record(&cfg)
		return cfg
	}
	h.refuse(b)
	held := 0
	for i := range 8 {
		produce([]int{200, 2}[i%2]) // each partition gets some, so that a run lasts until both are restored
		h.run(t, 2, func() {
			for _, p := range b.run(config()) {
				held += int(p.Held)
			}
		})
	}
	if h.refused == 0 || held == 0 {
		t.Errorf("%d commits were refused, %d samples held", h.refused, held)
	}
}
