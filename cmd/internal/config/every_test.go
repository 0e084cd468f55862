package config

import (
	"slices"
	"strings"
	"testing"
)

// TestEvery: samples that are scored are equally far apart, and what closes an anomaly counts them alone.
func TestEvery(t *testing.T) {
	for settings, fault := range map[string]string{
		"EVERY=32 STRIDE=32": "", "EVERY=32 STRIDE=64": "", "EVERY=1 STRIDE=5": "", "EVERY=32": "STRIDE", "EVERY=32 STRIDE=48": "STRIDE",
		"EVERY=5000 STRIDE=5000": "EVERY", "OP=knn EVERY=2": "EVERY",
	} {
		lines := []string{"ODRADEK_DETECTORS=past"}
		for _, s := range append([]string{"OP=discord", "LENGTH=50"}, strings.Fields(settings)...) {
			lines = append(lines, "ODRADEK_DETECTOR_PAST_"+s)
		}
		c, faults, warnings := Parse(minimal(lines...))
		if fault != "" {
			said := slices.ContainsFunc(append(faults, warnings...), func(f Fault) bool { return f.Name == "ODRADEK_DETECTOR_PAST_"+fault })
			if !said {
				t.Errorf("%s: faults %v, warnings %v", settings, faults, warnings)
			}
			continue
		}
		if len(faults) > 0 {
			t.Errorf("%s: %v", settings, faults)
			continue
		}
		want := 100
		if strings.HasPrefix(settings, "EVERY=32") {
			want = 4
		}
		if got := c.Detectors[0].Alarm.CloseAfter; got != want {
			t.Errorf("%s: an anomaly closes after %d scores, want %d", settings, got, want)
		}
	}
}
