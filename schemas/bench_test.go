package schemas

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/linkedin/goavro/v2"
)

// benchSchema is the record of the issue: five fields, one nested, one a union.
const benchSchema = `{"type":"record","name":"Reading","namespace":"acme","fields":[
 {"name":"sensor","type":"string"},
 {"name":"ts","type":"long"},
 {"name":"value","type":["null","double"]},
 {"name":"site","type":{"type":"record","name":"Site","fields":[{"name":"plant","type":"string"}]}},
 {"name":"seq","type":"long"}]}`

var benchMapping = Mapping{Key: "sensor", Time: "ts", Fields: []string{"value"}}

// benchRecords are Confluent-framed, about 60 bytes each.
func benchRecords(tb testing.TB, codec *goavro.Codec) [][]byte {
	var out [][]byte
	for i := range 256 {
		b, err := codec.BinaryFromNative([]byte{0, 0, 0, 0, 7}, map[string]any{
			"sensor": "press-7/bearing-" + string(rune('a'+i%26)),
			"ts":     int64(1767225600000 + i),
			"value":  goavro.Union("double", 20.5+float64(i)/7),
			"site":   map[string]any{"plant": "oslo-north"},
			"seq":    int64(1_000_000 + i),
		})
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func benchDecoder(tb testing.TB, schema string, m Mapping) *Decoder {
	l, err := m.layout()
	if err != nil {
		tb.Fatal(err)
	}
	d := newDecoder(&decoderShared{layout: l, options: DecoderOptions{MaxBytes: 1 << 20},
		byID: map[int32]*projection{7: newProjection(l, 7, schema)}, byGUID: map[[16]byte]*projection{}, byCRC: map[uint64]*projection{}})
	return d
}

// BenchmarkDecode compares the projection with goavro and access to its maps,
// which is what a worker without it does. docs/benchmarks.md: "decode".
func BenchmarkDecode(b *testing.B) {
	codec, err := goavro.NewCodec(benchSchema)
	if err != nil {
		b.Fatal(err)
	}
	records := benchRecords(b, codec)
	b.Run("projection", func(b *testing.B) {
		d := benchDecoder(b, benchSchema, benchMapping)
		var r Reading
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
			rec := records[i&255]
			if binary.BigEndian.Uint32(rec[1:]) != 7 {
				b.Fatal("id")
			}
			native, _, err := codec.NativeFromBinary(rec[5:])
			if err != nil {
				b.Fatal(err)
			}
			m := native.(map[string]any)
			key, ok1 := m["sensor"].(string)
			ts, ok2 := m["ts"].(int64)
			v, ok3 := m["value"].(map[string]any)["double"].(float64)
			if !ok1 || !ok2 || !ok3 {
				b.Fatal("type")
			}
			sum += v + float64(ts) + float64(len(key))
		}
		_ = sum
	})
}

func BenchmarkScoreAppend(b *testing.B) {
	e := NewScoreEncoder(12, "sensor-readings", 3, []string{"vibration", "level"})
	key := []byte("press-7/bearing-a")
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.Append(buf[:0], key, 1767225600000000+int64(i), 1767225600000000, i&1, 1.25, Scored, int64(i))
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkReadingAppend(b *testing.B) {
	e := NewReadingEncoder(12, "oslo-north", "m/s2")
	key := []byte("press-7/bearing-a")
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.Append(buf[:0], key, 1767225600000000+int64(i), 1.25, int64(i))
	}
	b.SetBytes(int64(len(buf)))
}
