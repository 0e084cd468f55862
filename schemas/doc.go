// Package schemas is the contract between records and readings: the paths of a mapping
// (Mapping, Layout), a record's content (Reading), the reason why it cannot be read
// (DecodeError), and what an input format supplies (Format, Program). It is independent of
// the formats:
//
//	schemas/formats   the table of formats; from a record's framing to its schema's program
//	schemas/avro      Avro: a projection of the mapped fields, compiled for each schema
//	schemas/json      JSON: the mapped paths are followed through the record's text
//	schemas/protobuf  Protobuf: messages are walked by field numbers
//	schemas/registry  the client of the schema registry
//	schemas/output    the records that the worker itself writes
//	schemas/schematest  what the tests of these packages share
//
// # The path of a record
//
//  1. formats.Decoder reads the framing and finds the writer's schema: among the compiled
//     ones, else through the registry's client.
//  2. Format.Compile compiles that schema and the mapping's Layout into a Program, once.
//  3. Program.Decode begins a reading (Layout.Reset), fills in values, time and the parts
//     of the key, and notes the first fault (Reading.Fail). It reads to the record's last
//     byte: bytes that do not fit the schema are reported before anything else.
//  4. Layout.Finish joins the key's parts and reports the first fault in this order: key,
//     time, values as they are configured. So a record always has the same one reason.
//
// A record with an array of readings (Mapping.Readings) takes two programs of its format, of which NewBatch makes one: the program
// of the record finds what its readings share and the bytes of each item; the program of an item makes the readings.
//
// # Not obvious
//
//   - Keys of several parts escape '/', keys that are not UTF-8 are written to
//     the scores as hexadecimal: two series never become one.
package schemas
