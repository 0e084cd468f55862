package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Detectors x and x-max share ODRADEK_DETECTOR_X_MAX_LENGTH where x has MAX_LENGTH and x-max has LENGTH: names that share
// a setting are refused, for all ops and in both orders.
func TestDetectorNamesClash(t *testing.T) {
	settingsOf := func(op string) (names []string) {
		for _, s := range collect(reflect.ValueOf(new(detectorCommon)).Elem(), "", "") {
			names = append(names, s.name)
		}
		for _, s := range collectParams(opParams(specOf(op)), "") {
			names = append(names, s.name)
		}
		return names
	}
	tried := 0
	for _, op := range opNames() {
		for _, long := range settingsOf(op) {
			for _, other := range opNames() {
				for _, short := range settingsOf(other) {
					middle, ends := strings.CutSuffix(long, "_"+short)
					if !ends {
						continue
					}
					tried++
					name := "x-" + strings.ToLower(middle)
					for _, order := range []string{"x," + name, name + ",x"} {
						_, faults, _ := Parse(minimal("ODRADEK_DETECTORS="+order, "ODRADEK_DETECTOR_X_OP="+op, DetectorPrefix(name)+"OP="+other))
						at := slices.IndexFunc(faults, func(f Fault) bool { return f.Name == Prefix+"DETECTORS" })
						if at < 0 || !strings.Contains(faults[at].Problem, "ODRADEK_DETECTOR_X_"+long) {
							t.Errorf("DETECTORS=%s of op %s and %s share X_%s: faults %v", order, op, other, long, faults)
						}
					}
				}
			}
		}
	}
	if tried == 0 {
		t.Error("no op has a setting that ends as another's")
	}
}

// Names that begin alike are no fault where the detectors share no setting, and a setting of the longer name is not taken
// for a parameter that another op of the shorter would have.
func TestDetectorNamesAlike(t *testing.T) {
	for _, order := range []string{"x,x-max", "x-max,x"} {
		c, faults, warnings := Parse(minimal("ODRADEK_DETECTORS="+order, "ODRADEK_DETECTOR_X_OP=lof", "ODRADEK_DETECTOR_X_MAX_OP=discord",
			"ODRADEK_DETECTOR_X_MAX_LENGTH=60", "ODRADEK_DETECTOR_X_WINDOW=512"))
		if len(faults)+len(warnings) > 0 {
			t.Errorf("DETECTORS=%s: faults %v, warnings %v", order, faults, warnings)
			continue
		}
		for i := range c.Detectors {
			if d := &c.Detectors[i]; d.Name == "x-max" && d.values(none)["LENGTH"] != 60 {
				t.Errorf("DETECTORS=%s: LENGTH of x-max is %v", order, d.values(none)["LENGTH"])
			}
		}
	}
}

// The name of a mapping and of its setting can be told apart: no setting ends as another does.
func TestMappingSettingsUnambiguous(t *testing.T) {
	c, _, _ := Parse(minimal())
	names := append(c.mappingNames().Settings, "TOPICS")
	for _, long := range names {
		for _, short := range names {
			if strings.HasSuffix(long, "_"+short) {
				t.Errorf("MAPPING_X_%s is %s of mapping X, or %s of another", long, long, short)
			}
		}
	}
}
