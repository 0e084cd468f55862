package config

import "testing"

func TestStopAbove(t *testing.T) {
	_, faults, _ := Parse([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_SCHEMA_REGISTRY_URL=http://r",
		"ODRADEK_STOP_ABOVE=0.5/1000", "ODRADEK_FEEDBACK_TOPIC=off"})
	if len(faults) != 1 || faults[0].Name != "ODRADEK_FEEDBACK_TOPIC" {
		t.Errorf("without a feedback topic: %v", faults)
	}
}
