//go:build !linux

package cuda

import (
	"context"
	"errors"
	"time"

	"odradek/detectors"
)

// Executor is there on Linux only.
type Executor struct{ detectors.Executor }

// Open says that there is no executor for devices on this system.
func Open(Options) (*Executor, error) {
	return nil, errors.New("cuda: devices are used on Linux only")
}

func (e *Executor) Execute(context.Context, *detectors.Batch) error { panic("cuda: not open") }

// Measurement is how long a batch's launches take by themselves.
type Measurement struct {
	Median, Fastest time.Duration
	Copies          int
}

// Measure has nothing to measure.
func (e *Executor) Measure(context.Context, *detectors.Batch, int, int) (m Measurement, err error) {
	return m, errors.New("cuda: not open")
}

// Stats are empty.
func (e *Executor) Stats() Stats { return Stats{} }

// WindowCache returns none.
func (e *Executor) WindowCache() *detectors.WindowCache { return nil }
