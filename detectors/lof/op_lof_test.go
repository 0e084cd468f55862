package lof

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

func TestLOFFaultsAreReportedTogether(t *testing.T) {
	_, err := New(OpParams{Window: 1, K: -2, Embed: 1 << 20, Alpha: -1, Warmup: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"window", "k is", "embedding", "alpha", "warm-up"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
	for want, p := range map[string]OpParams{
		"2k = 40":        {Window: 39},
		"at least 3":     {Window: 50, ZNorm: true, Embed: 2},
		"of 65536, or":   {Window: MaxWindow, K: 1024},
		"embedding of 1": {Window: 50, Cells: 10, Embed: 2},
		"decay":          {Window: 50, Cells: 10, Decay: 1},
		"whole":          {Window: 50, Tumbling: true, Warmup: 40},
	} {
		if _, err := New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error does not say %q: %v", p, want, err)
		}
	}
}

func TestLOFSizes(t *testing.T) {
	f := func(p OpParams, v detectors.View, window int, ok bool) {
		t.Helper()
		d := detectors.Must(New(p))
		size, got := d.Size(v)
		if d.Window() != window || got != ok || ok && size != (detectors.Outputs{Scores: v.Fresh}) {
			t.Errorf("%+v: window %d, Size(%+v) = %+v, %v", p, d.Window(), v, size, got)
		}
	}
	f(OpParams{Window: 100}, detectors.View{Dim: 1, Rows: 99, Fresh: 1}, 100, false)
	f(OpParams{Window: 100}, detectors.View{Dim: 1, Rows: 100, Fresh: 1}, 100, true)
	f(OpParams{Window: 100, Embed: 8}, detectors.View{Dim: 1, Rows: 106, Fresh: 1}, 107, false)
	f(OpParams{Window: 100, Embed: 8, Warmup: 50}, detectors.View{Dim: 1, Rows: 59, Fresh: 3}, 107, true)
	f(OpParams{Window: 100, Embed: 8, Warmup: 50}, detectors.View{Dim: 1, Rows: 58, Fresh: 3}, 107, false)
	f(OpParams{Window: 100, Tumbling: true, Embed: 8}, detectors.View{Dim: 1, Rows: 107, Fresh: 100}, 8, true)
	f(OpParams{Window: 100, Tumbling: true, Embed: 8}, detectors.View{Dim: 1, Rows: 106, Fresh: 100}, 8, false)
	f(OpParams{Window: 100, Cells: 10}, detectors.View{Dim: 1, Rows: 100, Fresh: 1}, 101, true)
	f(OpParams{Window: 100, Cells: 10, Tumbling: true}, detectors.View{Dim: 1, Rows: 100, Fresh: 100}, 101, true)
}

// TestLOFExplains has one value of a row that is far off: the expected row must be the neighbours'
// mean, and the value the cause.
func TestLOFExplains(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, p := range []OpParams{{Window: 60, K: 10}, {Window: 60, K: 10, Embed: 4}, {Window: 60, K: 10, Embed: 8, ZNorm: true}} {
		d := detectors.Must(New(p))
		const dim = 3
		n := d.Window() + 1
		r := detectors.Rows{Dim: dim, Fresh: 2, Params: d.Params(), Scores: make([]float32, 2)}
		for i := range n {
			for c := range dim {
				r.X = append(r.X, float32(math.Sin(float64(i)*math.Pi/4+float64(c))+0.01*rng.NormFloat64()))
			}
		}
		at := (n-1)*dim + 1
		usual := r.X[at]
		r.X[at] += 5
		opCPU(t.Context(), &r, detectors.Sequential)
		expected, contribution := make([]float64, dim), make([]float64, dim)
		if _, ok := d.(detectors.Explainer).Explain(r, 1, 0, expected, contribution); !ok {
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
		if _, ok := d.(detectors.Explainer).Explain(r, 0, 0, expected, contribution); ok {
			t.Errorf("%+v: an explanation of equal rows", p)
		}
	}
}

// TestWideEvidence: the densities that explain a score of float64 rows make that score, also where float32 would not tell which of
// the points a million away are the nearer.
func TestWideEvidence(t *testing.T) {
	rng := seedtest.New(t)
	compared := 0
	for range 300 {
		p := OpParams{Window: 15 + rng.IntN(20), K: 3 + rng.IntN(4), Embed: 1 + rng.IntN(5)}
		d := detectors.Must(New(p))
		r := detectors.Rows{Dim: 1, Fresh: 1, Params: d.Params(), Scores: make([]float32, 1)}
		n, high := d.Window(), 1+rng.IntN(6)
		for i := range n {
			if r.X64 = append(r.X64, rng.NormFloat64()); i >= n-high {
				r.X64[i] = 1e6
			}
		}
		opCPU(t.Context(), &r, detectors.Sequential)
		measures := map[string]float64{}
		for _, m := range d.(detectors.Describer).Describe(r, 0).Measures {
			measures[m.Name] = m.Value
		}
		own, others := measures["local reachability density"], measures["mean density of the neighbours"]
		if own == 0 {
			continue // all neighbours are on one spot
		}
		compared++
		if got, want := others/own, float64(r.Scores[0]); math.Abs(got-want) > 1e-5*max(1, want) {
			t.Errorf("%+v, %d high values: the evidence makes a score of %v, it is %v", p, high, got, want)
		}
	}
	if compared < 150 {
		t.Errorf("only %d of 300 have densities", compared)
	}
}
