package config

import (
	"strings"
	"testing"

	"odradek/processor"
	"odradek/processor/state"
)

// TestCausesOfEnsembles: where a setting of the records or of a member has changed, the refusal names it for the ensemble,
// too, whose fingerprint contains its members'.
func TestCausesOfEnsembles(t *testing.T) {
	load := func(extra ...string) (*state.Config, processor.StoredSettings) {
		c, faults, _ := Parse(minimal(append([]string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=both,near,level",
			"ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_WINDOW=50", "ODRADEK_DETECTOR_LEVEL_OP=zscore",
			"ODRADEK_DETECTOR_LEVEL_WINDOW=16", "ODRADEK_DETECTOR_BOTH_OP=ensemble", "ODRADEK_DETECTOR_BOTH_MEMBERS=near,level"},
			extra...)...))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		return ks, processor.StoredSettings{InForce: c.StateSettings(ks)}
	}
	was, then := load()
	for _, tt := range []struct{ setting, want string }{
		{"ODRADEK_KEY_FIELD=id", "ODRADEK_KEY_FIELD was @key and is id"},
		{"ODRADEK_TIME_FIELD=at", "ODRADEK_TIME_FIELD was @timestamp and is at"},
		{"ODRADEK_DETECTOR_LEVEL_WINDOW=17", "ODRADEK_DETECTOR_LEVEL_WINDOW was 16 and is 17"},
	} {
		now, s := load(tt.setting)
		s.Load(then.Value())
		var list []state.Mismatch
		for i := range was.Detectors {
			d := &was.Detectors[i]
			w := was.Windows[d.Window].Fingerprint
			if n := &now.Detectors[i]; d.Fingerprint != n.Fingerprint || w != now.Windows[n.Window].Fingerprint {
				list = append(list, state.Mismatch{Detector: d.Name, Fields: d.Fingerprint == n.Fingerprint, Window: w, Params: d.Fingerprint})
			}
		}
		if why := s.Causes(list); !strings.HasPrefix(why, tt.want+" (state of detector ") || !strings.Contains(why, "detector both") ||
			strings.Contains(why, "; ") {
			t.Errorf("%s: %s", tt.setting, why)
		}
	}
}
