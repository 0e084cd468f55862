package quality

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestSeriesRates: the runs of every series are compared with what it alone expects, outside of its labelled
// samples and after its first scores; one that expects too few says nothing.
func TestSeriesRates(t *testing.T) {
	tally := NewTally("pairs", "d", 0.01)
	for _, c := range []struct {
		judged, runs int // of each run two scores exceed
		labelled     bool
	}{{400, 1, false}, {400, 2, false}, {400, 8, false}, {400, 9, true}, {399, 399 / 4, false}, {1000, 10, true}} {
		n := FirstScores + c.judged
		v := NewResults(n)
		v.Warmup = 64
		s := &Series{Name: "s", Dim: 1, Values: make([]float64, n), Labels: make([]bool, n)}
		for i := range n {
			v.Scores[i] = float64(i % 7)
		}
		for k := range c.runs {
			v.Exceeds[FirstScores+4*k+1], v.Exceeds[FirstScores+4*k+2] = true, true
		}
		if c.labelled { // more of both, which do not count
			s.Labels, v.Scores = append(s.Labels, make([]bool, 50)...), append(v.Scores, make([]float64, 50)...)
			s.Values, v.Exceeds = append(s.Values, make([]float64, 50)...), append(v.Exceeds, make([]bool, 50)...)
			v.Detected = append(v.Detected, make([]bool, 50)...)
			v.Opened = append(v.Opened, make([]float64, 50)...)
			for i := range 50 {
				s.Labels[n+i], v.Exceeds[n+i] = true, i%2 == 0
			}
		}
		tally.Add(s, &v)
	}
	e := tally.Result().Rates.Each
	// Expected are 4 and 10 runs: of 1, 2, 8, 9 and 10 there are 0.25, 0.5, 2, 2.25 and 1 times as many.
	if e.Series != 5 || e.Within != 0.6 || e.Above != 0.2 || e.Median != 1 {
		t.Errorf("%+v", e)
	}
	four, ten := 0.0, 0.0
	for n, p := 0, math.Exp(-4.0); n <= 8; n++ {
		if n >= 2 {
			four += p
		}
		p *= 4 / float64(n+1)
	}
	for n, p := 0, math.Exp(-10.0); n <= 20; n++ {
		if n >= 5 {
			ten += p
		}
		p *= 10 / float64(n+1)
	}
	if want := (4*four + ten) / 5; math.Abs(e.Chance-want) > 1e-12 {
		t.Errorf("%v are within by chance, want %v", e.Chance, want)
	}
}

// TestSeriesRatesByChance: of independent scores that exceed at the rate, as many series are within as chance has it.
func TestSeriesRatesByChance(t *testing.T) {
	rng := seedtest.New(t)
	var series []RateShare
	for range 4000 {
		s := RateShare{Judged: 500 + rng.IntN(2000)}
		for range s.Judged {
			if rng.Float64() < 0.01 {
				s.Runs++
			}
		}
		series = append(series, s)
	}
	if e := eachOf(series, 0.01); e.Series != 4000 || math.Abs(e.Within-e.Chance) > 0.02 || math.Abs(e.Median-1) > 0.05 {
		t.Errorf("%+v", e)
	}
	if e := eachOf(nil, 0.01); e != (SeriesRates{}) {
		t.Errorf("of no series: %+v", e)
	}
}
