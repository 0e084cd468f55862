//go:build nobench

package main

import (
	"context"
	"fmt"
)

// demo of a build without it, as cmdBench in bench_none.go.
func (t terminal) demo(context.Context, []string) int {
	fmt.Fprintln(t.err, "worker: this build has no demo (build tag nobench); build one with: go build ./cmd/worker")
	return exitUsage
}
