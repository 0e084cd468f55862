// Package cuda runs batches on NVIDIA devices. [Open] starts a child process for
// each device (cuda/device), which alone calls the driver: a device fault costs a process
// its device, and only the end of its process ends a hanging kernel. So the worker is pure
// Go and survives both. Tasks that a device does not take, and those that it has when it
// fails, are scored on the CPU in the same Execute.
//
// # The path of a launch
//
//  1. [Executor.Batch] gives a batch whose In and Out arenas are an unlinked
//     file (memory): the window's owner packs into it once, and the child copies
//     from there to the device.
//  2. [Executor.Execute] moves the batch there if necessary (memories.ensureShared):
//     a batch that outgrew its memory is copied, once, to a larger one.
//  3. plan.Planner.Assign finds each task's class (opPlan.class) and links tasks
//     to chains, whose carry stays on the device. Tasks of ops without a kernel, and of
//     shapes that no kernel takes, go to the CPU.
//  4. dispatcher.dispatch takes the device with the least planned work (devices.pick), or cuts a long
//     plan into parts for all idle devices (dispatcher.split). Planner.Write writes the plan right after the used
//     part of In, one block of memory to copy in: Planner.schedule has the tasks of a class side by side, chains by falling
//     cost, and calls the op for tiles and launches (opPlan.launches).
//  5. Device.Execute takes a lane (Process.Acquire). The first request of a memory maps it in the child (Process.Map).
//  6. Process.Ask sends the request, 192 bytes on the lane's socket, and waits for the
//     reply until the deadline. The child copies the block in, launches, and copies
//     Out and a status word a task back, on the lane's stream; other lanes do the same
//     meanwhile.
//  7. dispatcher.outcome says how the batch goes on: Progress.ReadStatus reads the status words. A task that its
//     kernel declined goes to the CPU, with the CPU's tasks that had to wait for the device (fallback.score);
//     the CPU has scored its other tasks meanwhile (fallback.scoreConcurrently).
//  8. Tasks whose carry comes from one of those have waited: they are planned again,
//     until all are done. Most batches have one round.
//
// A batch of op ikasst whose memory the child has mapped passes 30 functions in 12 files, by the coverage of a launch:
//
//	executor.go        Execute
//	memory.go          state, ensureShared
//	dispatch.go        dispatch, pick, write, release; outcome on the way back
//	plan/planner.go    Start, Assign, Write, schedule
//	plan/classify.go   classOf
//	plan/segments.go   Before, sort
//	plan/builder.go    launch, Align, View
//	plan/ikasst.go     class and launches of ikasstPlan, with their arithmetic (ikasstBest, ikasstShared) not counted
//	plan/status.go     ReadStatus
//	child/device.go    Healthy, Execute, Allowance
//	child/process.go   Acquire, Map, Ask, Release
//	child/protocol.go  encode, decodeReply
//
// Op lof, some of whose launches have scratch memory, adds launchWithin and scratch of plan/builder.go.
//
// A task may name a model, which many tasks share (detectors.Model). Models lie in separate
// memory on a device, up to Options.Models bytes, taken with the first; child.Models is
// their directory, by content, and evicts the least recently used. The plan brings
// missing models, and kernels get the models' base and a Span a task. A split batch has its
// models on each device that needs them; a new child has none. Kernel knn_reference reads them: op knn with a
// reference set.
//
// A kernel may give a task the status more, with the input of its next round in Next: the
// task is planned again (opPlan.again), with its Next as carry, as often
// as its op allows (opPlan.rounds); then it goes to the CPU, whose form always
// finishes. SVD-SST has two rounds: float64 decides the tasks that float32 cannot decide,
// in a kernel whose blocks take whole multiprocessors, and no other task waits for it.
// Where rounds differ only in the carry (opPlan.repeats), the child
// repeats the launches by itself until no task has that status: 625 rounds of an empty
// launch take 0.07 ms in a child of the tests, 16 ms as requests
// (TestRoundsCost). A request has one deadline per round, regardless of which side repeats it.
//
// A child that dies, answers with an error or an invalid reply, or overruns the deadline is
// killed (Process.Fail). Its batches wait until the process is gone and the
// device no longer writes to their memory, and are executed on another device, once,
// or on the CPU. Device.Supervise starts a new child: at once, then after 500 ms and
// twice that each time. On an H200 a killed child's device is in service again after
// 0.3 s, after an illegal address 0.45 s, after an endless kernel 0.3 s past its
// deadline; a start takes 0.2 s (TestDeviceFaults).
//
// # Several devices
//
// Each batch goes to the device with the least planned work. The processor has one batch in
// flight for each partition, so with more partitions than devices no device is idle. With
// fewer, a batch of a millisecond or more is cut into runs of tasks by their index, of similar
// cost, one for each idle device. Each part has its own plan after In, with its parameters, and
// copies the ranges of In and Out of its tasks. A task's result depends on that task alone, so
// the bits are the same as on one device. No chain crosses a cut: where the keys of a batch take
// turns with several tasks each, all with a carry, no cut is possible and the batch stays
// whole. The part of a lost device is planned again in the next round; the other parts are
// done.
//
// A few long tasks cannot be cut into parts of similar cost. If their op can divide the work in a
// task (opPlan.divides: the null maps of a grid), each idle device gets all tasks and does its
// portion of each, into outputs of its own behind the batch's, and plan.Merge makes the batch's
// outputs of them. If one of the devices is lost, all tasks are planned again.
//
// On a host of several sockets a batch's memory lies where its owner first wrote to
// it, and a device on the other socket copies across; this package places neither.
// Section "Host cores" gives a device's need of them; bench ops-scale measures
// several devices.
//
// Several tasks of a series in a batch share the rows of their windows: their X overlap
// (package processor/state). A part of a cut batch brings all of In from its first X to its
// last, so rows that tasks of two parts share are copied to both devices.
//
// # Host cores
//
// With one fresh sample a task, and one task of a series in a batch, the host's cores and the link are the limit. Floors
// at w=100 of IKA-SST, 406 rows: 2,104 bytes in and 408 bytes out a task, so that a link of 55 GB/s each way takes 26 M
// tasks a second, where the launches alone do 101 M. A core of the owner takes 410 ns to pack a window (406 differences
// and roundings, in cache or not), a core in Execute 72 ns (BenchmarkWrite): 16 cores do 33 M tasks a second. Measured
// with a million keys beside an H200 with 16 cores: 11 to 14 M.
//
// # Normalised points
//
// With ZNORM a task compares normalised points, each made of several rows (opPlan.pointRows). The kernel normalise
// makes them on the device before any op's launch, with vec.Normalise's operations, and writes them after everything
// that is copied in. The plan's tasks have these points as their rows, so ops need no kernels of their own for them.
// Rows that tasks share are normalised once. A device without room for the points, 4 bytes for each value of each
// point, refuses the plan.
//
// # Blocks of large sets and grids
//
// The blocks that a large set or grid gets are a number for each multiprocessor of the device: op topn's
// blocks, the blocks of kNN's index, and in op scan the ones that draw null maps or, without these, that search. No result depends
// on it: blocks take items from one counter, or every n-th strip, and what they write or the best of what they find is the
// same for any number (TestBlocksEmulated). The blocks of knn_scan are constants, because its parts of a set are.
//
// # How to add a kernel
//
//  1. Write kernels/NAME.cu, NAME being the op's, one or more __global__ functions
//     with the signature in kernels/task.h whose names begin with it. It computes
//     the op's definition, within the op's Compare, with the same bits for a task
//     regardless of the rest of the batch; it writes only its tasks' Scores, Next and Detail.
//     The words of a task's parameters are a struct in kernels/NAME_params.h, made from
//     the op's table (detectors.Param); ones that the table calls Long are int64.
//  2. Write plan/NAME.go: the opPlan, which names the kernels, and its line in plans. The
//     class depends on lengths and parameters alone; Spec.Word returns their offsets. ok is
//     false for shapes over the kernel's limits. Nothing else names a kernel: the list of
//     a Launch's indices, the child's modules and the emulator's sources follow.
//  3. go generate ./cuda, which needs nvcc and builds the fatbins with changed code in a
//     source or header; TestGenerated requires it. The emulator needs no fatbin.
//  4. go test -run TestEmulated ./cuda runs it on the CPU under the suite of all
//     executors; go test -run TestDevice ./cuda on a device (scripts/device.sh).
//     Both count the tasks that the kernel declined: it may decline none of the cases, and few
//     of the windows (mostDeclined).
//     compute-sanitizer and the benchmarks are in scripts/device.sh.
//
// testdata/toyop is a whole op; TestRecipes of package processor shows that it takes three files, two lines and
// go generate.
//
// # Not obvious
//
//   - Which side scores a task, and which kernel, depends on that task alone. So a declined
//     task moves neither its chain nor the tasks after it to the CPU: these wait for the
//     next round. Only a fault moves tasks.
//   - A chain whose tasks are of two classes is cut; the later part is in a later
//     launch of the same plan, and finds its carry in Out (Planner's waves).
//   - The plan lies beyond the used part of In, the status words beyond the used part of Out:
//     the owner's next Grow writes over them.
//   - An Execute with a cancelled context waits for the device, which writes to the
//     batch's memory. It does not wait for a lane.
//   - The former memory of a moved batch stays mapped until the batch's next Execute,
//     because its owner still has slices of it.
//   - A batch that a killed child may still write to (its process does not end within
//     five seconds) is moved, and that memory is never used again.
//   - Out goes to the device first only if it has gaps between the tasks' outputs, or in a
//     second round: the device's copy comes back as one block, which would overwrite them.
//
// # Solving sets
//
// A device mines the sets of op solvingset, and the CPU has the tasks that only score, by the lengths of their rows (setClass). A
// series' set is its carry: with windows of 4,096 and the other defaults 256 points of 16 values, 16 KB, which every task reads and
// returns; a set is mined every 1,024 rows. Measured beside an H200 with 16 cores, packing and transfers included
// (BenchmarkSolvingSets): the CPU scores 602,000 points a second. Knn_before, with the set as rows and nothing to
// return, scores 366,000: copies are the limit, so scores stay on the CPU. As models, sets need no copies, but the directory of models
// is searched one by one: with 10,000 of them knn_reference scores 21,000.
//
// One H200 mines 8,700 sets a second, of noise 11,500, its 16 cores 330 and 420. Of fresh rows, of which one in 1,024 mines, the op then
// takes 177,000 a second in place of 154,000, of a backlog, 64 rows a task, 5.4 million in place of 320,000. For that a device with few
// tasks copies their range of a batch alone (fewTasks): with all of it the first would be 130,000.
//
// The next task of a series whose set a device mines waits for another round. The kernel takes windows of which all pairs of points have
// at most 2^31 values (setPairs), such as 11,585 points of 16: sets of larger ones are mined on the CPU, by all cores and a tree.
//
// # What was tried
//
//   - Windows that stay on the device, as rings of float64 that a task brings its fresh rows to, for op ikasst: 2.4
//     times the rate of packing and Execute with a million keys, but -1, 4 and 11 % of a whole worker's on three hosts,
//     for 3.3 GB of a device per million windows, another packing of tasks, and batches that have to be packed again
//     when their device is lost.
//   - Sorting 65,536 chains of two classes with slices.SortStableFunc: 8 ms at best. A
//     counting sort by cost in steps of an eighth, then by class: 0.8 ms (one busy core
//     of an EPYC). A whole plan takes 38 ns a task.
//   - A class looked up for each task: assign took 3.5 ms for 65,536, and takes 2.4 ms
//     with 64 cached shapes, with an op whose lookup is trivial.
//   - A blocking system call for the reply in place of Go's poller: 22 us for a request
//     and its reply where the poller takes 16, on a busy machine of two cores; 15 us
//     beside an H200.
//   - One limit for all batches from the start: with many partitions most of the locked
//     memory remains unused. Batches begin at 2 MiB and grow while more than half full.
package cuda
