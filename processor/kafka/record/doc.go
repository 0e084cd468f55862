// Package record reads and writes the record batches of Kafka's log (message format v2,
// KIP-98), with compression and without a client: bytes in, records out, and the other way
// round.
//
// Iterator checks CRCs, decompresses, drops markers and the batches of aborted
// transactions, and hands out Records that alias the bytes of a Chunk. Batches encodes
// records; Seal stamps a producer on them. Scan walks batch headers alone: where a fetch
// goes on is known before its records are decoded.
//
// A position is moved by what the batches say (base offset plus last offset delta), never
// by the records seen: compaction removes records from a batch's end, whole batches, and
// all records of a batch whose header it keeps.
//
// A list of aborted transactions is complete for its chunk, also for transactions that
// began before it.
package record
