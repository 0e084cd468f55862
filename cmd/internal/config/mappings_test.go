package config

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

var mappingNames = MappingNames{Prefix: "P_", Settings: []string{"KEY_FIELD", "VALUE_FIELDS", "SERIES_FIELDS", settingDetectors}}

// TestFind: a variable is a setting of the mapping between the prefix and the setting's name, with any underscores in it.
func TestFind(t *testing.T) {
	list, unknown := mappingNames.Find(map[string]string{
		"P_TOPICS": "x", "P_MAPPING_B_TOPICS": "x, y,", "P_MAPPING_B_KEY_FIELD": "id", "P_MAPPING_A_KEY_TOPICS": "z",
		"P_MAPPING_A_KEY_DETECTORS": "d",
		"P_MAPPING_C_KEY_FIELD":     "", "P_MAPPING_B_FIELD": "1", "P_MAPPING__TOPICS": "1", "P_MAPPING_TOPICS": "1", "P_MAPPING_b_TOPICS": "1",
	})
	want := []*Mapping{
		{Name: "A_KEY", Topics: []string{"z"}, Detectors: []string{"d"},
			Given: map[string]string{"TOPICS": "P_MAPPING_A_KEY_TOPICS", "DETECTORS": "P_MAPPING_A_KEY_DETECTORS"}},
		{Name: "B", Topics: []string{"x", "y"}, Given: map[string]string{"TOPICS": "P_MAPPING_B_TOPICS", "KEY_FIELD": "P_MAPPING_B_KEY_FIELD"}},
		{Name: "C", Given: map[string]string{}},
	}
	if !reflect.DeepEqual(list, want) {
		for _, m := range list {
			t.Errorf("got %+v", *m)
		}
	}
	if w := []string{"P_MAPPING_B_FIELD", "P_MAPPING_TOPICS", "P_MAPPING__TOPICS", "P_MAPPING_b_TOPICS"}; !slices.Equal(unknown, w) {
		t.Errorf("unknown %q, want %q", unknown, w)
	}
}

// TestOver: a mapping's settings take the place of those that it would inherit; of two that exclude each other it has the one
// that it gives.
func TestOver(t *testing.T) {
	vars := map[string]string{"P_TOPICS": "a,b", "P_KEY_FIELD": "id", "P_VALUE_FIELDS": "v", "P_DETECTORS": "d,e", "P_OTHER": "1",
		"P_MAPPING_M_TOPICS": "b", "P_MAPPING_M_SERIES_FIELDS": "s,t", "P_MAPPING_M_DETECTORS": "d", "P_MAPPING_N_TOPICS": "a"}
	list, _ := mappingNames.Find(vars)
	want := map[string]string{"P_TOPICS": "b", "P_KEY_FIELD": "id", "P_SERIES_FIELDS": "s,t", "P_DETECTORS": "d,e", "P_OTHER": "1"}
	if got := over(list[0], vars, "P_"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// A setting of the mapping that is not among the values hides the one that is.
	if got := over(list[0], map[string]string{"P_TOPICS": "a,b", "P_VALUE_FIELDS": "v"}, "P_"); len(got) > 0 {
		t.Errorf("got %v, want nothing", got)
	}
}
