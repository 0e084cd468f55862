//go:build linux

package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"odradek/cuda/child"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// load is a batch of random tasks, packed again before each execution, and the CPU's results.
type load struct {
	detector    detectors.Detector
	keys, chain int
	rows        []float32
	want        []float32
	tolerance   float64            // of a number; 0: to the bit
	models      []*detectors.Model // every other task has the one that its first value says; nil: none has
}

func newLoad(t testing.TB, rng *rand.Rand, keys, chain int) *load {
	d, err := sst.NewIKA(sst.IKAOpParams{Window: 12})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{detector: d, keys: keys, chain: chain, rows: make([]float32, keys*chain*(d.Window()+3))}
	for i := range l.rows {
		l.rows[i] = float32(rng.NormFloat64())
	}
	b := &detectors.Batch{}
	l.pack(b)
	if err := detectors.NewCPU(0).Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	l.want = append(l.want, b.Out.F32()...)
	return l
}

func (l *load) pack(b *detectors.Batch) {
	b.Reset()
	params := b.Put(l.detector.Params())
	n := l.detector.Window() + 3
	for k := range l.keys {
		for c := range l.chain {
			t := detectors.Task{Op: l.detector.Op(), Dim: 1, Fresh: 4, Params: params}
			var f []float32
			t.X, f = b.GrowF32(n)
			copy(f, l.rows[(k*l.chain+c)*n:])
			size, _ := l.detector.Size(detectors.View{Dim: 1, Rows: n, Fresh: 4})
			b.GrowOutputs(&t, size)
			if c > 0 {
				t.After = uint32(len(b.Tasks))
			}
			if l.models != nil && k%2 == 0 {
				t.Model = b.Model(l.models[math.Float32bits(f[0])%testModels])
			}
			b.Tasks = append(b.Tasks, t)
		}
	}
}

// run packs and executes n times, and compares with the CPU; a Go child equals it to the bit.
func (l *load) run(t testing.TB, e *Executor, n int) {
	b := e.Batch()
	defer e.Release(b)
	for range n {
		l.pack(b)
		for i := range b.Out {
			b.Out.SetFloat32(i, -77)
		}
		if err := e.Execute(context.Background(), b); err != nil {
			t.Errorf("execute: %v", err)
			return
		}
		for i, want := range l.want {
			if got := b.Out.Float32(i); math.Float32bits(got) != math.Float32bits(want) && !(math.Abs(float64(got-want)) <= l.tolerance) {
				t.Errorf("number %d is %v, want %v", i, got, want)
				return
			}
		}
	}
}

// waitUp waits until all devices are in service again.
func waitUp(t testing.TB, e *Executor, limit time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		s := e.Stats()
		if !s.Fallback() {
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("not in service again after %v: %+v", limit, s.Devices)
		}
	}
}

// TestFaults makes a child fail in the middle of several executions: all of them must have the right
// scores, and the device must be in service again at once.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ fault, says string }{
		{"die@3", "signal: killed"},
		{"error@3", "an illegal memory access"},
		{"silent@3", "no answer before the deadline"},
		{"garbage@3", "reply begins with 0x0"},
		{"seq@3", "to request"},
		{"status@3", "status 0x7"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			var said bytes.Buffer
			o := goChildOptions(t, c.fault)
			if c.fault == "silent@3" {
				o.Deadline = time.Second
			}
			o.Log = slog.New(slog.NewTextHandler(&said, nil))
			e := open(t, o)
			l := newLoad(t, seedtest.New(t), 40, 3)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { l.run(t, e, 5) })
			}
			wg.Wait()
			waitUp(t, e, 30*time.Second)
			before := e.Stats()
			l.run(t, e, 2)
			s := e.Stats()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			d := s.Devices[0]
			if d.Faults != 1 || d.Starts != 2 || s.Lost < 1 || !strings.Contains(d.LastFault, c.says) {
				t.Errorf("%+v, want one fault that says %q", s, c.says)
			}
			if d.Batches != before.Devices[0].Batches+2 {
				t.Error("the device does nothing after its return")
			}
			for _, part := range []string{"GPU child failed", c.says, "GPU in service again"} {
				if !strings.Contains(said.String(), part) {
					t.Errorf("the log does not say %q:\n%s", part, said.String())
				}
			}
			if c.fault == "die@3" && !strings.Contains(said.String(), "a test made it die") {
				t.Errorf("the log does not say what the child wrote:\n%s", said.String())
			}
		})
	}
}

// TestRefused has a child that finds no memory for a batch: the CPU scores the batch, and the child
// lives on.
func TestRefused(t *testing.T) {
	e := open(t, goChildOptions(t, "refuse@2"))
	defer e.Close()
	newLoad(t, seedtest.New(t), 10, 1).run(t, e, 4)
	if s := e.Stats(); s.Refused != 1 || s.Devices[0].Faults != 0 || s.CPUBatches != 1 || s.Devices[0].Batches != 3 {
		t.Errorf("%+v", s)
	}
}

// TestOftenKilled kills the child again and again.
func TestOftenKilled(t *testing.T) {
	o := goChildOptions(t, "")
	o.Retry = 5 * time.Millisecond
	e := open(t, o)
	defer e.Close()
	l := newLoad(t, seedtest.New(t), 100, 2)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { l.run(t, e, 60) })
	}
	end := killAgain(e, 0, 30*time.Millisecond)
	wg.Wait()
	end()
	s := e.Stats()
	t.Logf("%+v", s)
	if s.Devices[0].Faults == 0 || s.Devices[0].Batches == 0 {
		t.Errorf("nothing was tried: %+v", s)
	}
}

// TestKilledAtStart kills the first child before it has answered: Open starts another.
func TestKilledAtStart(t *testing.T) {
	e := open(t, goChildOptions(t, "killed"))
	defer e.Close()
	newLoad(t, seedtest.New(t), 10, 1).run(t, e, 1)
	if d := e.Stats().Devices[0]; d.Starts != 2 || !d.Up || d.Batches != 1 {
		t.Errorf("%+v, want a second start and a batch", d)
	}
}

// TestWait requires that with Options.Wait the next child scores the batches that are lost with their
// device and those that find it out of service, and the CPU none.
func TestWait(t *testing.T) {
	o := goChildOptions(t, "")
	o.Wait, o.Retry = true, 5*time.Millisecond
	e := open(t, o)
	defer e.Close()
	l := newLoad(t, seedtest.New(t), 60, 2)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { l.run(t, e, 10) })
	}
	over := make(chan struct{})
	go func() {
		wg.Wait()
		close(over)
	}()
	for last, busy := uint64(0), true; busy; {
		select {
		case <-over:
			busy = false
		case <-time.After(time.Millisecond):
		}
		// Fewer children than mostDeaths, since one batch may be on each of them.
		if d := e.Stats().Devices[0]; d.Pid > 0 && d.Batches >= last+4 && last < 4*(mostDeaths-1) {
			last = d.Batches
			unix.Kill(d.Pid, unix.SIGKILL)
		}
	}
	s := e.Stats()
	t.Logf("%+v", s)
	if s.CPUBatches != 0 || s.CPUTasks != 0 || s.Devices[0].Batches != 30 || s.Devices[0].Faults == 0 {
		t.Errorf("%+v, want 30 batches on the device, none on the CPU", s)
	}
	// A batch that breaks the device each time is tried a limited number of times.
	o = goChildOptions(t, "die")
	o.Wait, o.Retry = true, 5*time.Millisecond
	always := open(t, o)
	defer always.Close()
	l.run(t, always, 1)
	if s := always.Stats(); s.CPUBatches != 1 || s.Lost < mostDeaths || s.Lost > mostDeaths+1 {
		t.Errorf("%+v, want the batch on the CPU after %d children", s, mostDeaths)
	}
}

// TestSlow requires that with Options.Wait a batch that overruns its deadline gets more time, and that the CPU does not score it: a
// child may be slow on a busy machine.
func TestSlow(t *testing.T) {
	o := goChildOptions(t, "slow")
	o.Wait, o.Retry, o.Deadline = true, 5*time.Millisecond, slowFor*2/5 // the third child has time enough, and the fourth for a busy machine
	e := open(t, o)
	defer e.Close()
	newLoad(t, seedtest.New(t), 20, 1).run(t, e, 1)
	if s := e.Stats(); s.CPUBatches != 0 || s.CPUTasks != 0 || s.Lost < 2 {
		t.Errorf("%+v, want the batch on the device, after two children or more", s)
	}
}

// TestSharedMemory requires that the CPU scores exactly the tasks whose launch needs more shared memory
// than a block of the device has.
func TestSharedMemory(t *testing.T) {
	l := newLoad(t, seedtest.New(t), 20, 1)
	for _, c := range []struct{ shared, tasks int }{{4, 0}, {48, 20}, {0, 20}} {
		o := goChildOptions(t, "")
		o.Env = append(o.Env, fmt.Sprint(childShared, "=", c.shared))
		e := open(t, o)
		l.run(t, e, 1)
		if s := e.Stats(); s.Devices[0].Shared != c.shared<<10 || s.Devices[0].Tasks != uint64(c.tasks) || s.Lost+s.Refused != 0 {
			t.Errorf("%d KiB: %+v", c.shared, s)
		}
		e.Close()
	}
}

// TestDevices spreads batches over two devices, one of which fails.
func TestDevices(t *testing.T) {
	o := goChildOptions(t, "die@5")
	o.Devices = []int{0, 1}
	e := open(t, o)
	defer e.Close()
	l := newLoad(t, seedtest.New(t), 100, 2)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { l.run(t, e, 20) })
	}
	wg.Wait()
	s := e.Stats()
	t.Logf("%+v", s)
	if s.Devices[0].Batches == 0 || s.Devices[1].Batches == 0 || s.Devices[0].Faults+s.Devices[1].Faults != 1 {
		t.Errorf("%+v, want both devices used, one fault", s)
	}
	if s.CPUBatches > s.Lost {
		t.Errorf("%d batches were on the CPU, %d were lost", s.CPUBatches, s.Lost)
	}
}

// TestOpenFaults compares the errors of Open without a usable device.
func TestOpenFaults(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{}, "no child program"},
		{Options{Child: "/nonexistent/odradek-cuda"}, "no such file"},
		{goChildOptions(t, "nodevice"), "no CUDA-capable device"},
		{Options{Child: "/bin/cat"}, "reply begins with"}, // or the end of it
		{Options{Child: "/bin/sh", Args: []string{"-c", "exec sleep 100"}, StartTimeout: 50 * time.Millisecond}, "no answer before the deadline"},
	} {
		began := time.Now()
		e, err := Open(c.o)
		if err == nil {
			e.Close()
			t.Errorf("%+v was opened", c.o)
			continue
		}
		if c.o.Child != "/bin/cat" && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, want %q", err, c.says)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("%v took %v", err, d)
		}
	}
}

// TestParentDies requires that a child ends when its parent is killed.
func TestParentDies(t *testing.T) {
	parentDies(t, goChildOptions(t, ""), func(*child.Process) {})
}

// parentDies runs the test t a second time as a parent, which opens a device, does
// something with its child and is killed. The child has to end.
func parentDies(t *testing.T, o Options, do func(*child.Process)) {
	if os.Getenv("ODRADEK_TEST_CUDA_PARENT") != "" {
		e := open(t, o)
		c := e.devices[0].Serving()
		do(c)
		fmt.Printf("child %d\n", c.Pid())
		os.Stdout.Sync()
		time.Sleep(time.Minute)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "ODRADEK_TEST_CUDA_PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for line := make([]byte, 0, 100); pid == 0; {
		var b [1]byte
		if _, err := out.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		if line = append(line, b[0]); b[0] == '\n' {
			fmt.Sscanf(string(line), "child %d", &pid)
			line = line[:0]
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || err == nil && strings.Contains(string(stat), ") Z ") {
			t.Logf("the child ended after %v", time.Since(began))
			return
		}
		if time.Since(began) > 30*time.Second {
			unix.Kill(pid, unix.SIGKILL)
			t.Fatalf("the child is there: %s %v", stat, err)
		}
	}
}

// TestCancelled requires that an Execute that waits for a lane ends with its context.
func TestCancelled(t *testing.T) {
	o := goChildOptions(t, "silent@1")
	o.Lanes, o.Deadline = 1, 2*time.Second
	e := open(t, o)
	defer e.Close()
	l := newLoad(t, seedtest.New(t), 1, 1)
	var wg sync.WaitGroup
	wg.Go(func() { l.run(t, e, 1) })
	for e.devices[0].Load.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	b := e.Batch()
	l.pack(b)
	began := time.Now()
	if err := e.Execute(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's error", err)
	}
	if d := time.Since(began); d >= o.Deadline {
		t.Errorf("took %v", d)
	}
	e.Release(b)
	wg.Wait()
}

// TestMemory executes batches that outgrow their memory, the limit of all memory, and the limits of a
// device.
func TestMemory(t *testing.T) {
	o := goChildOptions(t, "")
	o.Memory, o.Deadline = 24<<20, time.Minute
	e := open(t, o)
	defer e.Close()
	rng := seedtest.New(t)
	small, big := newLoad(t, rng, 10, 1), newLoad(t, rng, 9000, 1)
	small.run(t, e, 2)
	big.run(t, e, 3) // from the heap into shared memory
	if s := e.Stats(); s.CPUBatches != 0 || s.Refused != 0 || s.Devices[0].Batches != 5 {
		t.Errorf("%+v", s)
	}
	var wg sync.WaitGroup
	for range 6 { // more than the limit allows: some are scored on the CPU
		wg.Go(func() { big.run(t, e, 2) })
	}
	wg.Wait()
	s := e.Stats()
	t.Logf("%+v", s)
	if s.CPUBatches == 0 || s.Refused != s.CPUBatches || s.Shared > o.Memory {
		t.Errorf("%+v with %d bytes allowed", s, o.Memory)
	}
	old := largest
	defer func() { largest = old }()
	largest = limits{1 << 18, 1 << 16, 1 << 12}
	e = open(t, o)
	defer e.Close()
	big.run(t, e, 1)
	if s := e.Stats(); s.Refused != 1 {
		t.Errorf("%+v, want the batch refused", s)
	}
	small.run(t, e, 1)
}

// BenchmarkDoorbell measures a request without work and its reply.
func BenchmarkDoorbell(b *testing.B) {
	e := open(b, goChildOptions(b, ""))
	defer e.Close()
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
}
