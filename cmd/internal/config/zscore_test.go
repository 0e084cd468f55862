package config

import (
	"context"
	"math"
	"testing"

	"odradek/detectors"
	"odradek/processor/state"
)

// TestNullLeavesOutItsField: zscore of several fields scores a sample that lacks one
// of them, in a window of its own; knn of the same fields leaves such a sample out.
func TestNullLeavesOutItsField(t *testing.T) {
	stateConfig := func(fields string, more ...string) *state.Config {
		env := append([]string{"ODRADEK_VALUE_FIELDS=" + fields, "ODRADEK_DETECTORS=far,near", "ODRADEK_DETECTOR_FAR_OP=zscore",
			"ODRADEK_DETECTOR_FAR_WINDOW=40",
			"ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_K=5", "ODRADEK_DETECTOR_NEAR_WINDOW=40", "ODRADEK_DETECTOR_NEAR_MIN_POINTS=10",
			"ODRADEK_DETECTOR_NEAR_EMBED=1"}, more...)
		c, faults, _ := Parse(minimal(env...))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil || ks.Check() != nil {
			t.Fatal(err, ks.Check())
		}
		return ks
	}
	if ks := stateConfig("x"); len(ks.Windows) != 1 || ks.Windows[0].Incomplete {
		t.Errorf("of one field, windows %+v", ks.Windows)
	}
	for _, hold := range []string{"skip", "hold"} {
		ks := stateConfig("x,y,z", "ODRADEK_MISSING="+hold)
		if len(ks.Windows) != 2 || !ks.Windows[0].Incomplete || ks.Windows[1].Incomplete {
			t.Fatalf("windows %+v", ks.Windows)
		}
		exec := detectors.NewCPU(1)
		s, b := state.New(ks), exec.Batch()
		nan := math.NaN()
		for i := range int64(100) {
			v := float64(1 - 2*(i%2))
			row := []float64{v, v, v}
			if i > 50 && i%3 == 0 {
				row[0] = nan
			}
			if i == 96 {
				row[2] = 50
			}
			if i == 99 {
				row = []float64{nan, nan, nan}
			}
			s.Fold(&state.Sample{Key: []byte("a"), Time: i, Offset: i, Values: row}, b)
		}
		if err := exec.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		var scored [2]int
		for _, r := range s.Rows {
			if r.State == state.RowWarmingUp {
				continue
			}
			scored[r.Detector]++
			if r.Offset == 96 && r.Detector == 0 && !(r.Score > 45 && r.Score < 55) {
				t.Errorf("%s: a value 50 deviations off scores %v", hold, r.Score)
			}
			if want := r.Offset > 50 && r.Offset%3 == 0 && hold == "hold"; (r.State == state.RowImputed) != want {
				t.Errorf("%s: detector %d, sample %d: imputed %v", hold, r.Detector, r.Offset, !want)
			}
		}
		// 17 samples, the last of them included, lack a value, and that one lacks all.
		want, missing := [2]int{60, 74}, int64(1)
		if hold == "hold" {
			want, missing = [2]int{61, 91}, 0
		}
		if scored != want || s.Tally.Counts[state.Missing] != missing {
			t.Errorf("%s: %v scored, want %v; %d samples missing", hold, scored, want, s.Tally.Counts[state.Missing])
		}
		exec.Release(b)
		exec.Close()
	}
}
