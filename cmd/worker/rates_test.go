package main

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"odradek/detectors/quality"
)

// TestRates: worker score -rates judges every detector by each rate, regardless of its threshold,
// and counts what exceeds on series without anomalies.
func TestRates(t *testing.T) {
	var env []string
	for _, name := range []string{"A", "B"} {
		d := "ODRADEK_DETECTOR_" + name + "_"
		env = append(env, d+"OP=zscore", d+"WINDOW=64", d+"HISTORY=1024", d+"ALARMS_PER_DAY=3")
	}
	env = append(env, "ODRADEK_DETECTORS=a,b")
	kinds, _ := quality.Synthetic()
	lines := score(t, env, "-rates", "-series", "[ab]")
	if len(lines) != 2*len(kinds)*len(askedRates) {
		t.Fatalf("%d lines of %d kinds of series and %d rates", len(lines), len(kinds), len(askedRates))
	}
	for i, l := range lines {
		m := l["false_alarms"].(map[string]any)
		after := m["after"].(map[string]any)
		rate := askedRates[i%len(askedRates)]
		if kind := kinds[i/(2*len(askedRates))]; l["set"] != kind || m["asked"] != rate {
			t.Errorf("line %d is of %v at %v", i, l["set"], m["asked"])
		}
		if judged := after["judged"].(float64); i < 4 && math.Abs(judged-2*(6000-320)) > 2*64 {
			t.Errorf("%v judged scores at a rate of %v", judged, rate)
		} else if times := after["exceed"].(float64) / judged / rate; i < 2 && (times < 0.5 || times > 1.3) {
			t.Errorf("%v, independent: %.2f times the rate of %v", l["set"], times, rate)
		}
	}
	var out, errs bytes.Buffer
	if code := (terminal{&out, &errs, env}).score(context.Background(), []string{"-rates", "-data", "testdata"}); code == exitOK {
		t.Error("a folder without a data set has rates")
	}
	if strings.Contains(out.String(), "NaN") {
		t.Errorf("printed %s", out.String())
	}
}
