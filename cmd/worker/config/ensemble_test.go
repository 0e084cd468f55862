package config

import (
	"slices"
	"strings"
	"testing"
)

func ensembleOf(more ...string) []string {
	return append([]string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x,both,y", "ODRADEK_DETECTOR_Y_OP=ar",
		"ODRADEK_DETECTOR_BOTH_OP=ensemble",
		"ODRADEK_DETECTOR_BOTH_MEMBERS=y,x"}, more...)
}

// TestEnsemble: an ensemble has the indices and names of its members, and a fingerprint that follows theirs.
func TestEnsemble(t *testing.T) {
	prints := map[uint64]string{}
	for _, more := range []string{"", "X_K=11", "X_FIELDS=a", "Y_SMOOTH=3", "BOTH_MEMORY=100", "BOTH_SMOOTH=5", "BOTH_MEMBERS=x,y"} {
		list := ensembleOf()
		if more != "" {
			list = append(list, "ODRADEK_DETECTOR_"+more)
		}
		c, faults, _ := Parse(minimal(list...))
		if len(faults) > 0 {
			t.Fatal(more, faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(more, err)
		}
		if err := ks.Check(); err != nil {
			t.Fatal(more, err)
		}
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
			d.Events == nil {
			t.Errorf("%s: %+v", more, d)
		}
	}
}

// TestBadEnsembles: each fault is named by its setting.
func TestBadEnsembles(t *testing.T) {
	for _, tt := range [][2]string{
		{"BOTH_MEMBERS=x", "BOTH_MEMBERS"}, {"BOTH_MEMBERS=x,z", "BOTH_MEMBERS"}, {"BOTH_MEMBERS=x,both", "BOTH_MEMBERS"},
		{"BOTH_MEMBERS=x,x", "BOTH_MEMBERS"}, {"X_MEMBERS=y", "X_MEMBERS"}, {"X_STRIDE=5000", "BOTH_MEMBERS"}, {"BOTH_STRIDE=2", "BOTH_STRIDE"},
		{"BOTH_WINDOW=70", "BOTH_WINDOW"}, {"BOTH_FIELDS=a", "BOTH_FIELDS"}, {"BOTH_MEMORY=10", "BOTH_MIN_POINTS"},
		{"BOTH_THRESHOLD=mean:3", "BOTH_THRESHOLD"}, {"BOTH_RELEASE=0.5", "BOTH_RELEASE"}, {"BOTH_K=4", "BOTH_K"}, {"X_SMOOTH=5000", "X_SMOOTH"},
	} {
		_, faults, _ := Parse(minimal(ensembleOf("ODRADEK_DETECTOR_" + tt[0])...))
		if !slices.ContainsFunc(faults, func(f Fault) bool { return strings.HasSuffix(f.Name, tt[1]) }) {
			t.Errorf("%s: faults are %v", tt[0], faults)
		}
	}
}
