package kafkatest

import (
	"os/exec"
	"syscall"
)

// DieWithParent has the system kill the command, not yet started, when this
// process ends: on Linux, elsewhere nothing.
func DieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
