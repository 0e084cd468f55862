package backtest

import (
	"math"
	"testing"

	"odradek/detectors/quality"
	"odradek/detectors/seedtest"
)

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
		for _, f := range faults {
			for _, at := range got[0].Opens {
				if at >= f && at < f+60 {
					found++
					break
				}
			}
		}
		opened += len(got[0].Opens)
	}
	if 3*found < 2*planted || opened > 3*planted {
		t.Errorf("%d of %d faults found, %d anomalies", found, planted, opened)
	}
}
