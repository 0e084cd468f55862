package quality

import (
	"math"
	"slices"
)

// RateMeasures compare the configured false-alarm rate of a conformal threshold with the
// realised one: the share of unlabelled samples whose score exceeded, among
// the first scores of each series after the warm-up, while its history is short, and
// among the later ones. A run of scores that exceed counts in Runs once.
type RateMeasures struct {
	Asked float64   `json:"asked"`
	First RateShare `json:"first_256"`
	After RateShare `json:"after"`

	// Each has the rates of runs of single series, among their scores after the first.
	Each SeriesRates `json:"by_series"`

	series []RateShare
}

// LeastRuns is the number of runs that must be expected of a series at the configured rate for it to count in
// SeriesRates: with fewer its realised rate is mostly chance.
const LeastRuns = 4

// SeriesRates compare the realised rates of single series with the configured one.
type SeriesRates struct {
	Series int     `json:"series"` // that expect at least LeastRuns
	Within float64 `json:"within"` // share of them whose rate is 0.5 to 2 times the configured one
	Above  float64 `json:"above"`  // share of them whose rate is more than that
	Median float64 `json:"median"` // of their rates over the configured one
	// Chance is the share that Within would be if runs were independent and came at exactly the configured rate, by
	// Poisson's distribution.
	Chance float64 `json:"within_by_chance"`
}

// RateShare counts scores of a part of the series.
type RateShare struct {
	Judged  int `json:"judged"`
	Exceeds int `json:"exceed"`
	Runs    int `json:"runs"`
}

// FirstScores is the number of scores of a series that count as its first ones.
const FirstScores = 256

// Times returns how many times as often as rate says a score exceeded, counting scores
// and counting runs of them; 0 where none was judged.
func (s *RateShare) Times(rate float64) (scores, runs float64) {
	if s.Judged == 0 {
		return 0, 0
	}
	expected := rate * float64(s.Judged)
	return float64(s.Exceeds) / expected, float64(s.Runs) / expected
}

// eachOf compares the realised rate of each series with the configured rate.
func eachOf(series []RateShare, rate float64) (e SeriesRates) {
	var times []float64
	for i := range series {
		expected := rate * float64(series[i].Judged)
		if expected < LeastRuns {
			continue
		}
		_, runs := series[i].Times(rate)
		times = append(times, runs)
		switch {
		case runs > 2:
			e.Above++
		case runs >= 0.5:
			e.Within++
		}
		e.Chance += poisson(expected, math.Ceil(expected/2), 2*expected)
	}
	if e.Series = len(times); e.Series > 0 {
		slices.Sort(times)
		e.Within /= float64(e.Series)
		e.Above /= float64(e.Series)
		e.Chance /= float64(e.Series)
		e.Median = (times[(e.Series-1)/2] + times[e.Series/2]) / 2
	}
	return e
}

// poisson is the probability of least to most events where mean are expected.
func poisson(mean, least, most float64) (p float64) {
	for n := least; n <= most; n++ {
		gamma, _ := math.Lgamma(n + 1)
		p += math.Exp(n*math.Log(mean) - mean - gamma)
	}
	return p
}

// add counts the judged scores of a series.
func (m *RateMeasures) add(s *Series, r *Results) {
	scores, running, before := 0, false, m.After
	for i, score := range r.Scores {
		if score == Never {
			continue
		}
		if scores++; scores <= r.Warmup || s.Labels[i] {
			running = r.Exceeds[i]
			continue
		}
		rate := &m.After
		if scores <= FirstScores {
			rate = &m.First
		}
		rate.Judged++
		if r.Exceeds[i] {
			rate.Exceeds++
			if !running {
				rate.Runs++
			}
		}
		running = r.Exceeds[i]
	}
	m.series = append(m.series, RateShare{m.After.Judged - before.Judged, m.After.Exceeds - before.Exceeds, m.After.Runs - before.Runs})
	m.Each = eachOf(m.series, m.Asked)
}
