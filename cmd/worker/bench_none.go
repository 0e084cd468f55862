//go:build nobench

package main

import (
	"context"
	"fmt"
	"os"
)

// cmdBench of a build without it: brokers for tests, peers and their clients
// stay out of the binary.
func cmdBench(context.Context, []string) int {
	fmt.Fprintln(os.Stderr, "worker: this build has no bench (build tag nobench); build one with: go build ./cmd/worker")
	return exitUsage
}
