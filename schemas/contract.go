package schemas

import "context"

// Schema is a schema of the registry.
type Schema struct {
	ID         int32 // -1 where it has none
	GUID       string
	Subject    string // set where it was looked up by subject
	Version    int
	Type       string      // AVRO, JSON or PROTOBUF
	Text       string      `json:"JSON"`
	References []Reference `json:",omitempty"` // each after those that it refers to itself
}

// Reference is a schema that another one refers to by a name.
type Reference struct{ Name, Text string }

// Subject returns the subject of a topic's values under the TopicName strategy.
func Subject(topic string) string { return topic + "-value" }

// RecordSubject returns the subject of one of several schemas of a topic, by the name of its records (TopicRecordNameStrategy).
func RecordSubject(topic, name string) string { return topic + "-" + name }

// Decoder turns records of any format into readings. It serves one goroutine;
// Clone returns one for another goroutine.
type Decoder interface {
	// Decode reads one record: its Kafka key, its value, its Kafka timestamp in
	// milliseconds and its headers, as a function that finds one by name; header may be
	// nil where there are none. out is overwritten and may be used again. An error is a
	// *DecodeError. ctx bounds the wait for the registry, which only the first record of
	// a schema needs.
	Decode(ctx context.Context, key, value []byte, timestampMs int64, header func(name string) ([]byte, bool), out *Reading) error
	// Ref returns the schema that a record names, with its key's where the mapping
	// leads into it, whether or not a registry has them; ok is false for records that name
	// none. It sends no request.
	Ref(key, value []byte, header func(name string) ([]byte, bool)) (ref SchemaRef, ok bool)
	// Clone returns a decoder for another goroutine, which shares the compiled schemas.
	Clone() Decoder
	// Width is the number of values of a reading.
	Width() int
}

// Program reads the records of one writer's schema. It is immutable: all decoders share it.
type Program interface {
	// Decode reads one record from its bytes after the framing. key is its Kafka key,
	// timestampMs its Kafka timestamp in milliseconds. An error is a *DecodeError.
	Decode(key, body []byte, timestampMs int64, out *Reading) error
}

// Nested is a Program of a schema with several messages, one of which each record names.
type Nested interface {
	Program
	// Message finds the message that b names in front. The rest of b is the record itself,
	// or empty where a header names the message.
	Message(b []byte) (p Program, rest []byte, err error)
	// Indexes returns what names the n-th message, in the order of full names, in front of b for Message; nil where there is none.
	Indexes(n uint64) []byte
}

// Format is one row of the table of input formats.
type Format struct {
	Name  string // of the setting
	Type  string // of its schemas in the registry
	Title string // for messages
	// Plain says that records without any framing can be read without a schema. No such
	// record begins with one of the bytes that begin a framing.
	Plain bool
	// Fixed says that the paths of all its records are known without a schema: Fields needs none.
	Fixed bool
	// Several says that its records are arrays of readings, @value.
	Several bool
	// Lacking says that a part of the key that a record lacks is empty, where others make such a record a dead letter.
	Lacking bool
	// Like reports whether a value is probably a record of the format; nil where that shows only in its schema.
	Like func(value []byte) bool
	// Compile makes the program of a writer's schema. Where the schema or the mapping's
	// paths in it are at fault, the program returns that error for every record.
	Compile func(l *Layout, s *Schema) Program
	// Fields reads a schema for the check of a mapping.
	Fields func(s *Schema) (Fields, error)
	// Text returns the content of a record of a schema as readable lines, as far as its bytes
	// fit the schema, and an error that says why not further. nil: the format has no such form.
	Text func(s *Schema, body []byte) (lines []string, err error)
	// Leaves returns a function that collects the values of a record of a schema, in order, as far as its bytes fit the
	// schema, and returns an error that says why not further.
	Leaves func(s *Schema) (func(body []byte, out *Leaves) error, error)
}

// Fields finds fields of the records of a schema.
type Fields interface {
	// Find looks for a sink's path. It is nil if a record can have it, in a type that
	// suits the sink's role.
	Find(s *Sink) *Problem
	// Paths lists the paths that suit a role, those that a user most likely means first.
	Paths(r Role) []string
	// Items returns the fields of an item of an array of readings that Find has found; nil where nothing is known of them.
	Items(s *Sink) Fields
}

// Refusal is the program of a schema whose records cannot be read.
type Refusal struct{ Cause *DecodeError }

// Decode returns the reason.
func (r Refusal) Decode([]byte, []byte, int64, *Reading) error { return r.Cause }

// SchemaRef is how a record names its writer's schema. Refs can be compared.
type SchemaRef struct {
	kind byte // 'i', 'g' or 'c'
	size uint8
	id   [16]byte

	keyKind byte // of the key's schema; 0: it does not matter
	keySize uint8
	keyID   [16]byte
}

// WithKey returns the ref of a record whose key names a schema, too.
func (r SchemaRef) WithKey(key SchemaRef) SchemaRef {
	r.keyKind, r.keySize, r.keyID = key.kind, key.size, key.id
	return r
}

// Append appends the ref as bytes that never change for the same schema of the same
// registry.
func (r *SchemaRef) Append(dst []byte) []byte {
	dst = append(append(dst, r.kind), r.id[:r.size]...)
	if r.keyKind == 0 {
		return dst
	}
	return append(append(dst, r.keyKind), r.keyID[:r.keySize]...)
}

// RefOf returns the ref of a schema that is named by bytes of a kind: i for an id, g for a
// GUID, c for a fingerprint.
func RefOf(kind byte, id []byte) (r SchemaRef) {
	r.kind, r.size = kind, uint8(copy(r.id[:], id))
	return r
}
