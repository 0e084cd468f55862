package cuda

import (
	"log/slog"
	"time"

	"odradek/cuda/child"
)

// Options configures Open. Zero values mean the defaults.
type Options struct {
	Child string   // path of the child program odradek-cuda. No default
	Args  []string // its arguments; it needs none
	Env   []string // its environment, besides the worker's own
	// Devices are the indices of the devices to use, a child each; default 0 alone.
	Devices []int
	// Lanes are the batches in flight on a device, default 8, so that copies, launches and messages of
	// small batches overlap. A chain's tasks run one after the other, so a batch of long chains does
	// not fill a device.
	Lanes   int
	Workers int // goroutines that score the CPU's tasks, default GOMAXPROCS
	// Deadline is the least time limit of a batch on a device, default 2 s. A batch's own limit is this
	// plus twenty times the planned time of it and of the batches in flight with it.
	Deadline time.Duration
	// StartTimeout bounds the time until a new child answers, default 20 s.
	StartTimeout time.Duration
	// Retry is the wait before the restart of a child that ended soon after its start, default 500 ms;
	// it doubles up to 64 times that. After the first fault of a device in service, and after a kill,
	// the child is started at once.
	Retry time.Duration
	// Memory is the limit of the memory shared with the devices by all batches, in bytes, default 1
	// GiB; it is locked in RAM. Batches beyond it are scored on the CPU.
	Memory int64
	// Models is the number of bytes of each device for models, taken with the first one,
	// default 256 MiB. Batches whose models find no room are scored on the CPU.
	Models int64
	// Wait makes a batch wait for a device that is out of service, and for the next one after the loss
	// of its device, so that one class of executor gives all scores; otherwise the CPU scores it. Tasks
	// that no kernel takes, batches that find no room, and a batch that several children ended with go
	// to the CPU nevertheless.
	Wait bool
	Log  *slog.Logger // default: none
}

// Stats are an executor's counts since Open.
type Stats struct {
	Devices []DeviceStats
	// CPUBatches counts batches scored on the CPU as a whole, CPUTasks all tasks scored
	// there.
	CPUBatches, CPUTasks uint64
	// Lost batches were on a device when it failed, and were scored elsewhere.
	Lost uint64
	// Refused batches found no room in shared memory or on the device.
	Refused uint64
	// Declined tasks were planned for a device, whose kernel left them to the CPU.
	Declined uint64
	Shared   int64 // bytes of memory shared with the devices now
}

// Info is a child's description of its device.
type Info = child.Info

// DeviceStats are the counts of one device.
type DeviceStats = child.Stats

// Fallback reports whether a device is out of service, so that batches may be scored on the CPU.
func (s *Stats) Fallback() bool {
	for _, d := range s.Devices {
		if !d.Up {
			return true
		}
	}
	return false
}
