package config

import (
	"strings"
	"testing"

	"odradek/processor/state"
)

// TestSeriesFields: each field is a series of one value, whose state does not depend on the other fields.
func TestSeriesFields(t *testing.T) {
	parse := func(settings ...string) (*Config, []Fault) {
		environ := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_FORMAT=json"}
		for _, s := range settings {
			environ = append(environ, Prefix+s)
		}
		c, faults, _ := Parse(environ)
		return c, faults
	}
	st := func(c *Config, faults []Fault) *state.Config {
		t.Helper()
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		return ks
	}
	c, faults := parse("SERIES_FIELDS=a.x,b[2]", "MAX_HELD=1000")
	two := st(c, faults)
	if got := strings.Join(c.Series(), " "); got != "a.x b[0] b[1]" {
		t.Errorf("series %s", got)
	}
	if two.Dim != 1 || two.SampleBits != state.SeveralBits || two.Reading.MaxHeld != 333 || two.Check() != nil {
		t.Errorf("dim %d, bits %d, held %d, %v", two.Dim, two.SampleBits, two.Reading.MaxHeld, two.Check())
	}
	one := st(parse("SERIES_FIELDS=c"))
	if one.Reading.Layout() != two.Reading.Layout() || one.Windows[0].Fingerprint != two.Windows[0].Fingerprint {
		t.Error("a field more empties the series of the others")
	}
	if plain := st(parse()); plain.Reading.Layout() == one.Reading.Layout() || plain.Windows[0].Fingerprint == one.Windows[0].Fingerprint ||
		plain.SampleBits != 0 {
		t.Error("state of records of one sample is taken for that of several")
	}
	for settings, want := range map[string]string{
		"SERIES_FIELDS=a,a":              "SERIES_FIELDS",
		"SERIES_FIELDS=a/b":              "SERIES_FIELDS",
		"SERIES_FIELDS=a..b":             "SERIES_FIELDS",
		"SERIES_FIELDS=a VALUE_FIELDS=b": "VALUE_FIELDS",
	} {
		_, faults := parse(strings.Fields(settings)...)
		var names []string
		for _, f := range faults {
			names = append(names, strings.TrimPrefix(f.Name, Prefix))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: faults of %s, want %s: %v", settings, got, want, faults)
		}
	}
}
