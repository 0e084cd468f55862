package main

import (
	"runtime/debug"

	"odradek/cmd/worker/config"
)

// limitHeap makes the garbage collector work harder before the process is killed
// for its memory, unless GOMEMLIMIT says where.
func limitHeap(getenv func(string) string) {
	if n := config.MemoryLimit(); n > 0 && getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * 9)
	}
}
