package json

import (
	"bytes"
	std "encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"odradek/schemas"
)

// leavesOf returns the function that collects the values of records; a schema does not matter.
func leavesOf(*schemas.Schema) (func([]byte, *schemas.Leaves) error, error) {
	return func(body []byte, out *schemas.Leaves) error {
		d := std.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := leaves(d, "", out); err != nil {
			return err
		}
		if _, err := d.Token(); !out.Cut && !errors.Is(err, io.EOF) {
			return fmt.Errorf("byte %d: more than one JSON value", d.InputOffset())
		}
		return nil
	}, nil
}

// leaves reads a value and all in it.
func leaves(d *std.Decoder, path string, out *schemas.Leaves) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	leaf := schemas.Leaf{Kind: schemas.LeafNull}
	switch v := token.(type) {
	case std.Delim:
		if v == '{' {
			out.Record()
		} else {
			out.Array(path)
		}
		for d.More() && !out.Cut {
			at := path
			if v == '{' {
				name, err := d.Token()
				if err != nil {
					return fmt.Errorf("no JSON: %w", err)
				}
				at = schemas.Under(path, fmt.Sprint(name))
			} else {
				out.Next()
			}
			if err := leaves(d, at, out); err != nil {
				return err
			}
		}
		if out.End(); out.Cut {
			return nil
		}
		_, err := d.Token()
		return err
	case bool:
		if leaf.Kind = schemas.LeafBool; v {
			leaf.Int, leaf.Float = 1, 1
		}
	case string:
		leaf.Kind, leaf.Text = schemas.LeafText, v
	case std.Number:
		leaf.Kind = schemas.LeafFloat
		leaf.Float, err = strconv.ParseFloat(v.String(), 64)
		if i, wrong := v.Int64(); wrong == nil {
			leaf.Kind, leaf.Int = schemas.LeafInt, i
		} else if err != nil { // beyond float64
			leaf.Kind = schemas.LeafOther
		}
	}
	out.Add(path, leaf)
	return nil
}
