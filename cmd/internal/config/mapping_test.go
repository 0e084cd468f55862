package config

import (
	"reflect"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// TestMappingIsAsAlone: a topic with a mapping has the settings, the state and the fingerprints of a worker that has the
// mapping's settings as its own, and other topics have the settings of a worker without mappings.
func TestMappingIsAsAlone(t *testing.T) {
	rng := seedtest.New(t)
	bases := [][]string{
		{},
		{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_MISSING=hold", "ODRADEK_TIME_FIELD=at"},
		{"ODRADEK_SERIES_FIELDS=a,b", "ODRADEK_LATENESS=3s"},
		{"ODRADEK_DETECTORS=x,y", "ODRADEK_DETECTOR_X_OP=zscore", "ODRADEK_DETECTOR_Y_OP=knn", "ODRADEK_DETECTOR_Y_WINDOW=64"},
	}
	settings := []string{
		"FORMAT=json", "KEY_FIELD=id", "TIME_FIELD=time", "TIME_UNIT=us", "READINGS_FIELD=points", "MISSING=hold", "DUPLICATES=drop",
		"EVERY=1m", "AGGREGATE=sum", "EMPTY=zero", "STOP_ABOVE=0.5/100", "LATENESS=5s", "LATENESS_BY=partition", "IDLE_AFTER=1m", "MAX_HELD=77",
		"MAX_GAP=none", "TTL=9h", "MAX_KEYS=5", "MAX_FUTURE=2m", "MAX_JUMP=30m",
		"SILENCE=40s",
	}
	shapes := [][]string{{}, {"VALUE_FIELDS=c"}, {"VALUE_FIELDS=c,d,e"}, {"SERIES_FIELDS=c,d"}, {"SERIES_FIELDS=p.c", "READINGS_FIELD=p"}}
	for range 60 {
		base := minimal(bases[rng.IntN(len(bases))]...)
		own := append([]string{}, shapes[rng.IntN(len(shapes))]...)
		for _, s := range settings {
			if rng.IntN(4) == 0 && (s != "READINGS_FIELD=points" || len(own) < 2) {
				own = append(own, s)
			}
		}
		with := append(append([]string{}, base...), "ODRADEK_TOPICS=plain,mapped", "ODRADEK_MAPPING_LINE_1_TOPICS=mapped")
		alone := append(append([]string{}, base...), "ODRADEK_TOPICS=mapped")
		for _, s := range own {
			with, alone = append(with, "ODRADEK_MAPPING_LINE_1_"+s), append(alone, "ODRADEK_"+s)
			if strings.HasPrefix(s, "SERIES_FIELDS") {
				alone = append(alone, "ODRADEK_VALUE_FIELDS=")
			} else if strings.HasPrefix(s, "VALUE_FIELDS") {
				alone = append(alone, "ODRADEK_SERIES_FIELDS=")
			}
		}
		c, faults, warnings := Parse(with)
		a, aloneFaults, _ := Parse(alone)
		if len(warnings) > 0 || len(faults) != len(aloneFaults) {
			t.Fatalf("%q: %v, %v; alone %v", with, faults, warnings, aloneFaults)
		}
		if len(faults) > 0 {
			continue // such as readings without a path into them
		}
		same(t, with, c.ForTopic("mapped"), a)
		b, faults, _ := Parse(append(append([]string{}, base...), "ODRADEK_TOPICS=plain"))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		same(t, with, c.ForTopic("plain"), b)
		if c.MappingOf("mapped") != "LINE_1" || c.MappingOf("plain") != "" || len(c.Mappings()) != 2 {
			t.Fatalf("mappings %q, %q of %d", c.MappingOf("mapped"), c.MappingOf("plain"), len(c.Mappings()))
		}
		roundTrip(t, c)
	}
}

// same fails where two configurations make other states of a topic.
func same(t *testing.T, environ []string, got, want *Config) {
	t.Helper()
	if g, w := got.RecordMapping(), want.RecordMapping(); !reflect.DeepEqual(g, w) {
		t.Fatalf("%q: mapping %+v, want %+v", environ, g, w)
	}
	if !reflect.DeepEqual(got.Mapping, want.Mapping) || !reflect.DeepEqual(got.Series(), want.Series()) {
		t.Fatalf("%q: %+v, want %+v", environ, got.Mapping, want.Mapping)
	}
	got.Keys.Bytes = want.Keys.Bytes
	if !reflect.DeepEqual(got.Keys, want.Keys) {
		t.Fatalf("%q: %+v, want %+v", environ, got.Keys, want.Keys)
	}
	g, err := got.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	w, err := want.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.StateSettings(g)[0].Fields, want.StateSettings(w)[0].Fields) {
		t.Fatalf("%q: settings %+v, want %+v", environ, got.StateSettings(g)[0].Fields, want.StateSettings(w)[0].Fields)
	}
	for _, ks := range []*struct{ a, b any }{{g.Reading, w.Reading}, {g.Windows, w.Windows}, {len(g.Detectors), len(w.Detectors)},
		{g.SampleBits, w.SampleBits}, {g.Silence, w.Silence}} {
		if !reflect.DeepEqual(ks.a, ks.b) {
			t.Fatalf("%q: state %+v, want %+v", environ, ks.a, ks.b)
		}
	}
	for i := range g.Detectors {
		if g.Detectors[i].Name != w.Detectors[i].Name || g.Detectors[i].Fingerprint != w.Detectors[i].Fingerprint {
			t.Fatalf("%q: detector %s with %x, want %s with %x", environ, g.Detectors[i].Name, g.Detectors[i].Fingerprint,
				w.Detectors[i].Name, w.Detectors[i].Fingerprint)
		}
	}
}

// roundTrip fails where what is printed does not read as the same configuration.
func roundTrip(t *testing.T, c *Config) {
	t.Helper()
	variable, _ := writeSettings(t, c.PrintYAML())
	again, faults, warnings := Parse([]string{variable})
	if diff := differ(c, again); diff != "" || len(faults)+len(warnings) > 0 {
		t.Fatalf("as a file: %s, %v, %v\n%s", diff, faults, warnings, c.PrintYAML())
	}
	same(t, []string{c.PrintYAML()}, again.ForTopic("mapped"), c.ForTopic("mapped"))
	again, faults, warnings = Parse(strings.Split(strings.TrimSpace(c.PrintEnv()), "\n"))
	if len(faults)+len(warnings) > 0 {
		t.Fatalf("as variables: %v, %v\n%s", faults, warnings, c.PrintEnv())
	}
	same(t, []string{c.PrintEnv()}, again.ForTopic("mapped"), c.ForTopic("mapped"))
}

// TestMappingFaults: every fault is named at once, each under the variable that can correct it.
func TestMappingFaults(t *testing.T) {
	environ := minimal("ODRADEK_TOPICS=a,b,c", "ODRADEK_REKEY=true", "ODRADEK_LATENESS=1m",
		"ODRADEK_MAPPING_ONE_TOPICS=a,a,b", "ODRADEK_MAPPING_ONE_TIME_UNIT=hours", "ODRADEK_MAPPING_ONE_LATENESS=soon",
		"ODRADEK_MAPPING_ONE_VALUE_FIELDS=x", "ODRADEK_MAPPING_ONE_SERIES_FIELDS=x", "ODRADEK_MAPPING_ONE_DETECTORS=near,nowhere",
		"ODRADEK_MAPPING_TWO_X_TOPICS=b,z", "ODRADEK_MAPPING_TWO_X_KEY_FIELDS=id", "ODRADEK_MAPPING_TWO_X_READINGS_FIELD=points",
		"ODRADEK_MAPPING_NONE_KEY_FIELD=id", "ODRADEK_MAPPING_EMPTY_TOPICS=", "ODRADEK_MAPPING_Q_ANYTHING=1", "ODRADEK_START=soon")
	_, faults, warnings := Parse(environ)
	want := map[string]string{
		"ODRADEK_START":                        `"soon" is neither`,
		"ODRADEK_REKEY":                        "there are mappings",
		"ODRADEK_MAPPING_ONE_TOPICS":           `"a" is named twice`,
		"ODRADEK_MAPPING_ONE_TIME_UNIT":        `"hours" is not one of the values`,
		"ODRADEK_MAPPING_ONE_LATENESS":         `"soon" is not a duration`,
		"ODRADEK_MAPPING_ONE_VALUE_FIELDS":     "set together with",
		"ODRADEK_MAPPING_ONE_DETECTORS":        `"nowhere" is none of the detectors`,
		"ODRADEK_MAPPING_TWO_X_TOPICS":         `"b" has the mapping ONE already, "z" is none of ODRADEK_TOPICS`,
		"ODRADEK_MAPPING_TWO_X_KEY_FIELDS":     "no such setting of a mapping",
		"ODRADEK_MAPPING_TWO_X_READINGS_FIELD": "no value is in the array",
		"ODRADEK_MAPPING_NONE_TOPICS":          "has no topics",
		"ODRADEK_MAPPING_EMPTY_TOPICS":         "has no topics",
		"ODRADEK_MAPPING_Q_ANYTHING":           "no such setting of a mapping",
	}
	for _, f := range faults {
		if problem, ok := want[f.Name]; !ok || !strings.Contains(f.Problem, problem) {
			t.Errorf("unexpected: %s", f)
		}
		delete(want, f.Name)
	}
	if len(want) > 0 || len(warnings) > 0 {
		t.Errorf("missing: %v; warnings %v; got %v", want, warnings, names(faults))
	}
}

// TestMappingFile: a settings file has mappings below their names, and its faults name the line.
func TestMappingFile(t *testing.T) {
	variable, _ := writeSettings(t, `group: g
topics: [a, b]
format: json
mappings:
  line-1:
    topics: [b]
    key_field: id
    value_fields: [x, y]
  two: {topics: a, keyfield: id, time_unit: [s], detectors: [near]}
`)
	c, faults, _ := Parse([]string{variable, "ODRADEK_MAPPING_LINE_1_KEY_FIELD=key"})
	text := ""
	for _, f := range faults {
		text += f.String() + "\n"
	}
	for _, want := range []string{"plant.yaml:9: ODRADEK_MAPPING_TWO_KEYFIELD: no such setting: keyfield; did you mean key_field?",
		"plant.yaml:9: ODRADEK_MAPPING_TWO_TIME_UNIT: time_unit takes one value, not a list"} {
		if !strings.Contains(text, want) {
			t.Errorf("no fault %q in\n%s", want, text)
		}
	}
	if len(faults) != 2 {
		t.Errorf("%d faults:\n%s", len(faults), text)
	}
	if m := c.ForTopic("b"); m.Mapping.KeyField != "key" || strings.Join(m.Mapping.ValueFields, ",") != "x,y" || m.Mapping.Format != "json" {
		t.Errorf("mapping of b: %+v", m.Mapping)
	}
}

// TestMappingOfAll: where each topic has a mapping, faults of settings by which no topic is read are none, and detectors
// are those that the mapping picks.
func TestMappingOfAll(t *testing.T) {
	environ := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=a,b", "ODRADEK_DETECTORS=v,w", "ODRADEK_DETECTOR_V_OP=zscore",
		"ODRADEK_DETECTOR_V_FIELDS=x", "ODRADEK_DETECTOR_W_OP=zscore", "ODRADEK_DETECTOR_W_FIELDS=y", "ODRADEK_MAPPING_A_TOPICS=a",
		"ODRADEK_MAPPING_A_FORMAT=json", "ODRADEK_MAPPING_A_VALUE_FIELDS=x,y", "ODRADEK_MAPPING_B_TOPICS=b", "ODRADEK_MAPPING_B_FORMAT=json",
		"ODRADEK_MAPPING_B_VALUE_FIELDS=x", "ODRADEK_MAPPING_B_DETECTORS=v"}
	c, faults, warnings := Parse(environ)
	if len(faults)+len(warnings) > 0 {
		t.Fatal(faults, warnings)
	}
	if a, b := c.ForTopic("a").Detect.Names, c.ForTopic("b").Detect.Names; strings.Join(a, ",") != "v,w" || strings.Join(b, ",") != "v" {
		t.Errorf("detectors of a %v, of b %v", a, b)
	}
	if len(c.Mappings()) != 2 || c.AnyReadings() {
		t.Errorf("%d mappings, readings %t", len(c.Mappings()), c.AnyReadings())
	}
	_, faults, _ = Parse(environ[:len(environ)-1])
	if len(faults) != 1 || faults[0].Name != "ODRADEK_DETECTOR_W_FIELDS" ||
		!strings.HasPrefix(faults[0].Problem, "for the topics of mapping B: ") {
		t.Errorf("faults %v, want one, of detector w for mapping B", faults)
	}
	_, faults = ParseSeries(environ, 1)
	if len(faults) == 0 { // recorded series are read by no mapping: v looks at x, which they have not
		t.Error("recorded series have a mapping's fields")
	}
}
