package backtest

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/quality"
	"odradek/detectors/seedtest"
)

// TestScoresOfAStartSetNoBound replays a machine that turns: until its first turn is
// over, every reading is far from those before. With these scores in the history, the
// bound stays above every fault of the run.
func TestScoresOfAStartSetNoBound(t *testing.T) {
	rnd := seedtest.New(t)
	s := quality.Series{Name: "s", Dim: 2}
	faults := []int{450, 650, 850, 1050}
	for i := range 1200 {
		a, out := 2*math.Pi*float64(i)/150, 0.0
		for _, f := range faults {
			if i >= f && i < f+2 {
				out = 0.15 // several times the noise
			}
		}
		s.Times = append(s.Times, int64(i)*1e6)
		s.Values = append(s.Values, (1+out)*math.Cos(a)+0.02*rnd.NormFloat64(), (1+out)*math.Sin(a)+0.02*rnd.NormFloat64())
	}
	found := func(settings ...string) int {
		env := []string{"ODRADEK_DETECTORS=near", "ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_EMBED=1",
			"ODRADEK_DETECTOR_NEAR_THRESHOLD=conformal:0.015", "ODRADEK_DETECTOR_NEAR_HISTORY=2048"}
		for _, s := range settings {
			env = append(env, "ODRADEK_DETECTOR_NEAR_"+s)
		}
		got := saidOf(t, env, &s)
		n := 0
		for _, f := range faults {
			for i := f; i < f+2; i++ {
				if got[0].Exceeds[i] {
					n++
					break
				}
			}
		}
		return n
	}
	if n := found(); n < len(faults)-1 { // one of a hundred series hides one
		t.Errorf("%d of %d faults found", n, len(faults))
	}
	if n := found("MIN_POINTS=20"); n > 0 {
		t.Errorf("with scores from 20 points on %d of %d faults are found: the series does not show what MIN_POINTS is for", n, len(faults))
	}
}

// TestStartOfSeveralValues: the default preset finds a fault of six deviations of each of eight values at the 120th sample, and
// hardly any anomaly before. With 400 seeds all ten faults were found, with no anomaly before them.
func TestStartOfSeveralValues(t *testing.T) {
	rnd := seedtest.New(t)
	const dim, fault = 8, 120
	found, before := 0, 0
	for range 10 {
		s := quality.Series{Name: "s", Dim: dim}
		row := make([]float64, dim)
		for i := range 2 * fault {
			for j := range row {
				row[j] = 0.7*row[j] + 0.714*rnd.NormFloat64()
				v := row[j]
				if i >= fault && i < fault+40 {
					v += 6
				}
				s.Values = append(s.Values, v)
			}
			s.Times = append(s.Times, int64(i)*1e6)
		}
		all := quality.Together(saidOf(t, []string{"ODRADEK_PRESET=default"}, &s))
		if len(all.Opens) > 0 && all.Opens[0] < fault {
			before++
		}
		if slices.Contains(all.Detected[fault:fault+40], true) {
			found++
		}
	}
	if found < 8 || before > 1 {
		t.Errorf("%d of 10 faults found, with anomalies before them in %d series", found, before)
	}
}
