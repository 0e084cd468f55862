// Command worker is Odradek: it finds anomalies in sensor streams on Kafka.
//
// main.go has the list of commands and the exit codes. A command has its file:
//
//	run           run.go: runWorker makes all parts of a worker and runs them; with processors.go, executors.go (CPU or GPU),
//	              serve.go (page, probes), systemd.go, instance_id.go, tracing.go and memory.go
//	check, setup  check.go, setup.go
//	generate      generate.go
//	suggest       suggest.go
//	size          size.go
//	try, test     try.go, test.go
//	backtest      backtest.go, backtest_topic.go
//	outliers, regions, discords
//	              outliers.go, regions.go, discords.go; tables.go has what commands on a table share
//	score         score.go, score_feedback.go, rates.go
//	state         state.go
//	why           why.go
//	dlq           dlq.go
//	mute, feedback
//	              feedback.go
//	config, version, healthcheck
//	              cmd_small.go
//
// A file has the flags, the help and the output of its command; most of the work is in the packages below cmd/internal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor"
)

// The exit codes. A worker that was ended by a second signal exits with 130
// (SIGINT) or 143 (SIGTERM), as shells report a process that was ended by a signal. The Go
// runtime exits with 2 where it crashes, such as out of memory, which a restart may help: no
// code that restart policies are to stop at is 2.
const (
	exitOK      = 0  // done; for run: drained
	exitFailed  = 1  // a fault while running; for check: a fault was found
	exitFenced  = 3  // another worker runs with this ODRADEK_INSTANCE_ID
	exitRefused = 4  // continuing would lose or misread data: the operator decides
	exitUsage   = 78 // unknown command or flag, or a configuration with faults: EX_CONFIG of sysexits.h
)

// command is one subcommand.
type command struct {
	name, brief string
	run         func(ctx context.Context, args []string) int
}

func commands() []command { return stdTerminal().commands() }

func (t terminal) commands() []command {
	return []command{
		{"run", "consume, score and publish until told to stop", cmdRun},
		{"generate", "write sensor records with planted faults", t.generate},
		{"check", "name every fault of the configuration; --online asks the cluster too", t.check},
		{"setup", "create the topics and register the schemas that run needs", t.setup},
		{"suggest", "look at a topic and propose settings for it", t.suggest},
		{"size", "say what a fleet needs: workers, memory, bandwidth, the time of a takeover", t.size},
		{"try", "show what a worker would read of a few records, and why not", t.try},
		{"test", "run your own tests of the settings: records, and what is expected of them", t.test},
		{"backtest", "run the detectors over recorded samples and write a report", t.backtest},
		{"outliers", "find the most unusual rows of a table", t.outliers},
		{"regions", "find the rectangles of a map with more events than expected, or fewer", t.regions},
		{"discords", "find the most unusual stretches of a column of a table, of any length", t.discords},
		{"score", "replay a labelled data set and print how well it is detected", t.score},
		{"config", "print the effective configuration, secrets hidden", t.config},
		{"state", "list, export or reset the state of a group", t.state},
		{"why", "say why an anomaly was published, from the records of its series", t.why},
		{"dlq", "list and show dead letters, or send them again", t.dlq},
		{"mute", "mute the anomalies of some series for a time", t.mute},
		{"feedback", "confirm an anomaly, or report it as a false alarm", t.feedback},
		{"healthcheck", "ask the worker on this host whether it is healthy", t.healthcheck},
		{"version", "print the version", t.version},
	}
}

// terminal has the output streams and the environment of a subcommand.
type terminal struct {
	out, err io.Writer
	environ  []string
}

const usageHead = `Odradek finds anomalies in sensor streams on Kafka.

usage: worker <command> [flags]

`

const usageTail = `
Settings are environment variables that begin with ODRADEK_, or stand in a YAML file
(-config, ODRADEK_CONFIG); docs/configuration.md lists them. Every command has -h.

examples:
  ODRADEK_GROUP=plant ODRADEK_TOPICS=sensors ODRADEK_SCHEMA_REGISTRY_URL=http://registry:8081 worker check --online
  worker generate -topic sensors -sensors 100 -rate 1000 -labels labels.jsonl
  worker run

exit codes:
  0  done; run: drained after SIGTERM or SIGINT
  1  a fault while running; check: a fault was found
  2  the program crashed, such as out of memory
  3  fenced: another worker runs with the same ODRADEK_INSTANCE_ID
  4  refused: this worker cannot continue with the state or offsets it found; see worker state -h
  78  unknown command or flag, or a configuration with faults
  130, 143  ended by a second SIGINT, SIGTERM
`

func main() {
	ignoreHangup(os.Args[1:])
	ctx := signalContext()
	os.Exit(dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr, commands()))
}

func dispatch(ctx context.Context, args []string, out, stderr io.Writer, cmds []command) int {
	usage := func(w io.Writer) {
		fmt.Fprint(w, usageHead)
		for _, c := range cmds {
			fmt.Fprintf(w, "  %-12s %s\n", c.name, c.brief)
		}
		fmt.Fprint(w, usageTail)
	}
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	known := map[string]bool{}
	for _, c := range cmds {
		known[c.name] = true
		if c.name == args[0] {
			return c.run(ctx, args[1:])
		}
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		usage(out)
		return exitOK
	case "-v", "-version", "--version":
		return dispatch(ctx, []string{"version"}, out, stderr, cmds)
	}
	if args[0] == "demo" || args[0] == "bench" {
		fmt.Fprintf(stderr, "worker: no command %[1]q: it is a program of its own; did you mean `make %[1]s` or `go run ./cmd/%[1]s -h`?\n",
			args[0])
		return exitUsage
	}
	if strings.HasPrefix(args[0], "-") { // worker -config x run
		fmt.Fprintf(stderr, "worker: %s stands before the command: flags come after it", args[0])
		for i, a := range args {
			if known[a] {
				rest := append(slices.Clone(args[:i]), args[i+1:]...)
				fmt.Fprintf(stderr, ", as in worker %s %s", a, strings.Join(rest, " "))
				break
			}
		}
		fmt.Fprintln(stderr, "; worker -h lists the commands")
		return exitUsage
	}
	near, _ := config.Nearest(args[0], known)
	fmt.Fprintf(stderr, "worker: no command %q; did you mean %s? worker -h lists them\n", args[0], near)
	return exitUsage
}

// ignoreHangup has run ignore SIGHUP until config.Reloader handles it: at the start it would end the process.
func ignoreHangup(args []string) {
	if len(args) > 0 && args[0] == "run" {
		signal.Ignore(syscall.SIGHUP)
	}
}

// sameTerm is the time within which SIGTERM counts as one, however often it comes: a supervisor that signals the process
// and its group sends two.
const sameTerm = time.Second

// signalContext ends at the first SIGINT or SIGTERM; the second ends the process.
func signalContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		first, at := <-signals, time.Now()
		cancel()
		second := <-signals
		for first == syscall.SIGTERM && second == syscall.SIGTERM && time.Since(at) < sameTerm {
			second = <-signals
		}
		code := 128 + int(syscall.SIGTERM)
		if s, ok := second.(syscall.Signal); ok {
			code = 128 + int(s)
		}
		fmt.Fprintf(os.Stderr, "worker: second signal (%v): ending at once\n", second)
		os.Exit(code)
	}()
	return ctx
}

// errDrainTimeout reports that the drain took longer than ODRADEK_DRAIN_TIMEOUT. The
// next owners of the partitions read again what was not committed.
var errDrainTimeout = errors.New("worker: the drain took longer than ODRADEK_DRAIN_TIMEOUT")

// withDrainLimit runs f, which drains when ctx ends, and does not wait for it
// longer than limit after that.
func withDrainLimit(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return errDrainTimeout
	}
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var refused *processor.RefusedError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, processor.ErrInstanceFenced):
		return exitFenced
	case errors.As(err, &refused):
		return exitRefused
	}
	return exitFailed
}

// flags returns a flag set whose help has the command's description, its flags and examples. Its
// flag -config adds the settings file to t's environment.
func (t *terminal) flags(name, about, examples string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(t.err)
	fs.Func("config", "settings `file` in YAML, in place of ODRADEK_CONFIG; variables override it", func(file string) error {
		t.environ = append(slices.Clip(t.environ), config.Prefix+"CONFIG="+file)
		return nil
	})
	fs.Usage = func() {
		fmt.Fprintf(t.err, "%s\n\nusage: worker %s [flags]\n\n", about, name)
		fs.PrintDefaults()
		if examples != "" {
			fmt.Fprintf(t.err, "\nexamples:\n%s\n", examples)
		}
	}
	return fs
}

// parse parses the flags and refuses arguments after them; done means that the
// command ends with code.
func parse(fs *flag.FlagSet, args []string) (code int, done bool) {
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, true
	case err != nil:
		return exitUsage, true
	case fs.NArg() > 0:
		fmt.Fprintf(fs.Output(), "worker %s: unexpected argument %q; worker %s -h shows the flags\n", fs.Name(), fs.Arg(0), fs.Name())
		return exitUsage, true
	}
	return 0, false
}

// fail prints an error and returns the exit code for it.
func (t terminal) fail(err error) int {
	fmt.Fprintln(t.err, "worker:", config.WithVariables(err.Error()))
	return exitCode(err)
}

// configFor reads the configuration for a command that needs only some of it:
// faults of settings that begin with none of names are ignored. Without names
// every fault counts.
func (t terminal) configFor(names ...string) (*config.Config, int, bool) {
	c, faults, warnings := config.Parse(t.environ)
	faults = config.FaultsOf(faults, names)
	for _, w := range warnings {
		fmt.Fprintln(t.err, "warning:", w)
	}
	if len(faults) > 0 {
		printFaults(t.err, faults)
		return nil, exitUsage, false
	}
	return c, 0, true
}

func printFaults(w io.Writer, faults []config.Fault) {
	fmt.Fprintf(w, "worker: the configuration has %d fault(s):\n", len(faults))
	for _, f := range faults {
		fmt.Fprintln(w, " ", f)
	}
}
