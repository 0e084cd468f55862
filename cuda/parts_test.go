//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"odradek/cuda/child"
	"odradek/cuda/kernels"
	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/seedtest"
)

func required(part string) bool {
	asked := strings.FieldsFunc(os.Getenv("ODRADEK_REQUIRE"), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(asked, part)
}

// missing ends a test that lacks a part: a skip, or a failure where
// ODRADEK_REQUIRE names the part.
func missing(t *testing.T, part, why string) {
	t.Helper()
	if required(part) {
		t.Fatalf("%s is required (ODRADEK_REQUIRE) and missing: %s", part, why)
	}
	t.Skipf("skipped part %s: %s", part, why)
}

// emulated returns the options of an executor on a child that runs the kernels on the CPU, built from
// their sources by g++.
func emulated(t *testing.T) Options {
	t.Helper()
	emulating(t)
	child, err := buildEmulated()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Child: child, Deadline: 5 * time.Minute}
}

// emulating skips a test of emulated kernels where they cannot be built, or ODRADEK_SKIP names them.
func emulating(t *testing.T) {
	t.Helper()
	if !strings.Contains(t.Name(), "Emulated") {
		t.Fatal("a test of emulated kernels needs Emulated in its name: .ci/run selects them by it")
	}
	if strings.Contains(os.Getenv("ODRADEK_SKIP"), "emulate") {
		t.Skip("skipped part emulate: ODRADEK_SKIP names it")
	}
	if _, err := exec.LookPath("g++"); err != nil {
		missing(t, "emulate", "no g++")
	}
	if _, err := os.Stat(emulation + "/child.cpp"); err != nil {
		missing(t, "emulate", "the sources of the kernels are not here")
	}
}

const emulation = "kernels/emulate"

// buildEmulated builds the child once for all tests; TestMain removes it.
var buildEmulated = sync.OnceValues(func() (child string, err error) {
	if builtHere, err = os.MkdirTemp("", "odradek-emulated"); err != nil {
		return "", err
	}
	flags := []string{"-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-pthread", "-DODRADEK_EMULATE"}
	build := func(args ...string) error {
		build := exec.Command("g++", append(slices.Clone(flags), args...)...)
		build.Dir = emulation
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	child = filepath.Join(builtHere, "child")
	var objects []string
	sources := append(plan.Sources(), "fault")
	failed := make(chan error, len(sources))
	free := make(chan bool, runtime.NumCPU())
	for _, source := range sources {
		object := filepath.Join(builtHere, source+".o")
		objects = append(objects, object)
		go func() {
			free <- true
			failed <- build("-c", "-x", "c++", "-o", object, "../"+source+".cu")
			<-free
		}()
	}
	for range objects {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return "", err
	}
	list := "-DKERNELS="
	for _, name := range slices.Concat(plan.Kernels(), kernels.Tests) {
		list += "K(" + name + ") "
	}
	if err := build(append([]string{list, "-o", child, "child.cpp"}, objects...)...); err != nil {
		return "", err
	}
	return child, nil
})

var builtHere string // the folder of the tests' builds

// TestEmulated runs the kernels on the CPU, and checks their results and that they write only their own
// outputs.
func TestEmulated(t *testing.T) {
	o := emulated(t)
	// These take minutes and test the executor more than the kernels; TestConformance includes them.
	without := []string{"orders", "sizes", "concurrent"}
	if os.Getenv("ODRADEK_LONG") == "" {
		without = append(without, "costly") // each costly task is compared alone, too
	}
	conformance(t, o, without...)
}

// conformance runs the suite of all executors on a child that runs kernels.
func conformance(t *testing.T, o Options, without ...string) {
	var tasks uint64
	executortest.Run(t, func() detectors.Executor {
		return placed{checked{open(t, o), t, func(t testing.TB, s Stats) {
			noFault(t, s)
			for _, d := range s.Devices {
				tasks += d.Tasks
			}
		}}}
	}, without...)
	t.Logf("%d tasks were on the device", tasks)
	if tasks == 0 {
		t.Error("nothing was on the device")
	}
}

// deviceOptions returns the options of an executor on a device: its child is the one that
// ODRADEK_CUDA_CHILD names, or odradek-cuda beside this program.
func deviceOptions(t *testing.T) Options {
	path := os.Getenv("ODRADEK_CUDA_CHILD")
	if path == "" {
		path = filepath.Join(filepath.Dir(os.Args[0]), "odradek-cuda")
	}
	if _, err := os.Stat(path); err != nil {
		missing(t, "cuda", "no child program (ODRADEK_CUDA_CHILD): "+err.Error())
	}
	o := Options{Child: path}
	if d, err := time.ParseDuration(os.Getenv("ODRADEK_TEST_CUDA_DEADLINE")); err == nil { // under a tool that slows the test down
		o.Deadline, o.StartTimeout = d, d
	}
	e, err := Open(o)
	if err != nil {
		missing(t, "cuda", err.Error())
	}
	t.Logf("%+v", e.Stats().Devices[0].Info)
	e.Close()
	return o
}

// TestDevice compares the kernels on a device with the definitions.
func TestDevice(t *testing.T) { conformance(t, deviceOptions(t)) }

// TestDeviceFaults breaks the device's child in every way, during work.
func TestDeviceFaults(t *testing.T) {
	o := deviceOptions(t)
	o.Args = []string{"-faults"}
	o.Deadline = 300 * time.Millisecond
	for _, c := range []struct {
		name  string
		fault func(*child.Process)
	}{
		{"killed", func(c *child.Process) { unix.Kill(c.Pid(), unix.SIGKILL) }},
		{"illegal address", func(c *child.Process) { inject(c, child.FaultAddress) }},
		{"endless kernel", func(c *child.Process) { inject(c, child.FaultEndless) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := o
			o.Log = testLog(t)
			e := open(t, o)
			defer e.Close()
			rng := seedtest.New(t)
			l := newLoad(t, rng, 2000, 2)
			l.tolerance = 1e-3
			l.run(t, e, 2)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { l.run(t, e, 30) })
			}
			time.Sleep(5 * time.Millisecond)
			began := time.Now()
			c.fault(e.devices[0].Serving())
			for e.Stats().Devices[0].Faults == 0 {
				time.Sleep(time.Millisecond)
			}
			found := time.Since(began)
			waitUp(t, e, 5*time.Second)
			back := time.Since(began)
			wg.Wait()
			before := e.Stats()
			l.run(t, e, 2)
			after := e.Stats()
			t.Logf("found after %v, in service again after %v: %+v", found, back, after)
			if after.Devices[0].Batches != before.Devices[0].Batches+2 || after.Devices[0].Faults != 1 {
				t.Errorf("%+v, want one fault and the device in use", after)
			}
			if back > o.Deadline+1500*time.Millisecond {
				t.Errorf("in service again %v after the fault", back)
			}
		})
	}
}

// TestDeviceParentDies requires that a child ends when its parent is killed, also while all of its
// lanes wait for endless kernels.
func TestDeviceParentDies(t *testing.T) {
	o := deviceOptions(t)
	o.Args, o.Lanes = []string{"-faults"}, 4
	parentDies(t, o, func(c *child.Process) {
		for range o.Lanes {
			l, err := c.Acquire(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			go c.Ask(l, faultRequest(child.FaultEndless), time.Now().Add(time.Minute))
		}
		time.Sleep(200 * time.Millisecond)
	})
}

// inject causes a fault on a separate lane; the child ends, or answers nothing.
func inject(c *child.Process, fault uint32) {
	if l, err := c.Acquire(context.Background()); err == nil {
		c.Ask(l, faultRequest(fault), time.Now().Add(300*time.Millisecond))
	}
}

func faultRequest(fault uint32) *child.Request {
	return &child.Request{Kind: child.KindFault, Request: plan.Request{Batch: fault, Launches: fault}}
}

// BenchmarkDevice measures a request without work and its reply, and whole batches.
func BenchmarkDevice(b *testing.B) {
	path := os.Getenv("ODRADEK_CUDA_CHILD")
	if path == "" {
		b.Skip("no ODRADEK_CUDA_CHILD")
	}
	e := open(b, Options{Child: path})
	defer e.Close()
	b.Run("doorbell", func(b *testing.B) {
		c := e.devices[0].Serving()
		l, err := c.Acquire(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := c.Ask(l, &child.Request{Kind: child.KindHello}, time.Now().Add(time.Second)); err != nil {
				b.Fatal(err)
			}
		}
		c.Release(l)
	})
	executortest.Bench(b, func() detectors.Executor { return open(b, Options{Child: path}) })
}
