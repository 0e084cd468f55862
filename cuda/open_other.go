//go:build !linux

package cuda

import (
	"context"
	"errors"

	"odradek/detectors"
)

// Executor is there on Linux only.
type Executor struct{ detectors.Executor }

// Open says that there is no executor for devices on this system.
func Open(Options) (*Executor, error) {
	return nil, errors.New("cuda: devices are used on Linux only")
}

func (e *Executor) Execute(context.Context, *detectors.Batch) error { panic("cuda: not open") }

// Stats are empty.
func (e *Executor) Stats() Stats { return Stats{} }
