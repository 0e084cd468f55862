package config

import (
	"strings"
	"testing"

	"odradek/processor/anomaly"
)

// TestUpdateEvery: updates are due by samples, by event time, or by default by both as shares.
func TestUpdateEvery(t *testing.T) {
	for text, want := range map[string]anomaly.Policy{
		"":     {UpdateAfter: 60e6, UpdateShare: 0.1},
		"auto": {UpdateAfter: 60e6, UpdateShare: 0.1},
		"0":    {},
		"100":  {UpdateEvery: 100},
		"5m":   {UpdateAfter: 300e6},
	} {
		c, faults, _ := Parse([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_KAFKA_BROKERS=b:9092", "ODRADEK_FORMAT=json",
			"ODRADEK_DETECTORS=a", "ODRADEK_DETECTOR_A_UPDATE_EVERY=" + text})
		if len(faults) > 0 {
			t.Errorf("%q: %v", text, faults)
			continue
		}
		got := c.Detectors[0].Alarm.policy()
		if got.UpdateEvery != want.UpdateEvery || got.UpdateAfter != want.UpdateAfter || got.UpdateShare != want.UpdateShare {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{"-1", "x", "-5m", "1e3", "9999h"} {
		_, faults, _ := Parse([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_KAFKA_BROKERS=b:9092", "ODRADEK_FORMAT=json",
			"ODRADEK_DETECTORS=a", "ODRADEK_DETECTOR_A_UPDATE_EVERY=" + text})
		if len(faults) != 1 || !strings.HasSuffix(faults[0].Name, "UPDATE_EVERY") {
			t.Errorf("%q: %v", text, faults)
		}
	}
}

// TestRecurringSeverity: the highest severity of what recurs is a band's, or a number; without one it is any.
func TestRecurringSeverity(t *testing.T) {
	env := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_KAFKA_BROKERS=b:9092", "ODRADEK_FORMAT=json", "ODRADEK_DETECTORS=a"}
	for text, want := range map[string]uint8{"": 0, "critical": 0, "100": 0, "info": 49, "minor": 66, "major": 82, "30": 30} {
		c, faults, _ := Parse(append(env, "ODRADEK_DETECTOR_A_RECURRING_SEVERITY="+text))
		if len(faults) > 0 || c.Detectors[0].Alarm.policy().Recurring != want {
			t.Errorf("%q: %v, want %d", text, faults, want)
		}
	}
	for _, text := range []string{"0", "101", "loud", "-3", "1.5"} {
		_, faults, _ := Parse(append(env, "ODRADEK_DETECTOR_A_RECURRING_SEVERITY="+text))
		if len(faults) != 1 || !strings.HasSuffix(faults[0].Name, "RECURRING_SEVERITY") {
			t.Errorf("%q: %v", text, faults)
		}
	}
}
