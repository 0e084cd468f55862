package config

import "testing"

func TestBest(t *testing.T) {
	entries := []string{"plant-*", "plant-1", "plant-?-in", "*-in", "other"}
	for topic, want := range map[string]string{
		"plant-1": "plant-1", "plant-22": "plant-*", "plant-2-in": "plant-?-in", "plant-22-in": "plant-*", "x-in": "*-in", "plant-": "plant-*",
		"other": "other", "other2": "", "plant": "", "Plant-1": "", "plant-*": "plant-*",
	} {
		if got := BestMatch(entries, topic); got != want {
			t.Errorf("%s belongs to %q, want %q", topic, got, want)
		}
	}
	if got := BestMatch([]string{"b*", "*b"}, "bab"); got != "*b" {
		t.Errorf("of two patterns of one length %q", got)
	}
}
