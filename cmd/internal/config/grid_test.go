package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestGridSettings: the faults of a grid's settings are named, each by its setting.
func TestGridSettings(t *testing.T) {
	parse := func(more ...string) string {
		list := []string{"ODRADEK_VALUE_FIELDS=x,y,n,b", "ODRADEK_DETECTOR_LEVEL_OP=ar", "ODRADEK_DETECTOR_HOT_OP=scan",
			"ODRADEK_DETECTOR_HOT_WINDOW=24", "ODRADEK_DETECTOR_HOT_COLUMNS=6",
			"ODRADEK_DETECTOR_HOT_FIELDS=x,y,n", "ODRADEK_DETECTOR_HOT_GRID=1m",
			"ODRADEK_DETECTORS=hot,level", "ODRADEK_DETECTOR_HOT_GRID_BOX=-1,-1,5,3"}
		for _, m := range more {
			if !strings.HasPrefix(m, "ODRADEK_") {
				m = "ODRADEK_DETECTOR_" + m
			}
			list = append(list, m)
		}
		c, faults, _ := Parse(minimal(list...))
		if len(faults) == 0 {
			if ks, err := c.KeystateConfig(); err != nil || ks.Check() != nil || ks.Windows[0].Grid == nil {
				t.Errorf("%v: no state with a grid: %v", more, err)
			}
		}
		return fmt.Sprint(faults)
	}
	for _, good := range [][]string{nil, {"HOT_FIELDS=x,y"}, {"HOT_FIELDS=x,y,n,b"}, {"HOT_GRID_LEARN=3"},
		{"HOT_MAX_P=0.005"}, {"HOT_GRID_STRIDE=20s"}} {
		if faults := parse(good...); faults != "[]" {
			t.Errorf("%v: %s", good, faults)
		}
	}
	for _, bad := range [][2]string{
		{"HOT_FIELDS=x", "HOT_FIELDS"}, {"HOT_GRID_BOX=1,2,3", "HOT_GRID_BOX"}, {"HOT_GRID_BOX=1,2,1,3", "HOT_GRID_BOX"},
		{"HOT_GRID_BOX=1,2,a,3", "HOT_GRID_BOX"}, {"HOT_GRID=0s", "HOT_GRID_BOX"}, {"LEVEL_GRID=1m", "LEVEL_GRID"},
		{"HOT_GRID_STRIDE=25s", "HOT_GRID_STRIDE"}, {"HOT_GRID_STRIDE=1ns", "HOT_GRID_STRIDE"}, {"LEVEL_GRID_STRIDE=1m", "LEVEL_GRID_STRIDE"},
		{"HOT_GRID_STRIDE=1us", "HOT_GRID_STRIDE"},
		{"HOT_MAX_P=0.0001", "HOT_MAX_P"}, {"LEVEL_MAX_P=0.5", "LEVEL_MAX_P"}, {"HOT_STRIDE=3", "HOT_STRIDE"},
		{"ODRADEK_TTL=30s", "TTL"}, {"ODRADEK_DUPLICATES=drop", "DUPLICATES"},
	} {
		if faults := parse(bad[0]); !strings.Contains(faults, bad[1]) {
			t.Errorf("%s: %s does not mention %s", bad[0], faults, bad[1])
		}
	}
	if faults := parse("HOT_FIELDS=x,y,n,b", "HOT_GRID_LEARN=2"); !strings.Contains(faults, "HOT_GRID_LEARN") {
		t.Errorf("a baseline that is a field and learnt: %s", faults)
	}
	faults := parse("ODRADEK_DETECTORS=hot,level,both", "BOTH_OP=ensemble", "BOTH_MEMBERS=hot,level")
	if !strings.Contains(faults, "BOTH_MEMBERS") || !strings.Contains(faults, "grids") {
		t.Errorf("an ensemble of a grid: %s", faults)
	}
}
