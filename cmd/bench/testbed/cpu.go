package testbed

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// This file reads the processor of this machine, and the processor time and memory of processes.

// CPUName returns the processor's name and the number of usable cores.
func CPUName() string {
	name := runtime.GOARCH
	if f, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(f)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				name = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores", name, runtime.NumCPU())
}
