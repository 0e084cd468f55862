// Package avro reads the mapped fields of Avro records, and the files that contain such
// records.
//
// A schema and the mapping are compiled into a flat program, once (projection.go). Where a
// path does not exist, or leads to a type that is no number, key or time, the program
// reports that error for every record. projection.exec runs the program over the bytes
// (exec.go) to the last one: it reads mapped fields (leaf.go) and skips all others (skip.go).
//
// # Not obvious
//
//   - Schemas are read by parseSchema, not by goavro: goavro has no aliases, no
//     local or nanosecond timestamps, and fingerprints that differ from the
//     specification where a schema has logical types.
//   - The fuzz tests compare the program with what goavro decodes.
//   - Skipping checks what it skips (lengths, union and enum indexes, booleans,
//     the range of an int), with one exception: blocks of an array or map whose
//     size in bytes is given are jumped over.
//   - No count or length is trusted: one that the rest of the record cannot hold
//     is refused before anything is allocated.
//   - A field that is found by an alias of the writer's schema counts as found:
//     the mapping may keep a field's old name.
//   - A value with several union branches is read by the branch that the record has: null
//     is missing, numbers are numbers, anything else is a bad_type for this record.
package avro
