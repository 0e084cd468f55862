package config

import (
	"slices"
	"strings"
	"testing"
)

// TestTransformFingerprints: a transform changes the windows of its field, and with ODRADEK_SERIES_FIELDS all. Which settings
// do is listed for those who read of a mismatch.
func TestTransformFingerprints(t *testing.T) {
	windows := func(settings ...string) (list []uint64, shown []string) {
		t.Helper()
		c, faults, _ := Parse(minimal(settings...))
		if len(faults) > 0 {
			t.Fatal(settings, faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(settings, err)
		}
		for i := range ks.Windows {
			list = append(list, ks.Windows[i].Fingerprint)
		}
		for _, s := range c.StateSettings(ks) {
			for _, f := range s.Fields {
				if f.Name == Prefix+"TRANSFORM" {
					shown = append(shown, s.Detector+" "+f.Value)
				}
			}
		}
		return list, shown
	}
	two := []string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x,y", "ODRADEK_DETECTOR_X_OP=zscore", "ODRADEK_DETECTOR_X_FIELDS=a",
		"ODRADEK_DETECTOR_Y_OP=zscore", "ODRADEK_DETECTOR_Y_FIELDS=b"}
	plain, _ := windows(two...)
	changed, shown := windows(append(slices.Clone(two), "ODRADEK_TRANSFORM=b=rate")...)
	if plain[0] != changed[0] || plain[1] == changed[1] || !slices.Equal(shown, []string{"y b=rate"}) {
		t.Errorf("windows %x, with a transform of the second %x; shown %q", plain, changed, shown)
	}
	each := []string{"ODRADEK_SERIES_FIELDS=a,b", "ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP=zscore"}
	plain, _ = windows(each...)
	if changed, _ = windows(append(each, "ODRADEK_TRANSFORM=b=rate")...); plain[0] == changed[0] {
		t.Error("a transform leaves the windows of series as they are")
	}
	for setting, want := range map[string][2]bool{"EVERY=1m": {true, true}, "AGGREGATE=b=max": {}, "EVERY=1m AGGREGATE=b=max": {true, true}} {
		var more []string
		for _, s := range strings.Fields(setting) {
			more = append(more, Prefix+s)
		}
		plain, _ := windows(two...)
		changed, _ := windows(append(slices.Clone(two), more...)...)
		if got := [2]bool{plain[0] != changed[0], plain[1] != changed[1]}; got != want {
			t.Errorf("%s changes windows %v, want %v", setting, got, want)
		}
	}
	mean, _ := windows(append(slices.Clone(two), "ODRADEK_EVERY=1m")...)
	most, _ := windows(append(slices.Clone(two), "ODRADEK_EVERY=1m", "ODRADEK_AGGREGATE=b=max")...)
	if mean[0] != most[0] || mean[1] == most[1] {
		t.Errorf("windows %x, with another aggregate of the second %x", mean, most)
	}
}

// TestCountersOfOTLP: cumulative sums become rates by default, of no other format, and not where a transform is set.
func TestCountersOfOTLP(t *testing.T) {
	for settings, want := range map[string]string{
		"FORMAT=otlp SERIES_FIELDS=gauge,counter":                              "counter=rate",
		"FORMAT=otlp VALUE_FIELDS=counter":                                     "counter=rate",
		"FORMAT=otlp VALUE_FIELDS=value":                                       "",
		"FORMAT=otlp SERIES_FIELDS=gauge,counter TRANSFORM=counter=difference": "counter=difference",
		"FORMAT=json SERIES_FIELDS=gauge,counter":                              "",
	} {
		environ := []string{"READINGS_FIELD=@value", "KEY_FIELD=name", "TIME_FIELD=time"}
		if strings.Contains(settings, "json") {
			environ = nil
		}
		environ = append(environ, strings.Fields(settings)...)
		for i := range environ {
			environ[i] = Prefix + environ[i]
		}
		c, faults, _ := Parse(minimal(environ...))
		if got := strings.Join(c.Mapping.Transform, ","); got != want || len(faults) > 0 {
			t.Errorf("%s: %q, %v, want %q", settings, got, faults, want)
		}
		r, err := c.Reading()
		if got := strings.Join(r.Transforms, ","); got != want || err != nil {
			t.Errorf("%s: a reading with %q, %v, want %q", settings, got, err, want)
		}
	}
}
