// Package state holds the state of one input partition: for every series key a
// window of rows, what its detectors need of the past, and the samples that wait
// for their turn. It is pure: no Kafka, no clock, no log.
//
// A State is a fold of the partition's samples and decisions in offset order and of
// nothing else: it does not depend on how they were cut into chunks and batches, on when
// scores came back, or on what was snapshotted or rolled back. Rows, state and evictions
// are the same for the same log, to the bit, on one class of executor.
//
// # Terms
//
// A row is a sample in a key's window. A fresh row is one that a detector has not scored yet. When a window has as many
// fresh rows as the detector's stride, a task becomes due, which scores them; a batch contains tasks of many keys. A carry
// is numbers that a task returns for the detector's next task of the same key, such as a start vector. The turn of a
// result is the sample or the decision with which it became due: results are in the order of turns, regardless of when
// batches are executed. A sweep looks for keys to evict and to report as silent, with the sample that
// raises the watermark far enough (sweeps.go). An advance is a decision that raises the watermark of an idle partition
// without a sample (advance.go).
//
// # The path of a sample
//
//	Fold     held if its time may be wrong (leapvotes.go)
//	         key looked up; a late sample or a duplicate is counted by its Outcome and goes no further (fold.go, gate.go)
//	         held until the watermark reaches it, if Lateness > 0 (package series)
//	         values transformed, and with the others of an interval made one sample (fold.go, intervals.go)
//	         row into the key's windows (package series), progress of its detectors counted,
//	         tasks that became due packed into the batch (queue.go, pack.go), or scored (direct.go)
//	Apply    scores of the executed batch judged and added to Rows, changes of
//	         anomalies to Events (judge.go, judgement.go), carries to their keys (apply.go)
//	Mark     the samples so far are an undo unit that ends at an offset (undo.go)
//	Snapshot changelog records for the cycle that commits that offset (snapshot.go)
//	Floor    where a replay has to begin if the cycle is committed
//
// and later either Committed, which forgets how to undo, or Rollback. A worker
// that takes the partition over calls Load for every changelog record,
// BeginReplay, Recall for suspects below the floor, Fold for the input from the
// floor to the committed offset, EndInput and EndReplay (replay.go). ReadingOf says before each record how it is
// to be read: in a replay as when it was live. Rollback and
// restore lead to the same bytes of Export.
//
// # How to drive it
//
//	for each sample {
//		for !s.Fits(b) {
//			execute(b); s.Apply(b); b.Reset()
//		}
//		s.Fold(&sample, b)
//	}
//	for !s.Fits(b) {
//		execute(b); s.Apply(b); b.Reset()
//	}
//	execute(b); s.Apply(b); b.Reset() // s.Rows and s.Events have all of the chunk
//	s.Mark(next)
//	s.Snapshot(want, maxBytes, emit) // in every cycle: some records must be in this one
//
// Before the first sample, or the first changelog record, SetSource sets the input
// partition, which is part of the ids of anomalies. Rows and Events are the
// caller's to write and to empty, and Events belong to the cycle that commits the
// mark after them.
//
// Fits is asked in a loop because one sample can move the watermark over more
// held samples than a batch has room for; it releases the rest, a batch at a
// time. A State is for one goroutine at a time.
//
// # What a State has
//
// A State is one struct, and what concerns several of its fields is a method of it. Fields that belong together are
// structs with the methods that need nothing else. How far the log is folded, and whose results are withheld, are plain
// fields (position.go). The structs:
//
//	Output     rows, events and blocks (output.go)
//	Tally      counts of samples and keys
//	Keys       the keys by name (package series), and the order in which they are evicted (keys.go, expiry.go)
//	Suspects   leaps of event time and the votes on them (suspects.go, leapvotes.go)
//	Rulings    the thresholds and guards in force (rulings.go, package rules)
//	mutes      the mute rules in force (mutes.go), and learned: the rules that labels have taught
//	Grids      which windows of grids are open (grid.go)
//	Restore    what is loaded from the changelog, and the end of the replay after it (restore.go)
//	gate       whose turn it is where samples wait (gate.go)
//	held       held samples of all keys, by time and by offset (hold.go)
//	silences   which keys fall silent (silence.go, silencewatch.go)
//	readings   how records are read: the configured reading and the one in force (readings.go)
//	intervals  which intervals of series are open whose samples are aggregated (intervals.go)
//	orphans    anomalies that nothing continues (orphans.go)
//	changed    the keys that the next Snapshot must have (package series)
//	groups     groups of anomalies (grouping.go)
//	tasks      tasks that became due, and what waits behind them (queue.go)
//	judge      the buffers in which scores are judged (judge.go)
//	decisions  what the partition's owner decided (decisions.go, package rules)
//	journal    undo units, marks and the committed floor (undo.go); revert.go undoes an operation
//
// Packages below this one do not import it: series (a key), rules (decisions), checkpoint (heads and floors), changelog
// (how records are written).
//
// # Decisions
//
// What the samples alone do not determine (a key evicted because memory is short, a schema that
// the registry does not have) is decided once, live, and is then part of the log:
// Decide makes a decision, Standing returns one that holds from an offset on. A replay makes none: it takes those
// of the changelog, each before the sample at its offset. Package rules says when a decision takes effect, how long it
// is kept, and how to add a kind.
//
// # The changelog
//
// Keys are a type byte, the series key, and for some types numbers of eight
// bytes, so that any bytes may be a series key:
//
//	H name                head: everything about the key but full segments
//	P name fragment       a fragment of a head that is too large for one record
//	S name window number  segment: rows of the window, written once when full
//	B name offset sum     segment of held samples, written once when full (package checkpoint)
//	E name                eviction: the key's samples below an offset are forgotten
//	D kind subject offset another decision
//
// A value begins with a version byte. Package checkpoint defines how a head begins, and its sections are the methods of
// series.Writer. A head names its segments, so
// rows that it does not name are not there. Segments come before the head that
// names them, deletions after it, so that also a prefix of what one Snapshot
// emits is a state that can be restored.
//
// # Non-obvious
//
//   - A head says up to which offset it holds the input (asOf), which can be far
//     past the key's last record: with Lateness the records of other keys
//     release its held samples. Replay skips the key's records below asOf.
//   - The replay floor takes only offsets of marks, whose largest event time and
//     suspects are remembered; with them the watermark is the same in replay as
//     when live.
//   - Evictions are decisions. The order of least recent use needs keys that a replay does not see, so a
//     replay takes evictions from the changelog and makes none; Snapshot always emits
//     them in the cycle that commits them.
//   - A change of an anomaly puts its key's head into the next Snapshot, regardless of
//     its limits, want and maxBytes. So a replay, which begins after the head of each key,
//     has no change to publish, and publishes none: those that were published stand even
//     where the executor that replays would find them elsewhere.
//   - A silence opens and closes by the times of samples alone (silencewatch.go). Its
//     state changes at once, but the event is added to Events after the events of the tasks that
//     wait, as is the end of an evicted key, so that the order of Events does not
//     depend on the batches either.
//   - Anomalies of a detector that was removed, or replaced by one with another fingerprint, stay with
//     their key until the first live sample closes them: a restore has no cycle
//     to publish that in. A key whose last detector was removed stays until then.
//   - An anomaly belongs to the mode, live or shadow, in which its detector opened it. A change of the mode is a
//     decision (package rules); the next score of each series ends what is open in the other mode; until
//     then the key's head has the mode of the open anomaly.
//   - A key's history of scores survives a change of the threshold, unless the new one
//     has another number of scores; then it begins empty. Anomalies go on either way. Which scores
//     entered a history depends on the thresholds, so those in force are decisions
//     (package rules), and a key's history follows a change with its next score.
//   - Samples before the offset at which a partition begins to publish are folded like any others, but
//     their results are not published (position.go).
//   - Warming-up rows, and scores of detectors without a batch (direct.go), go straight to
//     Rows unless a task of this State waits for its scores; then they queue behind it, so
//     that the order of rows does not depend on the batches.
//   - A window's count of samples determines its rows and ring positions, so
//     undo needs only the rows that were overwritten.
//   - A summary of what has left a detector's window (package series) is folded when
//     a task is due, so that it changes once a stride, and by a replay too.
//   - A task's float32 rows are centred on a value of their own (pack.go). An earlier
//     center could be a spike, or the level before a shift, and would cost digits for a
//     whole window.
package state
