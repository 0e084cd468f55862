package avro

import (
	"fmt"

	"odradek/schemas"
)

// Decode decodes the Avro bytes of a record.
func (p *projection) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	_, err := p.readFirst(key, body, timestampMs, out, true)
	return err
}

// readFirst decodes the record that body begins with, or, with whole, is. It returns how
// many bytes the record takes, 0 where that is not known.
func (p *projection) readFirst(key, body []byte, timestampMs int64, out *schemas.Reading, whole bool) (n int, err error) {
	if p.err != nil {
		return 0, p.err
	}
	p.layout.Begin(out, p.schemaID)

	var pos, at int
	var st status
	if p.walk != nil {
		pos, st = p.walk.read(body, out)
		at = -1
	} else {
		pos, at, st = p.exec(body, 0, 0, out)
	}
	if st != statusOK || whole && pos != len(body) {
		return 0, p.broken(at, pos, len(body), st)
	}
	return pos, p.layout.Finish(key, timestampMs, out)
}

// broken makes the error of bytes that do not fit the schema.
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
