package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/threshold"
)

// TestPresets: each preset is a configuration without faults for samples of one value and of several, and
// what it says is what its detectors have.
func TestPresets(t *testing.T) {
	for i := range Presets {
		p := &Presets[i]
		for fields, values := range map[string]int{"value": 1, "a,b": 2, "accel[3]": 3, "x0,x1,x2,x3,x4,x5,x6,x7,x8,x9": 10,
			"accel[256]": MostSeveral, "accel[257]": MostSeveral + 1} {
			c, faults, warnings := Parse(minimal("ODRADEK_PRESET="+p.Name, "ODRADEK_VALUE_FIELDS="+fields))
			if len(faults)+len(warnings) > 0 {
				t.Fatalf("%s of %s: faults %v, warnings %v", p.Name, fields, faults, warnings)
			}
			if _, err := c.KeystateConfig(); err != nil {
				t.Fatal(p.Name, err)
			}
			preset, list := c.Expanded()
			if preset != p.Name || len(list) == 0 || len(list) != len(c.Detectors) {
				t.Errorf("%s of %s stands for %q, %q", p.Name, fields, preset, list)
			}
			at := 0
			for _, d := range p.detectors(values) {
				settings := d.One
				if fields != "value" {
					settings = d.Several
				}
				if settings == "" {
					continue
				}
				got := strings.Fields(list[at])
				if want := strings.Fields(settings); got[0] != d.Name+":" || len(got) != len(want)+1 ||
					slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(got, s) }) {
					t.Errorf("%s of %s: %q, want %s of %q", p.Name, fields, list[at], d.Name, settings)
				}
				at++
			}
		}
	}
	c, _, _ := Parse(minimal())
	again, faults, warnings := Parse(strings.Split(c.PrintEnv(), "\n"))
	if len(faults)+len(warnings) > 0 || again.PrintEnv() != strings.Replace(c.PrintEnv(), "# ODRADEK_PRESET=default\n", "", 1) {
		t.Errorf("faults %v, warnings %v; printed again:\n%s", faults, warnings, again.PrintEnv())
	}
	if c, _, _ := Parse(minimal()); c.Detect.Preset != "default" {
		t.Errorf("the default preset is %q", c.Detect.Preset)
	}
	if c, _, _ := Parse(minimal("ODRADEK_DETECTORS=x")); c.Detect.Preset != "" || len(c.Detectors) != 1 {
		t.Errorf("with a detector: preset %q, %d detectors", c.Detect.Preset, len(c.Detectors))
	}
}

// TestPresetAndDetectors: what is given beside a preset changes its detectors, or is a fault that says what
// to do.
func TestPresetAndDetectors(t *testing.T) {
	c, faults, warnings := Parse(minimal("ODRADEK_DETECTOR_NEAR_K=10", "ODRADEK_DETECTOR_SHAPE_OP=zscore"))
	if len(faults)+len(warnings) > 0 {
		t.Fatal(faults, warnings)
	}
	if _, list := c.Expanded(); !strings.Contains(list[0], "K=10") || !strings.Contains(list[0], "EMBED=32") || list[2] != "shape: OP=zscore" {
		t.Errorf("%q", list)
	}
	// Weights are of the preset's members, and of a sum.
	for settings, weights := range map[string]string{
		"": "1,4", "BOTH_MEMBERS=near,shape": "", "BOTH_COMBINE=any": "", "BOTH_WEIGHTS=2,1": "2,1",
	} {
		lines := []string{}
		if settings != "" {
			lines = append(lines, "ODRADEK_DETECTOR_"+settings)
		}
		c, faults, warnings := Parse(minimal(lines...))
		if i := slices.Index(c.Detect.Names, "both"); len(faults)+len(warnings) > 0 || strings.Join(c.Detectors[i].Weights, ",") != weights {
			t.Errorf("%q: weights %v, faults %v, warnings %v", settings, c.Detectors[i].Weights, faults, warnings)
		}
	}
	// Gates are of the preset's ensemble and band.
	for settings, gate := range map[string]string{
		"": "band:8", "BAND_RATE=0.001": "band:8", "BAND_OP=season": "", "ANY_COMBINE=sum": "", "ANY_MEMBERS=start,flat": "",
		"NEAR_ONLY_WITH=band:9": "band:9", "BAND_KEYS=a*": "",
	} {
		lines := []string{}
		if settings != "" {
			lines = append(lines, "ODRADEK_DETECTOR_"+settings)
		}
		if settings == "ANY_COMBINE=sum" { // UNTIL of start is not of a sum
			lines = append(lines, "ODRADEK_DETECTOR_ANY_MEMBERS=near,flat")
		}
		c, faults, warnings := Parse(minimal(lines...))
		if len(faults)+len(warnings) > 0 || c.Detectors[0].OnlyWith != gate {
			t.Errorf("%q: ONLY_WITH %q, faults %v, warnings %v", settings, c.Detectors[0].OnlyWith, faults, warnings)
		}
	}
	for _, tt := range []struct{ settings, name, fix string }{
		{"ODRADEK_PRESET=default ODRADEK_DETECTORS=x", "ODRADEK_PRESET", "remove one of them"},
		{"ODRADEK_PRESET=fats", "ODRADEK_PRESET", "use default, fast, sensitive, vector, change"},
		{"ODRADEK_DETECTOR_CHANGE_OP=ikasst", "ODRADEK_DETECTOR_CHANGE_OP", "name its detector in ODRADEK_DETECTORS"},
		{"ODRADEK_DETECTOR_NEAR_WINDO=9", "ODRADEK_DETECTOR_NEAR_WINDO", "did you mean ODRADEK_DETECTOR_NEAR_WINDOW?"},
	} {
		_, faults, warnings := Parse(minimal(strings.Fields(tt.settings)...))
		if len(faults) != 1 || len(warnings) != 0 || faults[0].Name != tt.name || !strings.Contains(faults[0].Fix, tt.fix) {
			t.Errorf("%s: faults %v, warnings %v", tt.settings, faults, warnings)
		}
	}
}

// TestSensitivity: it changes the thresholds of all detectors of a preset, to bounds that are all higher or all lower, but none that
// is set.
func TestSensitivity(t *testing.T) {
	bounds := func(preset string, more ...string) (list []threshold.Params) {
		c, faults, _ := Parse(minimal(append(more, "ODRADEK_PRESET="+preset)...))
		if len(faults) > 0 {
			t.Fatal(preset, more, faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		for i := range ks.Detectors {
			p := threshold.Params{}
			if own := ks.Detectors[i].Threshold; own != nil { // else it is off
				p = *own
			}
			list = append(list, p)
		}
		return list
	}
	less := func(a, b threshold.Params) bool { // a reports more easily
		switch a.Kind {
		case threshold.Conformal:
			return a.Value > b.Value && a.Margin == b.Margin
		case threshold.Quantile:
			return a.Value == b.Value && a.Margin < b.Margin && a.Margin > 1
		default:
			return a.Value < b.Value
		}
	}
	for i := range Presets {
		name, own := Presets[i].Name, slices.DeleteFunc(slices.Clone(Presets[i].Detectors), func(d PresetDetector) bool { return d.One == "" })
		low, normal, high := bounds(name, "ODRADEK_SENSITIVITY=low"), bounds(name), bounds(name, "ODRADEK_SENSITIVITY=high")
		if len(normal) != len(own) {
			t.Fatalf("%s: %d thresholds of %d detectors", name, len(normal), len(own))
		}
		for j := range normal {
			s := own[j].One
			judged := strings.Contains(s, "THRESHOLD=") && !strings.Contains(s, "THRESHOLD=off")
			if judged && (!less(high[j], normal[j]) || !less(normal[j], low[j])) {
				t.Errorf("%s: thresholds of detector %d are %v, %v and %v for low, normal and high", name, j, low[j], normal[j], high[j])
			}
		}
	}
	if b := bounds("default", "ODRADEK_SENSITIVITY=high", "ODRADEK_DETECTOR_NEAR_THRESHOLD=mad:6"); b[0] != bounds("default",
		"ODRADEK_DETECTOR_NEAR_THRESHOLD=mad:6")[0] {
		t.Errorf("a threshold that is set became %v", b[0])
	}
	_, faults, _ := Parse(minimal("ODRADEK_SENSITIVITY=high", "ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP=knn"))
	if len(faults) != 1 || faults[0].Name != "ODRADEK_SENSITIVITY" {
		t.Errorf("with detectors by name: %v", faults)
	}
}

// TestWithSensitivity: another sensitivity of settings of a file that has changed since; a variable that sets it is overridden, too.
func TestWithSensitivity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = "group: g\nkey_field: id\ntime_field: at\nvalue_fields: [v]\nformat: json\ntopics: [in]\nsensitivity: low\n"
	for _, variable := range []string{"", "ODRADEK_SENSITIVITY=normal"} {
		write(text)
		c, faults, _ := Parse([]string{"ODRADEK_CONFIG=" + file, variable})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		line := "sensitivity: high"
		if variable != "" {
			line = "ODRADEK_SENSITIVITY=high"
		}
		if got := c.SensitivityLine("high"); got != line {
			t.Errorf("%s: the line is %q", variable, got)
		}
		write("preset: none\n")
		high, err := c.WithSensitivity("high")
		if err != nil || high.Detect.Sensitivity != "high" || c.Detect.Sensitivity == "high" {
			t.Fatalf("%v: %+v", err, high)
		}
		if a, b := c.Detectors[0].Alarm.Threshold, high.Detectors[0].Alarm.Threshold; a == b {
			t.Errorf("%s: %s in both", c.Detectors[0].Name, a)
		}
		if high.Mapping.KeyField != "id" {
			t.Errorf("other settings are lost: %+v", high.Mapping)
		}
	}
	c, _, _ := Parse(minimal("ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP=knn"))
	if _, err := c.WithSensitivity("high"); err == nil || !strings.Contains(err.Error(), "ODRADEK_SENSITIVITY") {
		t.Errorf("without a preset: %v", err)
	}
}
