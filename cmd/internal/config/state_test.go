package config

import (
	"strings"
	"testing"

	"odradek/processor"
	"odradek/processor/state"
)

// TestEarlierFingerprint: state that a version before has made with the same settings
// is known as such, although its fingerprint is another one, and that of others is not.
func TestEarlierFingerprint(t *testing.T) {
	c, faults, _ := Parse(minimal("ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=near,level",
		"ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_WINDOW=50", "ODRADEK_DETECTOR_NEAR_EMBED=1", "ODRADEK_DETECTOR_LEVEL_OP=zscore",
		"ODRADEK_DETECTOR_LEVEL_WINDOW=16"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	ks, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	list := c.StateSettings(ks)
	params := func(text string) *state.Mismatch { return &state.Mismatch{Params: fingerprint(text)} }
	window := func(text string) *state.Mismatch {
		return &state.Mismatch{Fields: true, Window: fingerprint(text)}
	}
	for _, tt := range []struct {
		detector int
		m        *state.Mismatch
		want     bool
	}{
		// before MIN_POINTS
		{0, params(`detector;1;op=knn;window=50;stride=1;fields=["a" "b"];K=10;EMBED=1;TUMBLING=false;INCLUDE_SELF=false`), true},
		{0, params(`detector;1;op=knn;window=50;stride=1;fields=["a" "b"];K=11;EMBED=1;TUMBLING=false;INCLUDE_SELF=false`), false},
		{0, params(`detector;1;op=knn;window=51;stride=1;fields=["a" "b"];K=10;EMBED=1;TUMBLING=false;INCLUDE_SELF=false`), false},
		{1, params(`detector;1;op=zscore;window=16;stride=1;fields=["a" "b"]`), true}, // before its version 1
		{1, params(`detector;1;op=zscore;window=17;stride=1;fields=["a" "b"]`), false},
		{1, window(`window;1;key="@key";time="@timestamp";unit=auto;fields=["a" "b"]`), true}, // before rows that lack values
		{1, window(`window;1;key="id";time="@timestamp";unit=auto;fields=["a" "b"]`), false},
	} {
		if got := list[tt.detector].Earlier(tt.m); got != tt.want {
			t.Errorf("%s, %+v: earlier is %v, want %v", list[tt.detector].Detector, tt.m, got, tt.want)
		}
	}
}

// TestCausesOfEnsembles: where a setting of the records or of a member has changed, the refusal names it for the ensemble,
// too, whose fingerprint has those of its members.
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
