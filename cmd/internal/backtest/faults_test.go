package backtest

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/quality"
	"odradek/detectors/seedtest"
)

// TestTheDefaultFindsLostRelations replays machines of eight values in units of their own: for a while one to three of them leave their
// relation to the others, each within what it usually is. Most machines have an anomaly while that lasts, and not most have one before.
func TestTheDefaultFindsLostRelations(t *testing.T) {
	const machines, dim, rows, from, until = 12, 8, 1150, 600, 900
	rnd := seedtest.New(t)
	found, before := 0, 0
	for range machines {
		s := quality.Series{Name: "s", Dim: dim}
		var weights [dim][3]float64
		var noise, unit [dim]float64
		for c := range dim {
			for k := range weights[c] {
				weights[c][k] = rnd.NormFloat64()
			}
			noise[c], unit[c] = 0.2+0.4*rnd.Float64(), math.Exp2(float64(rnd.IntN(16)-8))
		}
		broken, loads, others := 1+rnd.IntN(3), [3]float64{}, [3]float64{}
		for i := range rows {
			s.Times = append(s.Times, int64(i)*1e6)
			for k := range loads {
				loads[k] = 0.8*loads[k] + 0.6*rnd.NormFloat64()
				others[k] = 0.8*others[k] + 0.6*rnd.NormFloat64()
			}
			for c := range dim {
				factors := &loads
				if c < broken && i >= from && i < until {
					factors = &others
				}
				v := noise[c] * rnd.NormFloat64()
				for k, w := range weights[c] {
					v += w * factors[k]
				}
				s.Values = append(s.Values, unit[c]*(v+20))
			}
		}
		var opens []int
		for _, d := range saidOf(t, nil, &s) {
			opens = append(opens, d.Opens...)
		}
		if slices.ContainsFunc(opens, func(at int) bool { return at >= from && at < until }) {
			found++
		}
		if slices.ContainsFunc(opens, func(at int) bool { return at < from }) {
			before++
		}
	}
	if 4*found < 3*machines || 3*before > 2*machines {
		t.Errorf("%d of %d found, %d have an anomaly before", found, machines, before)
	}
}

// TestTheDefaultFindsFaults replays streams with nothing configured: most of what is
// plainly wrong opens an anomaly, and little else does.
func TestTheDefaultFindsFaults(t *testing.T) {
	rnd := seedtest.New(t)
	found, planted, opened := 0, 0, 0
	for dim := range 3 {
		dim++
		s := quality.Series{Name: "s", Dim: dim}
		faults := []int{1500, 2600, 3700} // further apart than a history is long
		for i := range 4200 {
			s.Times = append(s.Times, int64(i)*1e6)
			for c := range dim {
				v := 5*math.Sin(float64(i)/20+float64(c)) + 0.3*rnd.NormFloat64()
				switch {
				case i == 1500 && c == 0:
					v += 10 // a spike
				case i >= 2600 && i < 2620:
					v += 6 // another level
				case i >= 3700 && i < 3740:
					v = 0.3 * rnd.NormFloat64() // the wave stops
				}
				s.Values = append(s.Values, v)
			}
		}
		got := saidOf(t, nil, &s)
		planted += len(faults)
		var opens []int
		for _, d := range got {
			opens = append(opens, d.Opens...)
		}
		for _, f := range faults {
			if slices.ContainsFunc(opens, func(at int) bool { return at >= f && at < f+60 }) {
				found++
			}
		}
		opened += len(opens)
	}
	if 3*found < 2*planted || opened > 3*planted {
		t.Errorf("%d of %d faults found, %d anomalies", found, planted, opened)
	}
}

// TestTheDefaultKnowsJobs replays a load of the day with a job each night, with nothing configured: from the fourth night on the job
// opens no anomaly, but a night without it does, and so does a day without its peak.
func TestTheDefaultKnowsJobs(t *testing.T) {
	const day, days, noJob, noPeak = 288, 30, 20, 25 // a sample each five minutes
	rnd := seedtest.New(t)
	nights, loud, found := 0, 0, 0
	const series = 4
	for range series {
		s := quality.Series{Name: "s", Dim: 1}
		begins := 0
		for i := range days * day {
			if i%day == 0 {
				begins = i + 24 + rnd.IntN(3)
			}
			v := 10 + 0.3*rnd.NormFloat64()
			if i/day != noPeak {
				v += 8 * math.Max(0, math.Sin(2*math.Pi*(float64(i%day)/day-0.25)))
			}
			if i >= begins && i < begins+6 && i/day != noJob {
				v += 6
			}
			s.Times = append(s.Times, int64(i)*300e6)
			s.Values = append(s.Values, v)
		}
		var opens []int
		for _, d := range saidOf(t, nil, &s) {
			opens = append(opens, d.Opens...)
		}
		opened := func(from, until int) bool {
			return slices.ContainsFunc(opens, func(at int) bool { return at >= from && at < until })
		}
		for night := 3; night < days; night++ {
			if night == noJob || night == noPeak || night == noPeak+1 { // what is expected after a day without its peak is lower
				continue
			}
			if nights++; opened(night*day, night*day+72) {
				loud++
			}
		}
		if opened(noJob*day, noJob*day+60) {
			found++
		}
		if opened(noPeak*day+day/4, (noPeak+1)*day) {
			found++
		}
	}
	if found < 2*series-1 || 10*loud > nights { // 1.4 of 96 nights in the mean, 5 in one run of 60
		t.Errorf("%d of %d faults found; %d of %d ordinary nights have an anomaly", found, 2*series, loud, nights)
	}
}
