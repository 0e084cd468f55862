package avro

import (
	"context"
	"testing"

	"odradek/schemas"
	"odradek/schemas/schematest"
)

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
	return framed{newProjection(l, schematest.SensorID, schema)}
}

// valuePaths lists the paths that can be fields of a mapping.
func valuePaths(schema string) ([]string, error) {
	f, err := Format.Fields(&schemas.Schema{Text: schema})
	if err != nil {
		return nil, err
	}
	return f.Paths(schemas.RoleValue), nil
}
