package suggest

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state"
)

const day = 24 * time.Hour

const (
	raises  = 4        // factors that bisect tries
	highest = 64. / 27 // above all of them
)

// tally is what a detector did in the history.
type tally struct {
	name   string
	opened int
	first  int     // opened where no other detector had found the fault
	days   float64 // for which series were judged
	series int     // judged
	perDay float64 // of all series; NaN: not known
	faults float64 // as perDay, of first
}

// outcome is one run of the detectors.
type outcome struct {
	c       *config.Config
	tallies []tally
	bytes   int64 // of state of a series
	late    int64
	cut     bool
}

// total returns the expected faults a day: anomalies, of which several detectors' of one fault are one.
func (o *outcome) total() (perDay float64, known bool) {
	for i := range o.tallies {
		if t := &o.tallies[i]; t.faults == t.faults {
			perDay += t.faults
			known = true
		}
	}
	return perDay, known
}

// above reports whether there are surely more than most faults a day. Few faults show little, some are real, and a raised threshold
// hides them for good.
func (o *outcome) above(most float64) bool {
	total, known := o.total()
	return known && o.atLeast(total) > most
}

// atLeast returns the lower limit of total, at 99 %: of the mean of a Poisson distribution with as many events as faults in the history,
// by Wilson and Hilferty's approximation.
func (o *outcome) atLeast(total float64) float64 {
	n := 0.0
	for i := range o.tallies {
		n += float64(o.tallies[i].first)
	}
	if n == 0 {
		return 0
	}
	return total * math.Pow(max(0, 1-1/(9*n)-2.326/(3*math.Sqrt(n))), 3)
}

// run folds the history through the worker's state, detectors and thresholds.
func (h *history) run(ctx context.Context, detect []settingsfile.Setting) (*outcome, error) {
	c, err := h.m.c.with(slices.Concat(h.base, h.state, detect))
	if err != nil {
		return nil, err
	}
	ks, err := c.KeystateConfig()
	if err != nil {
		return nil, err
	}
	exec := detectors.NewCPU(runtime.GOMAXPROCS(0))
	defer exec.Close()
	o := &outcome{c: c}
	for i := range ks.Detectors {
		o.tallies = append(o.tallies, tally{name: ks.Detectors[i].Name})
	}
	silent := tally{name: "silence"}
	end := time.Now().Add(h.m.c.Time)
	type judged struct {
		first, last int64
		seen        bool
	}
	series := 0
	for _, s := range h.stretch {
		spans := map[string][]judged{}
		from := int64(0)
		if len(s.samples) > 0 {
			from = ks.Record(s.samples[0].offset)
		}
		lane := backtest.NewLane(ks, exec, s.tp.Topic, s.tp.Partition, from, func(rows []state.Row, changes []state.EventRow) error {
			for i := range rows {
				r := &rows[i]
				if r.Threshold != r.Threshold {
					continue
				}
				list := spans[string(r.Key.Name())]
				if list == nil {
					list = make([]judged, len(o.tallies))
					spans[string(r.Key.Name())] = list
				}
				j := &list[r.Detector]
				if !j.seen {
					j.first, j.seen = r.Time, true
				}
				j.last = max(j.last, r.Time)
			}
			for i := range changes {
				e := &changes[i]
				if e.Change.Kind != anomaly.Open {
					continue
				}
				t := &silent
				if e.Detector >= 0 {
					t = &o.tallies[e.Detector]
				}
				t.opened++
				if e.Change.Anomaly.Fault == e.Change.Anomaly.ID {
					t.first++
				}
			}
			return nil
		})
		first, last := make([]int64, len(s.names)), make([]int64, len(s.names))
		for i := range s.samples {
			if i%1024 == 0 && time.Now().After(end) {
				o.cut = true
				break
			}
			sm := s.sample(i)
			if at := s.samples[i].series; first[at] == 0 {
				first[at], last[at] = sm.Time, sm.Time
			} else {
				last[at] = max(last[at], sm.Time)
			}
			if lane.Misplaced(&sm) == nil {
				_, err = lane.Fold(ctx, &sm)
			}
			if err != nil {
				break
			}
		}
		if err == nil {
			err = lane.Finish(ctx)
		}
		counts, _ := lane.Counts()
		o.late += counts[state.Late]
		o.bytes += lane.Bytes()
		lane.Close()
		if err != nil {
			return nil, fmt.Errorf("suggest: %w", err)
		}
		series += len(s.names)
		for _, list := range spans {
			for d := range list {
				if j := &list[d]; j.seen {
					o.tallies[d].days += float64(j.last-j.first) / float64(day.Microseconds())
					o.tallies[d].series++
				}
			}
		}
		for i := range first {
			silent.days += float64(last[i]-first[i]) / float64(day.Microseconds())
		}
	}
	o.bytes /= int64(max(1, series))
	if ks.Silence > 0 {
		silent.series = series
		o.tallies = append(o.tallies, silent)
	}
	for i := range o.tallies {
		t := &o.tallies[i]
		t.perDay, t.faults = math.NaN(), math.NaN()
		if t.days > 0 {
			n := h.series
			if t.name != "silence" {
				n = h.valued
			}
			t.perDay = float64(t.opened) / t.days * float64(n)
			t.faults = float64(t.first) / t.days * float64(n)
		}
	}
	return o, nil
}

// choosePreset returns the preset that suits the samples, and why.
func (h *history) choosePreset() (name, why string) {
	middle := median(h.pauses)
	perDay := 0.0
	if middle > 0 {
		perDay = float64(day.Microseconds()) / float64(middle)
	}
	every := "a sample of a series each " + span(middle)
	fit := func(window int) string {
		return fmt.Sprintf("%s, so a window of %s samples is %s", every, count(window, ""), span(int64(window)*middle))
	}
	rate := perDay * float64(h.series) / 86400
	budget := float64(config.MemoryLimit()) * 0.6
	switch {
	case middle == 0:
		return "default", "The rate of samples is not known; this is what suits most."
	case h.width > 1:
		return "vector", fmt.Sprintf("A sample has %d values, which belong together; %s.", h.width, fit(2048))
	case perDay < 30:
		return "change", fmt.Sprintf("There is %s, and its window of 32 samples is %s; the windows of the other presets would take %s to fill.",
			every, span(32*middle), span(512*middle))
	case perDay < 150:
		return "fast", fmt.Sprintf("There is %s; default's would take %s to fill.", fit(512), span(2048*middle))
	case rate*20e-6 > 0.5*float64(runtime.GOMAXPROCS(0)):
		return "fast", fmt.Sprintf("%s samples a second of %s take less than half of the CPU that default takes.", figure(rate),
			count(h.series, "series"))
	case budget > 0 && float64(h.series)*400e3 > budget:
		return "fast", fmt.Sprintf("The windows of %s need less memory with fast than with default.", count(h.series, "series"))
	}
	return "default", fmt.Sprintf("One value a sample, and nothing else is known of the faults; there is %s.", fit(2048))
}

// detectors chooses detectors, windows and thresholds, and says how many anomalies they open.
func (h *history) detectors(ctx context.Context) error {
	m := h.m
	var detect []settingsfile.Setting
	var own []settingsfile.Setting // given detectors
	for _, set := range m.c.Given.GivenSettings() {
		if set.Detector != "" {
			set.Comment, set.Section = "", ""
			own = append(own, set)
		}
	}
	chosen, given := m.s.given["preset"]
	named := m.c.Given.Detect.Preset == "" // detectors are given by name
	switch {
	case named:
		for _, name := range m.c.Given.Detect.Names {
			if !slices.ContainsFunc(own, func(s settingsfile.Setting) bool { return s.Detector == name }) {
				own = append(own, settingsfile.Setting{Detector: name})
			}
		}
	case given:
		detect = append(detect, settingsfile.Setting{Key: "preset", Value: chosen.Value})
	case len(own) > 0: // of detectors of the default
		detect = append(detect, settingsfile.Setting{Key: "preset", Value: m.c.Given.Detect.Preset})
	default:
		set := settingsfile.Setting{Key: "preset"}
		set.Value, set.Comment = h.choosePreset()
		h.preset = set.Value
		detect = append(detect, set)
	}
	detect = append(detect, h.grouping()...)
	if low, high := h.m.scales(); h.preset == "vector" && high > 10*low {
		detect = append(detect, settingsfile.Setting{Section: "Detectors", Detector: "near", Key: "scale", Value: "range",
			Comment: fmt.Sprintf("The middle half of the values of a field spans from %s to %s: in their own units the largest decides alone.",
				figure(low), figure(high))})
	}
	o, err := h.run(ctx, detect)
	if err != nil {
		return err
	}
	raised := map[string]string{} // why, by detector
	if h.preset != "" && o.above(m.c.Alarms) {
		if o, detect, err = h.raise(ctx, o, detect, own, raised); err != nil {
			return err
		}
	}
	h.crowded(o, own)
	h.write(o, detect, own, raised)
	return nil
}

// raise returns the lowest of a few higher thresholds that are not surely exceeded too often, and what they do in the history. It raises
// the thresholds of the detectors that open many anomalies, all by one factor, which is found by bisection. A fault that just exceeds
// its threshold is lost by a larger factor than it takes.
func (h *history) raise(ctx context.Context, o *outcome, detect, own []settingsfile.Setting, raised map[string]string) (*outcome,
	[]settingsfile.Setting, error) {
	type change struct {
		name, before  string
		history, most int // scores that the threshold follows, and may
	}
	var changes []change
	for i := range o.tallies {
		t := &o.tallies[i]
		before, ok := thresholdOf(o.c, t.name)
		if !ok || !(t.perDay > h.m.c.Alarms/float64(len(o.tallies))) {
			continue
		}
		c := change{t.name, before, historyOf(o.c, t.name), threshold.MaxHistory}
		if slices.ContainsFunc(own, func(s settingsfile.Setting) bool { return s.Detector == t.name && s.Key == "history" }) {
			c.most = c.history
		}
		if higher(before, c.most, highest) == "" {
			continue
		}
		raised[t.name] = fmt.Sprintf("%s with %s", figure(t.perDay), before)
		changes = append(changes, c)
	}
	if len(changes) == 0 {
		return o, detect, nil
	}
	best, settings := o, detect
	err := bisect(func(factor float64) (above bool, err error) {
		more := slices.Clone(detect)
		for _, c := range changes {
			after := higher(c.before, c.most, factor)
			more = put(more, settingsfile.Setting{Detector: c.name, Key: "threshold", Value: after})
			if n := needed(after); n > c.history {
				more = put(more, settingsfile.Setting{Section: "Detectors", Detector: c.name, Key: "history", Value: strconv.Itoa(n),
					Comment: "As many scores as show the rate of the raised threshold."})
			}
		}
		next, err := h.run(ctx, more)
		if err != nil {
			return false, err
		}
		if above = next.above(h.m.c.Alarms); !above || best.above(h.m.c.Alarms) {
			best, settings = next, more
		}
		return above, nil
	})
	return best, settings, err
}

// bisect tries factors between 1, which is too low, and highest: a lower one after one that is not above, else a higher one.
func bisect(try func(factor float64) (above bool, err error)) error {
	low, high := 1.0, highest
	for range raises {
		factor := math.Sqrt(low * high)
		above, err := try(factor)
		if err != nil {
			return err
		}
		if above {
			low = factor
		} else {
			high = factor
		}
	}
	return nil
}

// crowded adds to given detectors by densities what equal samples make of these.
func (h *history) crowded(o *outcome, own []settingsfile.Setting) {
	ks, err := o.c.KeystateConfig()
	if err != nil {
		return
	}
	samples := config.EqualSamples{}
	for _, s := range h.stretch {
		for i := range s.samples {
			samples.Add(s.names[s.samples[i].series], s.samples[i].values)
		}
	}
	for i := range ks.Detectors {
		d := &ks.Detectors[i]
		at := slices.IndexFunc(own, func(s settingsfile.Setting) bool { return s.Detector == d.Name })
		if text := samples.Crowded(d, ks.Windows[d.Window].Columns); text != "" && at >= 0 {
			own[at].Comment = strings.ToUpper(text[:1]) + text[1:] + "."
		}
	}
}

// put replaces a setting of a list, or adds it.
func put(list []settingsfile.Setting, set settingsfile.Setting) []settingsfile.Setting {
	for i := range list {
		if list[i].Detector == set.Detector && list[i].Key == set.Key {
			list[i] = set
			return list
		}
	}
	return append(list, set)
}

func thresholdOf(c *config.Config, name string) (string, bool) {
	for i := range c.Detectors {
		if c.Detectors[i].Name == name {
			return c.Detectors[i].Alarm.Threshold, c.Detectors[i].Alarm.Threshold != config.Off
		}
	}
	return "", false
}

// historyOf returns the number of scores that the threshold of a detector follows; 0 for a fixed one.
func historyOf(c *config.Config, name string) int {
	ks, err := c.KeystateConfig()
	if err != nil {
		return 0
	}
	for i := range ks.Detectors {
		if d := &ks.Detectors[i]; d.Name == name && d.Threshold != nil {
			return d.Threshold.History
		}
	}
	return 0
}

// needed returns the number of scores that show the rate of a threshold; 0 if it has none.
func needed(text string) int {
	rate, ok := strings.CutPrefix(text, "conformal:")
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		return 0
	}
	return threshold.Shows(f)
}

// higher returns a threshold that is exceeded less often: a score has to be higher by the factor, or its rate lower by the factor's fourth
// power, about; "" where it is not known how, or where most scores do not show a lower rate, so that the threshold would be extrapolated.
func higher(text string, most int, factor float64) string {
	kind, value, _ := strings.Cut(text, ":")
	number := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return math.NaN()
		}
		return f
	}
	write := func(f float64) string { return strconv.FormatFloat(f, 'g', 3, 64) }
	switch kind {
	case "conformal":
		if rate := number(value); rate > 0 {
			next := rate / math.Pow(factor, 4)
			if least := 1 / float64(most+1); next < least {
				next = 1.01 * least // it has three digits
			}
			if next < 0.9*rate {
				return "conformal:" + write(next)
			}
		}
	case "fixed":
		if v := number(value); v > 0 {
			return "fixed:" + write(v*factor)
		}
	case "quantile":
		if q, times, ok := strings.Cut(value, "*"); ok && number(times) > 0 {
			return "quantile:" + q + "*" + write(number(times)*factor)
		}
	}
	return ""
}

// grouping puts the anomalies of the fields of one key into a group.
func (h *history) grouping() []settingsfile.Setting {
	if h.m.sensors < 2 {
		return nil
	}
	return []settingsfile.Setting{{Key: "group_by", Value: "^(.*)/[^/]*$",
		Comment: fmt.Sprintf("The %d series of a key have anomalies in one group.", h.m.sensors)}}
}

// write adds the detectors to the suggestion.
func (h *history) write(o *outcome, detect, own []settingsfile.Setting, raised map[string]string) {
	s := h.m.s
	var list []settingsfile.Setting
	for _, set := range detect {
		if set.Detector == "" {
			list = append(list, set)
		}
	}
	s.section("Detectors", list...)
	middle := median(h.pauses)
	list = nil
	for i := range o.tallies {
		t := &o.tallies[i]
		in, ok := thresholdOf(o.c, t.name)
		if !ok {
			continue
		}
		if h.preset != "" {
			if w := windowOf(o.c, t.name); w > 0 {
				list = append(list, settingsfile.Setting{Section: "Detectors", Detector: t.name, Key: "window", Value: strconv.Itoa(w), Off: true,
					Comment: fmt.Sprintf("%s of a series.", span(int64(w)*middle))})
			}
		}
		comment := h.seen(t)
		if before := raised[t.name]; before != "" {
			comment += " Raised, because there would be " + before + "."
		}
		list = append(list, settingsfile.Setting{Section: "Detectors", Detector: t.name, Key: "threshold", Value: in, Comment: comment,
			Off: raised[t.name] == "" && h.preset != ""}) // what the preset has
		for _, set := range detect {
			if set.Detector == t.name && set.Key != "threshold" {
				list = append(list, set)
			}
		}
	}
	for _, set := range own {
		set.Section = "Detectors"
		at := slices.IndexFunc(list, func(o settingsfile.Setting) bool { return o.Detector == set.Detector && o.Key == set.Key })
		switch {
		case at >= 0:
			list[at].Value = set.Value
		default:
			at = slices.IndexFunc(list, func(o settingsfile.Setting) bool { return o.Detector == set.Detector })
			list = slices.Insert(list, max(at, 0), set)
		}
	}
	s.settings = append(s.settings, list...)
	h.estimated(o)
}

// seen says what a detector did in the history.
func (h *history) seen(t *tally) string {
	if t.perDay != t.perDay {
		return fmt.Sprintf("Not tried: the series have %s in the middle, too few for it to begin.", count(h.samplesOf(), "sample"))
	}
	return fmt.Sprintf("%s in %s series-days of %s: %s a day for %s.", count(t.opened, "anomaly"),
		figure(t.days), count(t.series, "series"), figure(t.perDay), count(h.valued, "series"))
}

func windowOf(c *config.Config, name string) int {
	for i := range c.Detectors {
		if d := &c.Detectors[i]; d.Name == name && strings.Contains(" "+c.Changed(d)+" ", " WINDOW=") {
			return d.Window
		}
	}
	return 0
}

// estimated writes the expected anomalies, the memory and how far to trust them into the head.
func (h *history) estimated(o *outcome) {
	var texts []string
	series, samples := h.kept()
	total, known := o.total()
	if known {
		var each []string
		least, several := math.Inf(1), false
		for i := range o.tallies {
			if t := &o.tallies[i]; t.perDay == t.perDay {
				each = append(each, fmt.Sprintf("%s %s", t.name, figure(t.perDay)))
				several = several || t.first < t.opened
				least = min(least, t.days)
			}
		}
		text := fmt.Sprintf("Expected anomalies a day: %s (%s), for %s. The detectors below were run on %s of %s, as the worker runs them.",
			figure(total), strings.Join(each, ", "), count(h.series, "series"), count(samples, "sample"), count(series, "series"))
		if several {
			text += " Where several detectors find a fault, it counts once."
		}
		if least < 3 {
			text += fmt.Sprintf(" Series were judged for %s days in all, so it is a rough figure.", figure(least))
		}
		if total > h.m.c.Alarms && !o.above(h.m.c.Alarms) {
			text += fmt.Sprintf(" It is above the %s that were asked for, but not surely, so thresholds are as low as that allows: "+
				"worker suggest -alarms %s has higher ones.", figure(h.m.c.Alarms), figure(h.m.c.Alarms/2))
		} else if total > h.m.c.Alarms {
			text += fmt.Sprintf(" It is above the %s that were asked for: look at worker backtest -in-topic %s with this file before it goes live.",
				figure(h.m.c.Alarms), h.m.c.Topic)
		}
		texts = append(texts, text)
	} else {
		texts = append(texts, fmt.Sprintf("Expected anomalies a day: not known. The series have %s in the middle, which are too few for any "+
			"detector to begin; try again when there are more.", count(h.samplesOf(), "sample")))
	}
	if o.cut || h.cut != "" || h.m.sample.cut != "" {
		texts = append(texts, "The limit of time cut this short, so another run may say something else; -time gives it more.")
	}
	if h.bad > 0 && h.bad*(h.m.t.records+1) > 2*h.records*h.m.t.bad { // that is not said yet
		texts = append(texts, fmt.Sprintf("With these settings %s of %s would be dead letters, such as %s.", share(h.bad, h.records),
			count(h.records, "record"), h.why))
	}
	texts = append(texts, fmt.Sprintf("Memory: a series had %s of state at the end, so %s take %s, in all workers together.",
		config.ByteSize(o.bytes/1024*1024), count(h.series, "series"), megabytes(o.bytes*int64(h.series))))
	h.m.s.head = append(h.m.s.head, texts...)
}

// megabytes writes a number of bytes.
func megabytes(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return count(int(n>>20), "") + " MiB"
}
