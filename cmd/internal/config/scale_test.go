package config

import (
	"strings"
	"testing"
)

// TestScale: fields are scaled where a method can have it; else the start is refused, with the reason. It
// is in the fingerprint.
func TestScale(t *testing.T) {
	const d = "ODRADEK_DETECTOR_D_"
	fields := []string{"ODRADEK_DETECTORS=d", "ODRADEK_VALUE_FIELDS=a,b,c"}
	for _, c := range []struct{ settings, problem string }{
		{d + "OP=knn", ""},
		{d + "OP=knn " + d + "EMBED=5 " + d + "STRIDE=8", ""},
		{d + "OP=lof " + d + "EMBED=3", ""},
		{d + "OP=knn " + d + "FIELDS=b", "one field"},
		{d + "OP=zscore", "scales of its own"},
		{d + "OP=discord", "scales of its own"},
		{d + "OP=ikasst", "what it has learnt"},
	} {
		settings := append(fields, strings.Fields(c.settings)...)
		plain, _, _ := Parse(minimal(settings...))
		cfg, faults, _ := Parse(minimal(append(settings, d+"SCALE=range")...))
		if c.problem != "" {
			if len(faults) != 1 || !strings.Contains(faults[0].Problem, c.problem) || !strings.Contains(faults[0].Problem, d+"SCALE") {
				t.Errorf("%s: faults %v", c.settings, faults)
			}
			continue
		}
		if len(faults) > 0 {
			t.Fatal(c.settings, faults)
		}
		ks, err := cfg.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		former, err := plain.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		if !ks.Detectors[0].Scale || former.Detectors[0].Scale || ks.Detectors[0].Fingerprint == former.Detectors[0].Fingerprint {
			t.Errorf("%s: scaled %v, with the fingerprint of before", c.settings, ks.Detectors[0].Scale)
		}
	}
}
