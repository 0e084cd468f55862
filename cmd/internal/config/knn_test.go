package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestKNNSettings(t *testing.T) {
	parse := func(more ...string) string {
		list := []string{"ODRADEK_DETECTORS=a", "ODRADEK_DETECTOR_A_OP=knn"}
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
		nil, {"WINDOW=1024"}, {"WINDOW=1024", "MIN_POINTS=20"}, {"WINDOW=1024", "MIN_POINTS=1024"}, {"WINDOW=64", "TUMBLING=true", "STRIDE=64"},
		{"WINDOW=200", "EMBED=8", "K=100", "INCLUDE_SELF=true"},
	} {
		if faults := parse(good...); faults != "[]" {
			t.Errorf("%v: %s", good, faults)
		}
	}
	for want, bad := range map[string][]string{
		"use at least 2k = 40": {"WINDOW=39", "K=20"},
		"STRIDE":               {"WINDOW=64", "TUMBLING=true"},
		"use 2k = 20":          {"WINDOW=64", "MIN_POINTS=19"},
		"to the window":        {"WINDOW=64", "MIN_POINTS=65"},
		"scored whole":         {"WINDOW=64", "TUMBLING=true", "STRIDE=64", "MIN_POINTS=30"},
		"K":                    {"K=2000", "WINDOW=5000"},
		"use 2 to 2097152":     {"WINDOW=2097153"},
	} {
		if faults := parse(bad...); !strings.Contains(faults, want) {
			t.Errorf("%v: %s does not mention %q", bad, faults, want)
		}
	}
}
