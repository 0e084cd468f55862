package avro

import (
	"context"
	"testing"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
)

// benchSchema is a record of five fields, one nested and one a union.
const benchSchema = `{"type":"record","name":"Reading","namespace":"acme","fields":[
 {"name":"sensor","type":"string"},
 {"name":"ts","type":"long"},
 {"name":"value","type":["null","double"]},
 {"name":"site","type":{"type":"record","name":"Site","fields":[{"name":"plant","type":"string"}]}},
 {"name":"seq","type":"long"}]}`

var benchMapping = schemas.Mapping{Key: "sensor", Time: "ts", Fields: []string{"value"}}

const benchID = 7

// benchRecords are Confluent-framed, about 50 bytes each, a power of two of them.
func benchRecords(codec *goavro.Codec) ([][]byte, error) {
	var out [][]byte
	for i := range 256 {
		b, err := codec.BinaryFromNative([]byte{0, 0, 0, 0, benchID}, map[string]any{
			"sensor": "press-7/bearing-" + string(rune('a'+i%26)),
			"ts":     int64(1767225600000 + i),
			"value":  goavro.Union("double", 20.5+float64(i)/7),
			"site":   map[string]any{"plant": "oslo-north"},
			"seq":    int64(1_000_000 + i),
		})
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func testRecords(tb testing.TB) [][]byte {
	tb.Helper()
	codec, err := goavro.NewCodec(benchSchema)
	if err != nil {
		tb.Fatal(err)
	}
	records, err := benchRecords(codec)
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

// framed is a projection behind Confluent's framing.
type framed struct{ *projection }

func (f framed) Decode(_ context.Context, key, value []byte, timestampMs int64, _ func(string) ([]byte, bool), out *schemas.Reading) error {
	return f.projection.Decode(key, value[5:], timestampMs, out)
}

func testDecoder(tb testing.TB, schema string, m schemas.Mapping) framed {
	tb.Helper()
	l, err := m.Layout()
	if err != nil {
		tb.Fatal(err)
	}
	return framed{newProjection(l, benchID, schema)}
}

// valuePaths lists the paths that can be fields of a mapping.
func valuePaths(schema string) ([]string, error) {
	f, err := Format.Fields(&schemas.Schema{Text: schema})
	if err != nil {
		return nil, err
	}
	return f.Paths(schemas.RoleValue), nil
}
