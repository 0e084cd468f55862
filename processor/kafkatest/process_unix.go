//go:build unix

package kafkatest

import (
	"errors"
	"os"
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

// alive reports whether a process has that id.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
