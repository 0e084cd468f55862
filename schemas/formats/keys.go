package formats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"odradek/schemas"
	"odradek/schemas/json"
	"odradek/schemas/registry"
)

// keyDecoder reads the parts of series keys that are in Kafka keys, which are framed as values are, or JSON. So a key is the same
// whichever version of its schema has written it.
type keyDecoder struct {
	dec   *Decoder
	parts schemas.Reading
}

// sharedOfKeys returns what decoders of Kafka keys share. Their schemas may be of any format of the registry; keys without
// framing are JSON where the records are.
func sharedOfKeys(l *schemas.Layout, reg *registry.Client, opts Options) *decoderShared {
	s := &decoderShared{
		layout: l, registry: reg, options: Options{Format: Auto, MaxBytes: opts.MaxBytes}, plain: opts.Format == json.Format.Name, glue: true,
		byID: map[int32]*compiled{}, byGUID: map[[16]byte]*compiled{}, byCRC: map[uint64]*compiled{},
	}
	if s.plain {
		s.bare = s.compile(local(opts.Format, ""))
		if reg == nil {
			s.options.Format = opts.Format
		}
	}
	return s
}

// keyHeader returns the header that names the schema of a key in the place of the value's.
func keyHeader(header func(name string) ([]byte, bool)) func(name string) ([]byte, bool) {
	if header == nil {
		return nil
	}
	return func(string) ([]byte, bool) { return header(schemas.KeySchemaIDHeader) }
}

// decode reads the parts of a record's key and gives them to its reading.
func (k *keyDecoder) decode(ctx context.Context, key []byte, header func(name string) ([]byte, bool), out *schemas.Reading) error {
	if key == nil {
		return &schemas.DecodeError{Class: schemas.ClassMissingKey, Field: "@key", SchemaID: -1, Err: errors.New("the record has no Kafka key")}
	}
	if err := k.dec.Decode(ctx, nil, key, 0, keyHeader(header), &k.parts); err != nil {
		return ofKey(err)
	}
	out.SetKafkaKey(&k.parts)
	return nil
}

// ofKey returns the error of a key with its field as the mapping has it.
func ofKey(err error) error {
	var e *schemas.DecodeError
	if !errors.As(err, &e) {
		return err
	}
	named := *e // a copy: programs share their errors
	switch {
	case e.Field == "":
		named.Field, named.Err = "@key", fmt.Errorf("of the Kafka key: %w", e.Err)
	case !strings.HasPrefix(e.Field, "@key"):
		named.Field = "@key." + e.Field
	}
	return &named
}
