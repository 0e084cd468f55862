package formats

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"odradek/schemas"
	"odradek/schemas/avro"
	"odradek/schemas/registry"
)

// Options are what a Decoder needs beside the mapping.
type Options struct {
	// Format is a name out of Names. With Auto, or "", each record is of the format of
	// its schema in the registry, and records without any framing are Avro.
	Format string
	// Bare is the writer's schema of records without any framing. When it is
	// set, a value is taken as bare unless a header names its schema, or it is Avro that
	// starts with the single-object marker and a known fingerprint.
	Bare string
	// Schemas are writer's schemas of Avro for the single-object encoding, by their
	// fingerprints.
	Schemas []string
	// Subjects returns those whose versions in the registry are searched for fingerprints that
	// no schema of Schemas has; nil: none.
	Subjects func() []string
	// MaxBytes is the longest value taken; 0 means 16 MiB.
	MaxBytes int
}

// OfFile returns the options for records of a format; records without a schema of their own have the file's. "": there is no file.
func OfFile(format, file string) Options {
	opts := Options{Format: format, Bare: file}
	if file != "" && (format == Auto || format == avro.Format.Name) {
		opts.Schemas = []string{file} // for the single-object encoding, too
	}
	return opts
}

// compiled is a writer's schema, ready to read records.
type compiled struct {
	program schemas.Program
	id      int32 // in the registry, -1 if it has none
	schema  *schemas.Schema
}

// Decoder turns records into readings. It serves one goroutine; Clone returns one
// for another goroutine. All clones share the compiled schemas.
type Decoder struct {
	shared *decoderShared
	// The schema of the last record, which is almost always the next record's, too.
	lastID int32
	last   *compiled // nil: none yet, or values are bare
	// The same for the other framings.
	lastGUID   [16]byte
	lastByGUID *compiled
	lastCRC    uint64
	lastByCRC  *compiled
	// The schemas that this decoder has used, so that it takes shared's lock once for each.
	byID   map[int32]*compiled
	byGUID map[[16]byte]*compiled
	byCRC  map[uint64]*compiled
	keys   *keyDecoder // nil: no path leads into the Kafka key

	inflater schemas.Inflater // for Glue's framing
}

type decoderShared struct {
	layout   *schemas.Layout
	registry *registry.Client
	options  Options
	bare     *compiled
	glue     bool // records may have Glue's header; with bare, its schema reads them
	plain    bool // bare records need no schema; the first byte distinguishes them from framed ones
	avro     bool // records may be in the single-object encoding

	nested schemas.Nested // of bare, where it has several messages

	skipTombstones bool
	keys           *decoderShared // of Kafka keys, where paths lead into them

	mu     sync.Mutex
	byID   map[int32]*compiled
	byGUID map[[16]byte]*compiled
	byCRC  map[uint64]*compiled
}

// NewDecoder returns a decoder. reg may be nil where all schemas are in opts. An
// error lists all faults of the mapping and the options.
func NewDecoder(m schemas.Mapping, reg *registry.Client, opts Options) (*Decoder, error) {
	return newChecked(m, reg, opts, true)
}

// newChecked is NewDecoder; fit says whether a schema of the options has to have the paths of m.
func newChecked(m schemas.Mapping, reg *registry.Client, opts Options, fit bool) (*Decoder, error) {
	l, err := m.Layout()
	faults := []error{err}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 16 << 20
	}
	s := &decoderShared{
		layout: l, registry: reg, options: opts, skipTombstones: m.SkipTombstones,
		byID: map[int32]*compiled{}, byGUID: map[[16]byte]*compiled{}, byCRC: map[uint64]*compiled{},
	}
	if !slices.Contains(Names(), cmp.Or(opts.Format, Auto)) {
		faults = append(faults, fmt.Errorf("formats: unknown format %q, use one of %s", opts.Format, strings.Join(Names(), ", ")))
	}
	s.plain = Plain(opts.Format)
	s.avro = local(opts.Format, "").Type == avro.Format.Type
	s.glue = opts.Bare == "" || s.plain || !s.avro || avro.CannotBegin(opts.Bare)
	if reg == nil && opts.Bare == "" && len(opts.Schemas) == 0 && !s.plain {
		faults = append(faults, errors.New(
			"formats: nothing to read schemas from: set schema_registry_url, or schema_file for records without framing"))
	}
	if l != nil && l.Key != nil {
		s.keys = sharedOfKeys(l.Key, reg, opts)
		if reg == nil && !s.keys.plain {
			faults = append(faults, fmt.Errorf("formats: key %q leads into Kafka keys: set schema_registry_url, which has their schemas", m.Key))
		}
	}
	if l != nil {
		// A schema that the user gave by hand and that does not fit is a fault of
		// the configuration, not of every record.
		if (opts.Bare != "" || Fixed(opts.Format)) && fit {
			faults = append(faults, CheckFile(opts.Format, m, opts.Bare)...)
		}
		if opts.Bare != "" || s.plain {
			s.bare = s.compile(local(opts.Format, opts.Bare))
			if n, ok := s.bare.program.(schemas.Nested); ok { // the first message
				s.nested = n
				s.bare.program, _, _ = n.Message([]byte{0})
			}
		}
		for _, text := range opts.Schemas {
			schema := local("", text)
			if fit {
				faults = append(faults, avro.Format.Check(m, schema)...)
			}
			for _, crc := range avro.Fingerprints(schema) {
				s.byCRC[crc] = s.compile(schema)
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return newDecoder(s), nil
}

func newDecoder(s *decoderShared) *Decoder {
	d := &Decoder{
		shared: s,
		byID:   map[int32]*compiled{}, byGUID: map[[16]byte]*compiled{}, byCRC: map[uint64]*compiled{},
	}
	if s.keys != nil {
		d.keys = &keyDecoder{dec: newDecoder(s.keys)}
	}
	return d
}

// Clone returns a decoder for another goroutine.
func (d *Decoder) Clone() schemas.Decoder { return newDecoder(d.shared) }

// Width returns the number of values of a reading.
func (d *Decoder) Width() int { return d.shared.layout.Width }

// Decode reads one record: its Kafka key, its value, its Kafka timestamp in
// milliseconds and its headers, as a function that finds one by name; header
// may be nil where there are none, which saves the call. out is overwritten
// and may be used again; its Values are allocated once.
//
// An error is a *DecodeError. ctx bounds the wait for the registry, which only
// the first record of a schema needs.
func (d *Decoder) Decode(ctx context.Context, key, value []byte, timestampMs int64,
	header func(name string) ([]byte, bool), out *schemas.Reading) error {
	p := d.last
	var body []byte
	if p != nil && header == nil && len(value) > 5 && value[0] == schemas.MagicID && int32(binary.BigEndian.Uint32(value[1:])) == d.lastID {
		body = value[5:]
	} else {
		var err error
		if value == nil && d.shared.skipTombstones {
			out.Skip(schemas.SkippedTombstone)
			return nil
		}
		if p, body, err = d.frame(ctx, value, header); err != nil {
			return err
		}
	}
	if len(value) > d.shared.options.MaxBytes {
		return &schemas.DecodeError{Class: schemas.ClassTooLarge, SchemaID: p.id,
			Err: fmt.Errorf("a value of %d bytes, %d at most", len(value), d.shared.options.MaxBytes)}
	}
	if d.keys != nil {
		if err := d.keys.decode(ctx, key, header, out); err != nil {
			return err
		}
	}
	err := p.program.Decode(key, body, timestampMs, out)
	if err != nil && p == d.shared.bare && !d.shared.plain {
		return guessed(err, value)
	}
	return err
}

// guessed adds the probable format of a bare value to its error.
func guessed(err error, value []byte) error {
	if like := looksLike(value); like != "" {
		var e *schemas.DecodeError
		if errors.As(err, &e) {
			guess := *e // a copy: programs share their errors
			guess.Err = fmt.Errorf("%w; the value looks like %s", e.Err, like)
			return &guess
		}
	}
	return err
}

// frame finds the schema of a value and where its bytes start. A header comes
// first: the value after it is bare and may look like anything.
func (d *Decoder) frame(ctx context.Context, value []byte, header func(string) ([]byte, bool)) (*compiled, []byte, error) {
	if value == nil {
		return nil, nil, &schemas.DecodeError{Class: schemas.ClassTombstone, SchemaID: -1, Err: errors.New("the record has no value")}
	}
	if header != nil {
		if id, ok := header(schemas.SchemaIDHeader); ok {
			p, rest, err := d.prefix(ctx, id)
			if err == nil && p != nil {
				if n, ok := p.program.(schemas.Nested); ok {
					p = &compiled{id: p.id, schema: p.schema}
					p.program, rest, err = n.Message(rest)
				}
			}
			if err == nil && (p == nil || len(rest) > 0) {
				err = &schemas.DecodeError{Class: schemas.ClassMagic, SchemaID: -1,
					Err: fmt.Errorf("header %s has neither an id nor a GUID in its %d bytes", schemas.SchemaIDHeader, len(id))}
			}
			return p, value, err
		}
	}
	s := d.shared
	if s.avro && len(value) >= 10 && value[0] == schemas.SingleObject0 && value[1] == schemas.SingleObject1 {
		p, err := d.fingerprint(ctx, binary.LittleEndian.Uint64(value[2:]))
		if err == nil || s.bare == nil {
			return p, value[10:], err
		}
	}
	if s.glue && schemas.IsGlue(value) {
		return d.glue(ctx, value)
	}
	if s.bare != nil && !(s.plain && len(value) > 0 && value[0] <= schemas.MagicGUID) {
		return s.bare, value, nil
	}
	p, rest, err := d.prefix(ctx, value)
	if err != nil || p != nil {
		return p, rest, err
	}
	e := &schemas.DecodeError{Class: schemas.ClassMagic, SchemaID: -1,
		Err: fmt.Errorf("the value of %d bytes starts with no known framing", len(value))}
	if like := looksLike(value); like != "" {
		e.Err = fmt.Errorf("%w; it looks like %s", e.Err, like)
	}
	if len(value) == 0 || value[0] == schemas.MagicID || value[0] == schemas.MagicGUID ||
		value[0] == schemas.MagicGlue && len(value) < schemas.GlueBytes ||
		value[0] == schemas.SingleObject0 && (len(value) == 1 || value[1] == schemas.SingleObject1) {
		e.Class, e.Err = schemas.ClassTruncated, errors.New("the value ends before its schema id does")
	}
	return nil, nil, e
}

// prefix reads a schema id in front of b. The projection is nil where there is none.
func (d *Decoder) prefix(ctx context.Context, b []byte) (*compiled, []byte, error) {
	switch {
	case len(b) >= 5 && b[0] == schemas.MagicID:
		p, err := d.id(ctx, int32(binary.BigEndian.Uint32(b[1:])))
		return p, b[5:], err
	case len(b) >= 17 && b[0] == schemas.MagicGUID:
		p, err := d.guid(ctx, [16]byte(b[1:17]))
		return p, b[17:], err
	}
	return nil, b, nil
}

func (d *Decoder) id(ctx context.Context, id int32) (*compiled, error) {
	if d.last != nil && id == d.lastID {
		return d.last, nil
	}
	p, ok := d.byID[id]
	if !ok {
		var err error
		p, err = share(d.shared, d.shared.byID, id, func() (*schemas.Schema, error) {
			if id == 0 {
				return nil, fmt.Errorf("schema id 0: %w; is it Apicurio's own framing, with an id of 8 bytes? Have its serializer write ids of 4 bytes",
					registry.ErrUnknownSchema)
			}
			if id < 0 {
				return nil, fmt.Errorf("schema id %d: %w", id, registry.ErrUnknownSchema)
			}
			if d.shared.plain && d.shared.registry == nil {
				return local(d.shared.options.Format, ""), nil
			}
			return d.shared.registry.SchemaByID(ctx, id)
		})
		if err != nil {
			return nil, unavailable(id, err)
		}
		d.byID[id] = p
	}
	if d.shared.bare == nil || d.shared.plain { // else a bare value might start with the same bytes
		d.lastID, d.last = id, p
	}
	return p, nil
}

func (d *Decoder) guid(ctx context.Context, guid [16]byte) (*compiled, error) {
	if d.lastByGUID != nil && guid == d.lastGUID {
		return d.lastByGUID, nil
	}
	p, ok := d.byGUID[guid]
	if !ok {
		var err error
		p, err = share(d.shared, d.shared.byGUID, guid, func() (*schemas.Schema, error) {
			return d.shared.registry.SchemaByGUID(ctx, guid)
		})
		if err != nil {
			return nil, unavailable(-1, err)
		}
		d.byGUID[guid] = p
	}
	d.lastGUID, d.lastByGUID = guid, p
	return p, nil
}

func (d *Decoder) fingerprint(ctx context.Context, crc uint64) (*compiled, error) {
	if d.lastByCRC != nil && crc == d.lastCRC {
		return d.lastByCRC, nil
	}
	p, ok := d.byCRC[crc]
	if !ok {
		var err error
		p, err = share(d.shared, d.shared.byCRC, crc, func() (*schemas.Schema, error) {
			var subjects []string
			if list := d.shared.options.Subjects; list != nil {
				subjects = list()
			}
			return d.shared.registry.SchemaByFingerprint(ctx, subjects, crc, avro.Fingerprints)
		})
		if err != nil {
			return nil, unavailable(-1, err)
		}
		d.byCRC[crc] = p
	}
	d.lastCRC, d.lastByCRC = crc, p
	return p, nil
}

// share returns a compiled schema that any clone has compiled, or fetches and compiles it.
// It does not hold the lock meanwhile: the registry's client fetches a schema
// once, and compiling it twice does no harm.
func share[K comparable](s *decoderShared, known map[K]*compiled, key K, fetch func() (*schemas.Schema, error)) (*compiled, error) {
	s.mu.Lock()
	p, ok := known[key]
	s.mu.Unlock()
	if ok {
		return p, nil
	}
	schema, err := fetch()
	if err != nil {
		return nil, err
	}
	named := *schema
	if id, ok := any(key).(int32); ok {
		named.ID = id
	}
	p = s.compile(&named)
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := known[key]; ok {
		return other, nil
	}
	known[key] = p
	return p, nil
}

// compile finds the format of a schema and has it make the program.
func (s *decoderShared) compile(schema *schemas.Schema) *compiled {
	f, err := formatOf(s.options.Format, schema)
	if err != nil {
		return &compiled{schemas.Refusal{Cause: &schemas.DecodeError{Class: schemas.ClassUnknownSchema, SchemaID: schema.ID, Err: err}},
			schema.ID, schema}
	}
	return &compiled{f.Compile(s.layout, schema), schema.ID, schema}
}

// unavailable returns the error for a schema that could not be fetched. Only the
// registry's final answer that no such schema exists rejects the record; any other
// failure may be temporary.
func unavailable(id int32, err error) error {
	e := &schemas.DecodeError{Class: schemas.ClassUnknownSchema, SchemaID: id, Err: err, Retry: !errors.Is(err, registry.ErrUnknownSchema)}
	var a *registry.AbsentError
	if errors.As(err, &a) {
		e.Absent, e.Retry = true, !a.Final
	}
	return e
}

// Ref returns the schema that a record names, with its key's where the mapping leads into it, whether or not a registry
// has them; ok is false for records that name none. It makes no request.
func (d *Decoder) Ref(key, value []byte, header func(name string) ([]byte, bool)) (ref schemas.SchemaRef, ok bool) {
	ref, ok = d.ref(value, header)
	if d.keys != nil {
		if keyRef, known := d.keys.dec.ref(key, keyHeader(header)); known {
			return ref.WithKey(keyRef), true
		}
	}
	return ref, ok
}

func (d *Decoder) ref(value []byte, header func(name string) ([]byte, bool)) (ref schemas.SchemaRef, ok bool) {
	if header != nil && value != nil {
		if id, ok := header(schemas.SchemaIDHeader); ok {
			return prefixRef(id)
		}
	}
	if d.shared.bare != nil && !d.shared.plain {
		return ref, false
	}
	if d.shared.glue && schemas.IsGlue(value) {
		return schemas.RefOf('g', value[2:schemas.GlueBytes]), true
	}
	if d.shared.avro && len(value) >= 10 && value[0] == schemas.SingleObject0 && value[1] == schemas.SingleObject1 {
		crc := binary.BigEndian.AppendUint64(nil, binary.LittleEndian.Uint64(value[2:]))
		return schemas.RefOf('c', crc), true
	}
	return prefixRef(value)
}

func prefixRef(b []byte) (ref schemas.SchemaRef, ok bool) {
	switch {
	case len(b) >= 5 && b[0] == schemas.MagicID:
		return schemas.RefOf('i', b[1:5]), true
	case len(b) >= 17 && b[0] == schemas.MagicGUID:
		return schemas.RefOf('g', b[1:17]), true
	}
	return ref, false
}
