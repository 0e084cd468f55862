// Package detectors is the contract between the owners of windows and the executors
// that compute scores. Each method is a package below detectors, which registers its ops
// in the table of ops ([Register]); detectors/ops imports them all. The package is pure: rows
// of numbers go in, scores and a carry come out. It uses no Kafka, no Avro, no clock and
// no logger.
//
// # The path of a batch
//
//  1. The window's owner (processor/state) takes an empty [Batch] from an
//     [Executor], in the executor's own memory.
//  2. A key becomes due by its own history. [Detector.Size] says whether the window
//     has enough rows, and how much a task returns; [Batch.Fits] whether the batch
//     has room.
//  3. The rows, centred ([Centers]) and in the op's element type, the
//     detector's parameters (once a batch, see [Batch.Serial]) and the key's
//     carry are written to the arenas once, with GrowF32 and its like, and a
//     [Task] of spans is appended. A second task of the same key is linked to
//     the first by [Task.After]: its carry is the first one's Next.
//  4. [Executor.Execute] fills Scores and Next of every task. NewCPU runs each
//     op's CPU form, a small batch in the caller's goroutine, a large one in
//     portions of whole chains.
//  5. The owner reads scores and carries back with [Batch.Rows], task by task in
//     the order it appended them, and asks [Detector.AppendFindings] which rows
//     each score covers.
//  6. [Executor.Release].
//
// # How to add a method
//
//  1. Write it as a package of its own under detectors: slices in, slices out,
//     papers cited, importing nothing of the module but detectors/vec. First the
//     definition, in float64, as in the paper. Compare it with numbers
//     of an independent program (testdata, with that program). Then the fast
//     form, with the lower bound on its time.
//  2. Write the adapter, a file op_NAME.go beside it (simple/op_zscore.go is the smallest,
//     sst/op_ikasst.go the usual): the [Op], its [Spec] with the table of its parameters, the definition, the
//     CPU form, its cost, its tolerance and cases; a constructor that reports every fault of
//     its parameters at once; and the [Detector]. Settings, their checks and their
//     documentation follow from the table ([Param]).
//  3. Import a new package in detectors/ops/ops.go.
//  4. Run the tests: detectors/executortest includes the op by itself. Then
//     break the fast form on purpose: the suite has to fail.
//
// # Not obvious
//
//   - A result depends on its task alone, to the bit. It must not depend on the
//     batch, the time, the alignment of the rows or the number of tasks; the
//     number of fresh rows belongs to the task and may decide the path.
//   - An op writes one score for each fresh row. An undefined score is NaN, and the op's
//     documentation says when. A carry must stay usable when a NaN has been in the window.
//   - The definition takes the carry it is given. Compare therefore judges one
//     task, never a chain: errors do not add up in it.
//   - Op numbers are in tasks alone, never in stored data.
//   - The owner scores tasks of a [Direct] itself, without an executor, and a large carry in place.
package detectors
