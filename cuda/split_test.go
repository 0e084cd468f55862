//go:build linux

package cuda

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/seedtest"
)

// splitAlways makes a test split even the smallest batches.
func splitAlways(t testing.TB) {
	old := leastPart
	leastPart = 1
	t.Cleanup(func() { leastPart = old })
}

func indices(n int) (d []int) {
	for i := range n {
		d = append(d, i)
	}
	return d
}

// TestSplit runs the suite of all executors with batches that are split, under the race detector in CI; TestConformance,
// which CI runs without it, compares the results of a Go child with the definitions. Whether a batch of the suite can be cut, and into how
// many parts, depends on its chains; a batch that can always be cut tests that every device has its
// part.
func TestSplit(t *testing.T) {
	splitAlways(t)
	for _, devices := range []int{2, 4} {
		t.Run(strconv.Itoa(devices), func(t *testing.T) {
			o := goChildOptions(t, "flag")
			o.Devices = indices(devices)
			without := []string{"definitions"}
			if devices > 2 {
				without = append(without, "orders", "sizes", "concurrent", "cancelled")
			}
			executortest.Run(t, func() detectors.Executor { return checked{open(t, o), t, noFault} }, without...)
			const keys, chain, runs = 40, 3, 2
			o.Env = goChildOptions(t, "").Env
			e := open(t, o)
			defer e.Close()
			newLoad(t, seedtest.New(t), keys, chain).run(t, e, runs)
			s := e.Stats()
			noFault(t, s)
			for _, d := range s.Devices {
				if d.Batches != runs || int(d.Tasks) < runs*chain*(keys/devices-2) {
					t.Errorf("%d tasks in %d batches on device %d", d.Tasks, d.Batches, d.Index)
				}
			}
		})
	}
}

// TestSplitEmulated executes one batch over devices that run kernels: the bits must be as on one
// device.
func TestSplitEmulated(t *testing.T) {
	o := emulated(t)
	rng := seedtest.New(t)
	l := newLoad(t, rng, 40, 1)
	one := open(t, o)
	b := one.Batch()
	l.pack(b)
	if err := one.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	l.want = slices.Clone(b.Out.F32())
	one.Release(b)
	one.Close()
	splitAlways(t)
	for _, devices := range []int{2, 4} {
		o := o
		o.Devices = indices(devices)
		e := open(t, o)
		l.run(t, e, 2)
		s := e.Stats()
		noFault(t, s)
		for _, d := range s.Devices {
			if d.Batches != 2 || d.Tasks < 2*40/uint64(devices)-2*uint64(devices) {
				t.Errorf("%d devices: %d tasks in %d batches on device %d", devices, d.Tasks, d.Batches, d.Index)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// twoDevices returns the options of an executor on two devices, or skips the test where there is one.
func twoDevices(t *testing.T) Options {
	t.Helper()
	o := deviceOptions(t)
	o.Devices = []int{0, 1}
	if e, err := Open(o); err != nil {
		t.Skipf("skipped part cuda: a second device: %v", err)
	} else {
		e.Close()
	}
	return o
}

// TestDeviceSplit is TestSplitEmulated on two devices.
func TestDeviceSplit(t *testing.T) {
	o := twoDevices(t)
	o.Devices = []int{0}
	one := open(t, o)
	l := newLoad(t, seedtest.New(t), 20000, 1)
	b := one.Batch()
	l.pack(b)
	if err := one.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	l.want = slices.Clone(b.Out.F32())
	one.Release(b)
	one.Close()
	splitAlways(t)
	o.Devices = []int{0, 1}
	e := open(t, o)
	defer e.Close()
	l.run(t, e, 5)
	s := e.Stats()
	noFault(t, s)
	for _, d := range s.Devices {
		if d.Batches != 5 || d.Tasks < 5*9000 {
			t.Errorf("%d tasks in %d batches on device %d", d.Tasks, d.Batches, d.Index)
		}
	}
}

// killAgain kills the child of a device again and again, each time after a batch, until end is called, which returns how often.
func killAgain(e *Executor, device int, every time.Duration) (end func() int) {
	stop := make(chan struct{})
	kills := 0
	var killer sync.WaitGroup
	killer.Go(func() {
		last := uint64(0)
		for {
			select {
			case <-stop:
				return
			case <-time.After(every):
				if d := e.Stats().Devices[device]; d.Pid > 0 && d.Batches > last {
					last = d.Batches
					unix.Kill(d.Pid, unix.SIGKILL)
					kills++
				}
			}
		}
	})
	return func() int {
		close(stop)
		killer.Wait()
		return kills
	}
}

// TestSplitLost kills one of several devices again and again during batches that are split and others:
// scores must be right, the other devices without a fault, and no more lost than the device had.
func TestSplitLost(t *testing.T) {
	for _, split := range []bool{true, false} {
		for _, devices := range []int{2, 4} {
			t.Run(fmt.Sprintf("split=%v/%d", split, devices), func(t *testing.T) {
				if split {
					splitAlways(t)
				}
				o := goChildOptions(t, "")
				o.Devices, o.Retry = indices(devices), 5*time.Millisecond
				e := open(t, o)
				defer e.Close()
				l := newLoad(t, seedtest.New(t), 60, 1)
				end := killAgain(e, devices-1, 20*time.Millisecond)
				runners := 1
				if !split {
					runners = 2 * devices
				}
				var wg sync.WaitGroup
				for range runners {
					wg.Go(func() { l.run(t, e, 200/runners) })
				}
				wg.Wait()
				kills, s := end(), e.Stats()
				t.Logf("%d kills, %+v", kills, s)
				for _, d := range s.Devices[:devices-1] {
					if d.Faults > 0 {
						t.Errorf("device %d had %d faults, the last: %s", d.Index, d.Faults, d.LastFault)
					}
				}
				if kills == 0 || s.CPUTasks > 0 || s.Lost > uint64(kills*max(runners, e.o.Lanes)) {
					t.Errorf("%d kills, %d lost, %d tasks on the CPU", kills, s.Lost, s.CPUTasks)
				}
			})
		}
	}
}
