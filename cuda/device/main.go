//go:build cuda

// Odradek-cuda runs batches on one CUDA device for the worker that started it. It is a separate process
// because a process that causes a device fault loses the device, and because only the end of its
// process ends a hanging kernel.
//
// The worker is at the other end of a socket for each lane, from file 3 on, and shares the memory of
// its batches. Their messages are in lane.h and in the worker's cuda/child/protocol.go. The process
// ends when a lane's other end is closed, within patience even while a kernel hangs.
//
// The path of a batch:
//
//  1. main opens the device and makes a context (open), loads the fatbins and
//     finds the kernels (load), and starts the lanes, each a system thread (serve).
//  2. map: mapBatch maps the memory of a batch and registers it as pinned.
//  3. execute: laneServe reads the request, copies in, launches, copies out and
//     waits on the lane's stream (execute in lane.c), then replies.
package main

/*
#include "lane.h"
*/
import "C"

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"gorgonia.org/cu"

	"odradek/cuda/kernels"
	"odradek/cuda/plan"
)

// errExit is the exit code of a start that failed; the reason is on standard error.
const errExit = 1

func main() {
	index := flag.Int("device", 0, "index of the device")
	lanes := flag.Int("lanes", 1, "lanes: sockets from file 3 on")
	memory := flag.Uint64("memory", 0, "most `bytes` of the device's memory for buffers; 0: what there is")
	list := flag.Bool("list", false, "list the devices and end")
	faults := flag.Bool("faults", false, "break the device when asked to, for tests")
	flag.Parse()
	// The process ends when the worker closes a lane. An interrupt at a terminal reaches
	// both, and the worker still has batches to finish.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var err error
	if *list {
		err = printDevices()
	} else {
		err = run(*index, *lanes, *memory, *faults)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "odradek-cuda:", err)
		os.Exit(errExit)
	}
}

// device is the device of this process.
type device struct {
	name       string
	ctx        cu.CUContext
	memory     int64
	sms        int
	capability int // 90 for 9.0
	shared     int // most shared memory of a block, bytes
	faults     map[uint32]cu.Function
}

// run serves the lanes until the worker is gone.
func run(index, lanes int, memory uint64, faults bool) error {
	if lanes < 1 {
		return fmt.Errorf("-lanes %d: at least 1", lanes)
	}
	// A context is current on the thread that made it, and loading a module of a few MB takes long
	// enough for the Go scheduler to change threads.
	runtime.LockOSThread()
	d, err := open(index)
	if err != nil {
		return err
	}
	C.memoryMost = C.uint64_t(memory)
	if err := d.load(faults); err != nil {
		return err
	}
	go func() {
		awaitHangUp(3)
		time.Sleep(patience)
		os.Exit(errExit)
	}()
	ended := make(chan error)
	for i := range lanes {
		go func() { ended <- d.serve(3 + i) }()
	}
	return <-ended
}

// patience bounds the time that lanes take to end by themselves once the worker is gone.
const patience = 2 * time.Second

// awaitHangUp returns when the worker has closed its end of a lane or has ended. A lane notices that
// when it reads its next request, but a lane whose kernel never ends would hold the GPU forever.
func awaitHangUp(fd int) {
	fds := []unix.PollFd{{Fd: int32(fd)}} // no events: a hang-up is always reported
	for {
		n, err := unix.Poll(fds, -1)
		if n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// open makes a context on a device. The import of gorgonia.org/cu has already called cuInit, and ends
// the process where that fails.
func open(index int) (*device, error) {
	n, err := cu.NumDevices()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= n {
		return nil, fmt.Errorf("no device %d: there are %d", index, n)
	}
	dev, err := cu.GetDevice(index)
	if err != nil {
		return nil, err
	}
	d := &device{}
	if err := d.describe(dev); err != nil {
		return nil, err
	}
	if d.ctx, err = dev.MakeContext(cu.SchedBlockingSync); err != nil {
		return nil, fmt.Errorf("context on device %d, %s: %w", index, d.name, err)
	}
	return d, nil
}

// describe reads the device's properties.
func (d *device) describe(dev cu.Device) (err error) {
	if d.name, err = dev.Name(); err != nil {
		return err
	}
	if d.memory, err = dev.TotalMem(); err != nil {
		return err
	}
	var major, minor int
	for attribute, to := range map[cu.DeviceAttribute]*int{
		cu.MultiprocessorCount:                                  &d.sms,
		cu.ComputeCapabilityMajor:                               &major,
		cu.ComputeCapabilityMinor:                               &minor,
		C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: &d.shared,
	} {
		if *to, err = dev.Attribute(attribute); err != nil {
			return err
		}
	}
	d.capability = 10*major + minor
	return nil
}

func printDevices() error {
	n, err := cu.NumDevices()
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("no device")
	}
	for i := range n {
		dev, err := cu.GetDevice(i)
		if err != nil {
			return err
		}
		var d device
		if err := d.describe(dev); err != nil {
			return err
		}
		fmt.Printf("%d: %s, %d MiB, %d multiprocessors, capability %d.%d\n", i, d.name, d.memory>>20, d.sms, d.capability/10, d.capability%10)
	}
	return nil
}

// load loads the modules and finds the kernels, in the order of plan.Kernels(), and
// those that break the device if faults is set.
func (d *device) load(faults bool) error {
	if len(plan.Kernels())+2 > C.maxKernels {
		return fmt.Errorf("%d kernels, at most %d", len(plan.Kernels()), C.maxKernels)
	}
	modules := map[string]cu.Module{}
	for i, name := range plan.Kernels() {
		f, err := function(modules, kernels.Source(name), name)
		if err != nil {
			return err
		}
		if r := C.allowShared(raw(f), C.int(d.shared), &C.sharedMost[i]); r != 0 {
			return fmt.Errorf("shared memory of kernel %s: %s", name, errorName(r))
		}
		C.kernelFunctions[i] = raw(f)
	}
	C.kernelCount = C.uint32_t(len(plan.Kernels()))
	if !faults {
		return nil
	}
	d.faults = map[uint32]cu.Function{}
	for i, name := range []string{"fault_address", "fault_endless"} {
		f, err := function(modules, "fault", name)
		if err != nil {
			return err
		}
		d.faults[uint32(i+1)] = f
	}
	for _, name := range kernels.Tests {
		f, err := function(modules, "fault", name)
		if err != nil {
			return err
		}
		C.kernelFunctions[C.kernelCount] = raw(f)
		C.kernelCount++
	}
	return nil
}

// function finds a kernel, and loads its module on first use.
func function(modules map[string]cu.Module, source, name string) (cu.Function, error) {
	m, ok := modules[source]
	if !ok {
		image, err := kernels.Fatbin(source)
		if err != nil {
			return cu.Function{}, err
		}
		if m, err = cu.LoadData(image); err != nil {
			return cu.Function{}, fmt.Errorf("%s.fatbin: %w", source, err)
		}
		modules[source] = m
	}
	f, err := m.Function(name)
	if err != nil {
		return f, fmt.Errorf("kernel %s of %s.fatbin: %w", name, source, err)
	}
	return f, nil
}

// raw returns the driver's handle of a function, the only field of an unexported struct of
// gorgonia.org/cu.
func raw(f cu.Function) C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&f)) }

func errorName(r C.CUresult) string {
	var name *C.char
	if C.cuGetErrorName(r, &name) != 0 || name == nil {
		return fmt.Sprintf("CUDA error %d", r)
	}
	return C.GoString(name)
}
