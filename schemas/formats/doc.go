// Package formats finds the schema of a record by its framing, and reads the record with
// the program that the schema's format compiles. It also has the table of formats.
//
// Decoder.Decode looks for a schema id in a header, else for Confluent's magic byte and
// id, a GUID, the single-object marker and a fingerprint, or nothing (bare records with a
// configured schema). The decoder caches the last record's id, which is nearly always
// the next one's, too. A new id goes to registry.Client.SchemaByID: memory, the network, in
// an outage the disk, else an error with Retry set; only the answer that no such schema
// exists makes the record a dead letter.
package formats
