package formats

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"odradek/schemas"
	"odradek/schemas/registry"
)

// TestAuto: each record is read by the format of its schema, and with a format configured
// only those of that format are.
func TestAuto(t *testing.T) {
	f := newFaulty(t)
	framed := func(id int32, body []byte) []byte { return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), body...) }
	records := map[string][]byte{
		"avro": framed(f.register(t, "a-value", sr.Schema{Schema: `{"type":"record","name":"R","fields":[{"name":"k","type":"string"},{"name":"v","type":"double"}]}`}),
			[]byte{2, 'a', 0, 0, 0, 0, 0, 0, 0xf8, 0x3f}),
		"json": framed(f.register(t, "j-value", sr.Schema{Type: sr.TypeJSON, Schema: `{"type":"object"}`}), []byte(`{"k":"a","v":1.5}`)),
	}
	reg := open(t, registry.Config{URLs: []string{f.URL()}})
	for _, name := range Names() {
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
					if !strings.Contains(err.Error(), "ODRADEK_FORMAT to auto or "+format) {
						t.Error(err)
					}
				} else if err != nil || string(r.Key) != "a" || r.Values[0] != 1.5 || r.Schema < 1 {
					t.Errorf("%s of %s: %+v, %v", format, name, r, err)
				}
			}
		}
	}
	if _, err := NewDecoder(schemas.Mapping{Fields: []string{"v"}}, reg, Options{Format: "xml"}); err == nil || !strings.Contains(err.Error(), "xml") {
		t.Error(err)
	}
}

// TestPlainJSON: records without framing need no registry; a schema id in front of a record
// is looked up where there is a registry, and passed over where there is none.
func TestPlainJSON(t *testing.T) {
	m := schemas.Mapping{Key: "k", Fields: []string{"v"}}
	text := []byte(`{"k":"a","v":1.5}`)
	framed := append([]byte{0, 0, 0, 0, 77}, text...)
	f := newFaulty(t)
	for name, reg := range map[string]*registry.Client{"without registry": nil, "with registry": open(t, registry.Config{URLs: []string{f.URL()}})} {
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
		if _, ok := d.Ref(framed, nil); !ok {
			t.Error("no ref")
		}
		if _, ok := d.Ref(text, nil); ok {
			t.Error("a ref of plain JSON")
		}
		wantClass(t, d.Decode(t.Context(), nil, nil, 5, nil, &r), schemas.ClassTombstone, "")
		wantClass(t, d.Decode(t.Context(), nil, []byte{}, 5, nil, &r), schemas.ClassTruncated, "")
		wantClass(t, d.Decode(t.Context(), nil, []byte{0, 0}, 5, nil, &r), schemas.ClassTruncated, "")
		wantClass(t, d.Decode(t.Context(), nil, []byte("\xc3\x0112345678"), 5, nil, &r), schemas.ClassMalformed, "")
	}
	if _, err := NewDecoder(m, nil, Options{Format: "json", Bare: `{"properties":{"v":{"type":"string"}}}`}); err == nil ||
		!strings.Contains(err.Error(), `field "v": is string`) || !strings.Contains(err.Error(), `key "k"`) {
		t.Error(err)
	}
}
