package plan

import (
	"unsafe"

	"odradek/detectors"
)

// Task is a detectors.Task in the form that the kernels read (task.h). Its field After is 1
// where Carry lies in the output and not in the input, Model is the model's place in the
// device's memory for models, and X the place of the rows in the input on the device.
type Task detectors.Task

// Tile is the work of one block, as in task.h.
type Tile struct {
	First, Count uint32 // tasks in plan order
	Part         uint32 // of the task, where several blocks share one; some ops give it another meaning
	Scratch      uint32 // offset of its scratch, in units of 256 bytes
}

// Launch is one kernel launch, as in task.h.
type Launch struct {
	Kernel              uint32 // index into Kernels
	Grid, Block, Shared uint32 // blocks, threads a block, bytes of dynamic shared memory
	FirstTile, Tiles    uint32
	// FirstTask and Tasks are the range of tasks, in plan order, for which the child process may repeat the launch without
	// another plan: it launches again while one of them requests another round, Request.Rounds times at most. 0, 0: it
	// launches once.
	FirstTask, Tasks uint32
}

// Zeroed is scratch memory that is zero before a launch, as in task.h: both numbers in units of 256
// bytes.
type Zeroed struct{ Scratch, Count uint32 }

// taskBytes is the size of a Task in bytes.
const taskBytes = int(unsafe.Sizeof(Task{}))

// Memory is a batch's memory as a plan uses it: the input arena from the first byte, then the plan, up
// to byte Out; the output arena from there, then the status words.
type Memory struct {
	ID    uint32 // in the children
	Bytes []byte
	Out   int
	Path  string // of its file, for a child of this process
}

// Request gives the ranges of a batch's memory that a device reads and writes. [InOff, InOff+InBytes)
// is the input: the used part of In, then tasks, tiles and launches. Of the arena, [InFrom, InTo) is
// copied to the device. [OutOff, OutOff+OutBytes) is the output: the used part of Out, of which
// [OutFrom, OutTo) is copied back, then a status word a task. Of a batch that is split over devices,
// these are the ranges of a part's tasks.
type Request struct {
	Batch                           uint32 // id of the memory
	Launches                        uint32 // their number
	InOff, InBytes                  uint64
	TasksOff, TilesOff, LaunchesOff uint64
	OutOff, OutBytes, StatusOff     uint64
	Tasks                           uint64 // their number
	Later                           int    // number of those in a later round; not sent to the child
	ScratchBytes                    uint64 // on the device
	CopyOut                         bool   // Out has to be copied to the device first
	InFrom, InTo, OutFrom, OutTo    uint64
	Room                            uint64 // bytes of the input on the device, if more than InBytes
	// Rounds is how often the child may run the repeatable launches while a task requests more; 0:
	// there are none. A round longer than RoundLimit, in nanoseconds, is a fault.
	Rounds     uint32
	Zeroes     uint32 // their number, at ZeroesOff after the launches
	ZeroesOff  uint64
	RoundLimit uint64
	// Models is the number of models that the tasks read, and Uploads the number of those not on the
	// device yet: Upload structs, at UploadsOff.
	UploadsOff      uint64
	Models, Uploads uint32
}
