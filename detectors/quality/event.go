package quality

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// eventCounts are the counts of one series for the measures by anomaly.
type eventCounts struct {
	opened, wrong int // anomalies that the detector opened, and how many of them lie outside of labels
	runs, found   int // labelled anomalies, and those with a detected sample
	volume        float64
	plain         int     // unlabelled samples
	days          float64 // that they cover; 0 for a set without times
}

// count sets what depends on the labels alone.
func (e *eventCounts) count(s *Series, from int) {
	for _, l := range s.Labels[from:] {
		if !l {
			e.plain++
		}
	}
	if n := s.Len() - from; s.Timed && n > 1 {
		e.days = float64(s.Times[s.Len()-1]-s.Times[from]) / 86400e6 * float64(e.plain) / float64(n)
	}
}

// Interval is one that a measure is within with a confidence of 90 %.
type Interval [2]float64

// resamples is the number of sets of series that Bootstrap draws.
const resamples = 1000

// events sets the measures by anomaly, and their intervals: the 5th and the 95th percentile of
// the same measures of as many series drawn with replacement (Efron and Tibshirani, An
// Introduction to the Bootstrap, 13.3). What is drawn is always the same.
func (m *LabelMeasures) events(series []eventCounts, delays []float64) {
	all := func(draw func(i int) int) map[string]float64 {
		var sum eventCounts
		ranked := 0
		for i := range series {
			e := &series[draw(i)]
			sum.opened, sum.wrong, sum.runs, sum.found = sum.opened+e.opened, sum.wrong+e.wrong, sum.runs+e.runs, sum.found+e.found
			sum.plain, sum.days = sum.plain+e.plain, sum.days+e.days
			if e.volume >= 0 {
				sum.volume += e.volume
				ranked++
			}
		}
		measures := map[string]float64{
			"event_precision": ratio(sum.opened-sum.wrong, sum.opened), "event_recall": ratio(sum.found, sum.runs),
			"vus_pr": sum.volume / float64(max(ranked, 1)), "false_per_sample": ratio(sum.wrong, sum.plain),
		}
		if sum.days > 0 {
			measures["false_per_series_day"] = float64(sum.wrong) / sum.days
		}
		return measures
	}
	measures := all(func(i int) int { return i })
	m.Volume, m.FalsePerSample = measures["vus_pr"], measures["false_per_sample"]
	m.EventPrecision, m.EventRecall = measures["event_precision"], measures["event_recall"]
	if days, ok := measures["false_per_series_day"]; ok {
		m.FalsePerDay = &days
	}
	m.Delay = -1
	if len(delays) > 0 {
		slices.Sort(delays)
		m.Delay = (delays[(len(delays)-1)/2] + delays[len(delays)/2]) / 2
	}
	if len(series) < 3 {
		return
	}
	m.Intervals = Bootstrap(len(series), all)
	maps.DeleteFunc(m.Intervals, func(name string, _ Interval) bool { _, measured := measures[name]; return !measured })
}

// Bootstrap returns the 5th and the 95th percentile of measures by name, over sets of n series that are drawn from the n
// with replacement: measure takes series pick(i) for the ith. What is drawn is always the same.
func Bootstrap(n int, measure func(pick func(int) int) map[string]float64) map[string]Interval {
	rng := rand.New(rand.NewPCG(1, 2))
	drawn := map[string][]float64{}
	for range resamples {
		for name, v := range measure(func(int) int { return rng.IntN(n) }) {
			drawn[name] = append(drawn[name], v)
		}
	}
	intervals := map[string]Interval{}
	for name, v := range drawn {
		slices.Sort(v)
		intervals[name] = Interval{v[len(v)/20], v[len(v)-1-len(v)/20]}
	}
	return intervals
}

// interval returns the interval of a measure, multiplied, in brackets, or nothing.
func (m *LabelMeasures) interval(name string, by float64) string {
	i, ok := m.Intervals[name]
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (%.3f to %.3f)", by*i[0], by*i[1])
}

// delay says how late labelled anomalies were found; nothing where none was.
func (m *LabelMeasures) delay() string {
	if m.Delay < 0 {
		return ""
	}
	return fmt.Sprintf("; found after %g samples (median)", m.Delay)
}
