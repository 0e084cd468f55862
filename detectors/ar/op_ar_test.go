package ar

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"odradek/detectors"
)

// TestARExplain has a signal that repeats itself and a constant: at a spike in the first, the expected
// value must be the signal's, and the spike the whole cause of the score.
func TestARExplain(t *testing.T) {
	d := detectors.Must(New(OpParams{Order: 4, Memory: 500, MinPoints: 8}))
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 300
	r := detectors.Rows{Dim: 2, Params: d.Params(), Fresh: n - 4}
	want := 0.0
	for i := range n {
		want = 1e6 + math.Sin(float64(i)*0.4)
		r.X64 = append(r.X64, want+0.001*rng.NormFloat64(), 7)
	}
	r.X64[2*(n-1)] = 1e6 + 30
	size, ok := d.Size(detectors.View{Dim: 2, Rows: n, Fresh: n - 4})
	if !ok {
		t.Fatal("300 rows are too few")
	}
	r.Scores, r.Next, r.Detail = make([]float32, size.Scores), make(detectors.Words, size.Carry), make(detectors.Words, size.Detail)
	cpu(t.Context(), &r, detectors.Sequential)
	for i, s := range r.Scores {
		if (i < 8) != (s != s) {
			t.Fatalf("fresh row %d scores %v: there are scores as soon as 8 samples are learnt", i, s)
		}
	}
	if last := r.Scores[len(r.Scores)-1]; last < 100 {
		t.Errorf("a spike scores %v", last)
	}
	expected, share := make([]float64, 2), make([]float64, 2)
	if _, ok := d.(detectors.Explainer).Explain(r, n-5, 0, expected, share); !ok {
		t.Fatal("says nothing of the spike")
	}
	if math.Abs(expected[0]-want) > 0.01 || expected[1] != 7 || share[0] != 1 || share[1] != 0 {
		t.Errorf("expects %v, shares %v; the signal has %v and 7", expected, share, want)
	}
	// A novelty is of the samples before, and expects their median.
	novelty := detectors.Must(New(OpParams{Order: 4, Memory: 500, Novelty: true})).(detectors.Explainer)
	p, ok := novelty.Explain(r, n-5, 0, expected, share)
	if !ok || p.Row >= n-1 || p.Row < n-5 || expected[1] != 7 {
		t.Errorf("a novelty is about %+v, expects %v", p, expected)
	}
}

func TestARFaults(t *testing.T) {
	_, err := New(OpParams{Order: 65, Memory: 1, MinPoints: 9})
	for _, want := range []string{"order is 65", "memory is 1", "9 samples before"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not say %q", err, want)
		}
	}
}
