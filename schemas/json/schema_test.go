package json

import (
	"slices"
	"strings"
	"testing"

	"odradek/schemas"
)

const plantSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"Reading","type":"object","properties":{
	"deviceId":{"type":"string"},
	"site":{"oneOf":[{"type":"null"},{"$ref":"#/definitions/Site"}]},
	"temperature":{"oneOf":[{"type":"null"},{"type":"number"}]},
	"accel":{"type":"array","items":{"type":"number"}},
	"tags":{"type":"object","additionalProperties":{"type":["string","integer"]}},
	"channels":{"type":"array","items":{"type":"object","properties":{"level":{"type":"integer"}}}},
	"time":{"type":"integer"},
	"parent":{"$ref":"#"},
	"unit":{"$ref":"unit.json"},
	"open":{"type":"object"},
	"a.b":{"type":"integer"}},
	"definitions":{"Site":{"type":"object","properties":{"plant":{"type":"string"},"temperature":{"type":"number"}}}}}`

const unitSchema = `{"type":"object","properties":{"scale":{"type":"number"}},"additionalProperties":false}`

func plant() *schemas.Schema {
	return &schemas.Schema{Type: "JSON", Text: plantSchema, References: []schemas.Reference{{Name: "unit.json", Text: unitSchema}}}
}

func TestCheck(t *testing.T) {
	good := schemas.Mapping{Key: "deviceId+site.plant", Time: "time", Fields: []string{"temperature", "site.temperature", "accel[3]", "tags.x",
		"channels[2].level", "parent.parent.temperature", "unit.scale", "open.anything[3].x", `a\.b`}}
	if faults := Format.Check(good, plant()); faults != nil {
		t.Error(faults)
	}
	for _, c := range []struct {
		m    schemas.Mapping
		want string
	}{
		{schemas.Mapping{Fields: []string{"temprature"}}, `field "temprature": the object has no field "temprature"; nearest: temperature`},
		{schemas.Mapping{Fields: []string{"site.temp"}}, `field "site.temp": the object has no field "temp"; nearest: `},
		{schemas.Mapping{Fields: []string{"unit.scal"}}, `nearest: unit.scale`},
		{schemas.Mapping{Key: "site", Fields: []string{"temperature"}}, `key "site": is object, which cannot be a series key`},
		{schemas.Mapping{Time: "site.x", Fields: []string{"temperature"}}, `time "site.x": the object has no field "x"`},
		{schemas.Mapping{Fields: []string{"accel"}}, `is an array: give its length, as accel[3]`},
		{schemas.Mapping{Fields: []string{"temperature[2]"}}, `is number, not an array`},
		{schemas.Mapping{Fields: []string{"deviceId"}}, `field "deviceId": is string, not a number (text_values=number reads numbers in quotes); the schema has `},
		{schemas.Mapping{Fields: []string{"temperature.x"}}, `number has no field "x"`},
	} {
		if faults := Format.Check(c.m, plant()); len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%v\nwant %s", faults, c.want)
		}
	}
	fields, err := Format.Fields(plant())
	if err != nil {
		t.Fatal(err)
	}
	paths := fields.Paths(schemas.RoleValue)
	for _, want := range []string{`a\.b`, "accel[]", "channels[].level", "site.temperature", "tags.*", "temperature", "time", "unit.scale"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%v lacks %s", paths, want)
		}
	}
	for _, text := range []string{"{", `"string"`, "7"} {
		if faults := Format.Check(good, &schemas.Schema{Text: text}); len(faults) != 1 {
			t.Error(text, faults)
		}
	}
	if faults := Format.Check(good, &schemas.Schema{Text: "true"}); faults != nil {
		t.Error(faults)
	}
}

// FuzzSchema checks mappings against arbitrary schemas: an answer, soon.
func FuzzSchema(f *testing.F) {
	f.Add(plantSchema, unitSchema, "site.plant")
	f.Add(`{"$ref":"#"}`, `{"$ref":"u#/a~1b"}`, "a")
	f.Add(`{"anyOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"type":"object"}`, `true`, "a.b.a.b.c")
	f.Fuzz(func(t *testing.T, text, reference, path string) {
		s := &schemas.Schema{Text: text, References: []schemas.Reference{{Name: "unit.json", Text: reference}}}
		for _, err := range Format.Check(schemas.Mapping{Key: path, Time: path, Fields: []string{path, "x.y[3]"}}, s) {
			if err.Error() == "" {
				t.Fatal("an empty error")
			}
		}
	})
}
