package backtest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

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
	s := fmt.Sprintf("%12d rows, %9.0f rows/s", rows, float64(rows)/max(1e-3, took.Seconds()))
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

// Lines returns a summary of the results for a terminal.
func (s *Summary) Lines(took time.Duration) []string {
	list := []string{
		fmt.Sprintf("%d rows of %d series (%.1f series-days judged) in %.1f s, %.0f rows/s", s.Rows, s.Series, s.Days, took.Seconds(),
			float64(s.Rows)/max(1e-3, took.Seconds())),
	}
	for i := range s.Detectors {
		d := &s.Detectors[i]
		if d.Judged == 0 {
			list = append(list, d.Name+": "+d.NotJudged())
			continue
		}
		l := fmt.Sprintf("%s: %d anomalies, %.3f alarms per series-day", d.Name, d.Anomalies, d.AlarmsPerDay)
		if a := d.Agreement; a != nil {
			l = fmt.Sprintf("%s: %d anomalies, %.3f false alarms per series-day; %d of %d labelled ones found, "+
				"precision %.3f, recall %.3f, median delay %s",
				d.Name, d.Anomalies, d.AlarmsPerDay, a.Found, a.Labelled, a.Precision(), a.Recall(),
				time.Duration(a.DelayMedian*float64(time.Second)).Round(time.Second))
		}
		if d.Unjudged > 0 {
			l += "; " + d.NotJudged()
		}
		list = append(list, l)
		if d.Beside != nil {
			list = append(list, fmt.Sprintf("%s: %s", d.Name, d.Beside))
		}
	}
	if n := s.Total(); s.Faults < n {
		list = append(list, fmt.Sprintf("faults: %d, of %d anomalies", s.Faults, n))
	}
	for _, why := range s.Troubles {
		list = append(list, "left out: "+why)
	}
	return list
}
