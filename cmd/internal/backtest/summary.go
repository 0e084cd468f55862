package backtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Summary has the results of a run.
type Summary struct {
	Rows      int64
	Series    int
	Days      float64 // series-days that were judged, by the detector that judged a series for the longest
	First     int64   // event times of the first and the last row
	Last      int64
	Outcomes  map[string]int64 // rows by outcome
	Detectors []DetectorResult
	Any       *Agreement // of the detectors together; nil without labels, or with one detector
	Faults    int        // that the detectors' anomalies are of
	Anomalies []Anomaly  // the gravest
	Troubles  []string   // left-out input
	Partial   string     // why the run ended early; "" where it did not

	plots []*seriesTrack // to be drawn, in order
}

// DetectorResult has the results of one detector.
type DetectorResult struct {
	Name      string
	Anomalies int
	Silent    int // series without one, of those that were judged
	// Judged and Unjudged are numbers of series. Why says of the unjudged ones why they were not.
	Judged, Unjudged int
	Why              string
	Days             float64 // series-days that were judged
	*Agreement
	Beside *Beside // nil: it is compared with none
	// AlarmsPerDay is the number of anomalies (if there are labels, of those that overlap none) per judged day of a series.
	AlarmsPerDay float64
}

// Agreement compares anomalies with labels. An anomaly is right if it overlaps a label of its series, from its first
// sample to its last or to the one that opened it.
type Agreement struct {
	Labelled, Found int
	Right, Wrong    int // anomalies
	// The median and the longest delay of the found labels, in seconds from the label's start to the opening; 0 if the
	// anomaly opened before the label.
	DelayMedian, DelayMax float64
}

// Precision returns the share of the anomalies that overlap a label, 0 without anomalies.
func (a *Agreement) Precision() float64 { return ratio(a.Right, a.Right+a.Wrong) }

// Recall returns the share of the labelled anomalies that were found, 0 without labels.
func (a *Agreement) Recall() float64 { return ratio(a.Found, a.Labelled) }

func ratio(n, total int) float64 {
	if total == 0 {
		return 0
	}
	return float64(n) / float64(total)
}

// outcomeNames are in the order of the outcomes of package state.
var outcomeNames = []string{"scored", "warming up", "held", "missing", "filtered", "late", "duplicate", "evicted", "rejected",
	"aggregated", "backfilled"}

func (c *Config) summary(lanes []*lane, names []string) *Summary {
	s := &Summary{Outcomes: map[string]int64{}, Troubles: slices.Clone(c.Source.Troubles())}
	var all []*seriesTrack
	for _, l := range lanes {
		s.Rows += l.counts.rows
		s.Troubles = append(s.Troubles, l.troubles...)
		if n := l.counts.left; n > int64(len(l.troubles)) {
			s.Troubles = append(s.Troubles, fmt.Sprintf("%d records of %s/%d were left out in all", n, l.partition.Topic, l.partition.Number))
		}
		counts, held := l.fold.Counts()
		for i, n := range counts {
			if n > 0 {
				s.Outcomes[outcomeNames[i]] += n
			}
		}
		if held > 0 {
			s.Outcomes["held at the end"] += int64(held)
		}
		all = append(all, l.series...)
		s.Anomalies = append(s.Anomalies, l.shown...)
		s.Faults += l.faults
	}
	s.Anomalies = gravest(s.Anomalies)
	s.Series = len(all)
	slices.SortFunc(all, func(a, b *seriesTrack) int { return slices.Compare(a.name, b.name) })
	hasLabels := c.Labels != nil
	for i, series := range all {
		if i == 0 {
			s.First, s.Last = series.first, series.last
		}
		s.First, s.Last = min(s.First, series.first), max(s.Last, series.last)
		days := 0.0
		for d := range series.dets {
			days = max(days, float64(series.dets[d].judged.time())/86_400e6)
		}
		s.Days += days
		hasLabels = hasLabels || len(series.labels) > 0
	}
	for d, name := range names {
		s.Detectors = append(s.Detectors, s.detector(name, all, hasLabels))
		s.Detectors[d].Beside = c.sumBeside(name, all)
	}
	if hasLabels && len(s.Detectors) > 1 {
		s.Any = agreement(all, func(series *seriesTrack) int { return len(series.dets) })
		for _, d := range s.Detectors {
			s.Any.Right += d.Right
			s.Any.Wrong += d.Wrong
		}
	}
	s.choose(all, c.Plots)
	return s
}

// Total returns the number of anomalies of all detectors.
func (s *Summary) Total() (n int) {
	for i := range s.Detectors {
		n += s.Detectors[i].Anomalies
	}
	return n
}

func (s *Summary) detector(name string, all []*seriesTrack, labels bool) DetectorResult {
	r := DetectorResult{Name: name}
	alarms := 0
	if labels {
		r.Agreement = agreement(all, func(series *seriesTrack) int { return series.detector(name) })
	}
	for _, series := range all {
		d := series.detector(name)
		if d < 0 {
			continue
		}
		t := &series.dets[d]
		r.Anomalies += t.anomalies
		alarms += t.falsePos
		if t.judged.scores > 0 {
			r.Judged++
			r.Days += float64(t.judged.time()) / 86_400e6
			if t.anomalies == 0 {
				r.Silent++
			}
		}
		if labels {
			r.Right += t.hits
			r.Wrong += t.falsePos
		}
	}
	if r.Unjudged, r.Why = s.unjudged(name, all); !labels {
		alarms = r.Anomalies
	}
	if r.Days > 0 {
		r.AlarmsPerDay = float64(alarms) / r.Days
	}
	return r
}

// agreement compares the labels of the series with what a detector has found: at returns its index in a series, the number
// of detectors for any of them, or -1 for a series without it.
func agreement(all []*seriesTrack, at func(series *seriesTrack) int) *Agreement {
	a := &Agreement{}
	var delays []float64
	for _, series := range all {
		d := at(series)
		for i := range series.labels {
			l := &series.labels[i]
			if d < 0 || l.To < series.first || l.From > series.last {
				continue // not the detector's, or outside of the rows
			}
			a.Labelled++
			if when := l.foundAt[d]; when != 0 {
				a.Found++
				delays = append(delays, max(0, float64(when-l.From)/1e6))
			}
		}
	}
	if n := len(delays); n > 0 {
		slices.Sort(delays)
		a.DelayMedian, a.DelayMax = (delays[(n-1)/2]+delays[n/2])/2, delays[n-1]
	}
	return a
}

// choose picks the series to draw: those with labels or anomalies first, the gravest
// before others.
func (s *Summary) choose(all []*seriesTrack, most int) {
	weight := func(series *seriesTrack) (w int) {
		for i := range series.dets {
			w = max(w, 1000*int(series.dets[i].worst)+min(999, series.dets[i].anomalies))
		}
		if len(series.labels) > 0 {
			w += 1_000_000
		}
		return w
	}
	list := slices.DeleteFunc(slices.Clone(all), func(series *seriesTrack) bool { return series.plot == nil })
	slices.SortStableFunc(list, func(a, b *seriesTrack) int { return cmp.Compare(weight(b), weight(a)) })
	s.plots = list[:min(len(list), most)]
	slices.SortFunc(s.plots, func(a, b *seriesTrack) int { return slices.Compare(a.name, b.name) })
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
