package output

import (
	_ "embed"
	"encoding/binary"
	"math"

	"odradek/schemas"
	"odradek/schemas/avro"
)

// ReadingSchema is the Avro schema of the readings that `worker generate` writes.
//
//go:embed sensor_reading.avsc
var ReadingSchema string

// ReadingMapping reads the readings of `worker generate`, of any format.
var ReadingMapping = schemas.Mapping{Key: "sensor", Time: "time", Fields: []string{"value"}}

var compiledReading = compile(ReadingSchema)

// ReadingEncoder writes records of ReadingSchema, in Avro, for one plant and unit.
type ReadingEncoder struct {
	head []byte
	site []byte
}

// NewReadingEncoder returns an encoder. schemaID is the id of ReadingSchema in
// the registry; below 0 records are in the single-object encoding.
func NewReadingEncoder(schemaID int32, plant, unit string) *ReadingEncoder {
	return &ReadingEncoder{
		head: compiledReading.head(schemaID),
		site: avro.AppendText(avro.AppendText(nil, plant), unit),
	}
}

// Append implements ReadingAppender.
func (e *ReadingEncoder) Append(dst []byte, sensor []byte, time int64, value float64, seq int64) []byte {
	dst = append(dst, e.head...)
	dst = avro.AppendText(dst, sensor)
	dst = avro.AppendLong(dst, millis(time))
	if value == value {
		dst = append(dst, 2)
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(value))
	} else {
		dst = append(dst, 0)
	}
	dst = append(dst, e.site...)
	return avro.AppendLong(dst, seq)
}
