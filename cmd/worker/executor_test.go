//go:build linux && !nobench

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/sensors"
	"odradek/cuda"
	"odradek/detectors"
)

var goChild struct {
	once sync.Once
	path string
	err  error
}

// goChildProgram is a child that speaks the protocol and scores on the CPU: the
// test binary of package cuda.
func goChildProgram(t *testing.T) string {
	t.Helper()
	goChild.once.Do(func() {
		dir, err := os.MkdirTemp("", "odradek-cuda-")
		if err != nil {
			goChild.err = err
			return
		}
		goChild.path = filepath.Join(dir, "gochild")
		build := exec.Command("go", "test", "-c", "-o", goChild.path, "./cuda")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			goChild.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if goChild.err != nil {
		t.Fatal(goChild.err)
	}
	t.Setenv("ODRADEK_TEST_CUDA_CHILD", "1")
	return goChild.path
}

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

func TestNewExecutor(t *testing.T) {
	child := goChildProgram(t)
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		environ   string
		kind      string
		err, says string // parts of the error, of the log
	}{
		{"ODRADEK_EXECUTOR=cpu", "cpu", "", ""},
		{"ODRADEK_EXECUTOR=auto", "cpu", "", "ODRADEK_CUDA_CHILD names another place"},
		{"ODRADEK_EXECUTOR=auto ODRADEK_CUDA_CHILD=" + none, "cpu", "", "no such file"},
		{"ODRADEK_EXECUTOR=auto ODRADEK_CUDA_CHILD=/bin/false", "cpu", "", "exit status 1"},
		{"ODRADEK_EXECUTOR=auto ODRADEK_CUDA_CHILD=" + child, "cuda", "", "Go test child"},
		{"ODRADEK_EXECUTOR=cuda ODRADEK_CUDA_CHILD=" + child, "cuda", "", "scoring on a GPU"},
		{"ODRADEK_EXECUTOR=cuda", "", "ODRADEK_EXECUTOR=cuda: no program", ""},
		{"ODRADEK_EXECUTOR=cuda ODRADEK_CUDA_CHILD=/bin/false", "", "exit status 1", ""},
	} {
		var said bytes.Buffer
		cfg, faults, _ := config.Parse(minimal(strings.Fields(c.environ)...))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		e, kind, err := newExecutor(cfg, slog.New(slog.NewTextHandler(&said, nil)))
		if kind != c.kind || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s, %v, want %s, %s", c.environ, kind, err, c.kind, c.err)
		}
		if !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 || strings.Count(said.String(), "\n") > 1 {
			t.Errorf("%s: the log says %q, want one line with %q", c.environ, said.String(), c.says)
		}
		if e != nil {
			e.Close()
		}
		var r report
		checkExecutor(&r, cfg)
		if r.faulty() != (c.err != "") || len(r.findings) != 1 {
			t.Errorf("%s: check says %+v", c.environ, r.findings)
		}
	}
}

// The demo's detection gives the same anomalies, in the same order, on the CPU
// and in a child that computes as the CPU does and is killed now and then.
func TestDemoDetectionWithKills(t *testing.T) {
	child := goChildProgram(t)
	c, err := demoConfig(demoSettings("ODRADEK_SCHEMA_REGISTRY_URL=http://none"))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := sensors.ParseKinds("all")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const count, steps = 20, 1500
	model := &sensors.Model{Seed: newRand(t).Uint64(), FaultEvery: demoFaultEvery, Faults: all}
	want := foldDemo(t, c, model, count, steps, start, detectors.NewCPU(0))
	gpu, err := cuda.Open(cuda.Options{Child: child, Retry: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				if pid := gpu.Stats().Devices[0].Pid; pid > 0 {
					syscall.Kill(pid, syscall.SIGKILL)
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
	child := goChildProgram(t)
	term, out, errs := console()
	t.Setenv(runWorkerEnv, "1") // the workers are this test binary
	term.environ = append(os.Environ(), "ODRADEK_EXECUTOR=cuda", "ODRADEK_CUDA_CHILD="+child)
	killed := make(chan int, 1)
	time.AfterFunc(5*time.Second, func() {
		pids := running(child)
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		killed <- len(pids)
	})
	if code := term.demo(context.Background(), []string{"-worker", os.Args[0], "-for", "12s", "-http", "127.0.0.1:0", "-rate", "6000", "-sensors", "50"}); code != exitOK {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	if n := <-killed; n != demoWorkers {
		t.Errorf("%d children were killed, want %d", n, demoWorkers)
	}
	if n := strings.Count(errs.String(), "GPU child failed"); n != demoWorkers {
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
