package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestLOFSettings(t *testing.T) {
	parse := func(more ...string) string {
		list := []string{"ODRADEK_DETECTORS=a", "ODRADEK_DETECTOR_A_OP=lof"}
		for _, m := range more {
			list = append(list, "ODRADEK_DETECTOR_A_"+m)
		}
		c, faults, _ := Parse(minimal(list...))
		if len(faults) == 0 {
			if _, err := c.Detectors[0].Build(); err != nil {
				t.Error(err)
			}
		}
		return fmt.Sprint(faults)
	}
	for _, good := range [][]string{
		nil, {"WINDOW=1024"}, {"WINDOW=64", "TUMBLING=true", "STRIDE=64"},
		{"WINDOW=200", "EMBED=8", "ZNORM=true", "MIN_POINTS=20", "STRICT=true"}, {"WINDOW=2", "K=1"},
		{"BINS=10", "DECAY=0.98", "MAX_BINS=100", "ALPHA=0.5"}, {"BINS=1", "WINDOW=64", "TUMBLING=true", "STRIDE=64"},
	} {
		if faults := parse(good...); faults != "[]" {
			t.Errorf("%v: %s", good, faults)
		}
	}
	for want, bad := range map[string][]string{
		"use at least 2k = 40":         {"WINDOW=39"},
		"STRIDE":                       {"WINDOW=64", "TUMBLING=true"},
		"use an embedding of at least": {"ZNORM=true"},
		"embedding of 1":               {"BINS=10", "EMBED=2"},
		"DECAY":                        {"BINS=10", "DECAY=1"},
		"warm-up is 60":                {"MIN_POINTS=60"},
		"K":                            {"K=2000", "WINDOW=5000"},
	} {
		if faults := parse(bad...); !strings.Contains(faults, want) {
			t.Errorf("%v: %s does not mention %q", bad, faults, want)
		}
	}
}
