//go:build !linux

package cuda

import (
	"context"
	"errors"
	"time"

	"odradek/detectors"
)

// Executor exists on Linux only.
type Executor struct{ detectors.Executor }

// Open returns an error: devices are used on Linux only.
func Open(Options) (*Executor, error) {
	return nil, errors.New("cuda: devices are used on Linux only")
}

func (e *Executor) Execute(context.Context, *detectors.Batch) error { panic("cuda: not open") }

// Measurement has the times of a batch's launches by themselves.
type Measurement struct {
	Median, Fastest time.Duration
	Copies          int
}

// Measure returns an error.
func (e *Executor) Measure(context.Context, *detectors.Batch, int, int) (m Measurement, err error) {
	return m, errors.New("cuda: not open")
}

// Stats returns no counts.
func (e *Executor) Stats() Stats { return Stats{} }
