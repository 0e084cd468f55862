package config

import (
	"fmt"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/processor/state/rules"
)

// TestGuardSettings: guards are built as they are written, change no fingerprint, and what means nothing is refused.
func TestGuardSettings(t *testing.T) {
	parse := func(more ...string) (*Config, string) {
		list := []string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x,e,y", "ODRADEK_DETECTOR_X_OP=zscore", "ODRADEK_DETECTOR_Y_OP=ikasst",
			"ODRADEK_DETECTOR_E_OP=ensemble", "ODRADEK_DETECTOR_E_MEMBERS=x,y", "ODRADEK_DETECTOR_Y_FIELDS=b"}
		for _, m := range more {
			list = append(list, "ODRADEK_DETECTOR_"+m)
		}
		c, faults, _ := Parse(minimal(list...))
		return c, fmt.Sprint(faults)
	}
	plain, faults := parse()
	if faults != "[]" {
		t.Fatal(faults)
	}
	c, faults := parse("X_DIRECTION=below", "X_MIN_DEVIATION=2", "X_MIN_DEVIATION_SHARE=0.1", "X_ONLY_IF=b>-3, a<4", "Y_ONLY_IF=b>0")
	if faults != "[]" {
		t.Fatal(faults)
	}
	before, err := plain.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	if before.Detectors[0].Guard != nil || after.Detectors[0].Fingerprint != before.Detectors[0].Fingerprint {
		t.Error("a guard is in the fingerprint, or where none is set")
	}
	want := rules.Guard{Direction: rules.Below, Least: 2, Share: 0.1,
		Gates: []rules.Gate{{Field: 1, Bound: -3}, {Field: 0, Below: true, Bound: 4}}}
	if got := fmt.Sprintf("%+v", *after.Detectors[0].Guard); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got %s, want %+v", got, want)
	}
	for _, bad := range [][2]string{
		{"X_DIRECTION=up", "X_DIRECTION"}, {"X_MIN_DEVIATION=-1", "X_MIN_DEVIATION"}, {"X_MIN_DEVIATION_SHARE=NaN", "X_MIN_DEVIATION_SHARE"},
		{"X_ONLY_IF=c>3", `X_ONLY_IF: "c>3": "c" is not one of the detector's fields (a, b)`}, {"Y_ONLY_IF=a>3", "Y_ONLY_IF"},
		{"X_ONLY_IF=a=3", "X_ONLY_IF"}, {"Y_DIRECTION=above", "op ikasst has no expected values"},
		{"Y_MIN_DEVIATION=1", "Y_MIN_DEVIATION"}, {"E_ONLY_IF=a>3", "an ensemble has scores and no values"}, {"E_DIRECTION=above", "E_DIRECTION"},
	} {
		if _, faults := parse(bad[0]); !strings.Contains(faults, bad[1]) {
			t.Errorf("%s: %s does not mention %s", bad[0], faults, bad[1])
		}
	}
	for topic, want := range map[string]string{"off": "[]", "no/topic": "ODRADEK_FEEDBACK_TOPIC", "g-scores": "ODRADEK_FEEDBACK_TOPIC"} {
		_, faults, _ := Parse(minimal("ODRADEK_GROUP=g", "ODRADEK_FEEDBACK_TOPIC="+topic))
		if !strings.Contains(fmt.Sprint(faults), want) {
			t.Errorf("feedback topic %s: %v", topic, faults)
		}
	}
	if _, faults := parse("X_THRESHOLD=off", "X_DIRECTION=above"); !strings.Contains(faults, "judges no score") {
		t.Error(faults)
	}
}

// TestScanDirection: with op scan, DIRECTION is a parameter of the search and of its state, above by default, with or without a grid;
// it is no guard.
func TestScanDirection(t *testing.T) {
	seen := map[uint64]string{}
	for _, grid := range []string{"", "1m"} {
		for i, direction := range []string{"above", "below", "both", ""} {
			list := []string{"ODRADEK_VALUE_FIELDS=x,y", "ODRADEK_DETECTORS=hot", "ODRADEK_DETECTOR_HOT_OP=scan"}
			if grid != "" {
				list = append(list, "ODRADEK_DETECTOR_HOT_GRID="+grid)
			}
			if direction != "" {
				list = append(list, "ODRADEK_DETECTOR_HOT_DIRECTION="+direction)
			}
			c, faults, _ := Parse(minimal(list...))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			ks, err := c.KeystateConfig()
			if err != nil {
				t.Fatal(err)
			}
			d := &ks.Detectors[0]
			if got := d.Detector.Params().Int(d.Detector.Op().Spec().Word(detectors.DirectionParam)); got != i%3 || d.Guard != nil {
				t.Errorf("%q with GRID=%s: direction %d, guard %+v", direction, grid, got, d.Guard)
			}
			if other, ok := seen[d.Fingerprint]; ok != (direction == "") || ok && other != "above" {
				t.Errorf("%q with GRID=%s has the state of %q", direction, grid, other)
			}
			seen[d.Fingerprint] = direction
			for _, e := range c.Effective() {
				if e.Name == "ODRADEK_DETECTOR_HOT_DIRECTION" && e.Live {
					t.Error("a change of DIRECTION holds without a restart")
				}
			}
		}
		clear(seen)
	}
}
