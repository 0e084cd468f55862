package output

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"

	"odradek/schemas"
)

// ReadingAppender appends one reading with its framing to dst: time is in microseconds and
// written in milliseconds, rounded down; a NaN value is written as a missing one.
type ReadingAppender interface {
	Append(dst []byte, sensor []byte, time int64, value float64, seq int64) []byte
}

// ReadingFormat is a format in which `worker generate` writes readings. ReadingMapping reads
// all of them.
type ReadingFormat struct {
	Name   string // as the setting format has it
	Type   string // of Schema in the registry
	Schema string
	// New returns an appender for one plant and unit. With a schemaID below 0 records have
	// no schema id: Avro is in the single-object encoding, JSON and Protobuf have no framing.
	New func(schemaID int32, plant, unit string) ReadingAppender
}

//go:embed sensor_reading.schema.json
var readingJSONSchema string

//go:embed sensor_reading.proto
var readingProto string

// ReadingFormats are the formats of readings, Avro first.
var ReadingFormats = []ReadingFormat{
	{"avro", "AVRO", ReadingSchema, func(id int32, plant, unit string) ReadingAppender { return NewReadingEncoder(id, plant, unit) }},
	{"json", "JSON", readingJSONSchema, newJSONReadings},
	{"protobuf", "PROTOBUF", readingProto, newProtobufReadings},
}

// millis rounds microseconds down to milliseconds.
func millis(us int64) int64 {
	if us%1000 < 0 {
		return us/1000 - 1
	}
	return us / 1000
}

type jsonReadings struct{ head, site []byte }

func newJSONReadings(schemaID int32, plant, unit string) ReadingAppender {
	e := &jsonReadings{site: []byte(`,"site":{"plant":`)}
	if schemaID >= 0 {
		e.head = binary.BigEndian.AppendUint32([]byte{schemas.MagicID}, uint32(schemaID))
	}
	e.site = append(appendJSON(e.site, plant), `,"unit":`...)
	e.site = append(appendJSON(e.site, unit), `},"seq":`...)
	return e
}

func appendJSON(dst []byte, text string) []byte {
	b, _ := json.Marshal(text) // a string can always be marshalled
	return append(dst, b...)
}

func (j *jsonReadings) Append(dst, sensor []byte, time int64, value float64, seq int64) []byte {
	dst = append(append(dst, j.head...), `{"sensor":`...)
	dst = append(appendJSON(dst, string(sensor)), `,"time":`...)
	dst = append(strconv.AppendInt(dst, millis(time), 10), `,"value":`...)
	if value == value {
		dst = strconv.AppendFloat(dst, value, 'g', -1, 64)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, j.site...)
	return append(strconv.AppendInt(dst, seq, 10), '}')
}

type protobufReadings struct{ head, site []byte }

func newProtobufReadings(schemaID int32, plant, unit string) ReadingAppender {
	e := &protobufReadings{}
	if schemaID >= 0 {
		e.head = binary.BigEndian.AppendUint32([]byte{schemas.MagicID}, uint32(schemaID))
		e.head = append(e.head, 0) // the schema's first message
	}
	e.site = appendBytes(nil, 4, appendBytes(appendBytes(nil, 1, plant), 2, unit))
	return e
}

// Wire types of Protobuf, the low three bits of a field's tag.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

func appendBytes[T string | []byte](dst []byte, field byte, b T) []byte {
	dst = append(dst, field<<3|wireBytes)
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func (p *protobufReadings) Append(dst, sensor []byte, time int64, value float64, seq int64) []byte {
	dst = appendBytes(append(dst, p.head...), 1, sensor)
	dst = binary.AppendUvarint(append(dst, 2<<3|wireVarint), uint64(millis(time)))
	if value == value {
		dst = binary.LittleEndian.AppendUint64(append(dst, 3<<3|wireFixed64), math.Float64bits(value))
	}
	dst = append(dst, p.site...)
	return binary.AppendUvarint(append(dst, 5<<3|wireVarint), uint64(seq))
}
