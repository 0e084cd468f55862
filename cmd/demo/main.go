// Command demo shows Odradek at work on one machine: broker, registry and generator
// in this process, two workers beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// The exit codes, which are the worker's.
const (
	exitOK     = 0
	exitFailed = 1 // a fault while running
	exitUsage  = 2 // unknown flag, or a value that it does not take
)

func main() {
	t := terminal{os.Stdout, os.Stderr, os.Environ()}
	os.Exit(t.demo(signalContext(), os.Args[1:]))
}

// terminal holds the demo's outputs and environment.
type terminal struct {
	out, err io.Writer
	environ  []string
}

// atExit has what gives the terminal back where the process ends at once.
var atExit atomic.Pointer[func()]

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
		if leave := atExit.Load(); leave != nil {
			(*leave)()
		}
		fmt.Fprintf(os.Stderr, "demo: second signal (%v): ending at once\n", second)
		os.Exit(code)
	}()
	return ctx
}

// flags returns a flag set whose help has what the program does, its flags, examples.
func (t terminal) flags(about, examples string) *flag.FlagSet {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(t.err)
	fs.Usage = func() {
		fmt.Fprintf(t.err, "%s\n\nusage: demo [flags]\n\n", about)
		fs.PrintDefaults()
		fmt.Fprintf(t.err, "\nexamples:\n%s\n", examples)
	}
	return fs
}

// parse parses the flags and refuses arguments after them; done means that the
// program ends with code.
func parse(fs *flag.FlagSet, args []string) (code int, done bool) {
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, true
	case err != nil:
		return exitUsage, true
	case fs.NArg() > 0:
		fmt.Fprintf(fs.Output(), "demo: unexpected argument %q; demo -h shows the flags\n", fs.Arg(0))
		return exitUsage, true
	}
	return 0, false
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
