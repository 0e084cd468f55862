package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// demoRun is the demo as a process in a process group of its own, as a shell starts it.
type demoRun struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	errs  bytes.Buffer
}

// startDemo starts the demo and waits until it has told of an anomaly.
func startDemo(t *testing.T) *demoRun {
	t.Helper()
	d := &demoRun{cmd: exec.Command(os.Args[0], "-worker", workerBinary(t), "-for", "0", "-plain", "-http", "127.0.0.1:0", "-rate",
		"6000", "-sensors", "20")}
	d.cmd.Env = append(os.Environ(), runEnv+"=1")
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.Stderr = &d.errs
	d.cmd.WaitDelay = time.Second
	out, err := d.cmd.StdoutPipe()
	must(t, err)
	must(t, kafkatest.Start(d.cmd))
	limit := time.AfterFunc(time.Minute, func() { _ = d.cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	})
	for d.lines = bufio.NewScanner(out); d.lines.Scan(); {
		if strings.Contains(d.lines.Text(), "planted: ") {
			return d
		}
	}
	_ = d.cmd.Wait()
	t.Fatalf("the demo ended without an anomaly: %s", &d.errs)
	return nil
}

// childrenOf lists the processes that a process has started.
func childrenOf(pid int) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, _ := os.ReadFile(dir + "/stat")
		parent := 0
		if i := bytes.LastIndexByte(stat, ')'); i > 0 {
			fmt.Sscanf(string(stat[i+3:]), "%d", &parent)
		}
		if parent == pid {
			child, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, child)
		}
	}
	return pids
}

// An interrupt from the terminal, which goes to the whole process group, ends the
// generator; the workers score what there is before they end.
func TestDemoInterrupted(t *testing.T) {
	d := startDemo(t)
	for _, pid := range childrenOf(d.cmd.Process.Pid) {
		if group, err := syscall.Getpgid(pid); err != nil || group == d.cmd.Process.Pid {
			t.Errorf("worker %d is in process group %d, the demo's, or gone: %v", pid, group, err)
		}
	}
	must(t, syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT))
	last := ""
	for d.lines.Scan() {
		last = d.lines.Text()
	}
	if err := d.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &d.errs)
	}
	var r demoResult
	if err := json.Unmarshal([]byte(last), &r); err != nil {
		t.Fatalf("%v: %s", err, last)
	}
	if r.Anomalies == 0 || len(r.Lifecycle) > 0 {
		t.Errorf("%+v", r)
	}
}

// The workers end with the demo, also when it is killed.
func TestDemoKilled(t *testing.T) {
	d := startDemo(t)
	workers := childrenOf(d.cmd.Process.Pid)
	if len(workers) != demoProcessCount {
		t.Errorf("%d workers, want %d", len(workers), demoProcessCount)
	}
	must(t, d.cmd.Process.Kill())
	for end := time.Now().Add(10 * time.Second); len(workers) > 0; time.Sleep(20 * time.Millisecond) {
		if syscall.Kill(workers[0], 0) != nil {
			workers = workers[1:]
		} else if time.Now().After(end) {
			t.Fatalf("workers %v are left", workers)
		}
	}
}

// Without a worker the demo says how to make one, and a fault of its flags ends
// it before anything starts.
func TestDemoFlags(t *testing.T) {
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"", "go build -o", exitFailed}, // beside the test binary is no worker
		{"-worker /none/worker", "/none/worker", exitFailed},
		{"-h", "usage: demo ", exitOK},
		{"more", `unexpected argument "more"`, exitUsage},
		{"-sensors 0", "-sensors 0", exitUsage},
		{"-rate -1", "-rate -1", exitUsage},
	} {
		term, _, errs := console()
		if code := term.demo(context.Background(), strings.Fields(c.args)); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q: exit %d, %s", c.args, code, errs)
		}
	}
}

// A worker has the demo's environment without its settings, but for those that say
// where to score.
func TestDemoEnviron(t *testing.T) {
	environ := []string{"PATH=/bin", "ODRADEK_GROUP=g", "ODRADEK_EXECUTOR=cpu", "ODRADEK_CUDA_CHILD=/c",
		"ODRADEK_TEST_X=1", "ODRADEK_WORKERS=2"}
	if got := strings.Join(workerEnviron(environ), " "); got != "PATH=/bin ODRADEK_TEST_X=1" {
		t.Error(got)
	}
	if got := strings.Join(executorSettings(environ), " "); got != "ODRADEK_EXECUTOR=cpu ODRADEK_CUDA_CHILD=/c ODRADEK_WORKERS=2" {
		t.Error(got)
	}
}
