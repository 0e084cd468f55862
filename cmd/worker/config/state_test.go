package config

import (
	"testing"

	"odradek/processor/keystate"
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
	params := func(text string) *keystate.Mismatch { return &keystate.Mismatch{Params: fingerprint(text)} }
	window := func(text string) *keystate.Mismatch {
		return &keystate.Mismatch{Fields: true, Window: fingerprint(text)}
	}
	for _, tt := range []struct {
		detector int
		m        *keystate.Mismatch
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
