package testbed

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// This file prints the rows that benchmarks return, figures with their baselines and targets, as a table or as JSON.

// Row is one figure with what it is compared with. Ratio is how many times
// better than the baseline: above 1 this worker is ahead, whether the unit is a
// rate or a cost.
type Row struct {
	Name         string   `json:"name"`
	Case         string   `json:"case,omitempty"`
	Value        float64  `json:"value"`
	Unit         string   `json:"unit"`
	Baseline     *float64 `json:"baseline"`
	Ratio        *float64 `json:"ratio"`
	BaselineName string   `json:"baseline_name,omitempty"`
	Target       string   `json:"target,omitempty"`
	Met          *bool    `json:"met,omitempty"`
	Note         string   `json:"note,omitempty"`
	Skipped      string   `json:"skipped,omitempty"`
	Floor        *float64 `json:"of_floor,omitempty"` // fraction of what the device could do at most
	Device       string   `json:"device,omitempty"`
	CPU          string   `json:"cpu"`
	Command      string   `json:"command"`
}

// NewRow makes a row of a value.
func NewRow(name string, value float64, unit string) Row {
	return Row{Case: name, Value: value, Unit: unit}
}

// Against adds a baseline in the same unit. lower: less is better.
func (r Row) Against(name string, baseline float64, lower bool) Row {
	ratio := r.Value / baseline
	if lower {
		ratio = 1 / ratio
	}
	r.BaselineName, r.Baseline, r.Ratio = name, &baseline, &ratio
	return r
}

// Without says why a baseline is not there.
func (r Row) Without(name string, why error) Row {
	r.BaselineName = name + " (skipped: " + FirstLine(why.Error()) + ")"
	return r
}

// Want adds a target and whether it is met.
func (r Row) Want(target string, met bool) Row {
	r.Target, r.Met = target, &met
	return r
}

// WantRatio is want for a target of the ratio, where there is a baseline.
func (r Row) WantRatio(least float64) Row {
	target := fmt.Sprintf(">= %g times the baseline", least)
	if r.Ratio == nil {
		r.Target = target
		return r
	}
	return r.Want(target, *r.Ratio >= least)
}

// Noted adds to the note.
func (r Row) Noted(format string, args ...any) Row {
	if r.Note != "" {
		r.Note += "; "
	}
	r.Note += fmt.Sprintf(format, args...)
	return r
}

// Report prints rows as they come (JSON) or as one table at the end.
type Report struct {
	Out          io.Writer
	JSON         bool
	Command, CPU string
	rows         []Row
}

// Add takes the rows of a benchmark and, with JSON, prints them.
func (rp *Report) Add(rows []Row) {
	for _, r := range rows {
		r.CPU, r.Command = rp.CPU, rp.Command
		rp.rows = append(rp.rows, r)
		if rp.JSON {
			e := json.NewEncoder(rp.Out)
			e.SetEscapeHTML(false)
			if err := e.Encode(r.finite()); err != nil {
				fmt.Fprintf(rp.Out, "{\"name\":%q,\"skipped\":%q}\n", r.Name, err)
			}
		}
	}
}

// finite makes a row that JSON can say.
func (r Row) finite() Row {
	bad := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	if bad(r.Value) {
		r.Value = 0
	}
	for _, p := range []**float64{&r.Baseline, &r.Ratio} {
		if *p != nil && bad(**p) {
			*p = nil
		}
	}
	return r
}

// End prints the table.
func (rp *Report) End() {
	if rp.JSON {
		return
	}
	fmt.Fprintf(rp.Out, "%s\n\n", rp.CPU)
	w := tabwriter.NewWriter(rp.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tvalue\tunit\tbaseline\tratio\ttarget\t\tnote")
	for _, r := range rp.rows {
		name := r.Name
		if r.Case != "" {
			name += ", " + r.Case
		}
		if r.Skipped != "" {
			fmt.Fprintf(w, "%s\tskipped\t\t\t\t\t\t%s\n", name, r.Skipped)
			continue
		}
		baseline, ratio, met := r.BaselineName, "", ""
		if r.Baseline != nil {
			baseline, ratio = Figure(*r.Baseline)+" "+r.BaselineName, Figure(*r.Ratio)
		}
		if r.Met != nil {
			met = map[bool]string{true: "met", false: "MISSED"}[*r.Met]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, Figure(r.Value), r.Unit, baseline, ratio, r.Target, met, r.Note)
	}
	w.Flush()
}

// Figure writes a number with three significant digits and separated thousands.
func Figure(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1000:
		s := strconv.FormatInt(int64(math.Round(v)), 10)
		var parts []string
		for len(s) > 3 && s[len(s)-4] != '-' {
			parts = append(parts, s[len(s)-3:])
			s = s[:len(s)-3]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return strings.Join(parts, ",")
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Median returns the median of the figures; spread is how far the extremes lie apart, in its percent.
func Median(v []float64) (mid, spread float64) {
	if len(v) == 0 {
		return math.NaN(), 0
	}
	s := slices.Clone(v)
	slices.Sort(s)
	mid = s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (mid + s[len(s)/2-1]) / 2
	}
	return mid, 100 * (s[len(s)-1] - s[0]) / mid
}

// FirstLine returns the text before the first line feed.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
