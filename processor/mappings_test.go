package processor

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/schemas"
	"odradek/schemas/formats"
)

// TestMappingsRestored: of two topics with mappings of their own in one group, Avro readings and wide JSON records, the
// states after rollbacks are as a restore makes them, and as in a group that has the topic alone, to the byte.
func TestMappingsRestored(t *testing.T) {
	b := newBench(t, 2)
	m := schemas.Mapping{Key: "m", Time: "at", Fields: []string{"a", "b"}}
	dec, err := formats.NewDecoder(m, nil, formats.Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	wide := b.c.Topic(t, "wide", 2)
	for _, name := range []string{"g-" + wide, "alone-" + wide, "alone-" + b.input} {
		err := b.client.Admin.CreateTopic(t.Context(), name+"-changelog", 2, 1, map[string]string{"cleanup.policy": "compact"})
		if err != nil {
			t.Fatal(err)
		}
	}
	produce := func(n int) {
		b.produce(n)
		var recs []kafkatest.Record
		for i := range n {
			machine := b.rng.IntN(4)
			at := 1_700_000_000_000 + int64(b.n+i)*100 - b.rng.Int64N(700) // some are late
			recs = append(recs, kafkatest.Record{Topic: wide, Partition: int32(machine % 2), Time: at,
				Value: fmt.Appendf(nil, `{"m":%d,"at":%d,"a":%v,"b":%v}`, machine, at, b.rng.NormFloat64(), b.rng.NormFloat64())})
		}
		if _, err := b.c.ProduceAcked(t.Context(), recs); err != nil {
			t.Fatal(err)
		}
	}
	var h handovers
	config := func(group string, topics ...string) Config {
		cfg := b.config("one") // static: it has its partitions back at once
		cfg.Group, cfg.Topics = group, topics
		cfg.Changelog = func(topic string) string { return group + "-" + topic + "-changelog" }
		st := *cfg.Mappings.State
		st.SampleBits, st.Reading.Lateness = state.SeveralBits, 400_000
		st.Reading.Fields, st.Reading.Series = []string{"a", "b"}, true
		own := &Mapping{Name: "WIDE", Decoder: dec, State: &st}
		cfg.Mappings.ByName, cfg.Mappings.NameOf = map[string]*Mapping{"WIDE": own}, func(topic string) string {
			if topic == wide {
				return "WIDE"
			}
			return ""
		}
		if len(topics) == 1 && topics[0] == wide { // as a worker that has these settings as its own
			cfg.Mappings.Mapping, cfg.Mappings.ByName, cfg.Mappings.NameOf = *own, nil, nil
			cfg.Mappings.Mapping.Name = ""
		}
		h.record(&cfg)
		return cfg
	}
	h.refuse(b)
	held := 0
	for i := range 6 {
		if i%2 == 0 {
			produce(400)
		}
		h.run(t, 4, func() {
			for _, p := range b.run(config("g", b.input, wide)) {
				if held += int(p.Held); p.Held > 0 && p.Topic != wide {
					t.Errorf("%s has held samples without a lateness", p.Topic)
				}
			}
		})
	}
	if h.refused == 0 || held == 0 {
		t.Errorf("%d commits were refused, %d samples held", h.refused, held)
	}
	together := h.handed
	for _, topic := range []string{b.input, wide} {
		h.handed = nil // the group is another one, and begins without state
		h.run(t, 2, func() { b.run(config("alone", topic)) })
		for tp, state := range h.handed {
			if !bytes.Equal(state, together[tp]) {
				t.Errorf("%v: the state of %d bytes is not as for the topic alone, %d bytes", tp, len(together[tp]), len(state))
			}
		}
		ends, err := b.c.Admin().ReadAll(context.Background(), "dlq", true)
		if err != nil || len(ends) > 0 {
			t.Fatalf("%d dead letters, %v", len(ends), err)
		}
	}
}
