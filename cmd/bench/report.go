package main

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

// benchRow is one figure with what it is compared with. Ratio is how many times
// better than the baseline: above 1 this worker is ahead, whether the unit is a
// rate or a cost.
type benchRow struct {
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

// row makes a row of a value.
func row(name string, value float64, unit string) benchRow {
	return benchRow{Case: name, Value: value, Unit: unit}
}

// against adds a baseline in the same unit. lower: less is better.
func (r benchRow) against(name string, baseline float64, lower bool) benchRow {
	ratio := r.Value / baseline
	if lower {
		ratio = 1 / ratio
	}
	r.BaselineName, r.Baseline, r.Ratio = name, &baseline, &ratio
	return r
}

// without says why a baseline is not there.
func (r benchRow) without(name string, why error) benchRow {
	r.BaselineName = name + " (skipped: " + firstLine(why.Error()) + ")"
	return r
}

// want adds a target and whether it is met.
func (r benchRow) want(target string, met bool) benchRow {
	r.Target, r.Met = target, &met
	return r
}

// wantRatio is want for a target of the ratio, where there is a baseline.
func (r benchRow) wantRatio(least float64) benchRow {
	target := fmt.Sprintf(">= %g times the baseline", least)
	if r.Ratio == nil {
		r.Target = target
		return r
	}
	return r.want(target, *r.Ratio >= least)
}

func (r benchRow) noted(format string, args ...any) benchRow {
	if r.Note != "" {
		r.Note += "; "
	}
	r.Note += fmt.Sprintf(format, args...)
	return r
}

// benchReport prints rows as they come (JSON) or as one table at the end.
type benchReport struct {
	out          io.Writer
	json         bool
	command, cpu string
	rows         []benchRow
}

func (p *benchReport) add(rows []benchRow) {
	for _, r := range rows {
		r.CPU, r.Command = p.cpu, p.command
		p.rows = append(p.rows, r)
		if p.json {
			e := json.NewEncoder(p.out)
			e.SetEscapeHTML(false)
			if err := e.Encode(r.finite()); err != nil {
				fmt.Fprintf(p.out, "{\"name\":%q,\"skipped\":%q}\n", r.Name, err)
			}
		}
	}
}

// finite makes a row that JSON can say.
func (r benchRow) finite() benchRow {
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

func (p *benchReport) end() {
	if p.json {
		return
	}
	fmt.Fprintf(p.out, "%s\n\n", p.cpu)
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tvalue\tunit\tbaseline\tratio\ttarget\t\tnote")
	for _, r := range p.rows {
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
			baseline, ratio = figure(*r.Baseline)+" "+r.BaselineName, figure(*r.Ratio)
		}
		if r.Met != nil {
			met = map[bool]string{true: "met", false: "MISSED"}[*r.Met]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, figure(r.Value), r.Unit, baseline, ratio, r.Target, met, r.Note)
	}
	w.Flush()
}

// figure writes a number with three significant digits and separated thousands.
func figure(v float64) string {
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

// median of the figures; spread is how far the extremes lie apart, in its percent.
func median(v []float64) (mid, spread float64) {
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
