package config

import (
	"strings"
	"testing"
)

// TestLatenessBy: samples are late by their own series, unless a grid or groups need one clock.
func TestLatenessBy(t *testing.T) {
	grid := []string{"LATENESS=5s", "VALUE_FIELDS=x,y", "DETECTORS=hot", "DETECTOR_HOT_OP=scan", "DETECTOR_HOT_GRID=1h",
		"DETECTOR_HOT_WINDOW=16", "DETECTOR_HOT_COLUMNS=4"}
	for _, c := range []struct {
		settings []string
		series   bool
		says     string // part of the text
		fault    bool
	}{
		{[]string{"LATENESS=0s"}, false, "older than the newest of its series", false},
		{[]string{"LATENESS=5s"}, true, "series: a sample is late if it is more than 5s", false},
		{[]string{"LATENESS=5s", "SILENCE=1m"}, true, "series", false},
		{[]string{"LATENESS=5s", "EVERY=1m"}, true, "series", false},
		{[]string{"LATENESS=5s", "EVERY=1m", "EMPTY=zero"}, false, "partition", false},
		{[]string{"LATENESS=5s", "EVERY=1m", "EMPTY=zero", "LATENESS_BY=series"}, true, "series", false},
		{[]string{"LATENESS=5s", "LATENESS_BY=partition"}, false, "partition: a sample", false},
		{[]string{"LATENESS=5s", "GROUP_BY=^[^/]+"}, false, "because of ODRADEK_GROUP_BY", false},
		{[]string{"LATENESS=5s", "GROUP_BY=^[^/]+", "LATENESS_BY=partition"}, false, "partition: a sample", false},
		{[]string{"LATENESS=5s", "GROUP_BY=^[^/]+", "LATENESS_BY=series"}, true, "", true},
		{[]string{"LATENESS=0s", "GROUP_BY=^[^/]+", "LATENESS_BY=series"}, false, "", false},
		{grid, false, "because of ODRADEK_DETECTOR_HOT_GRID", false},
		{append([]string{"LATENESS_BY=series"}, grid...), true, "", true},
	} {
		environ := minimal()
		for _, s := range c.settings {
			environ = append(environ, Prefix+s)
		}
		cfg, faults, _ := Parse(environ)
		if (len(faults) > 0) != c.fault || c.fault && faults[0].Name != Prefix+"LATENESS_BY" {
			t.Errorf("%v: faults %v", c.settings, faults)
		}
		if r, err := cfg.Reading(); err != nil || r.BySeries != c.series || !strings.Contains(cfg.LatenessText(), c.says) {
			t.Errorf("%v: by series %t (%v), %q", c.settings, r.BySeries, err, cfg.LatenessText())
		}
	}
}

// TestMaxGap: the longest interval that a score may span.
func TestMaxGap(t *testing.T) {
	for value, want := range map[string]int64{"auto": -1, "none": 0, "15m": 900e6, "0s": -2, "-1m": -2, "soon": -2, "": -1} {
		cfg, faults, _ := Parse(minimal(Prefix + "MAX_GAP=" + value))
		if want == -2 {
			if len(faults) != 1 || faults[0].Name != Prefix+"MAX_GAP" {
				t.Errorf("%q: faults %v", value, faults)
			}
			continue
		}
		if r, err := cfg.Reading(); err != nil || len(faults) > 0 || r.MaxGap != want {
			t.Errorf("%q is %d (%v, %v), want %d", value, r.MaxGap, err, faults, want)
		}
	}
	for gap, faulty := range map[string]bool{"59s": true, "1m": false, "2m": false, "none": false, "auto": false} {
		_, faults, _ := Parse(minimal(Prefix+"MAX_GAP="+gap, Prefix+"EVERY=1m"))
		if wrong := len(faults) == 1 && faults[0].Name == Prefix+"MAX_GAP"; wrong != faulty || len(faults) > 1 {
			t.Errorf("%s and intervals of a minute: faults %v", gap, faults)
		}
	}
}
