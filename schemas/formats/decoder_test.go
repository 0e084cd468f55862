package formats

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
	"odradek/schemas/avro"
	"odradek/schemas/output"
	"odradek/schemas/schematest"
)

func TestFraming(t *testing.T) {
	ctx := context.Background()
	schema := record(`{"name":"k","type":"string"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"v","type":"double"}`)
	m := schemas.Mapping{Key: "k", Time: "ts", Fields: []string{"v"}}
	codec, err := goavro.NewCodec(schema)
	if err != nil {
		t.Fatal(err)
	}
	body, err := codec.BinaryFromNative(nil, map[string]any{"k": "a", "ts": time.UnixMilli(9), "v": 1.5})
	if err != nil {
		t.Fatal(err)
	}
	crc, _ := avro.Fingerprint(schema)
	if crc == codec.Rabin {
		t.Fatal("goavro's fingerprint is the specification's: the next lines test nothing")
	}
	frame := func(crc uint64) []byte {
		return append(binary.LittleEndian.AppendUint64([]byte{0xc3, 1}, crc), body...)
	}
	check := func(name string, d schemas.Decoder, value []byte, header func(string) ([]byte, bool), class string) {
		t.Helper()
		for range 2 { // the second time from the decoder's memory
			var r schemas.Reading
			err := d.Decode(ctx, nil, value, 0, header, &r)
			if class == "" {
				if err != nil || string(r.Key) != "a" || r.Values[0] != 1.5 || r.Time != 9000 {
					t.Errorf("%s: %v %v", name, r, err)
				}
				continue
			}
			var e *schemas.DecodeError
			if !errors.As(err, &e) || e.Class != class || e.Retry {
				t.Errorf("%s: %v, want %s", name, err, class)
			}
		}
	}
	d, err := NewDecoder(m, nil, Options{Schemas: []string{schema}})
	if err != nil {
		t.Fatal(err)
	}
	check("single object", d, frame(crc), nil, "")
	check("single object, fingerprint of goavro", d, frame(codec.Rabin), nil, "")
	check("single object, unknown", d, frame(1), nil, schemas.ClassUnknownSchema)
	check("single object, short", d, []byte{0xc3, 1, 2}, nil, schemas.ClassTruncated)
	check("tombstone", d, nil, nil, schemas.ClassTombstone)
	check("empty", d, []byte{}, nil, schemas.ClassTruncated)
	check("JSON", d, []byte(`{"v":1}`), nil, schemas.ClassMagic)
	check("id without registry", d, cat([]byte{0, 0, 0, 0, 7}, body), nil, schemas.ClassUnknownSchema)
	check("id 0, as in a control record", d, make([]byte, 6), nil, schemas.ClassUnknownSchema)
	check("id -1", d, bytes.Repeat([]byte{0, 0xff, 0xff, 0xff, 0xff}, 3), nil, schemas.ClassUnknownSchema)
	check("short id", d, []byte{0, 0, 0}, nil, schemas.ClassTruncated)
	check("too large", testDecoder(t, schema, m), cat([]byte{0, 0, 0, 0, 7}, make([]byte, 1<<20)), nil, schemas.ClassTooLarge)

	bare, err := NewDecoder(m, nil, Options{Bare: schema, Schemas: []string{schema}})
	if err != nil {
		t.Fatal(err)
	}
	check("bare", bare, body, nil, "")
	check("bare, single object", bare, frame(crc), nil, "")
	check("bare, truncated", bare, body[:3], nil, schemas.ClassTruncated)
	check("bare, tombstone", bare.Clone(), nil, nil, schemas.ClassTombstone)
	// An empty string in front looks like the magic byte.
	empty, err := NewDecoder(schemas.Mapping{Fields: []string{"v"}}, nil, Options{Bare: schema})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := codec.BinaryFromNative(nil, map[string]any{"k": "", "ts": time.UnixMilli(9), "v": 2.5})
	var r schemas.Reading
	if err := empty.Decode(ctx, []byte("x"), b, 4, nil, &r); err != nil || r.Values[0] != 2.5 || r.Time != 4000 {
		t.Error(r, err)
	}

	for _, o := range []Options{{}, {Bare: "{"}, {Bare: record(`{"name":"x","type":"int"}`)}} {
		if _, err := NewDecoder(m, nil, o); err == nil {
			t.Errorf("%+v: no error", o)
		} else {
			t.Log(err)
		}
	}
	_, err = NewDecoder(schemas.Mapping{Key: "a..b", Time: "@now", TimeUnit: "h", Fields: []string{"x[0]", "y[]"}}, nil, Options{})
	for _, part := range []string{"a..b", "@now", `"h"`, "x[0]", "y[3]", "schema_registry_url"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}

func ExampleDecoder_Decode() {
	const schema = `{"type":"record","name":"Reading","fields":[
		{"name":"device","type":"string"},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
		{"name":"temperature","type":["null","double"]}]}`
	d, err := NewDecoder(schemas.Mapping{Key: "device", Time: "at", Fields: []string{"temperature"}}, nil, Options{Bare: schema})
	if err != nil {
		fmt.Println(err)
		return
	}
	value := []byte{2, 'a', 0xd0, 0x0f, 2, 0, 0, 0, 0, 0, 0, 0x35, 0x40}
	var r schemas.Reading
	err = d.Decode(context.Background(), nil, value, 0, nil, &r)
	fmt.Println(string(r.Key), r.Time, r.Values, err)
	// Output: a 1000000 [21] <nil>
}

// FuzzDecode gives arbitrary bytes and headers to a decoder of all framings.
func FuzzDecode(f *testing.F) {
	texts := []string{schematest.SensorSchema, schematest.PlantSchema, output.ReadingSchema}
	ms := []schemas.Mapping{schematest.SensorMapping, {Key: "deviceId+tags.x", Time: "time",
		Fields: []string{"temp", "accel[2]", "channels[1].level"}}, output.ReadingMapping}
	var ds []*Decoder
	for i, schema := range texts {
		d := testDecoder(f, schema, ms[i])
		crc, _ := avro.Fingerprint(schema)
		d.shared.byCRC[crc] = d.shared.byID[7]
		d.shared.options.MaxBytes = 1 << 16
		ds = append(ds, d)
	}
	f.Add(byte(0), []byte("key"), schematest.SensorRecords(f)[0], []byte(nil), int64(5))
	f.Add(byte(2), []byte("key"), output.NewReadingEncoder(-1, "p", "u").Append(nil, []byte("s"), 1, 2, 3), []byte(nil), int64(-1))
	f.Add(byte(1), []byte("key"), append([]byte{0, 0, 0, 0, 7}, 2, 'a', 0, 0, 0, 2, 2, 'x', 0, 2, 'y', 0, 2, 4, 0, 8, 0, 0),
		[]byte{0, 0, 0, 0, 7}, int64(5))
	f.Fuzz(func(t *testing.T, which byte, key, value, header []byte, stamp int64) {
		d := ds[int(which)%len(ds)].Clone()
		var h func(string) ([]byte, bool)
		if len(header) > 0 {
			h = func(string) ([]byte, bool) { return header, true }
		}
		var r schemas.Reading
		err := d.Decode(t.Context(), key, value, stamp, h, &r)
		if err != nil {
			var e *schemas.DecodeError
			if !errors.As(err, &e) || e.Class == "" || e.Err == nil || e.Error() == "" {
				t.Fatal(err)
			}
			return
		}
		if len(r.Key) == 0 || len(r.Values) != d.Width() || r.Time < schemas.MinTime || r.Time > schemas.MaxTime {
			t.Fatal(r)
		}
		for _, v := range r.Values {
			if math.IsInf(v, 0) {
				t.Fatal(r.Values)
			}
		}
	})
}
