package child

import (
	"log/slog"
	"time"
)

// Options configures a device's child. All fields but Args and Env are required.
type Options struct {
	Program string   // path of odradek-cuda
	Args    []string // its arguments; it needs none
	Env     []string // its environment, besides the worker's own
	Lanes   int      // requests in flight
	// Deadline is the least time that a request may take.
	Deadline time.Duration
	// StartTimeout bounds the time until a new child answers.
	StartTimeout time.Duration
	// Retry is the first wait before the restart of a child that ended soon after its start.
	Retry time.Duration
	// Models is the number of bytes of the device for models, taken with the first one.
	Models int64
	Log    *slog.Logger
}

// Info is a child's description of its device.
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
	Starts    uint64 // of children, including the first
	Faults    uint64 // children that died, answered with an error or overran a deadline
	LastFault string
	NextTry   time.Time // when a device that is out of service is started again; zero while it is up
	Batches   uint64
	Tasks     uint64
	Uploads   uint64        // models that batches have brought
	Busy      time.Duration // by the device's own clock
}
