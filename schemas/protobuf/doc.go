// Package protobuf reads the mapped fields of Protobuf records after a schema id, as
// Confluent's serializers write them: the indexes of the message in its schema, then the
// message. The schema's .proto text and what it imports are compiled by protocompile.
//
// A message and the mapping's paths are compiled into a tree by field numbers, once
// (plan.go). walk reads a record along that tree (walk.go): it skips fields that no path
// leads through by their length, and allocates nothing.
//
// # What a record means
//
// The rules are the rules of the Protobuf specification: the last occurrence of a field
// counts, repeated occurrences of a message are merged, a member of a oneof clears the
// others, a field of another wire type than declared is unknown. The tests compare with
// dynamicpb.
//
//   - Paths consist of field names as in the .proto. A repeated field is an array,
//     accel[3]; a map is stepped into by its key, tags.x.
//   - A number is any number or bool. A field with presence (optional, in a oneof, of
//     proto2, a wrapper such as DoubleValue) that is not set, and one inside a message that
//     is not set, is a missing value; other fields that are not set are 0.
//   - A key is a string, bytes, an integer or an enum (its name); a time is a
//     google.protobuf.Timestamp, a number in the mapping's unit or a string in RFC 3339.
//   - Messages that no path leads through are skipped unread.
//   - The indexes count the messages that the schema declares, as Confluent's serializer for
//     Java does (ProtobufSchema.toMessageIndexes): an entry of a map counts in a descriptor
//     and where a text declares it as a message with the option map_entry, which Java registers
//     for a class, and not where the text has map<>. Confluent's client for Go registers map<>
//     and counts the entries: its messages nested after a map are not found, or taken for
//     another one.
package protobuf
