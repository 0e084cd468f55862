package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"odradek/cmd/internal/sensors"
	"odradek/cuda"
	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// running lists the processes that run a program.
func running(program string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(dir + "/cmdline")
		if strings.HasPrefix(string(line), program+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// The demo's detection gives the same anomalies, in the same order, on the CPU
// and in a child that computes as the CPU does and is killed now and then.
func TestDemoDetectionWithKills(t *testing.T) {
	child := goChildProgram(t)
	c, err := demoConfig(sensorSettings())
	if err != nil {
		t.Fatal(err)
	}
	all, _ := sensors.ParseKinds("all")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const count, steps = 20, 1500
	model := &sensors.Model{Seed: seedtest.New(t).Uint64(), FaultEvery: demoFaultEvery, Faults: all}
	want := foldDemo(t, c, model, count, steps, start, detectors.NewCPU(0))
	gpu, err := cuda.Open(cuda.Options{Child: child, Retry: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for last := uint64(0); ; {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				// A child that has scored something since the last kill: on a machine with other work none else would.
				if d := gpu.Stats().Devices[0]; d.Pid > 0 && d.Tasks > last {
					last = d.Tasks
					syscall.Kill(d.Pid, syscall.SIGKILL)
				}
			}
		}
	})
	stats := make(chan cuda.Stats, 1)
	got := foldDemo(t, c, model, count, steps, start, executorHook{gpu, func() { close(stop); killer.Wait(); stats <- gpu.Stats() }})
	s := <-stats
	t.Logf("%d anomalies, %+v", len(want.list), s)
	if d := s.Devices[0]; d.Faults == 0 || d.Tasks == 0 {
		t.Errorf("%+v: nothing was tried", s)
	}
	if len(want.list) == 0 || !reflect.DeepEqual(got.list, want.list) {
		t.Errorf("%d anomalies, %d on the CPU, or others", len(got.list), len(want.list))
	}
}

// executorHook calls a function before it closes.
type executorHook struct {
	detectors.Executor
	before func()
}

func (h executorHook) Close() error {
	h.before()
	return h.Executor.Close()
}

// The demo with children, each killed in the middle, keeps its promises.
func TestDemoOnCUDA(t *testing.T) {
	child, worker := goChildProgram(t), workerBinary(t)
	term, out, errs := console()
	term.environ = append(os.Environ(), "ODRADEK_EXECUTOR=cuda", "ODRADEK_CUDA_CHILD="+child)
	killed := make(chan int, 1)
	time.AfterFunc(5*time.Second, func() {
		pids := running(child)
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		killed <- len(pids)
	})
	if code := term.demo(context.Background(),
		[]string{"-worker", worker, "-for", "12s", "-http", "127.0.0.1:0", "-rate", "6000", "-sensors", "50"}); code != exitOK {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	if n := <-killed; n != demoProcessCount {
		t.Errorf("%d children were killed, want %d", n, demoProcessCount)
	}
	if n := strings.Count(errs.String(), "GPU child failed"); n != demoProcessCount {
		t.Errorf("%d faults are in the log, want %d:\n%s", n, demoWorkers, errs)
	}
	if left := running(child); len(left) > 0 {
		t.Errorf("children %v are left", left)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var r demoResult
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatal(err)
	}
	bounds(t, &r, 8)
}
