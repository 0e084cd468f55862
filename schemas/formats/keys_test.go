package formats

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"
	"github.com/twmb/franz-go/pkg/sr"

	"odradek/schemas"
	"odradek/schemas/registry"
	"odradek/schemas/schematest"
)

// TestKafkaKeys: paths lead into Kafka keys that name their schemas, in each format of the registry, so that a series stays one when the
// schema of its key gets another version; keys without framing are JSON where the records are.
func TestKafkaKeys(t *testing.T) {
	f := schematest.NewRegistry(t)
	const v1 = `{"type":"record","name":"K","fields":[{"name":"machine","type":"string"},{"name":"line","type":"int"}]}`
	const v2 = `{"type":"record","name":"K","fields":[{"name":"site","type":["null","string"],"default":null},{"name":"line","type":"long"},
		{"name":"machine","type":"string"}]}`
	framed := func(subject string, s sr.Schema, body ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(f.Register(t, subject, s))), body...)
	}
	native := func(schema string, v any) []byte {
		codec, err := goavro.NewCodec(schema)
		if err != nil {
			t.Fatal(err)
		}
		b, err := codec.BinaryFromNative(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	avro1 := framed("a-key", sr.Schema{Schema: v1}, native(v1, map[string]any{"machine": "press/7", "line": 4})...)
	avro2 := framed("a-key", sr.Schema{Schema: v2},
		native(v2, map[string]any{"site": goavro.Union("string", "oslo"), "machine": "press/7", "line": 4})...)
	text := framed("b-key", sr.Schema{Schema: `"string"`}, native(`"string"`, "press/7")...)
	nullable := framed("b-key", sr.Schema{Schema: `["null","string"]`}, native(`["null","string"]`, goavro.Union("string", "press/7"))...)
	long := framed("c-key", sr.Schema{Schema: `"long"`}, native(`"long"`, 42)...)
	js := framed("d-key", sr.Schema{Type: sr.TypeJSON, Schema: `{"type":"object"}`}, []byte(`{"machine":"press/7","line":4}`)...)
	proto := framed("e-key", sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message K { string machine = 1; int32 line = 2; }`},
		append([]byte{0, 0x0a, 7}, "press/7\x10\x04"...)...)
	reg := open(t, registry.Config{URLs: []string{f.URL()}})
	const value = `{"v":1,"m":"x","points":[{"s":"a","v":2},{"s":"b","v":3}]}`
	schema := record(`{"name":"v","type":"double"}`)
	avroValue := framed("in-value", sr.Schema{Schema: schema}, native(schema, map[string]any{"v": 1.0})...)
	decode := func(m schemas.Mapping, format string, key []byte, header func(string) ([]byte, bool)) (*schemas.Reading, error) {
		if m.Fields == nil {
			m.Fields = []string{"v"}
		}
		d, err := NewDecoder(m, reg, Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		body := avroValue
		if format == "json" {
			body = []byte(value)
		}
		var r schemas.Reading
		r.Partition = 3
		clone := d.Clone()
		if err := clone.Decode(t.Context(), key, body, 5, header, &r); err != nil {
			return nil, err
		}
		return &r, clone.Decode(t.Context(), key, body, 5, header, &r) // again, with what the first has left
	}
	for _, c := range []struct {
		path, format string
		key          []byte
		want         string
	}{
		{"@key.machine", "", avro1, "press/7"}, {"@key.machine", "", avro2, "press/7"}, {"@key.machine", "json", avro2, "press/7"},
		{"@key.machine", "avro", js, "press/7"}, {"@key.machine", "", proto, "press/7"},
		{"@key.line+@key.machine", "", avro1, `4/press\/7`}, {"@key.line+@key.machine", "", avro2, `4/press\/7`},
		{"@key.line+@key.machine", "json", js, `4/press\/7`}, {"@key.line+@key.machine", "", proto, `4/press\/7`},
		{"@key.line", "", avro2, "4"}, {"@key.line+@partition", "", avro1, "4/3"}, {"m+@key.line", "json", avro1, "x/4"},
		{"@key.@value", "", text, "press/7"}, {"@key.@value", "", nullable, "press/7"}, {"@key.@value", "", long, "42"},
		{"@key.@value+@partition", "json", long, "42/3"},
		{"@key.payload.machine", "json", []byte(`{"schema":null,"payload":{"machine":"press/7"}}`), "press/7"},
		{"@key.@value", "json", []byte(`"press/7"`), "press/7"},
	} {
		r, err := decode(schemas.Mapping{Key: c.path}, c.format, c.key, nil)
		if err != nil || string(r.Key) != c.want {
			t.Errorf("%s of % x: %+v, %v; want %s", c.path, c.key, r, err, c.want)
		}
	}
	header := func(name string) ([]byte, bool) { return avro1[:5], name == schemas.KeySchemaIDHeader }
	if r, err := decode(schemas.Mapping{Key: "@key.machine"}, "", avro1[5:], header); err != nil || string(r.Key) != "press/7" {
		t.Errorf("the key's schema in a header: %+v, %v", r, err)
	}
	r, err := decode(schemas.Mapping{Key: "@key.line+points.s", Fields: []string{"points.v"}, Readings: "points"}, "json", avro2, nil)
	if err != nil || r.Len() != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []string{"4/a", "4/b"} {
		if key, _, _ := r.At(i); string(key) != want {
			t.Errorf("reading %d has the key %s, want %s", i, key, want)
		}
	}
	r, err = decode(schemas.Mapping{Key: "@key.machine", Fields: []string{"points.v"}, Readings: "points"}, "json", avro2, nil)
	if err != nil || r.Len() != 2 || string(r.Key) != "press/7" {
		t.Errorf("%+v, %v", r, err)
	}

	for _, c := range []struct {
		path, format, class, field string
		key                        []byte
	}{
		{"@key.machine", "", schemas.ClassMissingKey, "@key", nil},
		{"@key.machine", "", schemas.ClassMagic, "@key", []byte("press-7")},
		{"@key.machine", "", schemas.ClassTruncated, "@key.line", avro1[:len(avro1)-1]},
		{"@key.machines", "", schemas.ClassMissingField, "@key.machines", avro1},
		{"@key.machine+@key.site", "", schemas.ClassMissingField, "@key.site", avro1},
		{"@key.machine", "", schemas.ClassUnknownSchema, "@key", []byte{0, 0, 0, 99, 99, 1}},
		{"@key.machine", "json", schemas.ClassMalformed, "@key", []byte("press-7")},
		{"@key.machine", "json", schemas.ClassMissingKey, "@key.machine", []byte(`{"machine":null}`)},
		{"@key.machine+m", "json", schemas.ClassMissingKey, "@key.machine", []byte(`{"line":1}`)},
		{"@key.machine", "json", schemas.ClassMissingKey, "@key.machine", []byte(`{"machine":""}`)},
	} {
		_, err := decode(schemas.Mapping{Key: c.path}, c.format, c.key, nil)
		wantClass(t, err, c.class, c.field)
	}
	if _, err := NewDecoder(schemas.Mapping{Key: "@key.machine", Fields: []string{"v"}}, nil, Options{Bare: schema}); err == nil ||
		!strings.Contains(err.Error(), "schema_registry_url") {
		t.Errorf("without a registry: %v", err)
	}
	if err := (schemas.Mapping{Key: "@key.", Fields: []string{"v"}}).Validate(); err == nil {
		t.Error("a path into the key without steps is taken")
	}

	d, err := NewDecoder(schemas.Mapping{Key: "@key.machine", Fields: []string{"v"}}, reg, Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	a, ok1 := d.Ref(avro1, []byte(value), nil)
	b, ok2 := d.Ref(avro2, []byte(value), nil)
	if !ok1 || !ok2 || a == b || bytes.Equal(a.Append(nil), b.Append(nil)) {
		t.Errorf("refs of records whose keys have two schemas: %v %v", a, b)
	}
	if _, ok := d.Ref([]byte("{}"), []byte(value), nil); ok {
		t.Error("a record without schemas has a ref")
	}
}

// TestKafkaKeysAllocate: a key of one part costs no memory.
func TestKafkaKeysAllocate(t *testing.T) {
	f := schematest.NewRegistry(t)
	key := binary.BigEndian.AppendUint32([]byte{0}, uint32(f.Register(t, "k", sr.Schema{Schema: `"string"`})))
	key = append(key, 6, 'a', '/', 'b')
	reg := open(t, registry.Config{URLs: []string{f.URL()}})
	d, err := NewDecoder(schemas.Mapping{Key: "@key.@value", Fields: []string{"v"}}, reg, Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	value := []byte(`{"v":1}`)
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Decode(t.Context(), key, value, 5, nil, &r); err != nil || string(r.Key) != "a/b" {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
