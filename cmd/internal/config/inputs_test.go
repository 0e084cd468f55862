package config

import (
	"slices"
	"strings"
	"testing"

	"odradek/processor/cycle"
)

// TestPatterns: patterns match the topics that there are, but none of the group's own nor Kafka's, and a mapping of a pattern holds
// for what it matches.
func TestPatterns(t *testing.T) {
	c, faults, warnings := Parse(minimal("ODRADEK_GROUP=p-g", "ODRADEK_TOPICS=p-*,q,_*", "ODRADEK_MAPPING_A_TOPICS=p-a*",
		"ODRADEK_MAPPING_A_KEY_FIELD=a",
		"ODRADEK_MAPPING_B_TOPICS=p-ab?,p-a", "ODRADEK_MAPPING_B_KEY_FIELD=b", "ODRADEK_SCORES=none", "ODRADEK_FEEDBACK_TOPIC=p-says"))
	if len(faults)+len(warnings) > 0 {
		t.Fatal(faults, warnings)
	}
	if got := c.Inputs(); !slices.Equal(got, []string{"q"}) || !c.HasPatterns() {
		t.Errorf("inputs %q before any was looked for", got)
	}
	own := []string{"p-says", "p-g--p-x-changelog", "p-g-p-x-changelog", "__consumer_offsets", "_x"}
	own = append(append(own, c.Output.Topics[:]...), c.Output.Topics[cycle.DeadLetters]+"-redriven")
	all := append([]string{"q", "p-x", "p-", "pp-x", "p-other-changelog", "p-ab1", "p-abc2"}, own...)
	if !c.SetInputs(all) || c.SetInputs(all) {
		t.Error("the first look changes the inputs, and the same look does not")
	}
	if got, want := c.Inputs(), []string{"q", "_x", "p-", "p-ab1", "p-abc2", "p-other-changelog", "p-x"}; !slices.Equal(got, want) {
		t.Errorf("inputs %q, want %q", got, want)
	}
	for topic, want := range map[string]string{"p-ab1": "B", "p-abc2": "A", "p-a": "B", "p-ac": "A", "p-x": "", "q": ""} {
		if got := c.MappingOf(topic); got != want {
			t.Errorf("%s has mapping %q, want %q", topic, got, want)
		}
	}
	opts, err := c.ForTopic("p-ab1").DecoderOptions()
	if err != nil || strings.Join(opts.Subjects(), ",") != "p-ab1-value" {
		t.Errorf("subjects of mapping B: %q, %v", opts.Subjects(), err)
	}
	again, _, _ := Parse(minimal("ODRADEK_TOPICS=p-*"))
	before, _, _ := Parse(minimal("ODRADEK_TOPICS=p-*"))
	before.SetInputs(all)
	for i, e := range again.Effective() {
		if !e.Same(&before.Effective()[i]) {
			t.Errorf("%s changes with the topics that there are", e.Name)
		}
	}
}

func TestPatternFaults(t *testing.T) {
	_, faults, _ := Parse(minimal("ODRADEK_TOPICS=p-*,p-*,/x.*/,q", "ODRADEK_MAPPING_A_TOPICS=r?,z"))
	text := ""
	for _, f := range faults {
		text += f.String() + "\n"
	}
	for _, want := range []string{`"p-*" is named twice`, `"/x.*/" has a character that topic names may not have`,
		`"z" is none of ODRADEK_TOPICS`} {
		if !strings.Contains(text, want) {
			t.Errorf("no fault %q in\n%s", want, text)
		}
	}
	if len(faults) != 2 {
		t.Errorf("%d faults:\n%s", len(faults), text)
	}
	if _, faults, _ = Parse(minimal("ODRADEK_TOPICS=p,q", "ODRADEK_MAPPING_A_TOPICS=r*")); len(faults) != 1 ||
		!strings.Contains(faults[0].Problem, `"r*" is none of ODRADEK_TOPICS`) {
		t.Errorf("a pattern that can match no input: %v", faults)
	}
}

// TestOwnInputs: a topic that the program writes for the group is no input, also where a setting has turned it off.
func TestOwnInputs(t *testing.T) {
	for _, topic := range []string{"g-dlq-redriven", "g-dlq", "g-scores", "g-late", "g-feedback", "g-rekey", "g-in-changelog"} {
		_, faults, _ := Parse(minimal("ODRADEK_GROUP=g", "ODRADEK_TOPICS=in,"+topic, "ODRADEK_SCORES=none"))
		if len(faults) != 1 || !strings.Contains(faults[0].String(), topic) {
			t.Errorf("%s: %v", topic, faults)
		}
	}
}
