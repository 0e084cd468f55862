package formats

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/linkedin/goavro/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"odradek/schemas"
)

const (
	textAvro = `{"type":"record","name":"T","fields":[{"name":"v","type":["null","string","double"]},
		{"name":"x","type":{"type":"array","items":"string"}}]}`
	textProto = `syntax = "proto3"; import "google/protobuf/wrappers.proto";
		message T { optional string v = 1; repeated string x = 2; google.protobuf.StringValue w = 3; string plain = 4; }`
	textJSON = `{"properties":{"v":{"type":["string","null"]},"x":{"type":"array","items":{"type":"string"}}}}`
)

// message returns the first message of a .proto text.
func message(t *testing.T, text string) protoreflect.MessageDescriptor {
	t.Helper()
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"t.proto": text})})}
	files, err := c.Compile(t.Context(), "t.proto")
	if err != nil {
		t.Fatal(err)
	}
	return files[0].Messages().Get(0)
}

// textEncoders write a record with the texts v (nil: none) and x, by encoders of others.
func textEncoders(t *testing.T) map[string]func(v *string, x [2]string) []byte {
	codec, err := goavro.NewCodec(textAvro)
	if err != nil {
		t.Fatal(err)
	}
	d := message(t, textProto)
	return map[string]func(v *string, x [2]string) []byte{
		"avro": func(v *string, x [2]string) []byte {
			var text any
			if v != nil {
				text = goavro.Union("string", *v)
			}
			b, err := codec.BinaryFromNative(nil, map[string]any{"v": text, "x": []any{x[0], x[1]}})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"json": func(v *string, x [2]string) []byte {
			b, err := json.Marshal(map[string]any{"v": v, "x": x})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"protobuf": func(v *string, x [2]string) []byte {
			m := dynamicpb.NewMessage(d)
			if v != nil {
				m.Set(d.Fields().ByName("v"), protoreflect.ValueOfString(*v))
			}
			for _, s := range x {
				m.Mutable(d.Fields().ByName("x")).List().Append(protoreflect.ValueOfString(s))
			}
			b, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	}
}

// TestTextValues: in every format a text that writes a number is that number where the mapping says so; an empty text, as no
// text, is missing; any other one is a fault, as all are without it, and the fault of a number says what to set.
func TestTextValues(t *testing.T) {
	m := schemas.Mapping{Fields: []string{"v", "x[2]"}, TextNumbers: true}
	nan := math.NaN()
	for format, encode := range textEncoders(t) {
		schema := map[string]string{"avro": textAvro, "json": textJSON, "protobuf": textProto}[format]
		d, err := NewDecoder(m, nil, Options{Format: format, Bare: schema})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		var r schemas.Reading
		for _, c := range []struct {
			v            string
			x            [2]string
			want         [3]float64
			class, field string
		}{
			{"21.5", [2]string{"1e3", "-7"}, [3]float64{21.5, 1000, -7}, "", ""},
			{"", [2]string{"", " 3 "}, [3]float64{nan, nan, 3}, "", ""},
			{"none", [2]string{"1", "NaN"}, [3]float64{nan, 1, nan}, "", ""},
			{"21,5", [2]string{"1", "2"}, [3]float64{}, schemas.ClassBadType, "v"},
			{"1", [2]string{"1", "hot"}, [3]float64{}, schemas.ClassBadType, "x[2]"},
			{"1", [2]string{"\"", "2"}, [3]float64{}, schemas.ClassBadType, "x[2]"},
			{"1e999", [2]string{"1", "2"}, [3]float64{}, schemas.ClassInfinite, "v"},
		} {
			v := &c.v
			if c.v == "none" {
				v = nil
			}
			err := d.Decode(t.Context(), []byte("k"), encode(v, c.x), 5, nil, &r)
			if c.class != "" {
				wantClass(t, err, c.class, c.field)
				if strings.Contains(err.Error(), "hot") {
					t.Errorf("%s: the error shows the value: %v", format, err)
				}
				continue
			}
			for i, w := range c.want {
				if err != nil || r.Values[i] != w && (w == w || r.Values[i] == r.Values[i]) {
					t.Errorf("%s: %+v is %v, %v", format, c, r.Values, err)
					break
				}
			}
		}

		off := m
		off.TextNumbers = false
		if err := CheckFile(format, off, schema); len(err) == 0 || !strings.Contains(err[0].Error(), "text_values=number") {
			t.Errorf("%s without texts: %v", format, err)
		}
	}

	for format, text := range map[string]string{"json": `{"v":"2\u0031.5"}`, "avro": "\x02\x0821.5\x00"} {
		d, err := NewDecoder(schemas.Mapping{Fields: []string{"v"}}, nil,
			Options{Format: format, Bare: map[string]string{"avro": textAvro}[format]})
		if err != nil {
			t.Fatal(err)
		}
		var r schemas.Reading
		err = d.Decode(t.Context(), []byte("k"), []byte(text), 5, nil, &r)
		if err == nil || !strings.Contains(err.Error(), "text_values=number") {
			t.Errorf("%s: a number in quotes is %v", format, err)
		}
	}

	d := message(t, textProto)
	p, err := NewDecoder(schemas.Mapping{Fields: []string{"w", "plain"}, TextNumbers: true}, nil, Options{Format: "protobuf", Bare: textProto})
	if err != nil {
		t.Fatal(err)
	}
	wrapped := dynamicpb.NewMessage(d)
	inner := wrapped.Mutable(d.Fields().ByName("w")).Message()
	inner.Set(inner.Descriptor().Fields().ByName("value"), protoreflect.ValueOfString("4.25"))
	b, _ := proto.Marshal(wrapped)
	var r schemas.Reading
	if err := p.Decode(t.Context(), []byte("k"), b, 5, nil, &r); err != nil || r.Values[0] != 4.25 || r.Values[1] == r.Values[1] {
		t.Errorf("a wrapper, and a text without presence: %v %v", r.Values, err)
	}
}
