package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/quality"
)

// askedRates are the false-alarm rates of worker score -rates.
var askedRates = []float64{0.01, 0.002, 0.001, 0.0001}

// rates prints the realised false-alarm rate of each detector over the configured one, of a data
// set's unlabelled samples or, without a folder, of synthetic series.
func (t terminal) rates(ctx context.Context, dir, match string, asJSON bool) error {
	format := quality.SyntheticFormat
	var names []string
	var sets [][]quality.Series
	if dir == "" {
		names, sets = quality.Synthetic()
		for i, set := range sets {
			if sets[i] = keepMatching(set, match); len(sets[i]) == 0 {
				return errors.New("no series matches")
			}
		}
	} else {
		name, setFormat, set, err := readSeries(dir, match)
		if err != nil {
			return err
		}
		if setFormat == quality.TCPDFormat {
			return errors.New("score: a data set of change points does not say which samples are ordinary; use another one with -rates")
		}
		format, names, sets = setFormat, []string{name}, [][]quality.Series{set}
	}
	if !asJSON {
		t.ratesHeader()
	}
	var bySeries []string
	for i, set := range sets {
		var all [][]quality.Result
		for _, rate := range askedRates {
			lines, err := t.ratesAt(ctx, rate, names[i], format, set)
			if err != nil {
				return err
			}
			all = append(all, lines)
		}
		for d := range all[0] {
			if all[0][d].Rates == nil {
				continue // of all detectors together
			}
			row := fmt.Sprintf("| %s | %s |", names[i], all[0][d].Detector)
			if !asJSON {
				fmt.Fprint(t.out, row)
			}
			for _, lines := range all {
				if asJSON {
					if err := json.NewEncoder(t.out).Encode(&lines[d]); err != nil {
						return err
					}
					continue
				}
				r := lines[d].Rates
				first, firstRuns := r.First.Times(r.Asked)
				after, afterRuns := r.After.Times(r.Asked)
				fmt.Fprintf(t.out, " %.2f, %.2f (%.2f, %.2f) |", first, after, firstRuns, afterRuns)
				row += seriesCell(r.Each)
			}
			if !asJSON {
				fmt.Fprintln(t.out)
				bySeries = append(bySeries, row)
			}
		}
	}
	if !asJSON {
		fmt.Fprintf(t.out, "\nBy series, after the first %d scores, scores in a row counted once: the number of series that expect %d or more;\n"+
			"the share of them within 0.5 and 2 times the rate, in brackets the share for a Poisson process of this rate, and above;\n"+
			"the median.\n\n",
			quality.FirstScores, quality.LeastRuns)
		t.ratesHeader()
		for _, row := range bySeries {
			fmt.Fprintln(t.out, row)
		}
	}
	return nil
}

// ratesHeader prints the head of a table with a column for each rate.
func (t terminal) ratesHeader() {
	fmt.Fprint(t.out, "| series | detector |")
	for _, rate := range askedRates {
		fmt.Fprintf(t.out, " %v |", rate)
	}
	fmt.Fprintf(t.out, "\n|%s\n", strings.Repeat("---|", 2+len(askedRates)))
}

// seriesCell formats the rates of single series, of which a set may have none that expects enough.
func seriesCell(e quality.SeriesRates) string {
	if e.Series == 0 {
		return " |"
	}
	return fmt.Sprintf(" %d: %.2f (%.2f), %.2f; %.2f |", e.Series, e.Within, e.Chance, e.Above, e.Median)
}

// ratesAt returns the measures of a set with every detector's threshold conformal at a rate.
func (t terminal) ratesAt(ctx context.Context, rate float64, name, format string, set []quality.Series) ([]quality.Result, error) {
	configured, err := newDataSet(t.environ, name, format, set, "backtest")
	if err != nil {
		return nil, err
	}
	d, err := newDataSetBy(func(dim int) []string { return t.environAt(rate, configured.configs[dim]) }, name, format, set, "backtest")
	if err != nil {
		return nil, err
	}
	exec := detectors.NewCPU(runtime.GOMAXPROCS(0))
	defer exec.Close()
	began := time.Now()
	s, err := backtest.Run(ctx, &backtest.Config{State: d.state, Executor: exec, Source: d.source})
	if err == nil && s.Partial != "" {
		err = errors.New("score: " + s.Partial)
	}
	return d.results(s, time.Since(began)), err
}

// environAt returns the environment with the threshold of each detector of c conformal at a rate.
func (t terminal) environAt(rate float64, c *config.Config) (environ []string) {
	override := map[string]string{}
	for i := range c.Detectors {
		prefix := config.DetectorPrefix(c.Detectors[i].Name)
		override[prefix+"THRESHOLD"] = "conformal:" + strconv.FormatFloat(rate, 'g', -1, 64)
		override[prefix+"ALARMS_PER_DAY"] = "0"
	}
	for _, line := range t.environ {
		if key, _, _ := strings.Cut(line, "="); override[key] == "" {
			environ = append(environ, line)
		}
	}
	for key, value := range override {
		environ = append(environ, key+"="+value)
	}
	return environ
}
