package lof

import (
	"math"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestRoundedReadings has a thermometer with one decimal, and a fault of three readings at ten deviations. More than K of a window
// are equal. With the floor of the resolution, narrow and wide, the fault has the highest scores; without it ordinary readings have.
func TestRoundedReadings(t *testing.T) {
	rng := seedtest.New(t)
	const n, window, at = 2000, 256, 1500
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Round(10*(20+0.4*rng.NormFloat64())) / 10
		if i >= at && i < at+3 {
			x[i] = 24
		}
	}
	for _, floor := range []Floor{Resolution, Added} {
		for _, wide := range []bool{false, true} {
			d := detectors.Must(New(OpParams{Window: window, Floor: floor}))
			ordinary, fault := 0.0, math.Inf(1)
			for i := window; i < n; i++ {
				r := detectors.Rows{Dim: 1, Fresh: 1, Params: d.Params(), Scores: make([]float32, 1)}
				for _, v := range x[i-window+1 : i+1] {
					if wide {
						r.X64 = append(r.X64, v)
					} else {
						r.X = append(r.X, float32(v-20))
					}
				}
				opCPU(t.Context(), &r, detectors.Sequential)
				switch s := float64(r.Scores[0]); {
				case i < at || i > at+window: // the fault has left the window
					ordinary = max(ordinary, s)
				case i < at+3:
					fault = min(fault, s)
				}
			}
			if found := fault > ordinary; found != (floor == Resolution) {
				t.Errorf("floor %s, wide %t: scores of the fault from %v, ordinary ones up to %v", floors[floor], wide, fault, ordinary)
			}
		}
	}
}
