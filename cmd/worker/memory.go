package main

import "runtime/debug"

// limitHeap makes the garbage collector work harder before the process is killed
// for its memory, unless GOMEMLIMIT says where.
func limitHeap(getenv func(string) string) {
	if n := memoryLimit(); n > 0 && getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * 9)
	}
}
