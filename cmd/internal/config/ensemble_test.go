package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"odradek/processor"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

func ensembleOf(more ...string) []string {
	return append([]string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x,both,y", "ODRADEK_DETECTOR_Y_OP=ar",
		"ODRADEK_DETECTOR_BOTH_OP=ensemble",
		"ODRADEK_DETECTOR_BOTH_MEMBERS=y,x"}, more...)
}

// stateOf returns a minimal configuration with these lines and the state's configuration, both without a fault.
func stateOf(t *testing.T, what string, lines ...string) (*Config, *state.Config) {
	t.Helper()
	c, faults, _ := Parse(minimal(lines...))
	if len(faults) > 0 {
		t.Fatal(what, faults)
	}
	ks, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(what, err)
	}
	if err := ks.Check(); err != nil {
		t.Fatal(what, err)
	}
	return c, ks
}

// TestEnsemble: an ensemble has the indices and names of its members, and a fingerprint that follows theirs.
func TestEnsemble(t *testing.T) {
	prints := map[uint64]string{}
	for _, more := range []string{"", "X_K=11", "X_FIELDS=a", "Y_SMOOTH=3", "BOTH_MEMORY=100", "BOTH_SMOOTH=5", "BOTH_MEMBERS=x,y",
		"BOTH_COMBINE=any", "BOTH_WEIGHTS=1,4", "BOTH_WEIGHTS=4,1"} {
		list := ensembleOf()
		if more != "" {
			list = append(list, "ODRADEK_DETECTOR_"+more)
		}
		c, ks := stateOf(t, more, list...)
		d := &ks.Detectors[1]
		if other, ok := prints[d.Fingerprint]; ok {
			t.Errorf("%q and %q have one fingerprint", other, more)
		}
		prints[d.Fingerprint] = more
		members := []int{2, 0}
		if more == "BOTH_MEMBERS=x,y" {
			members = []int{0, 2}
		}
		if !slices.Equal(d.Ensemble.Members, members) || !slices.Equal(d.Fields, c.Detectors[1].Members) || d.Threshold == nil ||
			d.Events == nil || d.Ensemble.Any != (more == "BOTH_COMBINE=any") {
			t.Errorf("%s: %+v", more, d)
		}
	}
}

// TestKeysAreDecided: the state knows the patterns of KEYS of each detector, an ensemble too, and so decides on a change of them.
func TestKeysAreDecided(t *testing.T) {
	_, ks := stateOf(t, "KEYS", ensembleOf("ODRADEK_DETECTOR_X_KEYS=!a*", "ODRADEK_DETECTOR_BOTH_KEYS=b*,!bb")...)
	for i, want := range [][]string{{"!a*"}, {"b*", "!bb"}, nil} {
		if d := &ks.Detectors[i]; !slices.Equal(d.Patterns, want) || (d.Keys == nil) != (want == nil) {
			t.Errorf("%s has the patterns %q, want %q", d.Name, d.Patterns, want)
		}
	}
}

// TestEnsembleOfAny: its threshold is fixed:1 unless another is set, and its members are judged although nothing else
// uses their verdicts.
func TestEnsembleOfAny(t *testing.T) {
	for _, tt := range [][2]string{
		{"", "fixed:1"}, {"BOTH_THRESHOLD=fixed:1.5", "fixed:1.5"}, {"BOTH_ALARMS_PER_DAY=2", "per-day:2"}, {"BOTH_RELEASE=0.5", "fixed:1"},
		{"BOTH_THRESHOLD=mean:3", "mean:3"}, {"BOTH_MEMBERS=y,x", "fixed:1"},
	} {
		list := ensembleOf("ODRADEK_DETECTOR_BOTH_COMBINE=any")
		if tt[0] != "" {
			list = append(list, "ODRADEK_DETECTOR_"+tt[0])
		}
		for _, anomalies := range []bool{true, false} {
			c, ks := stateOf(t, tt[0], append(list, fmt.Sprint("ODRADEK_ANOMALIES=", anomalies))...)
			d := &ks.Detectors[1]
			if c.Detectors[1].Alarm.Threshold != tt[1] || (d.Events != nil) != anomalies || (d.Threshold != nil) != anomalies {
				t.Errorf("%s, anomalies %v: %s, %+v", tt[0], anomalies, c.Detectors[1].Alarm.Threshold, d)
			}
			for _, i := range d.Ensemble.Members {
				if m := &ks.Detectors[i]; m.Threshold == nil || (m.Events != nil) != anomalies {
					t.Errorf("%s, anomalies %v: member %+v", tt[0], anomalies, m)
				}
			}
		}
	}
	c, _, _ := Parse(minimal(ensembleOf("ODRADEK_DETECTOR_BOTH_COMBINE=any")...))
	if _, faults, _ := Parse(strings.Split(c.PrintEnv(), "\n")); len(faults) > 0 { // what it prints is what it reads
		t.Error(faults)
	}
	ks, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	said := func(list []processor.StoredSetting) bool {
		return slices.ContainsFunc(list, func(s processor.StoredSetting) bool {
			return s.Name == "ODRADEK_DETECTOR_BOTH_COMBINE" && s.Value == "any"
		})
	}
	if !slices.ContainsFunc(c.StateSettings(ks), func(s processor.StateSettings) bool { return said(s.Op) }) {
		t.Error("the settings behind the fingerprint do not say COMBINE=any")
	}
}

// TestBadEnsembles: each fault is named by its setting.
func TestBadEnsembles(t *testing.T) {
	for _, tt := range [][2]string{
		{"BOTH_MEMBERS=x", "BOTH_MEMBERS"}, {"BOTH_MEMBERS=x,z", "BOTH_MEMBERS"}, {"BOTH_MEMBERS=x,both", "BOTH_MEMBERS"},
		{"BOTH_MEMBERS=x,x", "BOTH_MEMBERS"}, {"X_MEMBERS=y", "X_MEMBERS"}, {"X_STRIDE=5000", "BOTH_MEMBERS"}, {"BOTH_STRIDE=2", "BOTH_STRIDE"},
		{"BOTH_WINDOW=70", "BOTH_WINDOW"}, {"BOTH_FIELDS=a", "BOTH_FIELDS"}, {"BOTH_MEMORY=10", "BOTH_MIN_POINTS"},
		{"BOTH_THRESHOLD=mean:3", "BOTH_THRESHOLD"}, {"BOTH_RELEASE=0.5", "BOTH_RELEASE"}, {"BOTH_K=4", "BOTH_K"}, {"X_SMOOTH=5000", "X_SMOOTH"},
		{"BOTH_COMBINE=all", "BOTH_COMBINE"}, {"X_COMBINE=any", "X_COMBINE"}, {"BOTH_COMBINE=any X_THRESHOLD=off", "BOTH_MEMBERS"},
		{"BOTH_COMBINE=any BOTH_MEMORY=100", "BOTH_MEMORY"}, {"BOTH_COMBINE=any BOTH_MIN_POINTS=3", "BOTH_MIN_POINTS"},
		{"X_UNTIL=100", "BOTH_MEMBERS"}, {"BOTH_UNTIL=100", "BOTH_UNTIL"}, {"BOTH_COMBINE=any X_UNTIL=9 Y_UNTIL=9", "BOTH_MEMBERS"},
		{"BOTH_COMBINE=any BOTH_ALIGN=true", "BOTH_ALIGN"}, {"BOTH_COMBINE=any BOTH_WEIGHTS=1,2", "BOTH_WEIGHTS"},
		{"BOTH_WEIGHTS=1", "BOTH_WEIGHTS"}, {"BOTH_WEIGHTS=1,0", "BOTH_WEIGHTS"}, {"BOTH_WEIGHTS=1,x", "BOTH_WEIGHTS"},
		{"BOTH_WEIGHTS=1,1001", "BOTH_WEIGHTS"}, {"BOTH_WEIGHTS=1,NaN", "BOTH_WEIGHTS"}, {"X_WEIGHTS=1,1", "X_WEIGHTS"},
		{"BOTH_COMBINE=any BOTH_MEMORY=100 BOTH_MEMBERS=x BOTH_STRIDE=2", "BOTH_MEMORY"},
		{"BOTH_COMBINE=any BOTH_MEMORY=100 BOTH_MEMBERS=x BOTH_STRIDE=2", "BOTH_MEMBERS"},
		{"BOTH_COMBINE=any BOTH_MEMORY=100 BOTH_MEMBERS=x BOTH_STRIDE=2", "BOTH_STRIDE"},
	} {
		var more []string
		for _, setting := range strings.Fields(tt[0]) {
			more = append(more, "ODRADEK_DETECTOR_"+setting)
		}
		_, faults, _ := Parse(minimal(ensembleOf(more...)...))
		if !slices.ContainsFunc(faults, func(f Fault) bool { return strings.HasSuffix(f.Name, tt[1]) }) {
			t.Errorf("%s: faults are %v", tt[0], faults)
		}
	}
}

// gatedBy returns lines with detectors x, y and band, an ensemble of any of x and y, and further settings of detectors.
func gatedBy(settings string) []string {
	lines := []string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x,both,y,band", "ODRADEK_DETECTOR_BAND_OP=band"}
	for _, s := range strings.Fields("BOTH_OP=ensemble BOTH_COMBINE=any BOTH_MEMBERS=y,x " + settings) {
		lines = append(lines, "ODRADEK_DETECTOR_"+s)
	}
	return lines
}

// TestOnlyWith: an ensemble of any has the gates of its members, each once, and a fingerprint that follows theirs. Its members' do not.
func TestOnlyWith(t *testing.T) {
	prints := map[uint64]string{}
	var member uint64
	for settings, want := range map[string]*series.Ensemble{
		"":                                      {},
		"X_ONLY_WITH=band:8":                    {Gates: []series.Gate{{Detector: 3, Above: 8}}, OnlyWith: []int{0, 1}},
		"X_ONLY_WITH=band:9.5":                  {Gates: []series.Gate{{Detector: 3, Above: 9.5}}, OnlyWith: []int{0, 1}},
		"Y_ONLY_WITH=band:8":                    {Gates: []series.Gate{{Detector: 3, Above: 8}}, OnlyWith: []int{1, 0}},
		"X_ONLY_WITH=band:8 BAND_RATE=0.001":    {Gates: []series.Gate{{Detector: 3, Above: 8}}, OnlyWith: []int{0, 1}},
		"X_ONLY_WITH=band:8 Y_ONLY_WITH=band:8": {Gates: []series.Gate{{Detector: 3, Above: 8}}, OnlyWith: []int{1, 1}},
		"X_ONLY_WITH=band:8 Y_ONLY_WITH=band:9": {Gates: []series.Gate{{Detector: 3, Above: 9}, {Detector: 3, Above: 8}}, OnlyWith: []int{1, 2}},
	} {
		c, ks := stateOf(t, settings, gatedBy(settings)...)
		e, fingerprint := ks.Detectors[1].Ensemble, ks.Detectors[1].Fingerprint
		if !slices.Equal(e.Gates, want.Gates) || !slices.Equal(e.OnlyWith, want.OnlyWith) {
			t.Errorf("%s: gates %v of %v, want %v of %v", settings, e.Gates, e.OnlyWith, want.Gates, want.OnlyWith)
		}
		if other, ok := prints[fingerprint]; ok {
			t.Errorf("%q and %q have one fingerprint", other, settings)
		}
		if prints[fingerprint] = settings; member != 0 && ks.Detectors[0].Fingerprint != member {
			t.Errorf("%s: another fingerprint of a member", settings)
		}
		member = ks.Detectors[0].Fingerprint
		said := slices.ContainsFunc(c.StateSettings(ks)[1].Op, func(s processor.StoredSetting) bool {
			return strings.HasSuffix(s.Name, "_ONLY_WITH") && strings.HasPrefix(s.Value, "band:")
		})
		if said != (want.Gates != nil) {
			t.Errorf("%s: the settings behind the fingerprint are %v", settings, c.StateSettings(ks)[1].Op)
		}
	}
}

// TestBadOnlyWith: a setting that cannot work is a fault that says what to do.
func TestBadOnlyWith(t *testing.T) {
	for settings, want := range map[string]string{
		"X_ONLY_WITH=band":                              "write it like band:8",
		"X_ONLY_WITH=band:x":                            "write it like band:8",
		"X_ONLY_WITH=band:0":                            "write it like band:8",
		"X_ONLY_WITH=band:NaN":                          "write it like band:8",
		"X_ONLY_WITH=:8":                                "write it like band:8",
		"X_ONLY_WITH=bond:8":                            "name a detector of op band",
		"X_ONLY_WITH=y:8":                               "name a detector of op band",
		"X_ONLY_WITH=both:8":                            "name a detector of op band",
		"X_ONLY_WITH=band:8 BOTH_COMBINE=sum":           "add it to the MEMBERS of one",
		"BAND_ONLY_WITH=band:8":                         "add it to the MEMBERS of one",
		"X_ONLY_WITH=band:8 BAND_KEYS=a*":               "set the KEYS of both",
		"X_ONLY_WITH=band:8 BAND_STRIDE=5000":           "set it to 4096",
		"BOTH_ONLY_WITH=band:8":                         "remove it",
		"X_ONLY_WITH=bond:8 BOTH_MEMBERS=y,band X_K=11": "add it to the MEMBERS of one",
	} {
		_, faults, _ := Parse(minimal(gatedBy(settings)...))
		if !slices.ContainsFunc(faults, func(f Fault) bool {
			return strings.HasSuffix(f.Name, "_ONLY_WITH") && strings.Contains(f.Fix, want)
		}) {
			t.Errorf("%s: faults are %v", settings, faults)
		}
	}
}
