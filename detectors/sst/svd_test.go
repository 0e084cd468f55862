package sst

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

func newSVD(t testing.TB, p SVDParams) *SVDParams {
	t.Helper()
	if err := p.Defaults(); err != nil {
		t.Fatal(err)
	}
	return &p
}

// TestSVDGolden compares the definition and the fast form with LAPACK; see testdata/svd.py.
func TestSVDGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/svd.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name                  string
		Window, Rank, Gamma   int
		X                     []float64 // in 1/1024
		Scores, Current, Past []float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for _, c := range cases {
		p := newSVD(t, SVDParams{Window: c.Window, Rank: c.Rank, Gamma: c.Gamma})
		x32 := make([]float32, len(c.X))
		for i := range c.X {
			c.X[i] /= 1024
			x32[i] = float32(c.X[i])
		}
		scores, _ := DefineSVD(p, c.X, len(c.Scores))
		got := make([]float32, len(c.Scores))
		new(SVDScorer).Score(p, got, x32)
		for i, z := range c.Scores {
			if !(c.Current[i] > openCurrent && c.Past[i] > openPast) {
				t.Logf("%s: score %d is open", c.Name, i)
				continue
			}
			if d := math.Abs(scores[i] - z); d > 1e-9 {
				t.Errorf("%s: score %d: the definition gives %v, LAPACK %v", c.Name, i, scores[i], z)
			}
			d := math.Abs(float64(got[i]) - z)
			if d > 1e-6 {
				t.Errorf("%s: score %d: the fast form gives %v, LAPACK %v", c.Name, i, got[i], z)
			}
			worst = max(worst, d)
		}
	}
	t.Logf("the fast form is within %.1e of LAPACK", worst)
}

// TestFastSVDIsTheDefinition requires the fast form to be within 1e-6 of the definition or, where the
// method leaves the score open, within that range.
func TestFastSVDIsTheDefinition(t *testing.T) {
	rng := seedtest.New(t)
	var differences []float64
	open, all := 0, 0
	var s SVDScorer
	for _, c := range []SVDParams{{Window: 2, Rank: 1}, {Window: 3, Rank: 2}, {Window: 8, Rank: 1}, {Window: 20, Rank: 2}, {Window: 50},
		{Window: 50, Gamma: 20}, {Window: 60, Rank: 12}, {Window: 100, Rank: 16}} {
		p := newSVD(t, c)
		fresh := 5
		for name, x := range testSignals(rng, p.Reads()+fresh-1) {
			x32 := narrow(x)
			want, decompositions := DefineSVD(p, x, fresh)
			got := make([]float32, fresh)
			s.Score(p, got, x32)
			for i, g := range got {
				d := math.Abs(float64(g) - want[i])
				low, high := SVDRange(p, &decompositions[i], want[i])
				all++
				if high-low < 2e-5 {
					differences = append(differences, d)
				} else {
					open++
				}
				if v := float64(g); !(low-1e-6 <= v && v <= high+1e-6) {
					t.Errorf("w=%d r=%d gamma=%d %s: score %d is %v, the definition's %v, open from %v to %v", p.Window, p.Rank, p.Gamma, name,
						i, g, want[i], low, high)
				}
			}
		}
	}
	slices.Sort(differences)
	for _, q := range []float64{0.5, 0.9, 0.99, 1} {
		t.Logf("difference to the definition, quantile %v: %.1e", q, differences[min(int(q*float64(len(differences))), len(differences)-1)])
	}
	t.Logf("%d of %d scores are open", open, all)
}

func TestSVDFaultsAreReportedTogether(t *testing.T) {
	err := (&SVDParams{Window: 1, Rank: 3, Gamma: -1}).Defaults()
	for _, want := range []string{"window", "rank", "gamma"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
	if err := (&SVDParams{Window: 5, Rank: 5}).Defaults(); err == nil {
		t.Error("a rank of the window's size is no error")
	}
}

// TestSVDDegenerate requires that input with equal or hardly any directions has scores in [0, 1], the
// same each time.
func TestSVDDegenerate(t *testing.T) {
	rng := seedtest.New(t)
	f := func(name string, w, r int, at func(i int) float64) float32 {
		t.Helper()
		p := newSVD(t, SVDParams{Window: w, Rank: r})
		x := make([]float64, p.Reads())
		for i := range x {
			x[i] = at(i)
		}
		x32 := narrow(x)
		var a, b [1]float32
		new(SVDScorer).Score(p, a[:], x32)
		new(SVDScorer).Score(p, b[:], x32)
		want, d := DefineSVD(p, x, 1)
		if a != b && a[0] == a[0] {
			t.Errorf("%s: %v, then %v", name, a, b)
		}
		if want[0] != want[0] {
			if a[0] == a[0] {
				t.Errorf("%s: %v, want NaN", name, a)
			}
			return a[0]
		}
		if low, high := SVDRange(p, &d[0], want[0]); !(low-1e-6 <= float64(a[0]) && float64(a[0]) <= high+1e-6) || !(a[0] >= 0 && a[0] <= 1) {
			t.Errorf("%s, w=%d r=%d: %v, the definition gives %v, open from %v to %v", name, w, r, a, want, low, high)
		}
		return a[0]
	}
	for _, w := range []int{4, 16, 30, 64, 100} {
		for _, r := range []int{1, 2, 3} {
			if z := f("constant", w, r, func(int) float64 { return 0.1 }); z != 0 {
				t.Errorf("constant: %v", z)
			}
			f("a sinusoid", w, r, func(i int) float64 { return math.Sin(0.31 * float64(i)) })
			f("a sinusoid of whole periods", w, r, func(i int) float64 { return math.Sin(2 * math.Pi * float64(i) / 8) })
			f("a square", w, r, func(i int) float64 { return float64(i / 4 % 2) })
			f("alternating", w, r, func(i int) float64 { return float64(i % 2) })
			f("a spike in the past's middle", w, r, func(i int) float64 { return float64(max(0, 1-max(i-w+1, w-1-i))) })
			f("a spike in each", w, r, func(i int) float64 { return float64(max(0, 1-max((i-w/2)%(2*w), -(i-w/2)))) })
			f("spikes", w, r, func(i int) float64 { return float64(1 - min(1, i*i%17)) })
			f("drift", w, r, func(i int) float64 { return float64(i) })
			f("huge", w, r, func(int) float64 { return 1e38 * rng.Float64() })
			f("tiny", w, r, func(int) float64 { return 1e-38 * rng.NormFloat64() })
			f("spike far above noise", w, r, func(i int) float64 { return 1e9*float64(max(0, 1-max(i-w, w-i))) + rng.NormFloat64() })
			if z := f("not a number between", w, r, func(i int) float64 {
				if i == 2*w {
					return math.NaN()
				}
				return rng.Float64()
			}); z == z {
				t.Errorf("not a number between past and current: %v", z)
			}
		}
	}
}

func BenchmarkSVDScore(b *testing.B) {
	for _, c := range []struct{ w, r int }{{50, 3}, {100, 3}, {100, 12}, {320, 12}, {500, 12}} {
		for _, name := range []string{"noise", "walk", "tones and noise"} {
			b.Run(fmt.Sprintf("w=%d,r=%d,%s", c.w, c.r, name), func(b *testing.B) {
				p := newSVD(b, SVDParams{Window: c.w, Rank: c.r})
				x := narrow(testSignals(rand.New(rand.NewPCG(1, 1)), p.Reads())[name])
				scores := make([]float32, 1)
				var s SVDScorer
				b.ReportAllocs()
				for b.Loop() {
					s.Score(p, scores, x)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "scores/s")
				b.ReportMetric(float64(s.past.n), "steps")
				b.ReportMetric(float64(s.current.n), "steps2")
			})
		}
	}
}

// TestSVDRange draws mu and the past's directions at random where several are possible, and requires
// that the score of each choice is within the range. The definition's own choice of several at rest
// once was not: mixtures of more than two vectors were left out.
func TestSVDRange(t *testing.T) {
	rng := seedtest.New(t)
	undetermined, widest := 0, 0.0
	for range 3000 {
		w, r := 8+rng.IntN(25), 1+rng.IntN(4)
		p := newSVD(t, SVDParams{Window: w, Rank: r})
		x := make([]float64, p.Reads())
		period := 2 + rng.IntN(w)
		for i := range x {
			switch {
			case i >= period && period < w/2:
				x[i] = x[i-period]
			case rng.IntN(w/2) == 0:
				x[i] = float64(1 + rng.IntN(2))
			}
		}
		want, decompositions := DefineSVD(p, x, 1)
		d := &decompositions[0]
		low, high := SVDRange(p, d, want[0])
		if len(d.Past) == 0 || high-low < 1e-6 {
			continue
		}
		undetermined++
		widest = max(widest, high-low)
		for range 20 {
			alike := 1
			for alike < w && d.Current[0]-d.Current[alike] <= 1e-12*d.Current[0] {
				alike++
			}
			mu := mixture(rng, d.CurrentLeft[:alike])
			score, counted := 1.0, 0
			var tied [][]float64
			for i, s := range d.Past[:w] {
				if s <= p.Negligible*d.Past[0] {
					continue
				}
				if math.Abs(s-d.Past[r-1]) <= 1e-12*d.Past[0] {
					tied = append(tied, d.PastLeft[i])
				} else if i < r {
					score -= dot(mu, d.PastLeft[i]) * dot(mu, d.PastLeft[i])
					counted++
				}
			}
			var chosen [][]float64 // orthogonal, by Gram and Schmidt
			for len(chosen) < min(r-counted, len(tied)) {
				u := mixture(rng, tied)
				for range 2 {
					for _, b := range chosen {
						along := dot(u, b)
						for i := range u {
							u[i] -= along * b[i]
						}
					}
				}
				size := math.Sqrt(dot(u, u))
				for i := range u {
					u[i] /= size
				}
				chosen = append(chosen, u)
				score -= dot(mu, u) * dot(mu, u)
			}
			if !(low-1e-9 <= score && score <= high+1e-9) {
				t.Errorf("w=%d r=%d: another choice scores %v, not from %v to %v; the definition %v", w, r, score, low, high, want[0])
			}
		}
	}
	if t.Logf("%d of 3000 scores are undetermined, by %.3g at most", undetermined, widest); undetermined < 300 {
		t.Error("too few of the scores are undetermined to test anything")
	}
}

// mixture returns a random unit vector of those that orthonormal vectors span.
func mixture(rng *rand.Rand, basis [][]float64) []float64 {
	u, square := make([]float64, len(basis[0])), 0.0
	for _, b := range basis {
		by := rng.NormFloat64()
		square += by * by
		for i := range u {
			u[i] += by * b[i]
		}
	}
	for i := range u {
		u[i] /= math.Sqrt(square)
	}
	return u
}
