// Package processor is the stream side of the worker: it turns records of the
// input partitions into scores, anomaly findings and state, exactly once.
//
// # The path of a record
//
//  1. kafka.Fetcher asks each leader for its partitions, a few requests ahead,
//     and delivers raw chunks (kafka/fetch.go). A full buffer pauses a partition.
//  2. partition.process calls folder.read for a chunk;
//     record.Iterator walks its batches, and drops control and aborted ones
//     (kafka/record). A batch that it cannot read becomes one dead letter
//     (deadletters.go).
//  3. schemas.Decoder reads the mapped fields of a record. A record that it cannot
//     read becomes a dead letter.
//  4. state.State.Fold appends the sample to its key's window and packs the
//     tasks that became due into a batch (fold.go; state/fold.go), or scores
//     cheap ones itself (state/direct.go).
//  5. Executor.Execute scores the batch; State.Apply takes scores and carries.
//  6. partition.join has folder.write add the results to the open cycle: cycle.Writer
//     encodes them into its batches, with snapshots of the keys that hold the replay floor
//     back (join.go).
//  7. commits.commitOpen closes the cycle and commits it: outputs, state and
//     offsets in one transaction (commit.go). The next cycle grows meanwhile.
//  8. folder.noteCommitted lets the state discard what would undo committed
//     changes.
//
// A record of one value in Avro, of a known series with a full window and one detector, passes 39 functions in 15 files, not counting
// those of at most three lines that only read or pass something on:
//
//	partition.go                  next
//	kafka/record/records.go       Next
//	state/fold.go                 ReadingOf
//	schemas/formats/decoder.go    Decode
//	schemas/avro/exec.go          Decode, exec
//	schemas/reading.go            Reset, Finish, finish
//	fold.go                       checkReading, CheckReading
//	schemas/reading.go            KeyBytes, Len, At
//	stopper.go                    Pass
//	fold.go                       makeRoom, foldSamples, sample
//	schemas/reading.go            Samples, Sample
//	state/fold.go                 Fits, Fold, raise, inOrder, accept, foldSample
//	state/leapvotes.go            Beyond
//	state/position.go             bound, timeBefore; countSample at the end
//	state/series/table.go         Get, Hash
//	state/undo.go                 touch, Push, saveValue
//	state/series/key.go           AppendPlaces
//	state/series/dirty.go         Add
//	state/series/window.go        PushValue, push
//
// A record that makes a task of op knn due, with scores that a conformal threshold judges, passes 89 in 31 files: the others are in
// state (direct.go, queue.go, pack.go, copies.go, gaps.go, judge.go, judgement.go), detectors (batch.go, knn, threshold), cycle/writer.go,
// kafka/record/batches.go and schemas/output/score.go. The arithmetic of centring and of thresholds is not counted. With what runs once
// for a chunk and once for a commit it is 202 in 57 files.
//
// The packages below import nothing of this one: cycle (what a transaction contains and how large it becomes), state and
// anomaly (the state), feedback (labels and mutes), kafka (the client) and metrics (numbers, and log lines of failures).
//
// At a rebalance the Member says which partitions are revoked. rebalancer.handOver (rebalance.go) tells them to stop, commits
// until their finished results are in a transaction, and only then gives them up. A quarter of the rebalance timeout (of a drain,
// three quarters of its own) is for the records that are under way.
//
// After each start of its producer the worker also ends hanging transactions of its group: those that partitions keep open though
// their coordinator has decided them (hanging.go; kafka/hanging.go, KIP-664).
//
// When a commit is not a definite success, commits.recover abandons the producer
// and every partition returns to its committed offset: by folder.rollback in
// memory, or, where another member has committed meanwhile, by folder.restore.
//
// A Processor is composed of parts that its main goroutine owns: a session (the worker as a member and a producer),
// the assignment (its partitions), changelogs, commits and rebalancer. A partition does not
// know the Processor; it has a pointer to a host, a struct with the few parts and functions of the Processor that it may
// use. The interface work processes the records of a partition. It has two implementations: a folder scores them; a rekeyer
// copies them to an internal topic that a second Processor scores (rekey.go).
//
// # Decisions
//
// A partition's state after an offset is a fold of its records and of its decisions
// up to that offset. What the records do not determine (which key is evicted when
// memory is short, what the registry answered about a schema, by which settings records are read) is decided once, by the
// partition's owner, at the offset of a record. The decision is written to the changelog
// in the transaction that commits that offset, read by every replay, and deleted once no
// replay can need it. A replay asks neither the registry nor the clock.
// state/rules has the kinds and the codecs.
//
// # Non-obvious
//
//   - A partition's state belongs to its goroutine. The main goroutine sends it
//     commands (commands.go) and reads its progress by atomics.
//   - An epoch, not a lock, excludes results from before a rollback from the cycles
//     after it: cycle.Handle.Enter compares epochs, and a partition whose epoch is stale
//     waits for the command that says where to resume.
//   - A partition that has been restored sets its flag running and then reads the epoch of the cycles; a rollback, in the
//     main goroutine, raises the epoch and then reads running. So either the partition has the new epoch, or the main
//     goroutine sees that it runs and sends it the rollback: none misses both (settle in start.go).
//   - rebalancer.handOver keeps committing while partitions stop, because a stopping one
//     may wait for room in a full cycle that only a commit makes.
//   - A partition fetches nothing before its start and the owner record of its
//     changelog are committed (start.go, resume). State that belongs to no
//     offset, or an offset without its changelog, would look like a new group's.
//   - A new partition may begin with a backfill: input below the offset at which it begins to
//     publish (backfill.go). It is fetched, folded and committed like other input. So a worker that is
//     interrupted in a backfill restores the partition as at any other offset and continues the backfill.
//   - restorer alone decides whether stored state can be used.
//     Examine runs it without a group, for `worker check`.
//   - A partition that fails by itself is paused in quarantine, with its goroutine:
//     commands of rollbacks and rebalances still reach it (quarantine.go).
//   - Committed offsets are read after the producer has its new epoch, never before:
//     until then the outcome of the old transaction is open.
//   - Records of an output carry the time of writing as Kafka timestamp, not
//     event time: event times of years ago would be deleted by retention at once.
//   - Batches are split below the topic's max.message.bytes. A dead letter that
//     is larger is truncated: its headers say where the original is.
package processor
