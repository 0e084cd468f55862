package formats

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
	"odradek/schemas/avro"
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
		b, err := codec.BinaryFromNative([]byte{schemas.MagicID, 0, 0, 0, benchID}, map[string]any{
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

// goavroRead is what a worker without a projection does: decode all, then take
// the fields out of the maps.
func goavroRead(codec *goavro.Codec, record []byte) (v float64, err error) {
	if record[0] != schemas.MagicID || binary.BigEndian.Uint32(record[1:]) != benchID {
		return 0, errors.New("schemas: framing")
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
		return 0, errors.New("schemas: type")
	}
	return v, nil
}

// DecodeCost is what decoding one record costs.
type DecodeCost struct {
	Projection  float64 // nanoseconds
	Goavro      float64 // nanoseconds, with the access to its maps
	Allocations float64 // of the projection
	Bytes       int     // of a record, framing included
}

// MeasureDecode times the decoder and goavro on the same records of five
// fields, one nested and one a union, for about d each: the best of many short
// rounds of both in turn, so that a busy machine does not decide. A round is
// long enough to have its share of garbage collection. It is the row "decode"
// of the bench.
func MeasureDecode(d time.Duration) (DecodeCost, error) {
	codec, err := goavro.NewCodec(benchSchema)
	if err != nil {
		return DecodeCost{}, err
	}
	records, err := benchRecords(codec)
	if err != nil {
		return DecodeCost{}, err
	}
	decoder, err := benchDecoder(benchSchema, benchMapping)
	if err != nil {
		return DecodeCost{}, err
	}
	const round = 5 * time.Millisecond
	var r schemas.Reading
	var sum float64
	ctx := context.Background()
	best := func(before float64, read func([]byte) error) (float64, error) {
		n, start := 0, time.Now()
		for time.Since(start) < round {
			for _, rec := range records {
				if err := read(rec); err != nil {
					return 0, err
				}
			}
			n += len(records)
		}
		took := float64(time.Since(start)) / float64(n)
		if before > 0 && before < took {
			took = before
		}
		return took, nil
	}
	projection := func(rec []byte) error {
		err := decoder.Decode(ctx, nil, rec, 0, nil, &r)
		sum += r.Values[0]
		return err
	}
	general := func(rec []byte) error {
		v, err := goavroRead(codec, rec)
		sum += v
		return err
	}
	c := DecodeCost{Bytes: len(records[0])}
	var before, after runtime.MemStats
	for i := range max(1, d/round) {
		if c.Projection, err = best(c.Projection, projection); err != nil {
			return c, err
		}
		if c.Goavro, err = best(c.Goavro, general); err != nil {
			return c, err
		}
		if i == 0 {
			runtime.ReadMemStats(&before)
			const times = 256 // what other goroutines allocate meanwhile does not show
			for range times {
				for _, rec := range records {
					if err := projection(rec); err != nil {
						return c, err
					}
				}
			}
			runtime.ReadMemStats(&after)
			c.Allocations = float64(after.Mallocs-before.Mallocs) / float64(times*len(records))
		}
	}
	return c, nil
}

// benchDecoder is a decoder that knows one schema, under benchID, without a registry.
func benchDecoder(schema string, m schemas.Mapping) (*Decoder, error) {
	l, err := m.Layout()
	if err != nil {
		return nil, err
	}
	return newDecoder(&decoderShared{
		layout: l, options: Options{MaxBytes: 1 << 20},
		byID:   map[int32]*compiled{benchID: {avro.Format.Compile(l, &schemas.Schema{ID: benchID, Text: schema}), benchID}},
		byGUID: map[[16]byte]*compiled{}, byCRC: map[uint64]*compiled{},
	}), nil
}
