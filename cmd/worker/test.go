package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/try"
)

const testAbout = `Runs your own tests of the settings: a test gives records, and says which samples are read of them, or why none is,
which intervals of EVERY they close, and which anomalies there are. Records are read, and their samples scored, by the
worker's own code, without a broker; what LATENESS holds is taken at the end. The settings are those that the file names: of
the environment a test takes only ODRADEK_SCHEMA_REGISTRY_*. docs/records.md has an example. Exits with 1 if a test fails.`

const testExamples = `  worker test plant_test.yaml
  worker test -run quality -v plant_test.yaml pumps_test.yaml`

func (t terminal) test(ctx context.Context, args []string) int {
	fs := t.flags("test", testAbout, testExamples)
	only, verbose := "", false
	fs.StringVar(&only, "run", "", "run only tests whose name contains this text")
	fs.BoolVar(&verbose, "v", false, "print what becomes of each record, as worker try does")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case fs.NArg() == 0:
		fmt.Fprintln(t.err, "worker test: name a file of tests; worker test -h has an example")
		return exitUsage
	}
	ran, failed := 0, 0
	for _, path := range fs.Args() {
		s, err := try.OpenSuite(path)
		if err != nil {
			return t.fail(err)
		}
		environ, faults := s.Environ(t.environ)
		c, more, _ := config.Parse(environ)
		names := readingSettings()
		if s.RowsOnly() {
			names = withoutFormat(names)
		}
		faults = append(faults, config.FaultsOf(more, names)...)
		if len(faults) > 0 {
			fmt.Fprintf(t.err, "worker test: %s\n", path)
			printFaults(t.err, faults)
			return exitUsage
		}
		r, f, err := t.runSuite(ctx, s, c, path, only, verbose)
		if ran, failed = ran+r, failed+f; err != nil {
			return t.fail(err)
		}
	}
	fmt.Fprintf(t.out, "%d tests, %d failed\n", ran, failed)
	if failed > 0 {
		return exitFailed
	}
	if ran == 0 {
		fmt.Fprintf(t.err, "worker test: no test has a name with %q\n", only)
		return exitFailed
	}
	return exitOK
}

// runSuite runs the tests of a suite whose names contain a text.
func (t terminal) runSuite(ctx context.Context, s *try.Suite, c *config.Config, path, only string, verbose bool) (ran, failed int,
	err error) {
	reg, err := c.NewRegistry()
	if err != nil {
		return 0, 0, err
	}
	if reg != nil {
		defer reg.Close()
	}
	for i := range s.Tests {
		test := &s.Tests[i]
		if !strings.Contains(test.Name, only) {
			continue
		}
		wrong, results, err := s.Run(ctx, test, c, reg)
		if err != nil {
			return ran, failed, fmt.Errorf("%s: %s: %w", path, test.Name, err)
		}
		ran++
		if len(wrong) > 0 {
			failed++
			fmt.Fprintf(t.out, "FAIL  %s: %s\n", path, test.Name)
		} else {
			fmt.Fprintf(t.out, "ok    %s: %s\n", path, test.Name)
		}
		for _, line := range wrong {
			fmt.Fprintln(t.out, "      "+line)
		}
		for _, r := range results {
			for _, line := range r.Lines() {
				if verbose {
					fmt.Fprintln(t.out, "      | "+line)
				}
			}
		}
	}
	return ran, failed, nil
}
