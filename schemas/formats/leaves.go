package formats

import (
	"context"
	"slices"

	"odradek/schemas"
	"odradek/schemas/protobuf"
	"odradek/schemas/registry"
)

// Inspector lists the values of records of any format, without a mapping. It serves one goroutine.
type Inspector struct {
	dec    *Decoder
	leaves map[*schemas.Schema]listing
}

// listing lists the values of the records of a schema; err says why it cannot.
type listing struct {
	list func(body []byte, out *schemas.Leaves) error
	err  error
}

// NewInspector returns an Inspector; see NewDecoder.
func NewInspector(reg *registry.Client, opts Options) (*Inspector, error) {
	d, err := newChecked(schemas.Mapping{Fields: []string{"@value"}}, reg, opts, false)
	if err != nil {
		return nil, err
	}
	return &Inspector{d, map[*schemas.Schema]listing{}}, nil
}

// frame is Decoder.frame; of a record in Glue's framing the body begins with the indexes of its message.
func (ins *Inspector) frame(ctx context.Context, value []byte, header func(name string) ([]byte, bool)) (*compiled, []byte, error) {
	named := false
	if header != nil {
		_, named = header(schemas.SchemaIDHeader)
	}
	if d := ins.dec; !named && d.shared.glue && schemas.IsGlue(value) {
		p, nested, body, err := d.glueBody(ctx, value)
		if err == nil && nested != nil {
			var indexes []byte
			if indexes, body, err = glueMessage(p, nested, body); err == nil {
				body = append(slices.Clone(indexes), body...)
			}
		}
		return p, body, err
	}
	p, body, err := ins.dec.frame(ctx, value, header)
	if err == nil && p.schema.Type == protobuf.Format.Type && len(body) == len(value) {
		body = append(indexes(header), body...)
	}
	return p, body, err
}

// Leaves lists the values of a record, as far as it can be read, and returns the writer's schema. An error of its framing or
// of its schema is a *schemas.DecodeError.
func (ins *Inspector) Leaves(ctx context.Context, value []byte, header func(name string) ([]byte, bool),
	out *schemas.Leaves) (*schemas.Schema, error) {
	out.Reset()
	p, body, err := ins.frame(ctx, value, header)
	if err != nil {
		return nil, err
	}
	l, ok := ins.leaves[p.schema]
	if !ok {
		f, err := formatOf(ins.dec.shared.options.Format, p.schema)
		if l.err = err; err == nil {
			l.list, l.err = f.Leaves(p.schema)
		}
		ins.leaves[p.schema] = l
	}
	fail := func(class string, err error) (*schemas.Schema, error) {
		return p.schema, &schemas.DecodeError{Class: class, SchemaID: p.id, Err: err}
	}
	if l.err != nil {
		return fail(schemas.ClassUnknownSchema, l.err)
	}
	if err := l.list(body, out); err != nil {
		return fail(schemas.ClassMalformed, err)
	}
	return p.schema, nil
}

// indexes returns the indexes that name the message of a record in Protobuf whose value does not begin with them: the indexes in its
// header, or the first message's.
func indexes(header func(name string) ([]byte, bool)) []byte {
	if header != nil {
		if id, ok := header(schemas.SchemaIDHeader); ok {
			switch {
			case len(id) > 5 && id[0] == schemas.MagicID:
				return slices.Clone(id[5:])
			case len(id) > 17 && id[0] == schemas.MagicGUID:
				return slices.Clone(id[17:])
			}
		}
	}
	return []byte{0}
}
