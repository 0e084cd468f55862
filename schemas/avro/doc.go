// Package avro reads the mapped fields of Avro records, and the files that contain such
// records.
//
// A schema and the mapping are compiled into a flat program, once (projection.go). Where a
// path does not exist, or leads to a type that is no number, key or time, the program is
// that error. projection.exec runs the program over the bytes (exec.go): mapped fields are
// read (leaf.go), all others skipped (skip.go), to the last byte.
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
package avro
