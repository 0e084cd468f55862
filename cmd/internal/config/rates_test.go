package config

import (
	"strings"
	"testing"

	"odradek/detectors/threshold"
)

// TestFiniteNumbers: no setting that is a number with a point takes what is none, or an infinite one.
func TestFiniteNumbers(t *testing.T) {
	tried := 0
	for _, op := range opNames() {
		base := []string{"ODRADEK_DETECTORS=d", "ODRADEK_DETECTOR_D_OP=" + op}
		if op == ensembleSpec.Name {
			base = []string{"ODRADEK_DETECTORS=a,b,d", "ODRADEK_DETECTOR_D_OP=" + op, "ODRADEK_DETECTOR_D_MEMBERS=a,b"}
		}
		c, _, _ := Parse(minimal(base...))
		for _, s := range c.settings {
			if _, number := number(s.field); !number || !s.field.CanFloat() {
				continue
			}
			for _, value := range []string{"NaN", "Inf", "-Inf", "1e999"} {
				tried++
				_, faults, _ := Parse(minimal(append(base, s.name+"="+value)...))
				if !containsFault(faults, s.name) {
					t.Errorf("op %s, %s=%s: faults are %v", op, s.name, value, faults)
				}
			}
		}
		for _, value := range []string{"fixed:NaN", "fixed:Inf", "conformal:NaN", "quantile:NaN", "quantile:0.9*NaN", "quantile:0.9*Inf",
			"mad:NaN", "mad:Inf", "mean:NaN", "mean:+Inf", "per-day:NaN", "per-day:Inf"} {
			_, faults, _ := Parse(minimal(append(base, "ODRADEK_DETECTOR_D_THRESHOLD="+value)...))
			if !containsFault(faults, "ODRADEK_DETECTOR_D_THRESHOLD") {
				t.Errorf("op %s, %s: faults are %v", op, value, faults)
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d values tried", tried)
	}
}

func containsFault(faults []Fault, name string) bool {
	for _, f := range faults {
		if f.Name == name {
			return true
		}
	}
	return false
}

// TestUnsupportedRates: a rate that the history does not show is warned of, with the history that
// would; the presets and the defaults ask for nothing that the user could change.
func TestUnsupportedRates(t *testing.T) {
	const near = "ODRADEK_DETECTOR_NEAR_"
	for _, c := range []struct{ settings, name, problem, fix string }{
		{"", "", "", ""},
		{"ODRADEK_PRESET=sensitive", "", "", ""},
		{near + "HISTORY=500", near + "THRESHOLD", "HISTORY=500 shows, one score in 501", "HISTORY=666 supports it, HISTORY=500 a rate of 0.002"},
		{near + "THRESHOLD=conformal:1e-4", near + "THRESHOLD", "HISTORY=2048 shows", "HISTORY=9999 supports it"},
		{near + "THRESHOLD=conformal:1e-4 " + near + "HISTORY=9999", "", "", ""},
		{near + "THRESHOLD=conformal:1e-4 " + near + "HISTORY=9998", near + "THRESHOLD", "one score in 9999", "HISTORY=9999 supports it"},
		{near + "THRESHOLD=conformal:1e-5 " + near + "HISTORY=65536", near + "THRESHOLD", "one score in 65537",
			"no HISTORY supports it: it would take 99999 scores, and 65536 is the most; HISTORY=65536 supports a rate of 1.6e-05"},
		{near + "THRESHOLD=quantile:0.9999", "", "", ""},
		{near + "ALARMS_PER_DAY=2", near + "ALARMS_PER_DAY", "up to 4098 scores a day, one each 21s",
			"with a score a second HISTORY=43199 supports it"},
		{near + "THRESHOLD=per-day:1", near + "THRESHOLD", "up to 2049 scores a day, one each 42s", "that would take 86399 scores"},
		{near + "ALARMS_PER_DAY=50", "", "", ""},
	} {
		cfg, faults, warnings := Parse(minimal(strings.Fields(c.settings)...))
		if len(faults)+len(warnings) > 0 {
			t.Errorf("%s: faults %v, warnings %v", c.settings, faults, warnings)
			continue
		}
		list := cfg.Unsupported()
		if c.name == "" {
			if len(list) > 0 {
				t.Errorf("%s: warned of %v", c.settings, list)
			}
			continue
		}
		if len(list) != 1 || list[0].Name != c.name || !strings.Contains(list[0].Problem, c.problem) || !strings.Contains(list[0].Fix, c.fix) {
			t.Errorf("%s: %q, want %s: %s; %s", c.settings, list, c.name, c.problem, c.fix)
		}
	}
}

// TestAlarmsPerDayOfPresets: a number of alarms a day takes the place of the threshold of any detector of any preset.
func TestAlarmsPerDayOfPresets(t *testing.T) {
	for i := range Presets {
		p := &Presets[i]
		for _, fields := range []string{"value", "a,b"} {
			settings := []string{"ODRADEK_PRESET=" + p.Name, "ODRADEK_VALUE_FIELDS=" + fields}
			c, _, _ := Parse(minimal(settings...))
			for _, d := range c.Detectors {
				settings = append(settings, DetectorPrefix(d.Name)+"ALARMS_PER_DAY=20")
			}
			c, faults, _ := Parse(minimal(settings...))
			if len(faults) > 0 {
				t.Errorf("%s of %s: %v", p.Name, fields, faults)
				continue
			}
			ks, err := c.KeystateConfig()
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ks.Detectors {
				if d.Threshold.Kind != threshold.PerDay || d.Threshold.Value != 20 {
					t.Errorf("%s of %s: %s is judged by %v", p.Name, fields, d.Name, d.Threshold)
				}
			}
		}
	}
	_, faults, _ := Parse(minimal("ODRADEK_DETECTOR_NEAR_ALARMS_PER_DAY=2", "ODRADEK_DETECTOR_NEAR_THRESHOLD=mad:6"))
	if len(faults) != 1 {
		t.Errorf("two thresholds: %v", faults)
	}
}
