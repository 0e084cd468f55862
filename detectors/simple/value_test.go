package simple

import (
	"math"
	"testing"

	"odradek/detectors"
)

func TestValueOfKnownRows(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		below bool
		row   []float64
		want  float32
	}{
		{false, []float64{3.5}, 3.5},
		{true, []float64{3.5}, -3.5},
		{false, []float64{-7, 2, 1}, 2},
		{true, []float64{-7, 2, 1}, 7},
		{false, []float64{nan, -4}, -4},
		{true, []float64{nan, -4}, 4},
		{false, []float64{nan, nan}, float32(nan)},
		{false, []float64{inf}, math.MaxFloat32},
		{true, []float64{inf}, -math.MaxFloat32},
		{false, []float64{1e300}, math.MaxFloat32},
	} {
		d := detectors.Must(NewValue(1, c.below))
		r := detectors.Rows{Dim: len(c.row), Fresh: 1, Params: d.Params(), X64: c.row, Scores: make([]float32, 1)}
		valueCPU(t.Context(), &r, detectors.Sequential)
		if got := r.Scores[0]; got != c.want && (got == got || c.want == c.want) {
			t.Errorf("%v, below %v: %v, want %v", c.row, c.below, got, c.want)
		}
	}
	for _, bad := range []int{0, -1, 1<<16 + 1} {
		if _, err := NewValue(bad, false); err == nil {
			t.Errorf("a window of %d is taken", bad)
		}
	}
}
