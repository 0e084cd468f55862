package formats

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"odradek/schemas"
)

// glue reads the framing of AWS Glue's serializers: the version of a schema, by a UUID, and the record, compressed or not. In
// Protobuf the number of its message comes first.
func (d *Decoder) glue(ctx context.Context, value []byte) (p *compiled, body []byte, err error) {
	p, nested, body, err := d.glueBody(ctx, value)
	if err != nil || nested == nil {
		return p, body, err
	}
	indexes, body, err := glueMessage(p, nested, body)
	if err != nil {
		return nil, nil, err
	}
	p = &compiled{id: p.id, schema: p.schema}
	p.program, _, err = nested.Message(indexes)
	return p, body, err
}

// glueBody finds the schema of a record in Glue's framing, and inflates the record. nested is set where it begins with the number
// of its message.
func (d *Decoder) glueBody(ctx context.Context, value []byte) (p *compiled, nested schemas.Nested, body []byte, err error) {
	s := d.shared
	switch {
	case s.bare != nil && (!s.plain || s.registry == nil):
		p, nested = s.bare, s.nested
	default:
		if p, err = d.guid(ctx, [16]byte(value[2:schemas.GlueBytes])); err != nil {
			return nil, nil, nil, err
		}
		nested, _ = p.program.(schemas.Nested)
	}
	body = value[schemas.GlueBytes:]
	if value[1] == schemas.GlueZlib {
		if body, err = d.inflate(body); err != nil {
			var e *schemas.DecodeError
			if errors.As(err, &e) {
				e.SchemaID = p.id
			}
			return nil, nil, nil, err
		}
	}
	return p, nested, body, nil
}

// glueMessage returns the indexes of the message that a record begins with, and the rest of it.
func glueMessage(p *compiled, nested schemas.Nested, body []byte) (indexes, rest []byte, err error) {
	n, size := binary.Uvarint(body)
	if size <= 0 {
		return nil, nil, &schemas.DecodeError{Class: schemas.ClassTruncated, SchemaID: p.id,
			Err: errors.New("the record ends within the number of its message")}
	}
	if indexes = nested.Indexes(n); indexes == nil {
		return nil, nil, &schemas.DecodeError{Class: schemas.ClassMalformed, SchemaID: p.id,
			Err: fmt.Errorf("the schema has no message of number %d", n)}
	}
	return indexes, body[size:], nil
}

// inflate returns new memory each time: the keys of readings alias it.
func (d *Decoder) inflate(b []byte) ([]byte, error) {
	fail := func(class string, err error) ([]byte, error) {
		return nil, &schemas.DecodeError{Class: class, SchemaID: -1, Err: err}
	}
	limit := d.shared.options.MaxBytes
	body, err := d.inflater.Inflate(b, limit)
	switch {
	case errors.Is(err, schemas.ErrInflated):
		return fail(schemas.ClassTooLarge, fmt.Errorf("a compressed value of more than %d bytes", limit))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fail(schemas.ClassTruncated, errors.New("the compressed record ends too early"))
	case err != nil:
		return fail(schemas.ClassMalformed, fmt.Errorf("the record is not compressed by zlib: %w", err))
	}
	return body, nil
}
