//go:build unix

package kafkatest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

func (p *process) terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) } // already gone is as good

// Pause stops a process without ending it (SIGSTOP): its connections stay open and nothing answers.
func Pause(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func Resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// lockFile waits for the exclusive lock of a file; it is freed by closing it or
// by the end of the process.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// portClaims is a file of which a process locks byte p while port p is its own: tests of several packages
// run at once, and one of them may look at a port just when another one's node begins to listen there.
var portClaims = sync.OnceValues(func() (*os.File, error) {
	return os.OpenFile(filepath.Join(os.TempDir(), "odradek-ports-"+strconv.Itoa(os.Getuid())), os.O_CREATE|os.O_RDWR, 0o600)
})

// claimPort reports whether port p is now this process's until it ends. Without the file every port is.
func claimPort(p int) bool {
	f, err := portClaims()
	if err != nil {
		return true
	}
	return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{
		Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: int64(p), Len: 1}) == nil
}

// alive reports whether a process has that id.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
