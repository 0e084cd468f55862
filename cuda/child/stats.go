package child

import (
	"log/slog"
	"time"
)

// Options are what a device's child is started with. All are needed but Args and Env.
type Options struct {
	Program string   // path of odradek-cuda
	Args    []string // its arguments; it needs none
	Env     []string // its environment, besides the worker's own
	Lanes   int      // requests in flight
	// Deadline is the least time that a request may take.
	Deadline time.Duration
	// StartTimeout is how long a child may take until it answers.
	StartTimeout time.Duration
	// Retry is the first wait before a child is started again that did not live long.
	Retry time.Duration
	// WindowCache is how many bytes of the device cache windows; 0: none.
	WindowCache int64
	// Models is how many bytes of the device models take, from the first one on.
	Models int64
	Log    *slog.Logger
}

// Info is what a child says of its device.
type Info struct {
	Name   string
	Memory int64 // bytes
	SMs    int
	Shared int // bytes of shared memory that a block may have, 0 where that is not known
	// Capability is ten times the major compute capability and the minor: 90 for 9.0.
	Capability int
}

// Stats are a device's counts and state.
type Stats struct {
	Index int
	Info
	Up        bool
	Pid       int    // of the child, 0 where there is none
	Starts    uint64 // of children, the first included
	Faults    uint64 // children that died, answered with an error or overran a deadline
	LastFault string
	NextTry   time.Time // when a device that is out of service is started again; zero while it is up
	Batches   uint64
	Tasks     uint64
	Uploads   uint64        // models that batches have brought
	Busy      time.Duration // as the device's own clock has it
}
