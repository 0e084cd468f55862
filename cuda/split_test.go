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
)

// splitAlways makes parts of the smallest batches for a test.
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

// TestSplit holds the suite of all executors to batches that are split; TestConformance
// compares what a Go child computes with the definitions. Whether a batch of the
// suite can be cut, and into how many parts, is a matter of its chains; that every
// device has its part is tested on one that always can.
func TestSplit(t *testing.T) {
	splitAlways(t)
	for _, devices := range []int{2, 4} {
		t.Run(strconv.Itoa(devices), func(t *testing.T) {
			o := goChildOptions(t, "flag")
			o.Devices = indices(devices)
			without := []string{"definitions", "concurrent"}
			if devices > 2 {
				without = append(without, "sizes", "cancelled")
			}
			executortest.Run(t, func() detectors.Executor { return checked{open(t, o), t, noFault} }, without...)
			const keys, chain, runs = 40, 3, 2
			o.Env = goChildOptions(t, "").Env
			e := open(t, o)
			defer e.Close()
			newLoad(t, seeded(t), keys, chain).run(t, e, runs)
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

// TestSplitEmulated is one batch over devices that run kernels: the same bits as on
// one device.
func TestSplitEmulated(t *testing.T) {
	o := emulated(t)
	rng := seeded(t)
	l := newLoad(t, rng, 40, 1)
	one := open(t, o)
	b := one.Batch()
	l.pack(b)
	if err := one.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	l.want = slices.Clone(b.Out)
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

// TestDeviceSplit is the same on two devices.
func TestDeviceSplit(t *testing.T) {
	o := deviceOptions(t)
	o.Devices = []int{0, 1}
	if e, err := Open(o); err != nil {
		t.Skipf("skipped part cuda: a second device: %v", err)
	} else {
		e.Close()
	}
	o.Devices = []int{0}
	one := open(t, o)
	l := newLoad(t, seeded(t), 20000, 1)
	b := one.Batch()
	l.pack(b)
	if err := one.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	l.want = slices.Clone(b.Out)
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

// TestCut: parts are of about the same cost, have each task once, and no chain
// crosses from one into the next.
func TestCut(t *testing.T) {
	testPlan(t, detectors.IKASST, detectors.LOF)
	rng := seeded(t)
	var p planner
	cuts := 0
	for range 300 {
		b := &detectors.Batch{}
		reach := 1 + rng.IntN(40) // how far back chains go
		for i := range 2 + rng.IntN(300) {
			after := 0
			if back := 1 + rng.IntN(reach); back <= i && rng.IntN(3) > 0 {
				after = i - back + 1
			}
			addTask(b, []detectors.Op{detectors.IKASST, detectors.LOF, detectors.ZScore}[rng.IntN(3)], 1+rng.IntN(3), 20+rng.IntN(30), after)
		}
		unlink(b)
		p.start(b)
		p.assign(b)
		parts := make([]*part, 2+rng.IntN(3))
		for i := range parts {
			parts[i] = &part{}
		}
		if !p.cut(b, parts) {
			continue
		}
		cuts++
		var seen []int32
		for k, q := range parts {
			q.lay(b, make([]detectors.Task, q.device()))
			for _, i := range q.order {
				if i < q.first || k+1 < len(parts) && i >= parts[k+1].first {
					t.Fatalf("task %d is in part %d, which begins at %d", i, k, q.first)
				}
				if from := before(b, int(i)); from >= 0 && p.places[from] == onDevice && from < q.first {
					t.Fatalf("task %d of part %d has its carry from task %d of another", i, k, from)
				}
			}
			seen = append(seen, q.order...)
		}
		slices.Sort(seen)
		if len(slices.Compact(seen)) != p.device() || len(seen) != p.device() {
			t.Fatalf("%d tasks in parts, %d of them different, of %d", len(seen), len(slices.Compact(seen)), p.device())
		}
	}
	if cuts < 20 {
		t.Errorf("%d of 300 batches were cut", cuts)
	}
}

// unlink leaves one successor to each task: chains do not fork.
func unlink(b *detectors.Batch) {
	taken := map[uint32]bool{}
	for i := range b.Tasks {
		if a := b.Tasks[i].After; taken[a] {
			b.Tasks[i].After = 0
		} else if a > 0 {
			taken[a] = true
		}
	}
}

// TestSplitLost kills one of several devices again and again under batches that are
// split and ones that are not: scores are right, the others have no fault, and no
// more is lost than there was on the device.
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
				l := newLoad(t, seeded(t), 60, 1)
				stop := make(chan struct{})
				kills := 0
				var killer sync.WaitGroup
				killer.Go(func() {
					last := uint64(0)
					for {
						select {
						case <-stop:
							return
						case <-time.After(20 * time.Millisecond):
							if d := e.Stats().Devices[devices-1]; d.Pid > 0 && d.Batches > last {
								last = d.Batches
								unix.Kill(d.Pid, unix.SIGKILL)
								kills++
							}
						}
					}
				})
				runners := 1
				if !split {
					runners = 2 * devices
				}
				var wg sync.WaitGroup
				for range runners {
					wg.Go(func() { l.run(t, e, 200/runners) })
				}
				wg.Wait()
				close(stop)
				killer.Wait()
				s := e.Stats()
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
