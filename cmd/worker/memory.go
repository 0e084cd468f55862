package main

import (
	"runtime/debug"

	"odradek/cmd/internal/config"
)

// limitHeap sets the garbage collector's memory limit below the process's, unless
// GOMEMLIMIT is set.
func limitHeap(getenv func(string) string) {
	if n := config.MemoryLimit(); n > 0 && getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * 9)
	}
}
