package formats

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
	"odradek/schemas/avro"
	"odradek/schemas/schematest"
)

// testDecoder returns a decoder without a registry that knows one schema, by its id.
func testDecoder(tb testing.TB, schema string, m schemas.Mapping) *Decoder {
	tb.Helper()
	l, err := m.Layout()
	if err != nil {
		tb.Fatal(err)
	}
	const id = schematest.SensorID
	return newDecoder(&decoderShared{
		layout: l, options: Options{MaxBytes: 1 << 20},
		byID:   map[int32]*compiled{id: {program: avro.Format.Compile(l, &schemas.Schema{ID: id, Text: schema}), id: id}},
		byGUID: map[[16]byte]*compiled{}, byCRC: map[uint64]*compiled{},
	})
}

// goavroRead decodes a whole record and takes the value out of goavro's maps.
func goavroRead(codec *goavro.Codec, record []byte) (v float64, err error) {
	if record[0] != schemas.MagicID || binary.BigEndian.Uint32(record[1:]) != schematest.SensorID {
		return 0, errors.New("framing")
	}
	native, _, err := codec.NativeFromBinary(record[5:])
	if err != nil {
		return 0, err
	}
	m, ok0 := native.(map[string]any)
	_, ok1 := m["sensor"].(string)
	_, ok2 := m["ts"].(int64)
	u, ok3 := m["value"].(map[string]any)
	v, ok4 := u["double"].(float64)
	if !ok0 || !ok1 || !ok2 || !ok3 || !ok4 {
		return 0, errors.New("type")
	}
	return v, nil
}

func TestDecodeAllocatesNothing(t *testing.T) {
	records := schematest.SensorRecords(t)
	d := testDecoder(t, schematest.SensorSchema, schematest.SensorMapping)
	var r schemas.Reading
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		if err := d.Decode(t.Context(), nil, records[i&255], 0, nil, &r); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// BenchmarkDecode compares the decoder with goavro and access to its maps. The published
// figures are of `bin/bench decode`.
func BenchmarkDecode(b *testing.B) {
	codec, err := goavro.NewCodec(schematest.SensorSchema)
	if err != nil {
		b.Fatal(err)
	}
	records := schematest.SensorRecords(b)
	b.Run("projection", func(b *testing.B) {
		d := testDecoder(b, schematest.SensorSchema, schematest.SensorMapping)
		var r schemas.Reading
		ctx := context.Background()
		b.ReportAllocs()
		b.SetBytes(int64(len(records[0])))
		for i := 0; b.Loop(); i++ {
			if err := d.Decode(ctx, nil, records[i&255], 0, nil, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("goavro", func(b *testing.B) {
		var sum float64
		b.ReportAllocs()
		b.SetBytes(int64(len(records[0])))
		for i := 0; b.Loop(); i++ {
			v, err := goavroRead(codec, records[i&255])
			if err != nil {
				b.Fatal(err)
			}
			sum += v
		}
		_ = sum
	})
}
