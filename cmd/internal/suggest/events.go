package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"odradek/cmd/internal/config/settingsfile"
)

// Records without a number that moves, at times that differ, are events: what can be judged is how many of them come.

const (
	leastEvents = 100 // to tell events from a few records
	perInterval = 10  // events of a series in an interval, at least in the mean
	irregular   = 4   // ratio of long pauses to short ones (uneven)
)

// intervals are those that events are counted in.
var intervals = []time.Duration{
	time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, day,
}

// uneven returns a short and a long pause of a series, of which a tenth are shorter and a tenth longer, and whether they differ by much.
func uneven(pauses []int64) (short, long int64, ok bool) {
	if len(pauses) < leastEvents {
		return 0, 0, false
	}
	sorted := slices.Sorted(slices.Values(pauses))
	short, long = sorted[len(sorted)/10], sorted[len(sorted)*9/10]
	return short, long, long > irregular*max(short, 1)
}

// pausesOf returns the pauses of series in the sample, and the time that it spans.
func (m *mapping) pausesOf() (pauses []int64, spanned int64) {
	type place struct {
		segment int
		at      int64
	}
	last := map[int32]place{}
	first, newest := map[int]int64{}, map[int]int64{}
	for _, i := range m.order {
		at, segment := m.timeAt(i), m.t.points[i].segment
		if p, seen := last[m.series[i]]; seen && p.segment == segment {
			pauses = append(pauses, at-p.at)
		}
		last[m.series[i]] = place{segment, at}
		if t, seen := first[segment]; !seen || at < t {
			first[segment] = at
		}
		newest[segment] = max(newest[segment], at)
	}
	for segment, t := range first {
		spanned += newest[segment] - t
	}
	return pauses, spanned
}

// countEvents proposes to count the records of intervals, and reports whether they are events.
func (m *mapping) countEvents(all []*numeric) bool {
	if slices.ContainsFunc(all, func(c *numeric) bool { return c.moves() || c.role == constantIn || c.role == counter }) ||
		m.s.given["value_fields"].Value != "" || m.s.given["series_fields"].Value != "" {
		return false
	}
	pauses, spanned := m.pausesOf()
	short, long, ok := uneven(pauses)
	if !ok || spanned <= 0 {
		return false
	}
	n := len(m.t.points)
	mean := func(every time.Duration) float64 {
		return float64(n) / float64(m.keys) * float64(every.Microseconds()) / float64(spanned)
	}
	every := intervals[len(intervals)-1]
	if i := slices.IndexFunc(intervals, func(d time.Duration) bool { return mean(d) >= perInterval }); i >= 0 {
		every = intervals[i]
	}
	name := "events"
	if m.t.index[name] != nil {
		name = "event_count"
	}
	m.every, m.sensors, m.width = every, 1, 1
	m.ranges = append(m.ranges, 1)
	m.settings = append(m.settings,
		settingsfile.Setting{Key: "compute", Value: name + "=1.0", Comment: fmt.Sprintf("No number of %s moves, and a series has them at "+
			"irregular times (a tenth of the pauses is below %s, a tenth above %s): they are events, and what is judged is their number.",
			count(n, m.noun()), span(short), span(long))},
		settingsfile.Setting{Key: "value_fields", Value: name, List: true},
		settingsfile.Setting{Key: "every", Value: text(every), Comment: fmt.Sprintf("A series has %s events in this time, in the mean.",
			figure(mean(every)))},
		settingsfile.Setting{Key: "aggregate", Value: "count", List: true},
		settingsfile.Setting{Key: "empty", Value: "zero", Comment: "An interval without events is a count of 0."})
	return true
}

// intervalsInstead returns, as alternatives, the settings that make samples of intervals where a series' samples come irregularly.
func (h *history) intervalsInstead() []settingsfile.Setting {
	short, long, ok := uneven(h.pauses)
	if !ok || h.m.every > 0 {
		return nil
	}
	every := roundUp(cmp.Or(long, 1))
	return []settingsfile.Setting{
		{Key: "every", Value: text(every), Off: true, Comment: fmt.Sprintf("A series has samples at irregular times: a tenth of the pauses is "+
			"below %s, a tenth above %s. A window of samples then spans times that differ; with this most intervals have a sample, and each is one:",
			span(short), span(long))},
		{Key: "aggregate", Value: "mean", List: true, Off: true},
	}
}
