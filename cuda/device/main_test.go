//go:build cuda

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain is odradek-cuda itself where a test has started it as a child.
func TestMain(m *testing.M) {
	if os.Getenv("ODRADEK_TEST_CHILD") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestStart holds what a worker reads where a start fails: a reason on standard
// error and an exit code. It needs no device: there never is one of index 99.
func TestStart(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-device 99", "no device 99"},
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
