package processor

import (
	"strings"
	"testing"

	"odradek/processor/state"
)

// TestEditStates: each state is edited once, topics that share one still do, and the caller's stay as they are.
func TestEditStates(t *testing.T) {
	usual, wide := &state.Config{Dim: 1}, &state.Config{Dim: 2}
	given := MappingSet{
		Mapping: Mapping{State: usual},
		ByName:  map[string]*Mapping{"A": {State: wide}, "B": {State: wide}, "C": {State: usual}},
		NameOf:  strings.ToUpper,
	}
	s, edits := given, 0
	s.EditStates(func(c *state.Config) {
		edits++
		c.MaxRecord = 10 * c.Dim
	})
	if edits != 2 {
		t.Errorf("%d edits of 2 states", edits)
	}
	for topic, want := range map[string]int{"": 10, "a": 20, "b": 20, "c": 10} {
		if got := s.ForTopic(topic).State.MaxRecord; got != want {
			t.Errorf("topic %q: %d, want %d", topic, got, want)
		}
		if given.ForTopic(topic).State.MaxRecord != 0 {
			t.Errorf("topic %q: the caller's state was changed", topic)
		}
	}
	if s.ForTopic("a").State != s.ForTopic("b").State || s.ForTopic("c").State != s.State {
		t.Error("topics that shared a state do not share it any more")
	}
}
