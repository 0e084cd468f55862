package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"odradek/detectors"
)

// TestReference: a detector of a reference set has the columns of its fields, a fingerprint of the
// content, and with OUTLIERS a solving set and a threshold; what is wrong is named.
func TestReference(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	parse := func(file string, more ...string) (*DetectorSettings, *Config, string) {
		list := []string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP=knn", "ODRADEK_DETECTOR_X_EMBED=1",
			"ODRADEK_DETECTOR_X_K=1", "ODRADEK_DETECTOR_X_REFERENCE=" + file}
		for _, m := range more {
			list = append(list, "ODRADEK_DETECTOR_X_"+m)
		}
		c, faults, _ := Parse(minimal(list...))
		return &c.Detectors[0], c, fmt.Sprint(faults)
	}
	named := write("named.csv", "time,b,a\n1, 0,0\n2,0,1\n3,,7\n4,0,2\n5,0,9\n")
	plain := write("plain.csv", "0,0\n1,0\n2,0\n9,0\n")
	d, c, faults := parse(named)
	if faults != "[]" {
		t.Fatal(faults)
	}
	det, err := d.Build()
	if err != nil {
		t.Fatal(err)
	}
	if o := det.(detectors.Modelled).Origin(); o[0] != 3 || o[1] != 0 {
		t.Errorf("the origin is %v, want a=3, b=0: the mean without the sample that lacks a value", o)
	}
	if ks, err := c.KeystateConfig(); err != nil || ks.Check() != nil {
		t.Error(err)
	}
	if d.Alarm.Threshold != usualThreshold {
		t.Errorf("threshold %s, want the default", d.Alarm.Threshold)
	}
	other, _, _ := parse(plain)
	if d.canonical() != other.canonical() {
		t.Errorf("two files of the same samples: %s and %s", d.canonical(), other.canonical())
	}
	other, _, _ = parse(write("other.csv", "0,0\n1,0\n2,0\n9,1\n"))
	if d.canonical() == other.canonical() {
		t.Error("other samples have the same fingerprint")
	}
	// 9 is 7 from its neighbour, the others 1.
	if d, _, faults = parse(plain, "OUTLIERS=1"); faults != "[]" || d.Alarm.Threshold != "fixed:7" {
		t.Errorf("threshold %s, want fixed:7; %s", d.Alarm.Threshold, faults)
	}
	if d, _, faults = parse(plain, "OUTLIERS=1", "THRESHOLD=fixed:8"); faults != "[]" || d.Alarm.Threshold != "fixed:8" {
		t.Errorf("threshold %s, want the setting's; %s", d.Alarm.Threshold, faults)
	}
	for want, bad := range map[string][]string{
		"no such file":              {filepath.Join(dir, "none.csv")},
		`no column "b"`:             {write("lacks.csv", "a,c\n1,2\n")},
		"3 columns for the 2":       {write("three.csv", "1,2,3\n")},
		`line 3: b is "x"`:          {write("text.csv", "a,b\n1,2\n1,x\n")},
		"has no samples":            {write("empty.csv", "")},
		"without missing values":    {write("missing.csv", "a,b\n1,\n,2\n")},
		"op lof takes no reference": {plain, "OP=lof"},
		"4 outliers of a reference": {plain, "OUTLIERS=4"},
		"not judged by a reference": {plain, "TUMBLING=true", "WINDOW=20", "STRIDE=20"},
		"wrong number of fields":    {write("ragged.csv", "1,2\n3\n")},
	} {
		if _, _, faults := parse(bad[0], bad[1:]...); !strings.Contains(faults, want) || !strings.Contains(faults, "REFERENCE") {
			t.Errorf("%v: %s does not mention REFERENCE and %q", bad, faults, want)
		}
	}
	if _, _, faults := parse("", "OUTLIERS=1"); !strings.Contains(faults, "OUTLIERS") {
		t.Errorf("outliers of nothing: %s", faults)
	}
}
