// Package formats finds the schema of a record by its framing, and reads the record with
// the program that the schema's format compiles. It has the table of formats.
//
// Decoder.Decode looks for a schema id in a header, else for Confluent's magic byte and
// id, a GUID, the single-object marker and a fingerprint, or nothing (bare records with a
// configured schema). The id of the record before is remembered, and is nearly always the
// same. An id met for the first time goes to registry.Client.SchemaByID: memory, the
// network, in an outage the disk, else an error with Retry set; only the answer that there
// is no such schema makes a dead letter.
package formats
