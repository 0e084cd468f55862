package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// judged is what a detector has judged of a series.
type judged struct {
	scores int64 // that the threshold has judged
	newest int64 // the largest event time of one
	gaps   []gaps
}

// gaps are those between judged scores whose length, in microseconds, has the same number of bits.
type gaps struct {
	bits  int
	n     int64
	total int64
}

// add takes the event time of a judged score.
func (j *judged) add(at int64) {
	j.scores++
	if gap := at - j.newest; j.scores > 1 && gap > 0 {
		size := bits.Len64(uint64(gap))
		i := slices.IndexFunc(j.gaps, func(g gaps) bool { return g.bits == size })
		if i < 0 {
			i, j.gaps = len(j.gaps), append(j.gaps, gaps{bits: size})
		}
		j.gaps[i].n++
		j.gaps[i].total += gap
	}
	if j.scores == 1 || at > j.newest {
		j.newest = at
	}
}

// time returns the event time over which scores were judged, in microseconds. One record with a wrong clock must not make
// it decades: a few gaps, each longer than ten times all shorter ones together, are not counted.
func (j *judged) time() (t int64) {
	slices.SortFunc(j.gaps, func(a, b gaps) int { return cmp.Compare(a.bits, b.bits) })
	var left int64
	for _, g := range j.gaps {
		left += g.n
	}
	few := max(3, left/1000)
	for _, g := range j.gaps {
		if t > 0 && left <= few && g.total/g.n/10 > t {
			break
		}
		t += g.total
		left -= g.n
	}
	return t
}

// unjudged returns how many of the series with the detector have no judged score, and why that one has none which has the
// most samples; "" where all have some.
func (s *Summary) unjudged(name string, all []*seriesTrack) (n int, why string) {
	var most *seriesTrack
	var at int
	for _, series := range all {
		d := series.detector(name)
		if d < 0 || series.dets[d].judged.scores > 0 {
			continue
		}
		if n++; most == nil || series.dets[d].rows > most.dets[at].rows {
			most, at = series, d
		}
	}
	if most != nil {
		return n, s.whyUnjudged(most, at)
	}
	if len(all) == 0 {
		return 0, "there are no samples"
	}
	return 0, ""
}

// whyUnjudged says why a detector has judged no score of a series.
func (s *Summary) whyUnjudged(series *seriesTrack, d int) string {
	t, det, name := &series.dets[d], &series.state.Detectors[d], text(series.name)
	switch {
	case t.rows == 0:
		var outcomes []string
		for _, o := range slices.Sorted(maps.Keys(s.Outcomes)) {
			outcomes = append(outcomes, fmt.Sprintf("%d %s", s.Outcomes[o], o))
		}
		return fmt.Sprintf("it was given none of the %d rows of %s; of all rows were %s", series.samples, name, strings.Join(outcomes, ", "))
	case t.found == 0 && t.needs > 0:
		return fmt.Sprintf("%s has %d samples, and its first score comes with sample %d at the earliest", name, t.rows, t.needs)
	case t.found == 0:
		return fmt.Sprintf("none of the %d samples of %s has a score", t.rows, name)
	case det.Threshold == nil:
		return "its threshold is off"
	}
	return fmt.Sprintf("%s has %d scores, too few for its threshold, which has a warm-up of %d", name, t.found, det.Threshold.Warmup)
}

// detector returns the index of the series' detector of a name; -1 where it has none. Series of a data set with several
// values may have other detectors than those with one.
func (s *seriesTrack) detector(name string) int {
	for i := range s.state.Detectors {
		if s.state.Detectors[i].Name == name {
			return i
		}
	}
	return -1
}

// detectors returns the names of the series' detectors.
func (s *seriesTrack) detectors() []string {
	names := make([]string, len(s.state.Detectors))
	for i := range names {
		names[i] = s.state.Detectors[i].Name
	}
	return names
}

// detectorNames returns the names of the detectors of all partitions, in the order of the first partition that has them.
func detectorNames(c *Config, parts []Partition) (names []string) {
	for i := range parts {
		state := parts[i].stateOf(c)
		for d := range state.Detectors {
			if name := state.Detectors[d].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// NotJudged says what was not judged, and why; "" where all series were.
func (r *DetectorResult) NotJudged() string {
	switch {
	case r.Judged == 0:
		return "nothing was judged: " + r.Why
	case r.Unjudged > 0:
		return fmt.Sprintf("%d of %d series were not judged: %s", r.Unjudged, r.Judged+r.Unjudged, r.Why)
	}
	return ""
}
