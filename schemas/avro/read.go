package avro

import (
	"fmt"

	"odradek/schemas"
)

// Decode decodes the Avro bytes of a record.
func (p *projection) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	if p.err != nil {
		return p.err
	}
	p.layout.Reset(out, p.schemaID)
	pos, at, st := p.exec(body, 0, 0, out)
	if st != statusOK || pos != len(body) {
		return p.broken(at, pos, len(body), st)
	}
	return p.layout.Finish(key, timestampMs, out)
}

// first decodes the record that body begins with. It returns the record's size in bytes,
// 0 where that is not known.
func (p *projection) first(key, body []byte, timestampMs int64, out *schemas.Reading) (n int, err error) {
	if p.err != nil {
		return 0, p.err
	}
	p.layout.Reset(out, p.schemaID)
	pos, at, st := p.exec(body, 0, 0, out)
	if st != statusOK {
		return 0, p.broken(at, pos, len(body), st)
	}
	return pos, p.layout.Finish(key, timestampMs, out)
}

// broken returns the error for bytes that do not fit the schema.
func (p *projection) broken(at, pos, size int, st status) error {
	e := &schemas.DecodeError{SchemaID: p.schemaID}
	if st == statusOK {
		e.Class, e.Err = schemas.ClassTrailingBytes, fmt.Errorf("%d bytes behind the record's end", size-pos)
		return e
	}
	e.Class, e.Err = statusErrors[st].class, statusErrors[st].err
	if at >= 0 && int(p.code[at].name) < len(p.names) && p.code[at].op != opEnd {
		e.Field = p.names[p.code[at].name]
	}
	return e
}
