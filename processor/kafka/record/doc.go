// Package record reads and writes the record batches of Kafka's log (message format v2,
// KIP-98), compressed or not. It has no client: it converts between bytes and records.
//
// Iterator checks CRCs, decompresses, drops markers and the batches of aborted
// transactions, and hands out Records that alias the bytes of a Chunk. Batches encodes
// records; Seal writes a producer's id, epoch and sequence into them. Scan walks batch headers alone, so that the
// next fetch's position is known before the records are decoded.
//
// A position advances by the batch headers (base offset plus last offset delta), never by
// the records seen: compaction removes records from a batch's end, whole batches, and
// all records of a batch whose header it keeps.
//
// A list of aborted transactions is complete for its chunk, also for transactions that
// began before it.
package record
