// Command bench measures Odradek and its baselines; see docs/benchmarks.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes, which are the worker's.
const (
	exitOK     = 0
	exitFailed = 1 // a fault while measuring
	exitUsage  = 2 // unknown flag or benchmark, or a value that a flag does not take
)

func main() {
	t := terminal{os.Stdout, os.Stderr, os.Environ()}
	os.Exit(t.bench(signalContext(), os.Args[1:]))
}

// terminal has the output streams and the environment of the bench.
type terminal struct {
	out, err io.Writer
	environ  []string
}

// signalContext ends at the first SIGINT or SIGTERM; the second ends the process.
func signalContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		second := <-signals
		code := 128 + int(syscall.SIGTERM)
		if s, ok := second.(syscall.Signal); ok {
			code = 128 + int(s)
		}
		fmt.Fprintf(os.Stderr, "bench: second signal (%v): ending at once\n", second)
		os.Exit(code)
	}()
	return ctx
}

// flags returns a flag set whose help has a description, the flags and examples.
func (t terminal) flags(about, examples string) *flag.FlagSet {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(t.err)
	fs.Usage = func() {
		fmt.Fprintf(t.err, "%s\n\nusage: bench [flags] [name...]\n\n", about)
		fs.PrintDefaults()
		fmt.Fprintf(t.err, "\nexamples:\n%s\n", examples)
	}
	return fs
}
