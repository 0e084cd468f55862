package simple

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors"
)

func TestFlatlineOfKnownSeries(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name      string
		tolerance float64
		dim       int
		x         []float64
		want      []float32
	}{
		{"constant", 0, 1, []float64{5, 5, 5, 5}, []float32{0, 1, 2, 3}},
		{"changes", 0, 1, []float64{5, 5, 6, 6, 5}, []float32{0, 1, 0, 1, 0}},
		{"the smallest change far from zero", 0, 1, []float64{1e9, 1e9, math.Nextafter(1e9, 2e9), math.Nextafter(1e9, 2e9)},
			[]float32{0, 1, 0, 1}},
		{"within the tolerance", 0.5, 1, []float64{1, 1.5, 0.5, 1, 1.75, 1.25}, []float32{0, 1, 2, 3, 0, 1}},
		{"a slow drift", 1, 1, []float64{0, 0.5, 1, 1.5, 2, 2.5, 3}, []float32{0, 1, 2, 0, 1, 2, 0}},
		{"not a number", 0, 1, []float64{1, 1, nan, nan, 1, 1}, []float32{0, 1, 0, 0, 0, 1}},
		{"infinite", 0, 1, []float64{1, inf, inf, 1, 1}, []float32{0, 0, 0, 0, 1}},
		{"one of two values", 0, 2, []float64{1, 9, 2, 9, 3, 9, 3, 8}, []float32{0, 1, 2, 1}},
		{"minus zero is zero", 0, 1, []float64{0, math.Copysign(0, -1), 0}, []float32{0, 1, 2}},
	} {
		fast := func(r detectors.Rows) { flatlineCPU(t.Context(), &r, detectors.Sequential) }
		for _, score := range []func(detectors.Rows){scoreFlatline, fast} {
			n := len(c.x) / c.dim
			for cut := 1; cut <= n; cut++ { // however the rows are cut into tasks
				var got []float32
				var carry detectors.Words
				for from := 0; from < n; from += cut {
					to := min(from+cut, n)
					r := detectors.Rows{
						Dim:    c.dim,
						Fresh:  to - from,
						Params: detectors.WordsOf([]float32{float32(c.tolerance)}),
						Carry:  carry,
						X64:    c.x[max(0, from-1)*c.dim : to*c.dim],
						Scores: make([]float32, to-from),
						Next:   make(detectors.Words, 2*c.dim),
					}
					score(r)
					got, carry = append(got, r.Scores...), r.Next
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%s, tasks of %d: %v, want %v", c.name, cut, got, c.want)
				}
			}
		}
	}
}

func TestFlatlineCounts(t *testing.T) {
	r := detectors.Rows{Dim: 1, Fresh: 1, Params: detectors.WordsOf([]float32{0}), Carry: detectors.WordsOf([]float32{flatMost, 0}),
		X64:    []float64{1, 1},
		Scores: make([]float32, 1), Next: make(detectors.Words, 2)}
	if flatlineCPU(t.Context(), &r, detectors.Sequential); r.Scores[0] != flatMost {
		t.Errorf("a run beyond the largest scores %v", r.Scores[0])
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := NewFlatline(bad); err == nil {
			t.Errorf("tolerance %v is taken", bad)
		}
	}
}
