package config

import (
	"strings"
	"testing"
	"time"
)

// TestHistory: HISTORY is a number of scores, or a time, with a number of its own or as many as the rate takes.
func TestHistory(t *testing.T) {
	const near = "ODRADEK_DETECTOR_NEAR_"
	for _, c := range []struct {
		value, threshold string
		history          int
		span             time.Duration
		printed          string
	}{
		{"777", "mad:6", 777, 0, "777"},
		{"36h", "mad:6", 2048, 36 * time.Hour, "36h0m0s"},
		{"3d", "mad:6", 2048, 72 * time.Hour, "3d"},
		{"72h", "conformal:0.001", 2048, 72 * time.Hour, "3d"},
		{"1d12h", "conformal:0.0001", 9999, 36 * time.Hour, "36h0m0s"},
		{"2d", "conformal:0.00001", 65536, 48 * time.Hour, "2d"},
		{"14d:500", "conformal:0.002", 500, 14 * 24 * time.Hour, "14d:500"},
	} {
		cfg, faults, _ := Parse(minimal("ODRADEK_DETECTORS=near", near+"HISTORY="+c.value, near+"THRESHOLD="+c.threshold))
		if len(faults) > 0 {
			t.Fatal(c.value, faults)
		}
		ks, err := cfg.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		if r := ks.Detectors[0].Threshold; r.History != c.history || r.Span != c.span.Microseconds() {
			t.Errorf("%s: %d scores over %d us", c.value, r.History, r.Span)
		}
		if env := cfg.PrintEnv(); !strings.Contains(env, near+"HISTORY="+c.printed+"\n") {
			t.Errorf("%s is printed otherwise", c.value)
		}
	}
	for _, value := range []string{"31", "65537", "x", "3", "-3d", "-5s", "3661d", "3d:31", "3d:65537", "3d:x", "3d:",
		":3", "d", "3d3", "NaN"} {
		_, faults, _ := Parse(minimal("ODRADEK_DETECTORS=near", near+"HISTORY="+value))
		if len(faults) != 1 || faults[0].Name != near+"HISTORY" {
			t.Errorf("%s: faults %v", value, faults)
		}
	}
}
