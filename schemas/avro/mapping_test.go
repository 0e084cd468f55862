package avro

import (
	"slices"
	"strings"
	"testing"

	"odradek/schemas"
	"odradek/schemas/schematest"
)

func TestPaths(t *testing.T) {
	got, err := valuePaths(schematest.PlantSchema)
	want := []string{"site.temperature", "temperature", "accel[]", "tags.*", "channels[].level", "time", `a\.b`}
	if err != nil || !slices.Equal(got, want) {
		t.Error(got, err)
	}
	if got, err := valuePaths(`["null","double"]`); err != nil || !slices.Equal(got, []string{"@value"}) {
		t.Error(got, err)
	}
	if _, err := valuePaths(`{}`); err == nil {
		t.Error("no error")
	}
}

func TestCheck(t *testing.T) {
	good := schemas.Mapping{Key: "deviceId+site.plant", Time: "time",
		Fields: []string{"temp", "site.temperature", "accel[3]", "tags.x", "channels[2].level", "parent.temperature"}}
	if faults := Format.Check(good, &schemas.Schema{Text: schematest.PlantSchema}); faults != nil {
		t.Error(faults)
	}
	for _, c := range []struct {
		m    schemas.Mapping
		want string
	}{
		{schemas.Mapping{Fields: []string{"temprature"}},
			`field "temprature": record acme.Reading has no field "temprature"; nearest: temperature, site.temperature`},
		{schemas.Mapping{Fields: []string{"site.temp"}}, `field "site.temp": record acme.Site has no field "temp"; nearest: `},
		{schemas.Mapping{Key: "deviceID", Fields: []string{"temp"}}, `key "deviceID": record acme.Reading has no field "deviceID"; nearest: deviceId`},
		{schemas.Mapping{Key: "site", Fields: []string{"temp"}}, `key "site": is record acme.Site, which cannot be a series key`},
		{schemas.Mapping{Time: "timestamp", Fields: []string{"temp"}}, `time "timestamp": record acme.Reading has no field "timestamp"; nearest: time`},
		{schemas.Mapping{Fields: []string{"accel"}}, `field "accel": is an array: give its length, as accel[3]; nearest: accel[]`},
		{schemas.Mapping{Fields: []string{"temperature[2]"}}, `field "temperature[2]": is double, not an array`},
		{schemas.Mapping{Fields: []string{"deviceId"}}, `field "deviceId": is string, not a number (text_values=number reads numbers in quotes); the schema has site.temperature, temperature, accel[]`},
		{schemas.Mapping{Fields: []string{"temperature.x"}}, `double has no field "x"`},
	} {
		faults := Format.Check(c.m, &schemas.Schema{Text: schematest.PlantSchema})
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%v\nwant %s", faults, c.want)
		}
	}
	if faults := Format.Check(good, &schemas.Schema{Text: "{"}); len(faults) != 1 {
		t.Error(faults)
	}
	if faults := Format.Check(schemas.Mapping{}, &schemas.Schema{Text: schematest.PlantSchema}); len(faults) != 1 {
		t.Error(faults)
	}
	m := schemas.Mapping{Key: "x", Time: "y", Fields: []string{"z"}}
	if faults := Format.Check(m, &schemas.Schema{Text: schematest.PlantSchema}); len(faults) != 3 {
		t.Error(faults)
	}
}

func FuzzMapping(f *testing.F) {
	f.Add("deviceId+site.plant", "time", "accel[3]")
	f.Add(`a\+b+@key`, "@timestamp", `tags.a\.b`)
	f.Add("+", `\`, "a[2].b[3]")
	f.Fuzz(func(t *testing.T, key, when, field string) {
		m := schemas.Mapping{Key: key, Time: when, Fields: []string{field, "temperature"}}
		err := m.Validate()
		faults := Format.Check(m, &schemas.Schema{Text: schematest.PlantSchema})
		if err != nil && len(faults) == 0 || (err == nil) != (m.Width() > 0) {
			t.Fatalf("%v, %v, width %d", err, faults, m.Width())
		}
		if err != nil {
			return
		}
		l, _ := m.Layout()
		p := newProjection(l, 1, schematest.PlantSchema)
		if (p.err != nil) != (len(faults) > 0) {
			t.Fatalf("check %v, projection %v", faults, p.err)
		}
		if columns, err := m.Columns([]string{strings.TrimSpace(field)}); strings.TrimSpace(field) == field && field != "" &&
			(err != nil || len(columns) == 0) {
			t.Fatal(columns, err)
		}
	})
}
