// Package cuda runs batches on NVIDIA devices. [Open] starts a child process for
// each device (cuda/device), which alone speaks to the driver: after a device
// fault a process has lost the device, a kernel that hangs ends with its process
// only, and so the worker is pure Go and outlives both. What a device does not
// take, and all that it has when it fails, is scored on the CPU in the same
// Execute.
//
// # The path of a launch
//
//  1. [Executor.Batch] gives a batch whose In and Out arenas are a file without a
//     name (memory): the window's owner packs into it once, and the child copies
//     from there to the device.
//  2. [Executor.Execute] sees to it that the batch lies there (Executor.settle): one
//     that outgrew its memory is copied, once, to a larger one.
//  3. plan.Planner.Assign finds each task's class (opPlan.class) and links tasks
//     to chains, whose carry stays on the device. Tasks of ops without a kernel, and of
//     shapes that no kernel takes, are the CPU's.
//  4. Planner.lay writes the tasks of a class side by side, chains by falling cost,
//     right behind the used part of In, and has the op make tiles and launches
//     (opPlan.launches). Planner.Write adds those: one block of memory to copy in.
//  5. Executor.dispatch takes the device with the least planned work, or cuts a long
//     plan into parts for all devices that have nothing to do; Process.Take
//     takes a lane. The child learns of the memory the first time (Process.Share).
//  6. Process.Ask sends the request, 192 bytes on the lane's socket, and waits for the
//     reply until the deadline. The child copies the block in, launches, and copies
//     Out and a status word a task back, on the lane's stream; other lanes do the same
//     meanwhile.
//  7. Planner.Settle reads the status words. A task that its kernel left alone goes to
//     the CPU, with those of its own that had to wait for the device (Executor.score);
//     the others it has scored meanwhile (Executor.beside).
//  8. Tasks whose carry comes from one of those have waited: they are planned again,
//     until none is left. Most batches have one round.
//
// A task may name a model, which many share (detectors.Model). Models lie in memory of
// their own on a device, Options.Models at most, taken with the first; child.Models is
// their directory, by content, and the one used longest ago makes room. The plan brings
// what is not there yet, and kernels get the models' base and a Span a task. A batch that
// is split has its models on each device that needs them, a new child has none.
//
// A kernel may leave a task with the status more, having put what its next round needs
// into Next: the task is planned anew (opPlan.again), with its Next as carry, as often
// as its op allows (opPlan.rounds); past it the task is the CPU's, whose form always
// finishes. SVD-SST has two: what float32 leaves open is settled in float64, by a kernel
// whose blocks take whole multiprocessors and which the other tasks need not wait for.
// Where rounds differ in nothing but the carry (opPlan.repeats), the child
// repeats the launches by itself until no task asks for more: 625 rounds of a launch
// that does nothing take 0.07 ms in a child of the tests, 16 ms as requests
// (TestRoundsCost). A request has a deadline a round, whoever repeats it.
//
// A child that dies, answers with an error or nonsense, or overruns the deadline is
// killed (Process.Fail). Its batches wait until the process is gone, so that the
// device writes to their memory no more, and are executed on another device, once,
// or on the CPU. Device.Supervise starts a new child: at once, then after 500 ms and
// twice that each time. On an H200 a killed child's device is in service again after
// 0.3 s, after an illegal address 0.45 s, after an endless kernel 0.3 s past its
// deadline; a start takes 0.2 s (TestDeviceFaults).
//
// # Several devices
//
// Batches are spread as they come, each to the device with the least planned work;
// the processor has one in flight for each partition, so with more partitions than
// devices these all have something to do. With fewer, a batch of a millisecond or
// more is cut into runs of tasks by their index, of about the same cost, one for each
// idle device. Each part has a plan of its own behind In, with its parameters, and
// brings the part of In and of Out that its tasks lie in; a task's result depends on
// that task alone, so the bits are those of one device. No chain crosses a cut: where
// the keys of a batch have several tasks with a carry each, in turn, there is none,
// and the batch stays whole. A device that is lost takes its own part with it, which
// is planned again in the next round; the other parts are done.
//
// On a host of several sockets a batch's memory lies where its owner first wrote to
// it, and a device on the other socket copies across; nothing here places either.
// What a device asks of the host is in "The window cache": a core packs so much, and
// bench ops-scale says what several devices make of it.
//
// Several tasks of a series in a batch share the rows of their windows: their X overlap
// (keystate.State.packX). A part of a cut batch brings all of In from its first X to its
// last, so what tasks of two parts share is copied to both devices.
//
// # The window cache
//
// With one fresh sample a task, and one task of a series in a batch, nearly all that is copied in was copied in before.
// With Options.WindowCache, a device keeps windows as rings of float64 (windowcache.go):
// the owner's detectors.WindowPool knows what lies in which slot, a task's update brings
// the rows that are missing, and the kernel window_cache makes X of the ring, by the
// operations of detectors.Pack, so that it does not matter for the bits. X is centred
// anew after at most 128 rows (detectors.CenterRows), on values of its own, which is why
// float32 rows could not be cached. The directory is with the owner, who alone knows which rows it means: a slot
// has the window's address and how many rows the series had, everything else is a miss,
// and a miss brings all rows the same way. The owner invalidates the cache when it rolls
// back, when a batch was packed and not executed, and when the child is gone; then
// Execute says detectors.ErrCacheLost, since such a batch cannot be scored anywhere
// else, and the owner packs it again (keystate.State.Repack). Owners take the device's
// memory by the megabyte. Where there are more windows than slots, the ones that have
// one keep it, for series come round in turn and the oldest is the next; one newcomer in
// eight moves the hand of a clock that finds those no longer used.
//
// Floors at w=100 of IKA-SST, 406 rows, one fresh sample a task:
//
//	                             windows travel           window cache
//	bytes in, a task             2,104                    536: X is 8 of a sample and 48 of a run
//	bytes out                    408                      408
//	link, 55 GB/s each way       26 M/s                   103 M/s in, 135 M/s out
//	launches alone               101 M/s                  91 M/s: 4.9 KB more of the device's memory
//	host memory, by cores        10 KB: ring, X, carries  2.5 KB: carries, the end of the ring
//	on the device, a key         0                        3.3 KB
//
//	a core of the owner, packing  410 ns                   90 ns
//	a core in Execute             72 ns                    102 ns
//	16 cores of these two         33 M/s                   83 M/s
//
// (BenchmarkWindowCachePack of cmd/bench with 200,000 keys and BenchmarkWrite, the least
// of several runs on a busy EPYC: 406 differences and roundings one by one are what
// packing takes, in cache or not.) So the link bounds windows that travel (24.4 M/s
// were measured, 93 %), and the owner's packing is not far beyond. That is why the
// directory is not with the child, the whole window being packed as ever and only not
// copied: the cores would be the bound at once.
//
// Measured with a million keys beside an H200 with 16 cores, samples, packing, Execute
// and the carry's way back (docs/benchmarks.md): windows travel 11 to 14 M/s, cached 26
// to 31 M/s, half of them cached 15 to 16 M/s, the same bits. Adopted, then, for 2.4
// times the rate, and for whoever gives it memory: a million windows take 3.3 GB of a
// device. 60 M/s, the aim, is out of reach of these cores: 400 ns of them a task, of
// which packing is 165 to 200, the carry's way back 65, Execute 100, the child 52.
// Goroutines beyond the cores, batches of 1,024 to 8,192 tasks and eight lanes instead
// of four gave 17 to 31 M/s. What is left is the carry, 400 bytes in and out, which
// could stay on the device as well: 45 of the 400 ns.
//
// # How to add a kernel
//
//  1. Write kernels/NAME.cu, NAME being the op's, one or more __global__ functions
//     with the signature in kernels/task.h whose names begin with it. It computes what
//     the op's definition says, within the op's Compare, the same bits for a task
//     whatever the batch contains; it writes only its tasks' Scores, Next and Detail.
//     The words of a task's parameters are a struct in kernels/NAME_params.h, made from
//     the op's table (detectors.Param); ones that the table calls Long are int64.
//  2. Write plan/NAME.go: the opPlan, which names the kernels, and its line in plans. The
//     class looks at lengths and parameters alone; Spec.Word has where these lie. ok is
//     false for shapes over the kernel's limits. Nothing else names a kernel: the list of
//     a Launch's indices, the child's modules and what the emulator builds follow.
//  3. go generate ./cuda, which needs nvcc and builds the fatbins of which a source or
//     header has changed; TestGenerated holds them to it. The emulator needs no fatbin.
//  4. go test -run TestEmulated ./cuda runs it on the CPU under the suite of all
//     executors; go test -run TestDevice ./cuda with ODRADEK_CUDA_CHILD on a device.
//     Both count what the kernel left to the CPU, which is nothing of the cases and next
//     to nothing of windows (mostDeclined).
//     compute-sanitizer and the benchmarks are in scripts/device.sh.
//
// testdata/toyop is a whole op; TestToyOp holds that it takes three files, two lines and
// what go generate makes.
//
// # Not obvious
//
//   - Which side scores a task, and which kernel, depends on that task alone. A whole
//     chain is therefore not moved to the CPU for one of its tasks, nor a task for
//     being behind a declined one: there are rounds instead. Only a fault moves tasks.
//   - A chain whose tasks are of two classes is cut; the later part is in a later
//     launch of the same plan, and finds its carry in Out (Planner's waves).
//   - The plan lies beyond the used part of In, the status words beyond that of Out:
//     the owner's next Grow writes over them.
//   - An Execute with a cancelled context waits for the device, which writes to the
//     batch's memory. It does not wait for a lane.
//   - Memory that a batch has moved out of stays mapped until the batch's next Execute,
//     for slices that its owner still has.
//   - A batch that a killed child may still write to (its process does not end within
//     five seconds) is moved, and that memory left alone for good.
//   - An X whose offset has the bit detectors.InCache is in no arena. The planner puts it
//     behind everything that is copied, where the kernel window_cache writes it.
//   - Out goes to the device first only if it has gaps that are no task's, or in a
//     second round: what comes back is one block, and would overwrite them.
//
// # What was tried
//
//   - Sorting 65,536 chains of two classes with slices.SortStableFunc: 8 ms at best. A
//     counting sort by cost in steps of an eighth, then by class: 0.8 ms (one busy core
//     of an EPYC). A whole plan takes 38 ns a task.
//   - A class looked up for each task: assign took 3.5 ms for 65,536, and takes 2.4 ms
//     with 64 shapes remembered, with an op whose lookup does next to nothing.
//   - A blocking system call for the reply in place of Go's poller: 22 us for a request
//     and its reply where the poller takes 16, on a busy machine of two cores; 15 us
//     beside an H200.
//   - One limit for all batches from the start: with many partitions most of the locked
//     memory is never used. Batches begin at 2 MiB and grow while more than half full.
package cuda
