package detectors

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestLOFFaultsAreReportedTogether(t *testing.T) {
	_, err := NewLOF(LOFParams{Window: 1, K: -2, Embed: 1 << 20, Alpha: -1, Warmup: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"window", "k is", "embedding", "alpha", "warm-up"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
	for want, p := range map[string]LOFParams{
		"2k = 40":        {Window: 39},
		"at least 3":     {Window: 50, ZNorm: true, Embed: 2},
		"embedding of 1": {Window: 50, Cells: 10, Embed: 2},
		"decay":          {Window: 50, Cells: 10, Decay: 1},
		"whole":          {Window: 50, Tumbling: true, Warmup: 40},
	} {
		if _, err := NewLOF(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error does not say %q: %v", p, want, err)
		}
	}
}

func TestLOFSizes(t *testing.T) {
	f := func(p LOFParams, v View, window int, ok bool) {
		t.Helper()
		d := must(NewLOF(p))
		size, got := d.Size(v)
		if d.Window() != window || got != ok || ok && size != (Outputs{Scores: v.Fresh}) {
			t.Errorf("%+v: window %d, Size(%+v) = %+v, %v", p, d.Window(), v, size, got)
		}
	}
	f(LOFParams{Window: 100}, View{1, 99, 1}, 100, false)
	f(LOFParams{Window: 100}, View{1, 100, 1}, 100, true)
	f(LOFParams{Window: 100, Embed: 8}, View{1, 106, 1}, 107, false)
	f(LOFParams{Window: 100, Embed: 8, Warmup: 50}, View{1, 59, 3}, 107, true)
	f(LOFParams{Window: 100, Embed: 8, Warmup: 50}, View{1, 58, 3}, 107, false)
	f(LOFParams{Window: 100, Tumbling: true, Embed: 8}, View{1, 107, 100}, 8, true)
	f(LOFParams{Window: 100, Tumbling: true, Embed: 8}, View{1, 106, 100}, 8, false)
	f(LOFParams{Window: 100, Cells: 10}, View{1, 100, 1}, 101, true)
	f(LOFParams{Window: 100, Cells: 10, Tumbling: true}, View{1, 100, 100}, 101, true)
}

// One value of a row is far off: the neighbours' mean is what was expected, and
// the value is to blame.
func TestLOFExplains(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, p := range []LOFParams{{Window: 60, K: 10}, {Window: 60, K: 10, Embed: 4}, {Window: 60, K: 10, Embed: 8, ZNorm: true}} {
		d := must(NewLOF(p))
		const dim = 3
		n := d.Window() + 1
		r := Rows{Dim: dim, Fresh: 2, Params: d.Params(), Scores: make([]float32, 2)}
		for i := range n {
			for c := range dim {
				r.X = append(r.X, float32(math.Sin(float64(i)*math.Pi/4+float64(c))+0.01*rng.NormFloat64()))
			}
		}
		at := (n-1)*dim + 1
		usual := r.X[at]
		r.X[at] += 5
		lofCPU(t.Context(), &r, Sequential)
		expected, contribution := make([]float64, dim), make([]float64, dim)
		if !d.(Explainer).Explain(r, 1, expected, contribution) {
			t.Fatalf("%+v: no explanation", p)
		}
		sum := contribution[0] + contribution[1] + contribution[2]
		if !p.ZNorm && r.Scores[1] < 2*r.Scores[0] || contribution[1] < 0.4 || math.Abs(sum-1) > 1e-12 {
			t.Errorf("%+v: scores %v, contributions %v", p, r.Scores, contribution)
		}
		if p.Embed == 4 && math.Abs(expected[1]-float64(usual)) > 0.6 {
			t.Errorf("%+v: expected %v, usual is %v", p, expected[1], usual)
		}
		// All equal: there is nothing to explain.
		clear(r.X)
		if d.(Explainer).Explain(r, 0, expected, contribution) {
			t.Errorf("%+v: an explanation of equal rows", p)
		}
	}
}
