//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a command, not yet started, a process group of its own, which a
// terminal's interrupt does not reach.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
