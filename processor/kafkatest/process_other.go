//go:build !linux

package kafkatest

import "os/exec"

// DieWithParent has the system kill the command, not yet started, when this
// process ends: on Linux, elsewhere nothing.
func DieWithParent(*exec.Cmd) {}
