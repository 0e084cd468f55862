package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"odradek/cuda"
)

// This file finds and opens the GPUs that benchmarks measure.

// ErrNone reports that this machine has no GPU, or no child program; that is no failure.
var ErrNone = errors.New("no GPU to measure")

// GPUOptions say how the GPUs of this machine are opened.
type GPUOptions struct {
	Child string // program of the GPU; "": odradek-cuda beside this program
	Lanes int    // batches in flight on a GPU; 0: the executor's default
}

// Open starts the children; o has the options that differ. The error wraps ErrNone where
// there is nothing to open.
func (g *GPUOptions) Open(o cuda.Options) (*cuda.Executor, error) {
	child, err := g.Program()
	if err != nil {
		return nil, err
	}
	o.Child, o.Lanes, o.Memory, o.Deadline = child, g.Lanes, 8<<30, 10*time.Second
	e, err := cuda.Open(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	return e, nil
}

// Name opens these devices, closes them and returns the name of the first.
func (g *GPUOptions) Name(devices ...int) (string, error) {
	e, err := g.Open(cuda.Options{Devices: devices})
	if err != nil {
		return "", err
	}
	return e.Stats().Devices[0].Name, e.Close()
}

// childProgram is the name of the GPU's program, for which a worker looks.
const childProgram = "odradek-cuda"

// Program returns the path of the GPU's program, valid in any folder.
func (g *GPUOptions) Program() (string, error) {
	child := g.Child
	var err error
	if child != "" {
		child, err = filepath.Abs(child)
	} else if child, err = os.Executable(); err == nil {
		child = filepath.Join(filepath.Dir(child), childProgram)
	}
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(child); err != nil {
		return "", fmt.Errorf("%w (-child): %w", ErrNone, err)
	}
	return child, nil
}
