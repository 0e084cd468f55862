// Package cuda runs batches on NVIDIA devices. [Open] starts a child process for
// each device (cuda/device), which alone speaks to the driver: after a device
// fault a process has lost the device, a kernel that hangs ends with its process
// only, and so the worker is pure Go and outlives both. What a device does not
// take, and all that it has when it fails, is scored on the CPU in the same
// Execute.
//
// # The path of a launch
//
//  1. [Executor.Batch] gives a batch whose F32 and Out arenas are a file without a
//     name (memory): the window's owner packs into it once, and the child copies
//     from there to the device.
//  2. [Executor.Execute] sees to it that the batch lies there (Executor.settle): one
//     that outgrew its memory is copied, once, to a larger one.
//  3. planner.assign finds each task's class (opPlan.class) and links tasks to
//     chains, whose carry stays on the device. Tasks of ops without a kernel, and of
//     shapes that no kernel takes, are the CPU's.
//  4. planner.lay writes the tasks of a class side by side, chains by falling cost,
//     right behind the used part of F32, and has the op make tiles and launches
//     (opPlan.launches). Executor.write adds those: one block of memory to copy in.
//  5. Executor.onDevice takes the device with the least planned work; child.take one
//     of its lanes. The child learns of the memory the first time (child.share).
//  6. child.ask sends the request, 192 bytes on the lane's socket, and waits for the
//     reply until the deadline. The child copies the block in, launches, and copies
//     Out and a status word a task back, on the lane's stream; other lanes do the same
//     meanwhile.
//  7. planner.settle reads the status words. A task that its kernel left alone goes to
//     the CPU, with the tasks that are the CPU's anyway (Executor.score).
//  8. Tasks whose carry comes from one of those have waited: they are planned again,
//     until none is left. Most batches have one round.
//
// A child that dies, answers with an error or nonsense, or overruns the deadline is
// killed (child.fail). Its batches wait until the process is gone, so that the
// device writes to their memory no more, and are executed on another device, once,
// or on the CPU. device.keep starts a new child: at once, then after 500 ms and
// twice that each time. On an H200 a killed child's device is in service again after
// 0.3 s, after an illegal address 0.45 s, after an endless kernel 0.3 s past its
// deadline; a start takes 0.2 s (TestDeviceFaults).
//
// # How to add a kernel
//
//  1. Write kernels/NAME.cu, NAME being the op's, one or more __global__ functions
//     with the signature in kernels/task.h whose names begin with it. It computes what
//     the op's definition says, within the op's Compare, the same bits for a task
//     whatever is in the batch; it writes its tasks' Scores and Next and nothing else.
//  2. Write NAME.go: the opPlan, with an entry in opPlans. The class looks at lengths
//     and parameters alone. ok is false for shapes over the kernel's limits.
//  3. Name the functions in kernels.Names, and go generate ./cuda.
//  4. go test -run TestEmulated ./cuda runs it on the CPU under the suite of all
//     executors; go test -run TestDevice ./cuda with ODRADEK_CUDA_CHILD on a device.
//     compute-sanitizer and the benchmarks are in scripts/device.sh.
//
// # Not obvious
//
//   - Which side scores a task, and which kernel, depends on that task alone. A whole
//     chain is therefore not moved to the CPU for one of its tasks, nor a task for
//     being behind a declined one: there are rounds instead. Only a fault moves tasks.
//   - A chain whose tasks are of two classes is cut; the later part is in a later
//     launch of the same plan, and finds its carry in Out (planner's waves).
//   - The plan lies beyond the used part of F32, the status words beyond that of Out:
//     the owner's next Grow writes over them.
//   - An Execute with a cancelled context waits for the device, which writes to the
//     batch's memory. It does not wait for a lane.
//   - Memory that a batch has moved out of stays mapped until the batch's next Execute,
//     for slices that its owner still has.
//   - A batch that a killed child may still write to (its process does not end within
//     five seconds) is moved, and that memory left alone for good.
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
