package try

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lines returns a result as lines for people.
func (r *Result) Lines() (lines []string) {
	where := r.place()
	if r.Timestamp != nil {
		where += ", " + r.Timestamp.Format(time.RFC3339Nano)
	}
	what := string(r.Outcome)
	switch {
	case r.Outcome == Dead && r.Class != "":
		what = "dead letter (" + r.Class + ")"
	case r.Outcome == Dead:
		what = "left out"
	}
	if r.Reason != "" {
		what += ": " + r.Reason
	}
	lines = append(lines, where+": "+what)
	for _, s := range r.Samples {
		line := fmt.Sprintf("  %s  %s  %s", s.Key, s.Time.Format(time.RFC3339Nano), s.values())
		if s.Outcome != r.Outcome {
			line += "  (" + string(s.Outcome)
			if s.Reason != "" {
				line += ": " + s.Reason
			}
			line += ")"
		}
		lines = append(lines, line)
	}
	for _, s := range r.Intervals {
		lines = append(lines, fmt.Sprintf("  closes the interval  %s  %s  %s", s.Key, s.Time.Format(time.RFC3339Nano), s.values()))
	}
	return lines
}

// place says where a record is.
func (r *Result) place() string {
	switch {
	case r.Offset != nil:
		return fmt.Sprintf("%s/%d offset %d", r.Topic, r.Partition, *r.Offset)
	case r.Line > 0:
		return fmt.Sprintf("line %d", r.Line)
	}
	return "record"
}

func (s *Sample) values() string {
	var parts []string
	for i := range s.Values {
		v := &s.Values[i]
		part := v.Field + "=" + numberText(v.Read)
		if v.Read != nil && (v.Value == nil || *v.Value != *v.Read) {
			part += " -> " + numberText(v.Value)
		}
		if v.Read != nil && v.Value == nil && v.Reason != "" {
			part += " (" + v.Reason + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "  ")
}

func numberText(v *float64) string {
	if v == nil {
		return "missing"
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// Summary says how many records have each outcome.
func Summary(list []*Result) string {
	counts := map[Outcome]int{}
	for _, r := range list {
		counts[r.Outcome]++
	}
	var parts []string
	for _, o := range Outcomes {
		if n := counts[o]; n > 0 || o == Read {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return fmt.Sprintf("%d records: %s", len(list), strings.Join(parts, ", "))
}

// Some reports whether one of the records is read.
func Some(list []*Result) bool {
	for _, r := range list {
		if r.Outcome == Read {
			return true
		}
	}
	return false
}
