package detectors

import (
	"math"
	"slices"
	"testing"
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
		for _, score := range []func(Rows){flatlineScore, func(r Rows) { flatlineCPU(t.Context(), &r, Sequential) }} {
			n := len(c.x) / c.dim
			for cut := 1; cut <= n; cut++ { // however the rows are cut into tasks
				var got []float32
				var carry Words
				for from := 0; from < n; from += cut {
					to := min(from+cut, n)
					r := Rows{Dim: c.dim, Fresh: to - from, Params: WordsOf([]float32{float32(c.tolerance)}), Carry: carry,
						X64: c.x[max(0, from-1)*c.dim : to*c.dim], Scores: make([]float32, to-from), Next: make(Words, 2*c.dim)}
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
	r := Rows{Dim: 1, Fresh: 1, Params: WordsOf([]float32{0}), Carry: WordsOf([]float32{flatMost, 0}), X64: []float64{1, 1},
		Scores: make([]float32, 1), Next: make(Words, 2)}
	if flatlineCPU(t.Context(), &r, Sequential); r.Scores[0] != flatMost {
		t.Errorf("a run beyond the largest scores %v", r.Scores[0])
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := NewFlatline(bad); err == nil {
			t.Errorf("tolerance %v is taken", bad)
		}
	}
}

func TestZScoreExplains(t *testing.T) {
	d := mustZScore(t, 5).(Explainer)
	r := Rows{Dim: 2, Fresh: 2, Params: d.Params(), X: []float32{1, 10, 3, 10, 1, 20, 3, 20, 4, 15, 2, 30}}
	expected, share := make([]float64, 2), make([]float64, 2)
	if !d.Explain(r, 0, expected, share) || !slices.Equal(expected, []float64{2, 15}) || !slices.Equal(share, []float64{1, 0}) {
		t.Errorf("expected %v, shares %v", expected, share)
	}
	if !d.Explain(r, 1, expected, share) || !slices.Equal(expected, []float64{2.75, 16.25}) ||
		math.Abs(share[0]+share[1]-1) > 1e-12 || share[1] < share[0] {
		t.Errorf("expected %v, shares %v", expected, share)
	}
	r.X[10] = float32(math.NaN())
	if !d.Explain(r, 1, expected, share) || !slices.Equal(expected, []float64{2.75, 16.25}) || !slices.Equal(share, []float64{0, 1}) {
		t.Errorf("a value is missing: expected %v, shares %v", expected, share)
	}
	r.X[11] = float32(math.NaN())
	if d.Explain(r, 1, expected, share) {
		t.Error("a score that is not a number is explained")
	}
}
