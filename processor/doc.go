// Package processor is the stream side of the worker: it turns records of the
// input partitions into scores, anomaly findings and state, exactly once.
//
// # The path of a record
//
//  1. kafka.Fetcher asks each leader for its partitions, a few requests ahead,
//     and delivers raw chunks (kafka/fetch.go). A full buffer pauses a partition.
//  2. partition.process takes a chunk; record.Iterator walks its batches: CRC,
//     decompression, control and aborted batches dropped (kafka/records.go). One
//     that it cannot read is a dead letter as a whole (badbatch.go).
//  3. schemas.Decoder reads just the mapped fields from the Avro bytes. What
//     cannot be read goes to the dead-letter topic (outputs.go, deadLetter).
//  4. keystate.State.Fold appends the sample to its key's window and packs the
//     tasks that became due into a batch (keystate/fold.go, pack.go).
//  5. Executor.Execute scores the batch; State.Apply takes scores and carries.
//  6. partition.join encodes the rows into the open cycle's batches, with the
//     snapshots of the keys that hold the replay floor back (outputs.go).
//  7. Processor.commitOpen closes the cycle and commits it: outputs, state and
//     offsets in one transaction (commit.go). The next cycle grows meanwhile.
//  8. partition.noteCommitted has the state discard what would undo committed changes.
//
// When a commit is not a definite success, Processor.recover abandons the
// producer and every partition returns to its committed offset: partition.rollback
// in memory, partition.restore from the changelog where another member was here.
//
// # Decisions
//
// A partition's state after an offset is a fold of its records and of its decisions
// up to there. What the records do not decide (which key leaves for want of memory,
// what the registry answered about a schema) is decided once, by the partition's
// owner, at the offset of a record; it is written to the changelog in the transaction
// that commits that offset, read by every replay, and deleted once no replay can
// need it. keystate/decisions.go has the rules and the kinds, and a replay asks
// nobody: not the registry, not the clock.
//
// # Non-obvious
//
//   - A partition's state belongs to its goroutine. The main goroutine says
//     what it wants by partition.send and learns what is there by atomics.
//   - An epoch, not a lock, keeps results of before a rollback out of cycles
//     after it: cycles.enter compares it, and a partition whose
//     epoch is stale waits for the command that says where to go on.
//   - A partition that is restored sets running before it reads the epoch; the
//     main goroutine raises the epoch before it reads running. One of the two
//     sees the other.
//   - handOver keeps committing while partitions stop, because a stopping one
//     may wait for room in a full cycle that only a commit makes.
//   - A partition fetches nothing before its start and the owner record of its
//     changelog are committed (owner.go, goFrom). State that belongs to no
//     offset, or an offset without its changelog, could not be told from a new group.
//   - partition.takeUp is all that decides whether stored state can be gone on from.
//     Examine runs it without a group, for `worker check`.
//   - A partition that cannot go on by itself is paused in quarantine, with its
//     goroutine: commands of rollbacks and rebalances still reach it (quarantine.go).
//   - Offsets are asked for after the producer has its new epoch, never before:
//     until then the old transaction's end is not decided.
//   - Records of an output carry the time of writing as Kafka timestamp, not
//     event time: event times of years ago would be deleted by retention at once.
//   - Batches are split below the topic's max.message.bytes; a dead letter that
//     is larger is truncated, because its original stays where its headers say.
package processor
