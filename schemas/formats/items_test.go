package formats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/linkedin/goavro/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

const (
	metricsAvro = `{"type":"record","name":"Payload","fields":[{"name":"seq","type":"int"},{"name":"metrics","type":{"type":"array","items":[
		{"type":"record","name":"Metric","fields":[{"name":"name","type":"string"},{"name":"value","type":["null","double","string","boolean",
			{"type":"array","items":"double"},{"type":"record","name":"Template","fields":[{"name":"x","type":"double"}]}]}]},
		{"type":"record","name":"Note","fields":[{"name":"name","type":"string"}]}]}}]}`
	metricsProto = `syntax = "proto3"; message Payload { int32 seq = 1; repeated Metric metrics = 2;
		message Metric { string name = 1; string value = 2; } }`
)

// metric is an item of an array of readings: a number, nil, a text, a Boolean, or what is no value at all.
type metric struct {
	name  string
	value any
}

type template struct{}

type note struct{}

func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case bool:
		if v {
			return 1
		}
		return 0
	}
	return math.NaN()
}

func metricEncoders(t *testing.T) map[string]func(list []metric) []byte {
	codec, err := goavro.NewCodec(metricsAvro)
	if err != nil {
		t.Fatal(err)
	}
	d := message(t, metricsProto)
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return map[string]func(list []metric) []byte{
		"json": func(list []metric) []byte {
			items := []any{}
			for _, m := range list {
				item := map[string]any{"name": m.name, "value": m.value}
				switch m.value.(type) {
				case template:
					item["value"] = map[string]any{"x": 1.5}
				case []any:
					item["value"] = []float64{1}
				case note:
					delete(item, "value")
				}
				items = append(items, item)
			}
			return must(json.Marshal(map[string]any{"seq": 1, "metrics": items}))
		},
		"avro": func(list []metric) []byte {
			items := []any{}
			for _, m := range list {
				var v any
				switch x := m.value.(type) {
				case float64:
					v = goavro.Union("double", x)
				case string:
					v = goavro.Union("string", x)
				case bool:
					v = goavro.Union("boolean", x)
				case []any:
					v = goavro.Union("array", []any{1.0})
				case template:
					v = goavro.Union("Template", map[string]any{"x": 1.5})
				case note:
					items = append(items, goavro.Union("Note", map[string]any{"name": m.name}))
					continue
				}
				items = append(items, goavro.Union("Metric", map[string]any{"name": m.name, "value": v}))
			}
			return must(codec.BinaryFromNative(nil, map[string]any{"seq": 1, "metrics": items}))
		},
		"protobuf": func(list []metric) []byte { // texts alone
			msg := dynamicpb.NewMessage(d)
			msg.Set(d.Fields().ByName("seq"), protoreflect.ValueOfInt32(1))
			for _, m := range list {
				item := msg.Mutable(d.Fields().ByName("metrics")).List().AppendMutable().Message()
				item.Set(item.Descriptor().Fields().ByName("name"), protoreflect.ValueOfString(m.name))
				b, _ := json.Marshal(m.value)
				if text, ok := m.value.(string); ok {
					b = []byte(text)
				} else if m.value == nil {
					b = nil
				}
				item.Set(item.Descriptor().Fields().ByName("value"), protoreflect.ValueOfString(string(b)))
			}
			return must(proto.Marshal(msg))
		},
	}
}

// TestItemsThatAreNoNumbers: in an array of readings a value that is no number is missing and counted, in whichever items it is, and
// all numbers beside it are read. A record of which no item has the field is a fault.
func TestItemsThatAreNoNumbers(t *testing.T) {
	rng := seedtest.New(t)
	m := schemas.Mapping{Key: "metrics.name", Fields: []string{"seq", "metrics.value"}, Readings: "metrics"}
	for format, encode := range metricEncoders(t) {
		m.TextNumbers = format == "protobuf"
		d, err := NewDecoder(m, nil, Options{Format: format, Bare: map[string]string{"avro": metricsAvro, "protobuf": metricsProto}[format]})
		if err != nil {
			t.Fatal(err)
		}
		var r schemas.Reading
		for range 500 {
			list := make([]metric, rng.IntN(6))
			odd, notes := 0, 0
			for i := range list {
				list[i] = metric{"abc"[i%3 : i%3+1], randomValue(rng, format)}
				switch list[i].value.(type) {
				case string, template, []any:
					odd++
				case note:
					odd++
					notes++
				}
			}
			err := d.Decode(t.Context(), nil, encode(list), 5, nil, &r)
			if notes > 0 && notes == len(list) {
				wantClass(t, err, schemas.ClassMissingField, "metrics[0].value")
				continue
			}
			if err != nil || r.Len() != len(list) {
				t.Fatalf("%s: %v: %d readings, %v", format, list, r.Len(), err)
			}
			for i, want := range list {
				key, _, values := r.At(i)
				if w := number(want.value); string(key) != want.name || values[0] != 1 || values[1] != w && (w == w || values[1] == values[1]) {
					t.Fatalf("%s: reading %d of %v is %q %v", format, i, list, key, values)
				}
			}
			if !slices.Equal(r.Rejected, slices.Repeat([]int{1}, odd)) {
				t.Fatalf("%s: %v: rejected %v, want %d of field 1", format, list, r.Rejected, odd)
			}
		}
	}
}

func randomValue(rng *rand.Rand, format string) any {
	if format == "protobuf" { // texts that write numbers, and others
		return []any{rng.NormFloat64(), nil, "on"}[rng.IntN(3)]
	}
	return []any{rng.NormFloat64(), nil, "on", "7", rng.IntN(2) == 0, template{}, []any{}, note{}}[rng.IntN(8)]
}
