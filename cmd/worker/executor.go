package main

import (
	"errors"
	"runtime"

	"odradek/detectors"
)

type executor = detectors.Executor

// newExecutor makes the executor that the configuration asks for; kind names it
// in logs and metrics.
func newExecutor(c *Config) (exec executor, kind string, err error) {
	if c.Fetch.Executor == "cuda" {
		return nil, "", errors.New("worker: ODRADEK_EXECUTOR=cuda: this build has no CUDA executor; use auto or cpu")
	}
	n := c.Fetch.Workers
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return detectors.NewCPU(n), "cpu", nil
}
