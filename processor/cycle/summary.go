package cycle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"odradek/detectors"
	"odradek/processor/anomaly"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

// summary says what a record of an anomaly says, as a sentence for people: what was measured, what was expected, what the detector
// finds, and how long it has lasted.
func summary(row *state.EventRow, a *output.Anomaly, cfg *state.Config) string {
	lasted := lasting(a)
	if row.Name == series.SilenceName {
		if row.Change.Kind == anomaly.Close && row.Change.Reason == anomaly.Recovered {
			return fmt.Sprintf("%s sends again after %s", keyText(a.Key), lasted)
		}
		return fmt.Sprintf("%s has sent nothing for %s", keyText(a.Key), lasted) + ended(&row.Change)
	}
	var text strings.Builder
	text.WriteString(keyText(a.Key))
	var d *series.DetectorConfig
	if row.Detector >= 0 {
		d = &cfg.Detectors[row.Detector]
	}
	detector, score, threshold := d, a.PeakScore, a.Threshold
	if v := a.Member; v != nil {
		score, threshold = v.Score, v.Threshold
		detector = named(cfg, v.Name)
	}
	measured := detector
	if a.CarriedBy != "" {
		measured = named(cfg, a.CarriedBy)
	}
	combined := measured != nil && measured.Ensemble != nil // its fields are its members
	if a.Field != "" && !combined && (measured == nil || len(measured.Fields) > 1 || a.Field != "value") {
		text.WriteString(" " + a.Field)
	}
	if at := detectors.Largest(a.Contribution); at >= 0 && at < len(a.Actual) && !combined {
		text.WriteString(reading(a.Actual[at], a.Expected, at, a.Spread, a.Unit))
	} else if r := a.Region; r != nil {
		fmt.Fprintf(&text, ": %s counted in columns %d to %d and rows %d to %d, expected %s", number(float64(r.Observed), 0), r.ColumnFrom,
			r.ColumnTo, r.RowFrom, r.RowTo, number(r.Expected, 1))
	}
	text.WriteString(": " + finds(detector, cfg, score, threshold))
	switch {
	case a.CarriedBy != "":
		text.WriteString(", most to " + a.CarriedBy)
	case a.Field != "" && combined:
		text.WriteString(", most to " + a.Field)
	}
	switch {
	case row.Change.Kind == anomaly.Close && row.Change.Reason == anomaly.Recovered:
		text.WriteString(". Over after " + lasted)
	case row.Change.Kind == anomaly.Close:
		text.WriteString(ended(&row.Change))
	case row.Change.Kind == anomaly.Update:
		text.WriteString(", for " + lasted + " so far")
	}
	if a.Recurs != nil {
		text.WriteString(". Recurs " + a.Recurs.Text)
	}
	if a.Like != nil {
		fmt.Fprintf(&text, ". Like %d false alarms", a.Like.Count)
	}
	return text.String()
}

// named returns the detector of that name; nil: there is none.
func named(cfg *state.Config, name string) *series.DetectorConfig {
	for i := range cfg.Detectors {
		if cfg.Detectors[i].Name == name {
			return &cfg.Detectors[i]
		}
	}
	return nil
}

// reading says what was measured, and what was expected, and how far readings usually are from that, where it is known.
func reading(actual float64, expected []float64, at int, spread float64, unit string) string {
	if unit != "" {
		unit = " " + unit
	}
	if at >= len(expected) || !finite(expected[at]) || !finite(actual) {
		return " was " + number(actual, 3) + unit
	}
	digits, verb := 3, "was"
	if apart := math.Abs(actual - expected[at]); apart > 0 {
		digits = int(max(0, min(9, 2-math.Floor(math.Log10(apart)))))
	}
	switch {
	case actual > expected[at]:
		verb = "rose to"
	case actual < expected[at]:
		verb = "fell to"
	}
	usual := ""
	if spread > 0 && finite(spread) {
		usual = " ± " + number(spread, int(max(0, min(9, 1-math.Floor(math.Log10(spread))))))
	}
	return fmt.Sprintf(" %s %s%s, expected %s%s%s", verb, number(actual, digits), unit, number(expected[at], digits), usual, unit)
}

// finds says what a detector's high score means.
func finds(d *series.DetectorConfig, cfg *state.Config, score, threshold float64) string {
	plain := fmt.Sprintf("score %s over %s", number(score, 3), number(threshold, 3))
	switch {
	case d == nil || d.Ensemble == nil && d.Detector == nil:
		return plain
	case d.Ensemble != nil:
		var names []string
		for _, i := range d.Ensemble.Members {
			names = append(names, cfg.Detectors[i].Name)
		}
		return "unusual to the detectors " + strings.Join(names, ", ") + " together"
	}
	if _, ok := d.Detector.(detectors.Modelled); ok {
		return "unlike the reference"
	}
	text := d.Detector.Op().Spec().Finds
	if text == "" {
		return plain
	}
	return strings.NewReplacer("{window}", number(float64(d.Detector.Window()), 0), "{score}", number(score, 0), "{threshold}",
		number(math.Abs(threshold), 3)).Replace(text)
}

// ended says why an anomaly has closed for another reason than that its scores are ordinary again.
func ended(c *anomaly.Change) string {
	if c.Kind != anomaly.Close {
		return ""
	}
	switch c.Reason {
	case anomaly.Evicted, anomaly.Expired:
		return ". No longer watched: the series was forgotten"
	case anomaly.DetectorRemoved:
		return ". No longer watched: the detector is gone, or in another mode"
	case anomaly.Reset:
		return ". No longer watched: the state was reset"
	case anomaly.Moved:
		return ". No longer watched here: the series has moved to another partition"
	}
	return ""
}

func keyText(key []byte) string {
	s := output.KeyText(key)
	if len(s) > mostKey {
		s = strings.ToValidUTF8(s[:mostKey], "") + "..."
	}
	return s
}

// mostKey bounds the bytes of a key in a summary.
const mostKey = 200

func finite(v float64) bool { return v-v == 0 }

// number writes a number with at most so many digits after the point, and its thousands in groups.
func number(v float64, digits int) string {
	if !finite(v) || math.Abs(v) >= 1e15 || v != 0 && math.Abs(v) < 1e-4 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		fraction = "." + fraction
	}
	sign := ""
	if whole[0] == '-' {
		if sign, whole = "-", whole[1:]; whole == "0" && fraction == "" {
			sign = ""
		}
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + fraction
}

// lasting says how long an anomaly has lasted; one that begins and ends at one event time has lasted for samples alone.
func lasting(a *output.Anomaly) string {
	switch {
	case a.End > a.Start:
		return duration(a.End - a.Start)
	case a.Samples > 1:
		return number(float64(a.Samples), 0) + " samples"
	}
	return "one sample"
}

// Recurring says how often anomalies like a come, and how many there were; "" if it does not recur.
func Recurring(a *anomaly.Anomaly) string {
	r := a.Recurs
	if r == nil {
		return ""
	}
	const day = int64(86400e6)
	period := time.Duration(r.Period) * time.Microsecond
	switch { // the intervals differ by more
	case period >= time.Hour:
		period = period.Round(time.Minute)
	case period >= time.Minute:
		period = period.Round(time.Second)
	}
	every := duration(period.Microseconds())
	if days := (r.Period + day/2) / day; days > 0 && 50*max(r.Period-days*day, days*day-r.Period) <= days*day {
		if every = "day"; days > 1 {
			every = strconv.FormatInt(days, 10) + " days"
		}
		every += " about " + time.UnixMicro(a.Start).UTC().Format("15:04")
	}
	ending := "th"
	if tens := r.Count / 10 % 10; tens != 1 && r.Count%10 >= 1 && r.Count%10 <= 3 {
		ending = [...]string{"st", "nd", "rd"}[r.Count%10-1]
	}
	return fmt.Sprintf("every %s, %d%s time", every, r.Count, ending)
}

// duration writes microseconds in the two largest units of d, h, min, s, or in ms or us.
func duration(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d < time.Millisecond:
		return strconv.FormatInt(us, 10) + " us"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	var parts []string
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := d / u.unit; n > 0 && len(parts) < 2 {
			parts = append(parts, strconv.FormatInt(int64(n), 10)+" "+u.name)
		} else if len(parts) > 0 {
			break
		}
		d %= u.unit
	}
	return strings.Join(parts, " ")
}
