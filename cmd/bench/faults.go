package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"odradek/cmd/bench/faults"
	"odradek/processor/kafkatest"
)

const faultsExamples = `  bench faults -minutes 30 -out faults.jsonl
  bench faults -only kill,broker -seed 7
  bench faults -only soak -minutes 100 -rate 1500
  bench faults -table docs/reliability.jsonl`

// faults runs workers under faults and checks what they published; the exit code is 0 if nothing was lost, doubled or
// different.
func (t terminal) faults(ctx context.Context, args []string) int {
	var about strings.Builder
	for _, name := range faults.Names() {
		fmt.Fprintf(&about, "  %-14s%s\n", name, faults.What(name))
	}
	o := faults.Options{}
	var minutes float64
	var only, out, table, worker string
	verbose := false
	fs := t.flags("Runs three workers beside three nodes of Kafka in rounds. In each, one kind of fault happens again and again, and what\n"+
		"was published is compared with the input, with a worker that nothing happened to and with a plain program. Faults:\n\n"+
		about.String(), faultsExamples)
	fs.Float64Var(&minutes, "minutes", 3, "time in which rounds begin; at least one runs")
	fs.DurationVar(&o.Round, "round", time.Minute, "time in which faults happen in a round")
	fs.StringVar(&only, "only", "", "names of faults, separated by commas; default: all but upgrade and soak, in turn")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of the first round, each next one has the next number; 0: a new one")
	fs.IntVar(&o.Rate, "rate", 4000, "records a second of the input")
	fs.StringVar(&o.Version, "kafka", kafkatest.Versions[0], "version of Apache Kafka")
	fs.IntVar(&o.Nodes, "nodes", 3, "nodes of the cluster, 3 or 1")
	fs.StringVar(&o.Guarantee, "guarantee", "exactly_once", "the workers' ODRADEK_GUARANTEE")
	fs.StringVar(&worker, "worker", "", "`program` of the worker; default: worker, beside this program")
	fs.StringVar(&o.Other, "other", "", "`program` of another build of the worker: it scores the undisturbed run, and takes turns in upgrade")
	fs.StringVar(&o.Python, "python", "", "`program` of a Python with confluent-kafka: librdkafka reads the outputs, too")
	fs.StringVar(&o.Dir, "dir", "", "`folder` for logs; default: a temporary one, kept if something is wrong")
	fs.StringVar(&out, "out", "", "`file` to add a line of JSON to after each round")
	fs.StringVar(&table, "table", "", "print the table of the results in this `file`, and run nothing")
	fs.Var((*settingList)(&o.Settings), "set", "a setting for the workers, `ODRADEK_NAME=value`; may be repeated")
	fs.BoolVar(&verbose, "v", false, "say on standard error what is going on")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case fs.NArg() > 0:
		fmt.Fprintf(t.err, "bench: faults takes no argument %q; -only names faults\n", fs.Arg(0))
		return exitUsage
	}
	if table != "" {
		results, err := faults.Read(table)
		if err != nil {
			fmt.Fprintln(t.err, "bench:", err)
			return exitFailed
		}
		faults.Table(t.out, results)
		return exitOK
	}
	if only != "" {
		o.Only = strings.Split(only, ",")
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1 << 32)
	}
	if verbose {
		o.Log = t.err
	}
	o.Total = time.Duration(minutes * float64(time.Minute))
	if err := t.runFaults(ctx, o, worker, out); err != nil {
		fmt.Fprintln(t.err, "bench:", err)
		return exitFailed
	}
	return exitOK
}

var errFaultsFound = errors.New("outputs were lost, doubled or different, or a worker holds more and more")

func (t terminal) runFaults(ctx context.Context, o faults.Options, worker, out string) (err error) {
	if o.Worker, err = kafkatest.WorkerProgram(worker); err != nil {
		return err
	}
	if o.Other != "" {
		if o.Other, err = kafkatest.WorkerProgram(o.Other); err != nil {
			return err
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "odradek-faults-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				os.RemoveAll(o.Dir)
			} else {
				fmt.Fprintln(t.err, "bench: logs are in", o.Dir)
			}
		}()
	}
	fmt.Fprintf(t.out, "seed %d, Kafka %s, %s\n", o.Seed, o.Version, o.Guarantee)
	var results []faults.Result
	err = faults.Run(ctx, o, func(r faults.Result) error {
		results = append(results, r)
		if !r.Whole() {
			fmt.Fprintf(t.out, "%s, seed %d: %s\n", r.Fault, r.Seed, r.Examples)
		}
		if r.Levels != nil {
			faults.Levels(t.out, r.Levels)
		}
		if out == "" {
			return nil
		}
		f, err := os.OpenFile(out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
	})
	if len(results) > 0 {
		faults.Table(t.out, results)
	}
	for _, r := range results {
		if !r.Whole() {
			err = errors.Join(err, errFaultsFound)
			break
		}
	}
	return err
}
