package testbed

import (
	"fmt"
	"io"
	"time"
)

// This file has the options of all benchmarks: how much and how often they measure, and their log.

// Measuring are the flags that every benchmark obeys.
type Measuring struct {
	Quick   bool      // a tenth of the records, a quarter of the time
	Repeat  int       // times to measure what varies
	Peers   bool      // run baselines that are other programs
	Profile string    // folder of CPU profiles; "": none
	Verbose bool      // say on log what is going on
	Log     io.Writer // standard error
}

// Scale returns a number of records, reduced with -quick.
func (m *Measuring) Scale(n int) int {
	if m.Quick {
		return n / 10
	}
	return n
}

// Span returns a duration, reduced with -quick.
func (m *Measuring) Span(d time.Duration) time.Duration {
	if m.Quick {
		return d / 4
	}
	return d
}

// Say writes a line with the time of day to the log, with -v.
func (m *Measuring) Say(format string, args ...any) {
	if m.Verbose {
		fmt.Fprintf(m.Log, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
}
