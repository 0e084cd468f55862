package config

import (
	"strings"
	"testing"

	"odradek/processor/state"
)

// TestReadingsField: an array of readings makes several samples of a record; what does not fit it is a fault of its setting.
func TestReadingsField(t *testing.T) {
	parse := func(settings ...string) (*Config, string) {
		environ := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_FORMAT=json"}
		for _, s := range settings {
			environ = append(environ, Prefix+s)
		}
		c, faults, _ := Parse(environ)
		var names []string
		for _, f := range faults {
			names = append(names, strings.TrimPrefix(f.Name, Prefix))
		}
		return c, strings.Join(names, " ")
	}
	st := func(settings ...string) *state.Config {
		t.Helper()
		c, faults := parse(settings...)
		if faults != "" {
			t.Fatal(faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil || ks.Check() != nil {
			t.Fatal(err, ks.Check())
		}
		return ks
	}
	batch := st("READINGS_FIELD=p", "VALUE_FIELDS=p.v")
	if batch.SampleBits != state.SeveralBits || batch.Dim != 1 || batch.Reading.MaxHeld != state.DefaultMaxHeld(1)/16 {
		t.Errorf("bits %d, dim %d, held %d", batch.SampleBits, batch.Dim, batch.Reading.MaxHeld)
	}
	if ks := st("READINGS_FIELD=p", "VALUE_FIELDS=p.v", "MAX_HELD=1000"); ks.Reading.MaxHeld != 1000 {
		t.Errorf("held %d", ks.Reading.MaxHeld)
	}
	if plain := st("VALUE_FIELDS=p.v"); plain.Windows[0].Fingerprint == batch.Windows[0].Fingerprint || plain.SampleBits != 0 {
		t.Error("state of records of one reading is taken for state of several")
	}
	if both := st("READINGS_FIELD=p", "SERIES_FIELDS=p.a,p.b", "MAX_HELD=1000"); both.Reading.MaxHeld != 500 || both.Dim != 1 {
		t.Errorf("held %d, dim %d", both.Reading.MaxHeld, both.Dim)
	}
	for settings, want := range map[string]string{
		"READINGS_FIELD=p[3] VALUE_FIELDS=p.v":                                          "READINGS_FIELD",
		"READINGS_FIELD=p":                                                              "READINGS_FIELD", // no value is in it
		"READINGS_FIELD=p VALUE_FIELDS=p[3].v":                                          "VALUE_FIELDS",
		"READINGS_FIELD=p SERIES_FIELDS=p.v,p..w":                                       "SERIES_FIELDS",
		"READINGS_FIELD=p VALUE_FIELDS=p.v KEY_FIELD=p.k REKEY=true LATENESS=1s":        "REKEY",
		"READINGS_FIELD=p VALUE_FIELDS=p.v KEY_FIELD=k REKEY=true LATENESS=1s":          "",
		"READINGS_FIELD=p VALUE_FIELDS=p.v KEY_FIELD=@partition":                        "",
		"READINGS_FIELD=p VALUE_FIELDS=p.v KEY_FIELD=@partition REKEY=true LATENESS=1s": "REKEY",
		"READINGS_FIELD=@value VALUE_FIELDS=v KEY_FIELD=k TIME_FIELD=at":                "",
		"READINGS_FIELD=p VALUE_FIELDS=p.v,ambient KEY_FIELD=m+p.k TIME_FIELD=p.at":     "",
		"READINGS_FIELD=p VALUE_FIELDS=p.v KEY_FIELD=p[2] TIME_FIELD=p[2] TIME_UNIT=ms": "KEY_FIELD TIME_FIELD",
	} {
		if _, got := parse(strings.Fields(settings)...); got != want {
			t.Errorf("%s: faults of %s, want %s", settings, got, want)
		}
	}
}
