package config

import (
	"strings"
	"testing"
)

// reloadMapped is base with a mapping of one of two topics.
const reloadMapped = base + `mappings:
  wide: {topics: [wide], format: json, series_fields: [a, b]}
`

// TestMapping: changed thresholds hold for the topics of mappings, too; a changed mapping needs a restart, and so does one more
// or one less.
func TestMapping(t *testing.T) {
	two := strings.Replace(reloadMapped, "group: g", "group: g\ntopics: [in, wide]", 1)
	two = strings.Replace(two, "topics: [in]\n", "", 1)
	b := newBench(t, two)
	read := func(oldnew ...string) string {
		t.Helper()
		b.log.Reset()
		b.write(strings.NewReplacer(oldnew...).Replace(two))
		b.Reload()
		return b.log.String()
	}
	if said := read("fixed:3", "fixed:5"); !strings.Contains(said, "taken up") {
		t.Fatal(said)
	}
	now := b.Changeable()
	for _, name := range []string{"", "WIDE"} {
		if value := now.ByName[name].Detectors[0].Threshold.Value; value != 5 {
			t.Errorf("threshold %v of mapping %q", value, name)
		}
	}
	if now.State.SampleBits != 0 || now.ByName["WIDE"].SampleBits == 0 {
		t.Error("the state of the mapping is not its own")
	}
	for _, c := range []struct{ was, is, want string }{
		{"series_fields: [a, b]", "series_fields: [a, b], time_field: at", "ODRADEK_MAPPING_WIDE_TIME_FIELD: @timestamp -> at"},
		{"series_fields: [a, b]", "series_fields: [a, b], time_field: at", "windows and scores of detector level of the topics of mapping WIDE"},
		{"  wide: {", "  other: {", "names of mappings: ,WIDE -> ,OTHER"},
	} {
		if said := read(c.was, c.is); !strings.Contains(said, c.want) || !strings.Contains(said, "not taken up") {
			t.Errorf("no %q: %s", c.want, said)
		}
	}
	c := b.Settings()
	if Hash(c) == Hash(newBench(t, strings.Replace(two, "[a, b]", "[a, c]", 1)).Settings()) {
		t.Error("workers with other mappings have the same hash")
	}
}
