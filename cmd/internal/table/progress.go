package table

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Progress says how far a command is; it may be read while the command runs.
type Progress struct {
	Rows, Done, Total atomic.Int64 // Done and Total in the source's unit
	Unit              string       // of Rows, if these are no rows
}

// Show prints the progress of the run until the returned function is called: twice a second
// over the same line where w is a terminal, else a line every ten seconds.
func (p *Progress) Show(w io.Writer, terminal bool) (stop func()) {
	every, end := 10*time.Second, "\n"
	if terminal {
		every, end = 500*time.Millisecond, "\r"
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				if terminal {
					fmt.Fprintf(w, "%s\n", p.line(time.Since(began)))
				}
				return
			case <-tick.C:
				fmt.Fprintf(w, "%s%s", p.line(time.Since(began)), end)
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// line describes the progress.
func (p *Progress) line(took time.Duration) string {
	rows, done, total := p.Rows.Load(), p.Done.Load(), p.Total.Load()
	unit := cmp.Or(p.Unit, "rows")
	s := fmt.Sprintf("%12d %s, %9.0f %s/s", rows, unit, float64(rows)/max(1e-3, took.Seconds()), unit)
	if total <= 0 {
		return s
	}
	fraction := min(1, float64(done)/float64(total))
	const width = 30
	full := int(fraction * width)
	s = fmt.Sprintf("[%s%s] %5.1f %% %s", strings.Repeat("#", full), strings.Repeat(".", width-full), 100*fraction, s)
	if fraction > 0 && fraction < 1 {
		left := time.Duration(float64(took) * (1 - fraction) / fraction)
		s += ", " + left.Round(time.Second).String() + " left   "
	}
	return s
}
