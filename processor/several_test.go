package processor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/state"
)

// TestSwitchedToSeveral: after a clean drain a record is several samples where it was one, or the other way round. The offsets
// in the state are in the other unit, so the start is refused, says why and what keeps or gives up the state; without the
// state it goes on at the committed offset, where each record gets one score.
func TestSwitchedToSeveral(t *testing.T) {
	for name, several := range map[string][2]uint8{"to several": {0, state.SeveralBits}, "to one": {state.SeveralBits, 0}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			config := func(bits uint8) Config {
				cfg := b.config("one")
				state := *cfg.Mappings.State
				state.SampleBits = bits
				state.Detectors = slices.Clone(state.Detectors)
				state.Detectors[0].Stride = 1 // no sample waits
				cfg.Mappings.State, cfg.ReplayLimit = &state, time.Nanosecond
				return cfg
			}
			b.produce(300)
			b.run(config(several[0]))
			b.produce(300)
			_, ended, stop := b.startWith(config(several[1]))
			var err error
			select {
			case err = <-ended:
			case <-time.After(patience):
				t.Fatal("it runs", stop())
			}
			for _, want := range []string{b.input + "/0", "everything up to offset 300 is scored", "readings_field", "series_fields",
				"set it back", "state_lost=reset"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %q", err, want)
				}
			}
			cfg := config(several[1])
			cfg.StateLost = Reset
			b.run(cfg)
			scored := map[int64]bool{}
			for id := range b.ledger() {
				scored[id[1]] = true
			}
			ends, err := b.c.Admin().Ends(t.Context(), b.input, kafka.Latest)
			must(t, err)
			for at := int64(300); at < ends[0]; at++ {
				if !scored[at] {
					t.Errorf("offset %d has no score", at)
				}
			}
		})
	}
}
