package avro

import (
	"os"
	"strings"
	"testing"

	"odradek/schemas"
	"odradek/schemas/schematest"
)

// Canonical forms and fingerprints of the Avro project's own test data
// (apache/avro, share/test/data/schema-tests.txt).
func TestFingerprintsOfTheSpecification(t *testing.T) {
	for _, c := range []struct {
		schema, canonical string
		fingerprint       int64
	}{
		{`"null"`, `"null"`, 7195948357588979594},
		{`{"type":"boolean"}`, `"boolean"`, -6970731678124411036},
		{`"int"`, `"int"`, 8247732601305521295},
		{`{"type":"long"}`, `"long"`, -3434872931120570953},
		{`"float"`, `"float"`, 5583340709985441680},
		{`"double"`, `"double"`, -8181574048448539266},
		{`"bytes"`, `"bytes"`, 5746618253357095269},
		{`"string"`, `"string"`, -8142146995180207161},
		{`[ "int"  ]`, `["int"]`, -5232228896498058493},
		{`[ "int" , {"type":"boolean"} ]`, `["int","boolean"]`, 5392556393470105090},
		{`{"fields":[], "type":"record", "name":"foo"}`, `{"name":"foo","type":"record","fields":[]}`, -4824392279771201922},
		{`{"fields":[], "type":"record", "name":"foo", "namespace":"x.y"}`,
			`{"name":"x.y.foo","type":"record","fields":[]}`, 5916914534497305771},
		{`{"fields":[], "type":"record", "name":"a.b.foo", "namespace":"x.y"}`, `{"name":"a.b.foo","type":"record","fields":[]}`,
			-4616218487480524110},
		{`{"fields":[], "type":"record", "name":"foo", "doc":"foo", "aliases":["foo","bar"]}`, `{"name":"foo","type":"record","fields":[]}`,
			-4824392279771201922},
		{`{"fields":[{"type":{"type":"boolean"}, "name":"f1"}], "type":"record", "name":"foo"}`,
			`{"name":"foo","type":"record","fields":[{"name":"f1","type":"boolean"}]}`, 7843277075252814651},
		{`{ "fields":[{"type":"boolean", "aliases":[], "name":"f1", "default":"true"}, {"order":"descending","name":"f2","doc":"Hello","type":"int"}], "type":"record", "name":"foo"}`,
			`{"name":"foo","type":"record","fields":[{"name":"f1","type":"boolean"},{"name":"f2","type":"int"}]}`, -4860222112080293046},
		{`{"namespace":"x.y.z", "type":"enum", "name":"foo", "doc":"foo bar", "symbols":["A1", "A2"]}`,
			`{"name":"x.y.z.foo","type":"enum","symbols":["A1","A2"]}`, -4448647247586288245},
		{`{"namespace":"x.y.z", "type":"fixed", "name":"foo", "doc":"foo bar", "size":32}`, `{"name":"x.y.z.foo","type":"fixed","size":32}`,
			-3064184465700546786},
		{`{ "items":{"type":"null"}, "type":"array"}`, `{"type":"array","items":"null"}`, -589620603366471059},
		{`{ "values":"string", "type":"map"}`, `{"type":"map","values":"string"}`, -8732877298790414990},
		{`{"name":"PigValue","type":"record", "fields":[{"name":"value", "type":["null", "int", "long", "PigValue"]}]}`,
			`{"name":"PigValue","type":"record","fields":[{"name":"value","type":["null","int","long","PigValue"]}]}`, -1759257747318642341},
	} {
		n, err := parseSchema(c.schema)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		if got := n.text(formCanonical); got != c.canonical {
			t.Errorf("%s: %s, want %s", c.schema, got, c.canonical)
		}
		if crc, err := Fingerprint(c.schema); err != nil || int64(crc) != c.fingerprint {
			t.Errorf("%s: %d, want %d, %v", c.schema, int64(crc), c.fingerprint, err)
		}
	}
	// Logical types do not count, nor does how a name is written.
	a, _ := Fingerprint(`{"type":"record","name":"x.R","fields":[{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"n","type":["null","R"]}]}`)
	b, _ := Fingerprint(`{"type":"record","name":"R","namespace":"x","fields":[{"name":"t","type":"long"},{"name":"n","type":["null","x.R"]}]}`)
	if a != b {
		t.Error(a, b)
	}
}

func TestSchemaFaults(t *testing.T) {
	for schema, want := range map[string]string{
		`{`:                             "not JSON",
		`7`:                             "not 7",
		`"what"`:                        "not defined",
		`{"name":"x"}`:                  `without "type"`,
		`[]`:                            "without branches",
		`["int",["int"]]`:               "inside a union",
		`{"type":"record","name":"R"}`:  "fields",
		`{"type":"record","fields":[]}`: "without a name",
		`{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`:        "twice",
		`{"type":"record","name":"R","fields":[{"name":"a","type":"R"}]}`:                                    "contains itself",
		`{"type":"record","name":"R","fields":[7]}`:                                                          "not an object",
		`{"type":"record","name":"R","fields":[{"name":"a"}]}`:                                               "no type",
		`[{"type":"enum","name":"R","symbols":["A"]},{"type":"fixed","name":"R","size":2}]`:                  "defined twice",
		`{"type":"enum","name":"R","symbols":[]}`:                                                            "no symbols",
		`{"type":"fixed","name":"R","size":-1}`:                                                              "size",
		`{"type":"array"}`:                                                                                   "items",
		strings.Repeat(`{"type":"array","items":`, 300) + `"int"` + strings.Repeat("}", 300):                 "deeper",
		`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":{"type":"x.y"}}}]`: "not JSON",
	} {
		if _, err := parseSchema(schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}

// A schema written out is the same schema, in every form.
func FuzzSchema(f *testing.F) {
	f.Add(schematest.PlantSchema)
	f.Add(schematest.SensorSchema)
	score, err := os.ReadFile("../output/score.avsc")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(score))
	f.Add(`["null",{"type":"fixed","name":"a.F","size":9,"logicalType":"decimal","precision":9,"scale":2},"long"]`)
	f.Add(`{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseSchema(text)
		if err != nil {
			return
		}
		canonical := n.text(formCanonical)
		inline := n.text(formInline)
		again, err := parseSchema(inline)
		if err != nil || again.text(formInline) != inline || again.text(formCanonical) != canonical {
			t.Fatalf("%v\n%s\n%s", err, text, inline)
		}
		paths, err := valuePaths(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(paths) > 50 {
			return
		}
		for _, p := range paths {
			if strings.Contains(p, "*") {
				continue
			}
			m := schemas.Mapping{Fields: []string{strings.Replace(p, "[]", "[2]", 1)}}
			if faults := Format.Check(m, &schemas.Schema{Text: text}); faults != nil {
				t.Fatalf("%v\n%s", faults, text)
			}
		}
	})
}
