package formats

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"odradek/schemas"
	"odradek/schemas/registry"
	"odradek/schemas/schematest"
)

// TestAuto: each record is read by the format of its schema, and with a format configured
// only records of that format are read.
func TestAuto(t *testing.T) {
	f := schematest.NewRegistry(t)
	framed := func(id int32, body []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), body...)
	}
	records := map[string][]byte{
		"avro": framed(f.Register(t, "a-value", sr.Schema{Schema: `{"type":"record","name":"R","fields":[{"name":"k","type":"string"},{"name":"v","type":"double"}]}`}),
			[]byte{2, 'a', 0, 0, 0, 0, 0, 0, 0xf8, 0x3f}),
		"json": framed(f.Register(t, "j-value", sr.Schema{Type: sr.TypeJSON, Schema: `{"type":"object"}`}), []byte(`{"k":"a","v":1.5}`)),
	}
	f.Register(t, "site", sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message Site { string k = 1; }`})
	records["protobuf"] = framed(f.Register(t, "p-value", sr.Schema{Type: sr.TypeProtobuf,
		Schema:     `syntax = "proto3"; import "site.proto"; message X {} message R { message In { string k = 1; double v = 2; Site s = 3; } }`,
		References: []sr.SchemaReference{{Name: "site.proto", Subject: "site", Version: 1}}}),
		[]byte{4, 2, 0, 10, 1, 'a', 17, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f})
	reg := open(t, registry.Config{URLs: []string{f.URL()}})
	for _, name := range append(withSchemas(), Auto) {
		d, err := NewDecoder(schemas.Mapping{Key: "k", Fields: []string{"v"}}, reg, Options{Format: name})
		if err != nil {
			t.Fatal(err)
		}
		for format, value := range records {
			for range 2 {
				var r schemas.Reading
				err := d.Clone().Decode(t.Context(), nil, value, 5, nil, &r)
				if name != Auto && name != format {
					wantClass(t, err, schemas.ClassUnknownSchema, "")
					if !strings.Contains(err.Error(), "format=auto or format="+format) {
						t.Error(err)
					}
				} else if err != nil || string(r.Key) != "a" || r.Values[0] != 1.5 || r.Schema < 1 {
					t.Errorf("%s of %s: %+v, %v", format, name, r, err)
				}
			}
		}
	}
	_, err := NewDecoder(schemas.Mapping{Fields: []string{"v"}}, reg, Options{Format: "xml"})
	if err == nil || !strings.Contains(err.Error(), "xml") {
		t.Error(err)
	}
}

// TestProtobufInHeader: a header names schema and message, the value is the message alone.
func TestProtobufInHeader(t *testing.T) {
	f := schematest.NewRegistry(t)
	id := f.Register(t, "p-value", sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message X {} message R { double v = 1; }`})
	d, err := NewDecoder(schemas.Mapping{Fields: []string{"v"}}, open(t, registry.Config{URLs: []string{f.URL()}}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := []byte{9, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f}
	for name, c := range map[string]struct {
		indexes []byte
		class   string
	}{"second": {[]byte{2, 2}, ""}, "first": {[]byte{0}, schemas.ClassMissingField}, "none": {nil, schemas.ClassTruncated},
		"more": {[]byte{2, 2, 0}, schemas.ClassMagic}, "third": {[]byte{2, 4}, schemas.ClassMalformed}} {
		head := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), c.indexes...)
		var r schemas.Reading
		err := d.Decode(t.Context(), []byte("k"), value, 5, func(string) ([]byte, bool) { return head, true }, &r)
		var e *schemas.DecodeError
		if c.class == "" && (err != nil || r.Values[0] != 1.5 || r.Schema != id) || c.class != "" && (!errors.As(err, &e) || e.Class != c.class) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	bare, err := NewDecoder(schemas.Mapping{Fields: []string{"v"}}, nil,
		Options{Format: "protobuf", Bare: `syntax = "proto3"; message R { double v = 1; }`})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	if err := bare.Decode(t.Context(), []byte("k"), value, 5, nil, &r); err != nil || r.Values[0] != 1.5 {
		t.Error(r, err)
	}
}

// TestRecordsOfConfluentPython reads what the serializers of confluent-kafka for Python
// wrote for the same two readings, with the schemas as a registry gave them back.
func TestRecordsOfConfluentPython(t *testing.T) {
	var recorded struct {
		Topics []struct {
			Format, Type, Schema string
			ID                   int
			Records              []string
			References           []struct{ Name, Schema string }
		}
	}
	text, err := os.ReadFile("testdata/confluent-python.json")
	if err == nil {
		err = json.Unmarshal(text, &recorded)
	}
	if err != nil || len(recorded.Topics) != len(withSchemas()) {
		t.Fatal(len(recorded.Topics), err)
	}
	f := schematest.NewRegistry(t)
	d, err := NewDecoder(schemas.Mapping{Key: "site.plant+sensor", Time: "time", Fields: []string{"value", "accel[3]"}},
		open(t, registry.Config{URLs: []string{f.URL()}}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]sr.SchemaType{"AVRO": sr.TypeAvro, "JSON": sr.TypeJSON, "PROTOBUF": sr.TypeProtobuf}
	for _, topic := range recorded.Topics {
		s := sr.Schema{Type: kinds[topic.Type], Schema: topic.Schema}
		for _, r := range topic.References {
			f.SeedSchema(r.Name, 1, 1000, sr.Schema{Type: s.Type, Schema: r.Schema})
			s.References = append(s.References, sr.SchemaReference{Name: r.Name, Subject: r.Name, Version: 1})
		}
		f.SeedSchema(topic.Format+"-value", 1, topic.ID, s)
		for i, record := range topic.Records {
			value, err := hex.DecodeString(record)
			if err != nil {
				t.Fatal(err)
			}
			var r schemas.Reading
			n := float64(i)
			want := []float64{20 + n/7, n, 0.5, -n}
			if err := d.Decode(t.Context(), nil, value, 5, nil, &r); err != nil || string(r.Key) != fmt.Sprintf("oslo/press-%d", i) ||
				r.Time != 1767225600000000+int64(i)*1e6 || !slices.Equal(r.Values, want) || int(r.Schema) != topic.ID {
				t.Errorf("%s: %+v, %v", topic.Format, r, err)
			}
		}
	}
}

// TestPlainJSON: records without framing need no registry; a schema id in front of a record
// is looked up where there is a registry, and passed over where there is none.
func TestPlainJSON(t *testing.T) {
	m := schemas.Mapping{Key: "k", Fields: []string{"v"}}
	text := []byte(`{"k":"a","v":1.5}`)
	framed := append([]byte{0, 0, 0, 0, 77}, text...)
	f := schematest.NewRegistry(t)
	with := open(t, registry.Config{URLs: []string{f.URL()}})
	for name, reg := range map[string]*registry.Client{"without registry": nil, "with registry": with} {
		d, err := NewDecoder(m, reg, Options{Format: "json"})
		if err != nil {
			t.Fatal(err)
		}
		var r schemas.Reading
		for range 2 {
			if err := d.Decode(t.Context(), nil, text, 5, nil, &r); err != nil || string(r.Key) != "a" || r.Schema != -1 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		err = d.Decode(t.Context(), nil, framed, 5, nil, &r)
		if reg != nil {
			wantClass(t, err, schemas.ClassUnknownSchema, "")
		} else if err != nil || r.Schema != 77 || string(r.Key) != "a" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if _, ok := d.Ref(nil, framed, nil); !ok {
			t.Error("no ref")
		}
		if _, ok := d.Ref(nil, text, nil); ok {
			t.Error("a ref of plain JSON")
		}
		wantClass(t, d.Decode(t.Context(), nil, nil, 5, nil, &r), schemas.ClassTombstone, "")
		skipping := m
		skipping.SkipTombstones = true
		if d, err := NewDecoder(skipping, reg, Options{Format: "json"}); err != nil {
			t.Error(err)
		} else if err := d.Decode(t.Context(), nil, nil, 5, nil, &r); err != nil || r.Len() != 0 || r.Skipped != schemas.SkippedTombstone {
			t.Errorf("%s, a tombstone that is skipped: %d readings, %v, %v", name, r.Len(), r.Skipped, err)
		} else if err := d.Decode(t.Context(), nil, text, 5, nil, &r); err != nil || r.Len() != 1 {
			t.Errorf("%s, after it: %d readings, %v", name, r.Len(), err)
		}
		wantClass(t, d.Decode(t.Context(), nil, []byte{}, 5, nil, &r), schemas.ClassTruncated, "")
		wantClass(t, d.Decode(t.Context(), nil, []byte{0, 0}, 5, nil, &r), schemas.ClassTruncated, "")
		wantClass(t, d.Decode(t.Context(), nil, []byte("\xc3\x0112345678"), 5, nil, &r), schemas.ClassMalformed, "")
	}
	if _, err := NewDecoder(m, nil, Options{Format: "json", Bare: `{"properties":{"v":{"type":"string"}}}`}); err == nil ||
		!strings.Contains(err.Error(), `field "v": is string`) || !strings.Contains(err.Error(), `key "k"`) {
		t.Error(err)
	}
}
