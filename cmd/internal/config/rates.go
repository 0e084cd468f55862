package config

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"odradek/detectors/threshold"
)

// Unsupported returns a warning for each detector whose configured false-alarm rate needs a longer history than it has.
// Settings of a preset get no warning. A rate of 1/1000 needs a thousand scores; below that the threshold comes from an
// extrapolated tail, whose realised rates differ by up to four times (docs/quality.md, false alarms).
func (c *Config) Unsupported() (list []Fault) {
	given := map[string]bool{}
	for _, s := range c.settings {
		given[s.name] = s.given()
	}
	for i := range c.Detectors {
		d := &c.Detectors[i]
		pre := DetectorPrefix(d.Name)
		r, err := c.thresholdOf(d)
		if err != nil || r == nil {
			continue
		}
		switch {
		case r.Kind == threshold.PerDay:
			if f, ok := perDayWarning(r); ok {
				f.Name = pre + "ALARMS_PER_DAY"
				if !given[f.Name] {
					f.Name = pre + "THRESHOLD"
				}
				list = append(list, f)
			}
		case r.Kind == threshold.Conformal && r.History < threshold.Shows(r.Value) && (given[pre+"THRESHOLD"] || given[pre+"HISTORY"]):
			f := Fault{Name: pre + "THRESHOLD", Problem: fmt.Sprintf("a false-alarm rate of %v is beyond what HISTORY=%d shows, one score in "+
				"%d: the threshold is extrapolated, and the rate not guaranteed", r.Value, r.History, r.History+1)}
			if n := threshold.Shows(r.Value); n <= threshold.MaxHistory {
				f.Fix = fmt.Sprintf("%sHISTORY=%d supports it, HISTORY=%d a rate of %s", pre, n, r.History, leastRate(r.History))
			} else {
				f.Fix = fmt.Sprintf("no HISTORY supports it: it would take %d scores, and %d is the most; HISTORY=%d supports a rate of %s", n,
					threshold.MaxHistory, r.History, leastRate(r.History))
			}
			list = append(list, f)
		}
	}
	return list
}

// leastRate returns the smallest rate that n scores show, rounded up to two digits.
func leastRate(n int) string {
	rate := 1 / float64(n+1)
	unit := math.Pow(10, math.Floor(math.Log10(rate))-1)
	return strconv.FormatFloat(math.Ceil(rate/unit)*unit, 'g', 2, 64)
}

// perDayWarning warns of a number of alarms a day that a series with a score a second could not keep, because the real
// number of scores is not known in advance.
func perDayWarning(r *threshold.Params) (f Fault, ok bool) {
	const day = 24 * time.Hour
	scores := r.Value * float64(r.History+1) // a day that the history supports
	if scores >= day.Seconds() {
		return f, false
	}
	each := time.Duration(float64(day) / scores).Round(time.Second)
	f.Problem = fmt.Sprintf("HISTORY=%d supports %v alarms a day for series with up to %.0f scores a day, one each %v; for series with "+
		"more the number is not guaranteed", r.History, r.Value, scores, each)
	n := threshold.Shows(r.Value / day.Seconds())
	if n <= threshold.MaxHistory {
		f.Fix = fmt.Sprintf("with a score a second HISTORY=%d supports it", n)
	} else {
		f.Fix = fmt.Sprintf("with a score a second no HISTORY supports it: that would take %d scores, and %d is the most", n,
			threshold.MaxHistory)
	}
	return f, true
}
