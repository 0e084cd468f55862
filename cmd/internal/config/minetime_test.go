package config

import (
	"fmt"
	"strings"
	"testing"

	"odradek/detectors"
)

// TestMineInterval: settings of op solvingset that are durations reach the detector, are part of the fingerprint where they are
// set, and are checked with all others.
func TestMineInterval(t *testing.T) {
	parse := func(more ...string) (*DetectorSettings, string) {
		list := []string{"ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP=solvingset"}
		for _, m := range more {
			list = append(list, "ODRADEK_DETECTOR_X_"+m)
		}
		c, faults, _ := Parse(minimal(list...))
		return &c.Detectors[0], fmt.Sprint(faults)
	}
	plain, faults := parse()
	if faults != "[]" {
		t.Fatal(faults)
	}
	if zero, faults := parse("MINE_INTERVAL=0s", "MAX_AGE=0"); faults != "[]" || zero.canonical() != plain.canonical() {
		t.Errorf("%s; %s and %s", faults, zero.canonical(), plain.canonical())
	}
	seen := map[string]bool{plain.canonical(): true}
	for _, s := range []string{"MINE_INTERVAL=1h", "MINE_INTERVAL=90m", "MAX_AGE=24h", "MAX_AGE=1us"} {
		d, faults := parse(s)
		if faults != "[]" || seen[d.canonical()] {
			t.Errorf("%s: %s; fingerprint of %s", s, faults, d.canonical())
		}
		seen[d.canonical()] = true
		det, err := d.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, timed := det.(detectors.Timed); !timed {
			t.Errorf("%s: the detector reads no times", s)
		}
	}
	d, _ := parse("MAX_AGE=24h")
	if det, _ := d.Build(); det.Params().Int64(det.Op().Spec().Word("MAX_AGE")) != 24*3600e6 {
		t.Error("a task's MAX_AGE is not a day")
	}
	_, faults = parse("MINE_INTERVAL=-1s", "MAX_AGE=87601h", "K=2000", "TOP=many", "MIN_POINTS=-1")
	for _, name := range []string{"MINE_INTERVAL", "MAX_AGE", "X_K", "TOP", "MIN_POINTS"} {
		if !strings.Contains(faults, name) {
			t.Errorf("no fault of %s in %s", name, faults)
		}
	}
}
