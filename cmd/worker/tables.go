package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/table"
)

// tableOptions are the flags that commands on a table have in common.
type tableOptions struct {
	t       terminal
	name    string // of the command
	file    string
	columns string
	missing string
	// columnFlag is the flag that names columns; "": -columns
	columnFlag string
	memory     config.ByteSize
	workers    int
	executor   string
	asJSON     bool
	asCSV      bool
	quiet      bool
}

// tableFlags returns the flags of a command on a table, with those that all of these have.
func (t terminal) tableFlags(name, about, examples string) (*flag.FlagSet, *tableOptions) {
	fs := t.flags(name+" FILE", about, examples)
	o := &tableOptions{t: t, name: name, memory: config.ByteSize(config.MemoryLimit() / 4 * 3)}
	fs.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "cores to use")
	fs.Func("memory", "`bytes` that the table and the search may take, such as 4GiB; default: 3/4 of the machine's or container's",
		func(text string) error { return o.memory.UnmarshalText([]byte(text)) })
	fs.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	fs.BoolVar(&o.asCSV, "csv", false, "print a CSV table")
	fs.BoolVar(&o.quiet, "quiet", false, "print neither progress nor notes")
	return fs, o
}

// parseFile parses flags and the name of one file in any order; done means that the command ends with code.
func (o *tableOptions) parseFile(fs *flag.FlagSet, args []string) (code int, done bool) {
	for {
		switch err := fs.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return exitOK, true
		case err != nil:
			return exitUsage, true
		}
		if args = fs.Args(); len(args) == 0 {
			break
		}
		if o.file != "" {
			return o.bad("%s and %s: one file at a time", o.file, args[0]), true
		}
		o.file, args = args[0], args[1:]
	}
	switch {
	case o.file == "":
		return o.bad("name a file that ends with %s", strings.Join(table.Endings, ", ")), true
	case o.asJSON && o.asCSV:
		return o.bad("-json and -csv exclude each other"), true
	case o.workers < 1 || o.memory < 0:
		return o.bad("-workers is above 0, and -memory is no less"), true
	case o.executor != "" && !slices.Contains(executors, o.executor):
		return o.bad("-executor %q: use one of %s", o.executor, strings.Join(executors, ", ")), true
	case o.missing != "" && o.missing != "skip" && o.missing != "refuse":
		return o.bad("-missing %q: use skip or refuse", o.missing), true
	}
	return 0, false
}

// outputFile is a flag that names a file to write.
type outputFile struct{ flag, path string }

// checkFolders refuses files whose folder is missing before the search, which may take hours; ok means that all are there.
func (o *tableOptions) checkFolders(files ...outputFile) (code int, ok bool) {
	for _, f := range files {
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(f.path)); err != nil {
			return o.bad("-%s %s: %v: make the folder first", f.flag, f.path, err), false
		}
	}
	return exitOK, true
}

// bad prints what is wrong with the flags.
func (o *tableOptions) bad(format string, args ...any) int {
	fmt.Fprintf(o.t.err, "worker "+o.name+": "+format+"\n", args...)
	return exitUsage
}

// note prints what a user may want to know beside the result.
func (o *tableOptions) note(format string, args ...any) {
	if !o.quiet {
		fmt.Fprintf(o.t.err, format+"\n", args...)
	}
}

// watch shows the progress on standard error until the returned function is called.
func (o *tableOptions) watch(p *table.Progress) (stop func()) {
	if o.quiet {
		return func() {}
	}
	return p.Show(o.t.err, isTerminal(o.t.err))
}

// read reads the columns of numbers; a row of the table takes rowBytes in the whole command.
func (o *tableOptions) read(ctx context.Context, columns []string, rowBytes func(columns int) int64) (*table.Numbers, error) {
	p := new(table.Progress)
	stop := o.watch(p)
	n, err := table.ReadNumbers(ctx, o.file, table.NumberOptions{Columns: columns, Memory: int64(o.memory), RowBytes: rowBytes,
		Workers: o.workers, Progress: p, Flag: o.columnFlag})
	stop()
	if err != nil {
		return nil, err
	}
	for _, why := range n.LeftOut {
		o.note("not read: %s", why)
	}
	return n, nil
}

// complete leaves out rows without a number with -missing skip, and refuses them otherwise. It returns how many it left out.
func (o *tableOptions) complete(n *table.Numbers) (left int, err error) {
	if o.missing != "skip" {
		return 0, n.Complete()
	}
	if left = n.Skip(); left > 0 {
		o.note("left out: %d rows without a finite number", left)
	}
	return left, nil
}

// commas returns the parts of a flag that are separated by commas.
func commas(s string) (parts []string) {
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// printCSV prints a table with a header.
func printCSV(w io.Writer, head []string, rows [][]string) error {
	c := csv.NewWriter(w)
	if err := c.Write(head); err != nil {
		return err
	}
	return c.WriteAll(rows)
}

// printAligned prints a table with a header, its columns to the right.
func printAligned(w io.Writer, head []string, rows [][]string) error {
	width := make([]int, len(head))
	for _, r := range append([][]string{head}, rows...) {
		for i, s := range r {
			width[i] = max(width[i], len([]rune(s)))
		}
	}
	for _, r := range append([][]string{head}, rows...) {
		for i, s := range r {
			if _, err := fmt.Fprintf(w, "%s%*s", strings.Repeat(" ", min(i, 1)*2), width[i], s); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file that f fills; one that is there is overwritten.
func writeFile(path string, f func(w io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}

// seconds returns the seconds since a time, to three digits after the point.
func seconds(since time.Time) float64 {
	return float64(time.Since(since).Milliseconds()) / 1000
}
