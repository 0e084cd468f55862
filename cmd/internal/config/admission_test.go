package config

import (
	"testing"

	"odradek/detectors/threshold"
)

// TestAdmission: ADMISSION=late follows OPEN_AFTER and CLOSE_AFTER, and is a fault where scores cannot wait.
func TestAdmission(t *testing.T) {
	const near, all = "ODRADEK_DETECTOR_NEAR_", "ODRADEK_DETECTOR_ALL_"
	parse := func(more ...string) (*Config, []Fault) {
		c, faults, _ := Parse(minimal(append([]string{"ODRADEK_DETECTORS=near", near + "OP=knn", near + "ADMISSION=late"}, more...)...))
		return c, faults
	}
	for _, tt := range []struct {
		set  []string
		want threshold.Late
	}{
		{nil, threshold.Late{Open: 1, Close: 64}}, // of the op
		{[]string{near + "OPEN_AFTER=3", near + "CLOSE_AFTER=20", near + "ALARMS_PER_DAY=2"}, threshold.Late{Open: 3, Close: 20}},
		{[]string{near + "ADMISSION=direct"}, threshold.Late{}},
	} {
		c, faults := parse(tt.set...)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		if got := ks.Detectors[0].Threshold.Late; got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.set, got, tt.want)
		}
	}
	for _, bad := range [][]string{
		{near + "HISTORY=3d"}, {near + "OP=flatline"}, {near + "ADMISSION=never"},
	} {
		if _, faults := parse(bad...); len(faults) != 1 || faults[0].Name != near+"ADMISSION" {
			t.Errorf("%v: faults are %v", bad, faults)
		}
	}
	if _, faults := parse("ODRADEK_DETECTORS=near,far,all", "ODRADEK_DETECTOR_FAR_OP=zscore", all+"OP=ensemble", all+"COMBINE=any",
		all+"MEMBERS=near,far", all+"ADMISSION=late"); len(faults) != 1 || faults[0].Name != all+"ADMISSION" {
		t.Errorf("of an ensemble of any: faults are %v", faults)
	}
}
