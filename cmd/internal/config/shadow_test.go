package config

import (
	"fmt"
	"strings"
	"testing"

	"odradek/processor/cycle"
)

// TestShadowSettings: the mode is in no fingerprint; its topic is needed where a detector has the setting, in every topology;
// and what makes no anomalies cannot be in shadow mode.
func TestShadowSettings(t *testing.T) {
	parse := func(more ...string) (*Config, string) {
		c, faults, _ := Parse(minimal(append([]string{"ODRADEK_DETECTORS=x,y,e", "ODRADEK_DETECTOR_X_OP=zscore",
			"ODRADEK_DETECTOR_Y_OP=zscore", "ODRADEK_DETECTOR_E_OP=ensemble", "ODRADEK_DETECTOR_E_MEMBERS=x,y"}, more...)...))
		return c, fmt.Sprint(faults)
	}
	plain, faults := parse()
	if faults != "[]" || plain.OutputTopics()[cycle.ShadowAnomalies] != "" {
		t.Fatal(faults, plain.OutputTopics())
	}
	before, err := plain.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "e"} {
		for _, value := range []string{"true", "false"} {
			c, faults := parse("ODRADEK_DETECTOR_" + strings.ToUpper(name) + "_SHADOW=" + value)
			if faults != "[]" || c.OutputTopics()[cycle.ShadowAnomalies] != "g-anomalies-shadow" {
				t.Errorf("%s: %s, topics %q", name, faults, c.OutputTopics())
			}
			after, err := c.KeystateConfig()
			if err != nil {
				t.Fatal(err)
			}
			for i := range after.Detectors {
				d := &after.Detectors[i]
				if d.Fingerprint != before.Detectors[i].Fingerprint || d.Shadow != (d.Name == name && value == "true") {
					t.Errorf("%s=%s: detector %s has shadow %v, another fingerprint: %v", name, value, d.Name, d.Shadow,
						d.Fingerprint != before.Detectors[i].Fingerprint)
				}
			}
		}
	}
	for _, c := range []struct{ more, want string }{
		{"ODRADEK_DETECTOR_X_THRESHOLD=off", "makes no anomalies"},
		{"ODRADEK_ANOMALIES=false", "ODRADEK_ANOMALIES is false"},
	} {
		if _, faults := parse("ODRADEK_DETECTOR_X_SHADOW=true", c.more); !strings.Contains(faults, "ODRADEK_DETECTOR_X_SHADOW") ||
			!strings.Contains(faults, c.want) {
			t.Errorf("%s: %s", c.more, faults)
		}
		if _, faults := parse("ODRADEK_DETECTOR_X_SHADOW=false", c.more); faults != "[]" {
			t.Errorf("%s, not in shadow mode: %s", c.more, faults)
		}
	}
}
