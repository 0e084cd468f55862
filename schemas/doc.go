// Package schemas turns records of any Avro schema into readings, and scores
// into Avro. It is the only package that knows Avro and the schema registry.
//
// # The path of a record
//
//  1. Decoder.Decode looks at the framing: a schema id in a header, else
//     Confluent's magic byte and id, a GUID, the single-object marker and a
//     fingerprint, or nothing (bare Avro with a configured schema). The id of
//     the record before is remembered, and is nearly always the same.
//  2. An id met for the first time goes to Registry.SchemaByID: memory, the
//     network, in an outage the disk, else an error with Retry set; only the
//     answer that there is no such schema makes a dead letter.
//  3. newProjection compiles that writer's schema and the Mapping into a flat
//     program, once (projection.go). Where a path does not exist, or leads to
//     a type that is no number, key or time, the program is that error.
//  4. projection.exec runs the program over the bytes (exec.go): mapped fields
//     are read (leaf.go), all others skipped (skip.go), to the last byte.
//  5. projection.read puts the key together and reports what is wrong, in this
//     order: bytes that do not fit the schema; then the key; the time; the
//     values as they are configured. So one record always has one reason.
//
// # Not obvious
//
//   - Schemas are read by parseSchema, not by goavro: goavro has no aliases, no
//     local or nanosecond timestamps, and fingerprints that differ from the
//     specification where a schema has logical types.
//   - goavro decodes what the program does not take (walk.go), and is what the
//     fuzz tests compare the program with.
//   - Skipping checks what it skips (lengths, union and enum indexes, booleans,
//     the range of an int), with one exception: blocks of an array or map whose
//     size in bytes is given are jumped over.
//   - Nothing is allocated on the word of the bytes: a count or length that the
//     rest of the record cannot hold is refused before anything is done.
//   - A field that is found by an alias of the writer's schema counts as found:
//     the mapping may keep a field's old name.
//   - A value of several union branches is read by the branch in hand: null is
//     missing, numbers are numbers, anything else is a bad_type for this record.
//   - Keys of several parts escape '/', keys that are not UTF-8 are written to
//     the scores as hexadecimal: two series never become one.
package schemas
