package schemas

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
)

// Reading is what a record says: one sample of one series.
type Reading struct {
	Key    []byte    // series key; aliases the record, the decoder's schema or the reading's own memory
	Time   int64     // event time, microseconds since 1970 UTC
	Values []float64 // Mapping.Width values, NaN where missing
	Schema int32     // id in the registry, -1 if it has none

	scratch   []byte
	parts     [maxKeyParts]part
	saved     [maxSaves]int
	fault     fault
	faultSink int32
}

// DecoderOptions are what a Decoder needs beside the mapping.
type DecoderOptions struct {
	// Bare is the writer's schema of records without any framing. When it is
	// set, a value is taken as bare Avro unless a header names its schema, or it
	// starts with the single-object marker and a known fingerprint.
	Bare string
	// Schemas are writer's schemas for the single-object encoding, by their
	// fingerprints.
	Schemas []string
	// Subjects are looked through in the registry for fingerprints that are
	// none of Schemas, all their versions.
	Subjects []string
	// MaxBytes is the longest value taken; 0 means 16 MiB.
	MaxBytes int
}

// SchemaIDHeader is the header that carries a schema id in front of a bare value
// (Confluent, version 1 framing).
const SchemaIDHeader = "__value_schema_id"

// Framing.
const (
	magicID       = 0x00 // and a 4-byte id, big endian
	magicGUID     = 0x01 // and a 16-byte GUID
	singleObject0 = 0xc3 // and singleObject1, and a fingerprint, little endian
	singleObject1 = 0x01
)

// Decoder turns records into readings. It serves one goroutine; Clone gives
// the others theirs. All of them share the compiled schemas.
type Decoder struct {
	shared *decoderShared
	// The schema of the last record, which is almost always that of the next.
	lastID int32
	last   *projection // nil: none yet, or values are bare
	// The same for the other framings.
	lastGUID   [16]byte
	lastByGUID *projection
	lastCRC    uint64
	lastByCRC  *projection
	// What this decoder has met, so that shared's lock is taken once a schema.
	byID   map[int32]*projection
	byGUID map[[16]byte]*projection
	byCRC  map[uint64]*projection
}

type decoderShared struct {
	layout   *layout
	registry *Registry
	options  DecoderOptions
	bare     *projection

	mu     sync.Mutex
	byID   map[int32]*projection
	byGUID map[[16]byte]*projection
	byCRC  map[uint64]*projection
}

// NewDecoder makes a decoder. reg may be nil where all schemas are in opts. An
// error lists all faults of the mapping and the options.
func NewDecoder(m Mapping, reg *Registry, opts DecoderOptions) (*Decoder, error) {
	l, err := m.layout()
	faults := []error{err}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 16 << 20
	}
	s := &decoderShared{
		layout: l, registry: reg, options: opts,
		byID: map[int32]*projection{}, byGUID: map[[16]byte]*projection{}, byCRC: map[uint64]*projection{},
	}
	if reg == nil && opts.Bare == "" && len(opts.Schemas) == 0 {
		faults = append(faults, errors.New(
			"schemas: nothing to read schemas from: set ODRADEK_SCHEMA_REGISTRY_URL, or give the schema of bare Avro records"))
	}
	if l != nil {
		// A schema that the user gave by hand and that does not fit is a fault of
		// the configuration, not of every record.
		if opts.Bare != "" {
			faults = append(faults, m.Check(opts.Bare)...)
			s.bare = newProjection(l, -1, opts.Bare)
		}
		for _, text := range opts.Schemas {
			faults = append(faults, m.Check(text)...)
			for _, crc := range fingerprints(text) {
				s.byCRC[crc] = newProjection(l, -1, text)
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return newDecoder(s), nil
}

func newDecoder(s *decoderShared) *Decoder {
	return &Decoder{
		shared: s,
		byID:   map[int32]*projection{}, byGUID: map[[16]byte]*projection{}, byCRC: map[uint64]*projection{},
	}
}

// Clone is a decoder for another goroutine.
func (d *Decoder) Clone() *Decoder { return newDecoder(d.shared) }

// Width is the number of values of a reading.
func (d *Decoder) Width() int { return d.shared.layout.width }

// Decode reads one record: its Kafka key, its value, its Kafka timestamp in
// milliseconds and its headers, as a function that finds one by name; header
// may be nil where there are none, which saves the call. out is overwritten
// and may be used again; its Values are allocated once.
//
// An error is a *DecodeError. ctx bounds the wait for the registry, which only
// the first record of a schema needs.
func (d *Decoder) Decode(ctx context.Context, key, value []byte, timestampMs int64,
	header func(name string) ([]byte, bool), out *Reading) error {
	p := d.last
	var body []byte
	if p != nil && header == nil && len(value) > 5 && value[0] == magicID && int32(binary.BigEndian.Uint32(value[1:])) == d.lastID {
		body = value[5:]
	} else {
		var err error
		if p, body, err = d.frame(ctx, value, header); err != nil {
			return err
		}
	}
	if len(value) > d.shared.options.MaxBytes {
		return &DecodeError{Class: ClassTooLarge, SchemaID: p.schemaID,
			Err: fmt.Errorf("a value of %d bytes, %d at most", len(value), d.shared.options.MaxBytes)}
	}
	err := p.read(key, body, timestampMs, out)
	if err != nil && p == d.shared.bare {
		return guessed(err, value)
	}
	return err
}

// guessed adds to the error of a bare value what the value looks like.
func guessed(err error, value []byte) error {
	if like := looksLike(value); like != "" {
		var e *DecodeError
		if errors.As(err, &e) {
			told := *e // a projection's own is shared
			told.Err = fmt.Errorf("%w; the value looks like %s", e.Err, like)
			return &told
		}
	}
	return err
}

// frame finds the schema of a value and where its Avro bytes start. What a
// header says comes first: the value behind it is bare and may look like
// anything.
func (d *Decoder) frame(ctx context.Context, value []byte, header func(string) ([]byte, bool)) (*projection, []byte, error) {
	if value == nil {
		return nil, nil, &DecodeError{Class: ClassTombstone, SchemaID: -1, Err: errors.New("the record has no value")}
	}
	if header != nil {
		if id, ok := header(SchemaIDHeader); ok {
			p, rest, err := d.prefix(ctx, id)
			if err == nil && (p == nil || len(rest) > 0) {
				err = &DecodeError{Class: ClassMagic, SchemaID: -1,
					Err: fmt.Errorf("header %s has neither an id nor a GUID in its %d bytes", SchemaIDHeader, len(id))}
			}
			return p, value, err
		}
	}
	s := d.shared
	if len(value) >= 10 && value[0] == singleObject0 && value[1] == singleObject1 {
		p, err := d.fingerprint(ctx, binary.LittleEndian.Uint64(value[2:]))
		if err == nil || s.bare == nil {
			return p, value[10:], err
		}
	}
	if s.bare != nil {
		return s.bare, value, nil
	}
	p, rest, err := d.prefix(ctx, value)
	if err != nil || p != nil {
		return p, rest, err
	}
	e := &DecodeError{Class: ClassMagic, SchemaID: -1, Err: fmt.Errorf("the value of %d bytes starts with no known framing", len(value))}
	if like := looksLike(value); like != "" {
		e.Err = fmt.Errorf("%w; it looks like %s", e.Err, like)
	}
	if len(value) == 0 || value[0] == magicID || value[0] == magicGUID ||
		value[0] == singleObject0 && (len(value) == 1 || value[1] == singleObject1) {
		e.Class, e.Err = ClassTruncated, errors.New("the value ends before its schema id does")
	}
	return nil, nil, e
}

// prefix reads a schema id in front of b. The projection is nil where there is none.
func (d *Decoder) prefix(ctx context.Context, b []byte) (*projection, []byte, error) {
	switch {
	case len(b) >= 5 && b[0] == magicID:
		p, err := d.id(ctx, int32(binary.BigEndian.Uint32(b[1:])))
		return p, b[5:], err
	case len(b) >= 17 && b[0] == magicGUID:
		p, err := d.guid(ctx, [16]byte(b[1:17]))
		return p, b[17:], err
	}
	return nil, b, nil
}

func (d *Decoder) id(ctx context.Context, id int32) (*projection, error) {
	if d.last != nil && id == d.lastID {
		return d.last, nil
	}
	p, ok := d.byID[id]
	if !ok {
		var err error
		p, err = share(d.shared, d.shared.byID, id, func() (*Schema, error) {
			if id == 0 {
				return nil, fmt.Errorf("schema id 0: %w; is it Apicurio's own framing, with an id of 8 bytes? Have its serializer write ids of 4 bytes",
					ErrUnknownSchema)
			}
			if id < 0 {
				return nil, fmt.Errorf("schema id %d: %w", id, ErrUnknownSchema)
			}
			return d.shared.registry.SchemaByID(ctx, id)
		})
		if err != nil {
			return nil, unavailable(id, err)
		}
		d.byID[id] = p
	}
	if d.shared.bare == nil { // else a bare value might start with the same bytes
		d.lastID, d.last = id, p
	}
	return p, nil
}

func (d *Decoder) guid(ctx context.Context, guid [16]byte) (*projection, error) {
	if d.lastByGUID != nil && guid == d.lastGUID {
		return d.lastByGUID, nil
	}
	p, ok := d.byGUID[guid]
	if !ok {
		var err error
		p, err = share(d.shared, d.shared.byGUID, guid, func() (*Schema, error) {
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

func (d *Decoder) fingerprint(ctx context.Context, crc uint64) (*projection, error) {
	if d.lastByCRC != nil && crc == d.lastCRC {
		return d.lastByCRC, nil
	}
	p, ok := d.byCRC[crc]
	if !ok {
		var err error
		p, err = share(d.shared, d.shared.byCRC, crc, func() (*Schema, error) {
			return d.shared.registry.SchemaByFingerprint(ctx, d.shared.options.Subjects, crc)
		})
		if err != nil {
			return nil, unavailable(-1, err)
		}
		d.byCRC[crc] = p
	}
	d.lastCRC, d.lastByCRC = crc, p
	return p, nil
}

// share finds a compiled schema that any clone has met, or asks the registry.
// The lock is not held meanwhile: the registry sees to it that a schema is
// fetched once, and compiling it twice does no harm.
func share[K comparable](s *decoderShared, known map[K]*projection, key K, fetch func() (*Schema, error)) (*projection, error) {
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
	id := schema.ID
	if k, ok := any(key).(int32); ok {
		id = k
	}
	if schema.Type != "" && schema.Type != "AVRO" {
		p = &projection{layout: s.layout, schemaID: id}
		p.refuse(ClassUnknownSchema, "", fmt.Errorf("the schema is %s, only Avro is read", schema.Type))
	} else {
		p = newProjection(s.layout, id, schema.JSON)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := known[key]; ok {
		return other, nil
	}
	known[key] = p
	return p, nil
}

// unavailable makes an error of a schema that could not be had. Only the final
// answer of the registry that it has none condemns the record; anything else may
// pass.
func unavailable(id int32, err error) error {
	e := &DecodeError{Class: ClassUnknownSchema, SchemaID: id, Err: err, Retry: !errors.Is(err, ErrUnknownSchema)}
	var a *AbsentError
	if errors.As(err, &a) {
		e.Absent, e.Retry = true, !a.Final
	}
	return e
}

// read decodes the Avro bytes of a record.
func (p *projection) read(key, body []byte, timestampMs int64, out *Reading) error {
	_, err := p.readFirst(key, body, timestampMs, out, true)
	return err
}

// readFirst decodes the record that body begins with, or, with whole, is. It returns how
// many bytes the record takes, 0 where that is not known.
func (p *projection) readFirst(key, body []byte, timestampMs int64, out *Reading, whole bool) (n int, err error) {
	if p.err != nil {
		return 0, p.err
	}
	l := p.layout
	if cap(out.Values) < l.width {
		out.Values = make([]float64, l.width)
	}
	out.Values = out.Values[:l.width]
	out.Schema = p.schemaID
	out.fault = faultNone
	out.Key = nil
	out.Time = noTime
	for i := range l.parts {
		out.parts[i].kind = partNone
	}

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

	if l.parts == 0 {
		out.Key = key
	} else if out.Key == nil {
		out.joinParts(key, l)
	}
	if l.kafkaTime {
		if out.Time = noTime; timestampMs >= 0 { // -1: the record has none
			out.Time, _ = clockMillis.micros(timestampMs)
		}
	}
	if out.fault != faultNone || len(out.Key) == 0 || len(out.Key) > maxKeyBytes || out.Time == noTime {
		return pos, p.unacceptable(out, timestampMs)
	}
	return pos, nil
}

// joinParts makes the key of its parts: the text itself if it is one, else a
// text in the reading's own memory. It is empty if a part is missing.
func (r *Reading) joinParts(key []byte, l *layout) {
	if l.recordKey >= 0 {
		r.parts[l.recordKey] = part{kind: partText, text: key}
	}
	if l.parts == 1 && r.parts[0].kind == partText {
		r.Key = r.parts[0].text
		return
	}
	r.scratch = r.scratch[:0]
	for i := range l.parts {
		p := &r.parts[i]
		if p.kind == partNone || p.kind == partText && len(p.text) == 0 || len(p.text) > maxKeyBytes {
			if len(p.text) > maxKeyBytes {
				r.fail(0, faultKeyLong)
			}
			return
		}
		if i > 0 {
			r.scratch = append(r.scratch, '/')
		}
		r.scratch = appendPart(r.scratch, p, l.parts > 1)
	}
	r.Key = r.scratch
}

// broken makes the error of bytes that do not fit the schema.
func (p *projection) broken(at, pos, size int, st status) error {
	e := &DecodeError{SchemaID: p.schemaID}
	if st == statusOK {
		e.Class, e.Err = ClassTrailingBytes, fmt.Errorf("%d bytes behind the record's end", size-pos)
		return e
	}
	e.Class, e.Err = statusErrors[st].class, statusErrors[st].err
	if at >= 0 && int(p.code[at].name) < len(p.names) && p.code[at].op != opEnd {
		e.Field = p.names[p.code[at].name]
	}
	return e
}

// unacceptable makes the error of a record that is well-formed but not a
// reading: what is wrong with its key, else its time, else its first value.
func (p *projection) unacceptable(out *Reading, timestampMs int64) error {
	l := p.layout
	e := &DecodeError{SchemaID: p.schemaID}
	set := func(f fault, field string) error {
		e.Class, e.Err, e.Field = faultErrors[f].class, faultErrors[f].err, field
		return e
	}
	field := func(r role, other string) string {
		for i := range l.sinks {
			if l.sinks[i].role == r {
				return l.sinks[i].text
			}
		}
		return other
	}
	var r role = math.MaxUint8
	if out.fault != faultNone {
		r = l.sinks[out.faultSink].role
	}
	switch {
	case r == roleKey:
		return set(out.fault, l.sinks[out.faultSink].text)
	case len(out.Key) == 0:
		return set(faultKeyNull, field(roleKey, "@key"))
	case len(out.Key) > maxKeyBytes:
		return set(faultKeyLong, field(roleKey, "@key"))
	case r == roleTime:
		return set(out.fault, l.sinks[out.faultSink].text)
	case out.Time == noTime && l.kafkaTime && timestampMs >= 0:
		return set(faultTimeRange, "@timestamp")
	case out.Time == noTime:
		return set(faultTimeNull, field(roleTime, "@timestamp"))
	}
	return set(out.fault, l.sinks[out.faultSink].text)
}
