package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"odradek/cmd/internal/config"
)

const unitFile = "../../deploy/systemd/odradek.service"

// TestNotify: systemd hears once that the worker is ready, and of its end; its watchdog hears of a worker that is healthy, alone.
func TestNotify(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path has 108 bytes at most
	addr := &net.UnixAddr{Name: "s", Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", addr)
	must(t, err)
	defer socket.Close()
	must(t, socket.SetReadDeadline(time.Now().Add(30*time.Second)))
	next := func() string {
		t.Helper()
		b := make([]byte, 1000)
		n, err := socket.Read(b)
		must(t, err)
		return string(b[:n])
	}
	var ready atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	environ := map[string]string{notifySocket: addr.Name, watchdogTime: "1000"}
	stop := notify(ctx, func(name string) string { return environ[name] }, func() error {
		if !ready.Load() {
			return errors.New("worker: starting")
		}
		return nil
	}, func() error { return nil }, slog.New(slog.DiscardHandler))
	if got := next(); got != "STATUS=worker: starting" {
		t.Errorf("first %q", got)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("then %q", got)
	}
	ready.Store(true)
	var sent []string
	for len(sent) < 2 {
		if got := next(); got != "WATCHDOG=1" {
			sent = append(sent, got)
		}
	}
	cancel()
	for len(sent) < 3 {
		if got := next(); got != "WATCHDOG=1" {
			sent = append(sent, got)
		}
	}
	stop()
	if want := []string{"READY=1", "STATUS=ready", "STOPPING=1\nSTATUS=draining"}; !slices.Equal(sent, want) {
		t.Errorf("told %q, want %q", sent, want)
	}
	stalled := notifier{conn: discard{}, watchdog: time.Minute, ready: func() error { return nil },
		healthy: func() error { return errors.New("nothing was committed") }}
	if stalled.report(time.Now()); !stalled.alive.IsZero() || stalled.status != "nothing was committed" {
		t.Errorf("the watchdog hears of a worker that hangs: %+v", stalled)
	}
	notify(ctx, func(string) string { return "" }, nil, nil, nil)() // no systemd
}

// discard is a connection that takes everything.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// TestUnit holds the unit to the program: its command, its exit codes, its time to drain; and to systemd's own check where that is here.
func TestUnit(t *testing.T) {
	b, err := os.ReadFile(unitFile)
	must(t, err)
	unit := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			unit[key] = value
		}
	}
	for key, want := range map[string]string{
		"Type": "notify", "ExecStart": "/usr/bin/odradek run -config /etc/odradek/odradek.yaml", "DynamicUser": "yes",
		"StateDirectory": "odradek", "Restart": "on-failure",
		"RestartPreventExitStatus": fmt.Sprint(exitFenced, exitRefused, exitUsage),
	} {
		if unit[key] != want {
			t.Errorf("%s=%s, want %s", key, unit[key], want)
		}
	}
	c, _, _ := config.Parse(nil)
	limit, err := time.ParseDuration(unit["TimeoutStopSec"])
	if err != nil || limit < c.Program.DrainTimeout+5*time.Second {
		t.Errorf("TimeoutStopSec=%s, the drain may take %v: %v", unit["TimeoutStopSec"], c.Program.DrainTimeout, err)
	}
	if d, err := time.ParseDuration(unit["WatchdogSec"]); err != nil || d < 10*notifyTick {
		t.Errorf("WatchdogSec=%s: %v", unit["WatchdogSec"], err)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	root := t.TempDir()
	program := filepath.Join(root, "odradek")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	file := filepath.Join(root, "odradek.service")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(b), "/usr/bin/odradek", program)), 0o644))
	out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput()
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.Contains(line, "odradek.service") {
			t.Errorf("systemd-analyze verify (%v): %s", err, line)
		}
	}
}
