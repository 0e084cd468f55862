package config

import (
	"strings"
	"testing"

	"odradek/processor/state"
	"odradek/processor/state/rules"
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
		t.Error("state of records of one sample is taken for state of several")
	}
	each := st(parse("SERIES_FIELDS=a.*", "TRANSFORM=a.*=rate,a.temp=abs", "UNITS=a.temp=K", "VALID=a.*=0..", "EVERY=1m", "AGGREGATE=a.n=sum"))
	for key, want := range map[string]rules.Transform{"m/a.temp": rules.Absolute, "m/a.n": rules.Rate, "m/a.b.c": rules.Rate} {
		if got := each.Reading.TransformsOf([]byte(key)); len(got) != 1 || got[0].Transform != want {
			t.Errorf("transforms of %s: %v, want %v", key, got, want)
		}
	}
	if a := each.Reading.AggregatesOf([]byte("m/a.n")); len(a) != 1 || a[0].Aggregate != rules.Sum {
		t.Errorf("aggregates of a.n: %v", a)
	}
	if a := each.Reading.AggregatesOf([]byte("m/a.temp")); len(a) != 1 || a[0].Aggregate != rules.Mean {
		t.Errorf("aggregates of a.temp: %v", a)
	}
	if got := each.UnitOf([]byte("m/a.temp"), ""); got != "" && got != "K" || each.UnitOf([]byte("m/a.temp"), "value") != "K" {
		t.Errorf("unit %q", got)
	}
	same := st(parse("SERIES_FIELDS=a.*"))
	if same.Reading.Layout() != two.Reading.Layout() || same.Windows[0].Fingerprint != two.Windows[0].Fingerprint {
		t.Error("a wildcard in the place of a field empties the series")
	}
	for settings, want := range map[string]string{
		"SERIES_FIELDS=a.*,b":                               "SERIES_FIELDS",
		"SERIES_FIELDS=a[2].*":                              "SERIES_FIELDS",
		"SERIES_FIELDS=a.* COMPUTE=b=c":                     "COMPUTE",
		"SERIES_FIELDS=a.* UNITS=b=K":                       "UNITS",
		"VALUE_FIELDS=a.*":                                  "VALUE_FIELDS",
		"VALUE_FIELDS=*":                                    "VALUE_FIELDS",
		"SERIES_FIELDS=* FORMAT=otlp READINGS_FIELD=@value": "SERIES_FIELDS",
		"SERIES_FIELDS=a.* TRANSFORM=b=rate":                "TRANSFORM",
		"SERIES_FIELDS=a.* DECIMALS=a.*=2":                  "SERIES_FIELDS",
		"SERIES_FIELDS=a,a":                                 "SERIES_FIELDS",
		"SERIES_FIELDS=a/b":                                 "SERIES_FIELDS",
		"SERIES_FIELDS=a..b":                                "SERIES_FIELDS",
		"SERIES_FIELDS=a VALUE_FIELDS=b":                    "VALUE_FIELDS",
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
