package output

import (
	"strings"

	"odradek/schemas/avro"
)

// sampleField is the field that a numbered schema has in addition.
const sampleField = `{"name": "sample", "type": ["null", "int"], "default": null, "doc": "Number of the sample in its source record, from 0, ` +
	`where the record has an array of readings; null where a record is one sample."}`

// numbered returns a schema with sampleField as its last field. What reads the schema without it reads records of the one with it,
// and the other way round.
func numbered(schema string) string {
	end := strings.LastIndexByte(schema, ']')
	return strings.TrimRight(schema[:end], " \n") + ",\n    " + sampleField + "\n  " + schema[end:]
}

// readSample reads the sample's number behind the other fields, where there is one.
func readSample(r *avro.FieldReader) *int32 {
	if !r.More() || r.Index(2) == 0 {
		return nil
	}
	n := r.Int()
	return &n
}

// unframe returns the Avro bytes of a record of any of the schemas. The error is the first schema's.
func unframe(b []byte, first *compiled, others ...*compiled) ([]byte, error) {
	body, err := first.unframe(b)
	for _, s := range others {
		if err == nil {
			break
		}
		if other, e := s.unframe(b); e == nil {
			return other, nil
		}
	}
	return body, err
}
