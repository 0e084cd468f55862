package config

import (
	"testing"

	"odradek/detectors/threshold"
)

// TestAlarmsPerDay: ALARMS_PER_DAY is a threshold of its own, and with another one a fault, as
// is a number that is none.
func TestAlarmsPerDay(t *testing.T) {
	const near = "ODRADEK_DETECTOR_NEAR_"
	parse := func(more ...string) (*Config, []Fault) {
		c, faults, _ := Parse(minimal(append([]string{"ODRADEK_DETECTORS=near", near + "OP=knn"}, more...)...))
		return c, faults
	}
	for _, set := range []string{near + "ALARMS_PER_DAY=2.5", near + "THRESHOLD=per-day:2.5"} {
		c, faults := parse(set)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		if r := ks.Detectors[0].Threshold; r.Kind != threshold.PerDay || r.Value != 2.5 || r.History != 1024 || r.Warmup != 64 {
			t.Errorf("%s: threshold %+v", set, r)
		}
	}
	for _, bad := range [][]string{
		{near + "ALARMS_PER_DAY=1e-4"}, {near + "ALARMS_PER_DAY=-1"}, {near + "ALARMS_PER_DAY=NaN"},
		{near + "ALARMS_PER_DAY=2", near + "THRESHOLD=mad:6"},
	} {
		if _, faults := parse(bad...); len(faults) != 1 || faults[0].Name != near+"ALARMS_PER_DAY" {
			t.Errorf("%v: faults are %v", bad, faults)
		}
	}
}
