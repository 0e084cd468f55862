package formats

import (
	"context"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
)

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

func testDecoder(tb testing.TB, schema string, m schemas.Mapping) *Decoder {
	tb.Helper()
	d, err := benchDecoder(schema, m)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestMeasureDecode(t *testing.T) {
	c, err := MeasureDecode(100 * time.Millisecond)
	if err != nil || c.Allocations > 0.01 || c.Projection <= 0 || c.Goavro < c.Projection {
		t.Errorf("%+v, %v", c, err)
	}
	t.Logf("%+v, ratio %.1f", c, c.Goavro/c.Projection)
}

// BenchmarkDecode compares the projection with goavro and access to its maps,
// which is what a worker without it does. docs/benchmarks.md: "decode".
func BenchmarkDecode(b *testing.B) {
	codec, err := goavro.NewCodec(benchSchema)
	if err != nil {
		b.Fatal(err)
	}
	records := testRecords(b)
	b.Run("projection", func(b *testing.B) {
		d := testDecoder(b, benchSchema, benchMapping)
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
