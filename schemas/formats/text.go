package formats

import (
	"context"
	"errors"

	"odradek/schemas"
)

// Text returns the content of a record as readable lines, as far as it can be decoded, and the id of its schema
// in the registry, -1 if it names none. The mapping does not matter. The error says why decoding ended early.
func (d *Decoder) Text(ctx context.Context, value []byte, header func(name string) ([]byte, bool)) (lines []string, id int32, err error) {
	p, body, err := d.frame(ctx, value, header)
	if err != nil {
		var e *schemas.DecodeError
		if id = -1; errors.As(err, &e) {
			id = e.SchemaID
		}
		return nil, id, err
	}
	f, err := formatOf(d.shared.options.Format, p.schema)
	switch {
	case err != nil:
	case f.Text == nil:
		err = errors.New("records in " + f.Title + " are not decoded here")
	default:
		lines, err = f.Text(p.schema, body)
	}
	return lines, p.id, err
}
