package season

import (
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
)

// run scores rows of a time in microseconds and values, the first of them too.
func run(t *testing.T, d detectors.Detector, dim int, x []float64) detectors.Rows {
	t.Helper()
	r := detectors.Rows{Dim: dim + 1, Fresh: len(x) / (dim + 1), Params: d.Params(), X64: x}
	size, ok := d.Size(detectors.View{Dim: r.Dim, Rows: r.Fresh, Fresh: r.Fresh})
	if !ok {
		t.Fatal("too few rows")
	}
	r.Scores, r.Next, r.Detail = make([]float32, size.Scores), make(detectors.Words, size.Carry), make(detectors.Words, size.Detail)
	cpu(t.Context(), &r, detectors.Sequential)
	return r
}

const (
	hour      = 3600e6
	wednesday = 1_700_006_400e6 // a Wednesday, 0:00 UTC
)

// TestExplain: of a field with a peak at noon and one without, noon without the peak is the first one's
// deviation, expects the peak, and scores above all that has peaks; also a gap of days later.
func TestExplain(t *testing.T) {
	for _, gap := range []int{0, 24*3 + 1} {
		d := detectors.Must(New(OpParams{Bins: 24, Memory: 20, MinPoints: 24}))
		var x []float64
		at := 0
		for ; at < 24*20+12; at++ {
			v := math.Sin(float64(at) * 1.7)
			if at%24 == 12 {
				v += 40
			}
			x = append(x, wednesday+float64(at)*hour, 1e6+v, v)
		}
		at += gap
		at += (36 - at%24) % 24 // noon
		x = append(x, wednesday+float64(at)*hour, 1e6, 0)
		for i := range x { // the second field has no peak
			if i%3 == 2 && x[i] > 10 {
				x[i] -= 40
			}
		}
		r := run(t, d, 2, x)
		for i, s := range r.Scores {
			if (i < 48) != (s != s) {
				t.Fatalf("row %d scores %v: there are scores after a day and 24 samples", i, s)
			}
		}
		last := len(r.Scores) - 1
		if s := r.Scores[last]; s < 15 || s < 3*slices.Max(r.Scores[48:last]) {
			t.Errorf("a missing peak scores %v, others up to %v", s, slices.Max(r.Scores[48:last]))
		}
		expected, share := make([]float64, 2), make([]float64, 2)
		if _, ok := d.(detectors.Explainer).Explain(r, last, 0, expected, share); !ok {
			t.Fatal("says nothing of the missing peak")
		}
		if math.Abs(expected[0]-1e6-40) > 1 || math.Abs(expected[1]) > 1 || share[0] < 0.9 || math.Abs(share[0]+share[1]-1) > 1e-9 {
			t.Errorf("expects %v by the shares %v", expected, share)
		}
	}
}

// TestOneValueADay: a week's bins tell Sundays from other days, a constant's first step scores 3, and a bin that
// is seen for the first time has no score.
func TestOneValueADay(t *testing.T) {
	d := detectors.Must(New(OpParams{Week: true, Bins: 7, Memory: 50}))
	var x, flat []float64
	for i := range 7 * 12 {
		v := 10 + math.Cos(float64(i)*2.3)
		if i%7 == 4 {
			v = 0.5 * math.Cos(float64(i)) // Sundays
		}
		if i == 7*11+4 {
			v = 10
		}
		x = append(x, wednesday+float64(i)*24*hour, v)
		step := 0.0
		if i == 7*11 {
			step = 1e-12
		}
		flat = append(flat, wednesday+float64(i)*24*hour, 1+step)
	}
	r := run(t, d, 1, x)
	if s := r.Scores[7*11+4]; s < 5 || s < 2*slices.Max(r.Scores[8:7*11]) {
		t.Errorf("a Sunday like other days scores %v, others up to %v", s, slices.Max(r.Scores[8:7*11]))
	}
	r = run(t, d, 1, flat)
	for i, s := range r.Scores {
		switch {
		case i < 7 && s == s, i >= 7 && i < 7*11 && s != 0, i == 7*11 && math.Abs(float64(s)-3) > 1e-5:
			t.Errorf("day %d of a constant scores %v", i, s)
		}
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := New(OpParams{Bins: 300, Memory: -1, MinPoints: -5, Days: Table(nil).Append(2, 0).Append(1, 0)})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"300 bins", "memory is -1", "-5 samples", "need the period of a week", "1 stands after 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}
