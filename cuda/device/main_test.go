//go:build cuda

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain runs odradek-cuda itself in a process that a test has started as a child.
func TestMain(m *testing.M) {
	if os.Getenv("ODRADEK_TEST_CHILD") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestStart requires of a failed start what a worker reads: a reason on standard error and an exit
// code. It needs no device, since none has the index 99.
func TestStart(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-device 99", "no device 99"},
		{"-faults -device 99", "no device 99"},
		{"-lanes 0", "-lanes 0: at least 1"},
		{"-nonsense", "flag provided but not defined"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), "ODRADEK_TEST_CHILD=1")
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Run(); err == nil || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: %v, %q; want %q", c.args, err, said.String(), c.want)
		}
	}
}

// TestAwaitHangUp requires that unread data is no hang-up, and that the other end's close is one.
func TestAwaitHangUp(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	if _, err := unix.Write(pair[0], []byte("a request")); err != nil {
		t.Fatal(err)
	}
	over := make(chan bool)
	go func() {
		awaitHangUp(pair[1])
		close(over)
	}()
	select {
	case <-over:
		t.Fatal("unread data is taken for a hang-up")
	case <-time.After(50 * time.Millisecond):
	}
	unix.Close(pair[0])
	select {
	case <-over:
	case <-time.After(5 * time.Second):
		t.Fatal("the close is not noticed")
	}
}

func TestReadPath(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"\x04\x00\x00\x00/a/b", "/a/b"},
		{"\x04\x00\x00\x00/a", ""},
		{"\x00\x00\x00\x00", ""},
		{"\xff\xff\xff\xff", ""},
		{"\x04", ""},
	} {
		got, err := readPath(strings.NewReader(c.in))
		if (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%q: %q, %v", c.in, got, err)
		}
	}
}
