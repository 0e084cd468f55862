package schemas

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMappingLayout(t *testing.T) {
	m := Mapping{Key: `site+device.id+@key`, Time: "meta.ts", Fields: []string{"temp", "accel[3]", `tags.a\.b`, "chan[2].x"}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if m.Width() != 7 {
		t.Error(m.Width())
	}
	for _, c := range []struct {
		fields []string
		want   []int
	}{
		{nil, []int{0, 1, 2, 3, 4, 5, 6}},
		{[]string{""}, []int{0, 1, 2, 3, 4, 5, 6}},
		{[]string{"temp"}, []int{0}},
		{[]string{"chan.x", " accel"}, []int{5, 6, 1, 2, 3}},
		{[]string{"accel[3]", `tags.a\.b`}, []int{1, 2, 3, 4}},
	} {
		if got, err := m.Columns(c.fields); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v", c.fields, got, err)
		}
	}
	if got, want := m.ColumnNames([]int{0, 6, 1, 3, 4, 5}),
		[]string{"temp", "chan[1].x", "accel[0]", "accel[2]", `tags.a\.b`, "chan[0].x"}; !slices.Equal(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
	if _, err := m.Columns([]string{"tmp"}); err == nil || !strings.Contains(err.Error(), "tmp") {
		t.Error(err)
	}
	l, _ := m.layout()
	if got := fmt.Sprint(l.sinks[5].segs, l.recordKey, l.parts); got != "[{tags 0} {a.b 0}] 2 3" {
		t.Error(got)
	}
}

func TestMappingFaults(t *testing.T) {
	for _, c := range []struct {
		m    Mapping
		want string
	}{
		{Mapping{}, "no fields"},
		{Mapping{Fields: []string{""}}, "empty step"},
		{Mapping{Fields: []string{"a", "a"}}, "twice"},
		{Mapping{Fields: []string{"a."}}, "empty step"},
		{Mapping{Fields: []string{"a[b]"}}, "not a length"},
		{Mapping{Fields: []string{"a[2"}}, "not a length"},
		{Mapping{Fields: []string{"a[2]x"}}, "not a length"},
		{Mapping{Fields: []string{"a[]"}}, "a[3]"},
		{Mapping{Fields: []string{"a[2].b[2]"}}, "two arrays"},
		{Mapping{Fields: []string{"a[60000]", "b[60000]"}}, "120000 values"},
		{Mapping{Fields: []string{"@key"}}, "@key"},
		{Mapping{Fields: []string{`a\`}}, "backslash"},
		{Mapping{Key: "a+", Fields: []string{"a"}}, "empty step"},
		{Mapping{Key: "a[2]", Fields: []string{"a"}}, "array"},
		{Mapping{Key: "@key+@key", Fields: []string{"a"}}, "twice"},
		{Mapping{Key: "a+b+c+d+e+f+g+h+i", Fields: []string{"a"}}, "9 parts"},
		{Mapping{Time: "a[2]", Fields: []string{"a"}}, "array"},
		{Mapping{TimeUnit: "m", Fields: []string{"a"}}, `"m"`},
	} {
		if err := c.m.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
		if c.m.Width() != 0 {
			t.Errorf("%+v: width %d", c.m, c.m.Width())
		}
	}
}

const plantSchema = `{"type":"record","name":"Reading","namespace":"acme","fields":[
	{"name":"deviceId","type":"string"},
	{"name":"site","type":["null",{"type":"record","name":"Site","fields":[
		{"name":"plant","type":"string"},{"name":"temperature","type":"float"}]}]},
	{"name":"temperature","type":["null","double"],"aliases":["temp"]},
	{"name":"accel","type":{"type":"array","items":"double"}},
	{"name":"tags","type":{"type":"map","values":["string","long"]}},
	{"name":"channels","type":{"type":"array","items":{"type":"record","name":"Channel","fields":[{"name":"level","type":"int"}]}}},
	{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"parent","type":["null","Reading"]},
	{"name":"a.b","type":"int"}]}`

func TestPaths(t *testing.T) {
	got, err := Paths(plantSchema)
	want := []string{"site.temperature", "temperature", "accel[]", "tags.*", "channels[].level", "time", `a\.b`}
	if err != nil || !slices.Equal(got, want) {
		t.Error(got, err)
	}
	if got, err := Paths(`["null","double"]`); err != nil || !slices.Equal(got, []string{"@value"}) {
		t.Error(got, err)
	}
	if _, err := Paths(`{}`); err == nil {
		t.Error("no error")
	}
}

func TestCheck(t *testing.T) {
	good := Mapping{Key: "deviceId+site.plant", Time: "time",
		Fields: []string{"temp", "site.temperature", "accel[3]", "tags.x", "channels[2].level", "parent.temperature"}}
	if faults := Check(good, &Schema{Text: plantSchema}); faults != nil {
		t.Error(faults)
	}
	for _, c := range []struct {
		m    Mapping
		want string
	}{
		{Mapping{Fields: []string{"temprature"}},
			`field "temprature": record acme.Reading has no field "temprature"; nearest: temperature, site.temperature`},
		{Mapping{Fields: []string{"site.temp"}}, `field "site.temp": record acme.Site has no field "temp"; nearest: `},
		{Mapping{Key: "deviceID", Fields: []string{"temp"}}, `key "deviceID": record acme.Reading has no field "deviceID"; nearest: deviceId`},
		{Mapping{Key: "site", Fields: []string{"temp"}}, `key "site": is record acme.Site, which cannot be a series key`},
		{Mapping{Time: "timestamp", Fields: []string{"temp"}}, `time "timestamp": record acme.Reading has no field "timestamp"; nearest: time`},
		{Mapping{Fields: []string{"accel"}}, `field "accel": is an array: give its length, as accel[3]; nearest: accel[]`},
		{Mapping{Fields: []string{"temperature[2]"}}, `field "temperature[2]": is double, not an array`},
		{Mapping{Fields: []string{"deviceId"}}, `field "deviceId": is string, not a number; the schema has site.temperature, temperature, accel[]`},
		{Mapping{Fields: []string{"temperature.x"}}, `double has no field "x"`},
	} {
		faults := Check(c.m, &Schema{Text: plantSchema})
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%v\nwant %s", faults, c.want)
		}
	}
	if faults := Check(good, &Schema{Text: "{"}); len(faults) != 1 {
		t.Error(faults)
	}
	if faults := Check(Mapping{}, &Schema{Text: plantSchema}); len(faults) != 1 {
		t.Error(faults)
	}
	if faults := Check(Mapping{Key: "x", Time: "y", Fields: []string{"z"}}, &Schema{Text: plantSchema}); len(faults) != 3 {
		t.Error(faults)
	}
}

func FuzzMapping(f *testing.F) {
	f.Add("deviceId+site.plant", "time", "accel[3]")
	f.Add(`a\+b+@key`, "@timestamp", `tags.a\.b`)
	f.Add("+", `\`, "a[2].b[3]")
	f.Fuzz(func(t *testing.T, key, when, field string) {
		m := Mapping{Key: key, Time: when, Fields: []string{field, "temperature"}}
		err := m.Validate()
		faults := Check(m, &Schema{Text: plantSchema})
		if err != nil && len(faults) == 0 || (err == nil) != (m.Width() > 0) {
			t.Fatalf("%v, %v, width %d", err, faults, m.Width())
		}
		if err != nil {
			return
		}
		l, _ := m.layout()
		p := newProjection(l, 1, plantSchema)
		if (p.err != nil) != (len(faults) > 0) {
			t.Fatalf("check %v, projection %v", faults, p.err)
		}
		if columns, err := m.Columns([]string{strings.TrimSpace(field)}); strings.TrimSpace(field) == field && field != "" &&
			(err != nil || len(columns) == 0) {
			t.Fatal(columns, err)
		}
	})
}
