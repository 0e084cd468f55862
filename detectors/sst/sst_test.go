package sst

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/detectors/vec"
)

func newParams(t testing.TB, p Params) *Params {
	t.Helper()
	if err := p.Defaults(); err != nil {
		t.Fatal(err)
	}
	if p.A0 == nil {
		p.A0 = Start(1, p.Window)
	}
	return &p
}

func testSignals(rng *rand.Rand, n int) map[string][]float64 {
	s := map[string][]float64{}
	add := func(name string, f func(i int) float64) {
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i)
		}
		s[name] = x
	}
	turn := func(i int, a, b float64) float64 {
		if i < n/2 {
			return a
		}
		return b
	}
	add("noise", func(int) float64 { return rng.NormFloat64() })
	walk := 0.0
	add("walk", func(int) float64 { walk += rng.NormFloat64(); return walk })
	add("sine", func(i int) float64 { return math.Sin(float64(i) * 0.31) })
	add("tones", func(i int) float64 { return math.Sin(float64(i) * turn(i, 0.3, 0.5)) })
	add("tones and noise", func(i int) float64 { return math.Sin(float64(i)*turn(i, 0.3, 0.5)) + 0.1*rng.NormFloat64() })
	add("two tones", func(i int) float64 { return math.Sin(float64(i)*0.3) + 0.5*math.Sin(float64(i)*turn(i, 0.71, 0.5)) })
	add("chirp", func(i int) float64 { return math.Sin(float64(i*i) * 0.0005) })
	add("step", func(i int) float64 { return turn(i, 0, 5) + 0.2*rng.NormFloat64() })
	add("spikes", func(i int) float64 { return math.Pow(rng.Float64(), 30) })
	add("drift", func(i int) float64 { return float64(i) })
	add("level", func(i int) float64 { return turn(i, 1, 2) })
	return s
}

func BenchmarkScore(b *testing.B) {
	for _, c := range []struct{ w, fresh int }{{100, 16}, {100, 8}, {100, 1}, {50, 16}, {320, 16}, {320, 1}} {
		b.Run(fmt.Sprintf("w=%d,fresh=%d", c.w, c.fresh), func(b *testing.B) {
			p := newParams(b, Params{Window: c.w})
			x := testSignals(rand.New(rand.NewPCG(1, 1)), p.Reads()+c.fresh-1)["tones and noise"]
			x32 := make([]float32, len(x))
			for i := range x {
				x32[i] = float32(x[i])
			}
			a := append([]float32(nil), p.A0...)
			scores := make([]float32, c.fresh)
			var s Scorer
			b.ReportAllocs()
			for b.Loop() {
				s.Score(p, scores, x32, a)
			}
			b.ReportMetric(float64(b.N*c.fresh)/b.Elapsed().Seconds(), "scores/s")
		})
	}
}

// narrow rounds x to float32, also in place.
func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
		x[i] = float64(y[i])
	}
	return y
}

// score is the fast form from a0, in tasks of group values.
func score(p *Params, x []float32, fresh, group int) []float32 {
	var s Scorer
	a, scores := append([]float32(nil), p.A0...), make([]float32, fresh)
	for i := 0; i < fresh; i += group {
		n := min(group, fresh-i)
		s.Score(p, scores[i:i+n], x[:len(x)-fresh+i+n], a)
	}
	return scores
}

// TestFastIsTheDefinition requires the fast form to be within 1e-6 of the definition, or, where the
// definition is less stable, within three times its own change.
func TestFastIsTheDefinition(t *testing.T) {
	rng := seedtest.New(t)
	var stable, faults []float64
	for _, c := range []Params{{Window: 2, Rank: 1}, {Window: 8, Rank: 1}, {Window: 20, Rank: 2}, {Window: 50}, {Window: 50, Gamma: 20},
		{Window: 60, Rank: 12}, {Window: 100}} {
		p := newParams(t, c)
		fresh := 34
		if p.Window > 50 {
			fresh = 9
		}
		for name, x := range testSignals(rng, p.Reads()+fresh-1) {
			x32 := narrow(x)
			want, _ := Define(p, x, fresh, widen(p.A0))
			spread, _ := Spread(p, x, fresh, widen(p.A0), FewErrors, rng)
			many := sync.OnceValue(func() []float64 {
				spread, _ := Spread(p, x, fresh, widen(p.A0), ManyErrors, rng)
				return spread
			})
			for _, group := range []int{fresh, 16, 6, 1} {
				for i, got := range score(p, x32, fresh, group) {
					d := math.Abs(float64(got) - want[i])
					if spread[i] < 1e-5 {
						stable = append(stable, d)
					}
					faults = append(faults, d)
					if d > 1e-6+3*spread[i] && d > 1e-6+3*many()[i] {
						t.Errorf("w=%d r=%d %s, in groups of %d: score %d is %v, the definition's %v, its spread %.3g", p.Window, p.Rank, name, group, i,
							got, want[i], many()[i])
					}
				}
			}
		}
	}
	slices.Sort(stable)
	slices.Sort(faults)
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		quantile := func(x []float64) float64 { return x[min(int(q*float64(len(x))), len(x)-1)] }
		t.Logf("difference to the definition, quantile %v: %.1e; of the %.0f %% of the scores that are stable %.1e", q, quantile(faults),
			100*float64(len(stable))/float64(len(faults)), quantile(stable))
	}
}

// TestFrequencyChangeIsFound has a change of frequency in the middle of a series: the score must be low
// before it, and highest where it covers the change.
func TestFrequencyChangeIsFound(t *testing.T) {
	rng := seedtest.New(t)
	p := newParams(t, Params{Window: 60, Rank: 2})
	const n, change = 1000, 500
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Sin(0.31*float64(i)) + 0.02*rng.NormFloat64()
		if i >= change {
			x[i] = math.Sin(0.52*float64(i)) + 0.02*rng.NormFloat64()
		}
	}
	fresh := n - p.Reads() + 1
	sum, about := 0.0, 0.0
	for i, z := range score(p, narrow(x), fresh, 16) {
		newest := n - fresh + i
		from, to := p.About(newest)
		switch {
		case newest < change || newest-p.Reads() >= change:
			if z > 0.1 {
				t.Errorf("score %v at row %d, whose rows are all before or all after the change", z, newest)
			}
		case from <= change && change <= to:
			sum, about = sum+float64(z), about+1
		}
	}
	if sum < 0.8*about {
		t.Errorf("the %v scores that cover the change are %v on average", about, sum/about)
	}
}

func TestDegenerate(t *testing.T) {
	p := newParams(t, Params{Window: 10, Rank: 2})
	nan := math.NaN()
	rng := seedtest.New(t)
	f := func(name string, want float64, keeps bool, at func(i int) float64) {
		t.Helper()
		x := make([]float64, p.Reads())
		for i := range x {
			x[i] = at(i)
		}
		x32 := narrow(x)
		a := widen(p.A0)
		a32 := append([]float32(nil), p.A0...)
		got, _ := Define(p, x, 1, a)
		fast := make([]float32, 1)
		new(Scorer).Score(p, fast, x32, a32)
		same := func(g float64) bool { return g == want || g != g && want != want }
		if !same(got[0]) || !same(float64(fast[0])) {
			t.Errorf("%s: the definition gives %v, the fast form %v, want %v", name, got[0], fast[0], want)
		}
		for i, v := range p.A0 {
			if keeps && (a[i] != float64(v) || a32[i] != v) {
				t.Errorf("%s: the feedback was changed", name)
				break
			}
		}
	}
	current := p.Gamma // its first row
	f("constant", 0, true, func(int) float64 { return 0.1 })
	f("all zero", 0, true, func(int) float64 { return 0 })
	f("a NaN in the past", nan, true, func(i int) float64 {
		if i == 0 {
			return nan
		}
		return rng.NormFloat64()
	})
	f("a NaN between past and current", nan, true, func(i int) float64 {
		if i == current-1 {
			return nan
		}
		return rng.NormFloat64()
	})
	f("an infinity in the current", nan, true, func(i int) float64 {
		if i == len(p.A0)+current {
			return math.Inf(-1)
		}
		return rng.NormFloat64()
	})
	f("a past that is constantly the mean", 0, false, func(i int) float64 {
		j := i - current
		if j < 0 || j == 2*p.Window-2 {
			return 3
		}
		return 3 + float64(1-j%2*2)*float64(1+j/2%3)
	})
}

// TestScorerIsForAnyParameters requires that one scorer for several parameters by turns gives the
// scores of one scorer for each.
func TestScorerIsForAnyParameters(t *testing.T) {
	rng := seedtest.New(t)
	var shared Scorer
	for range 100 {
		p := newParams(t, Params{Window: 3 + rng.IntN(40), Rank: 1 + rng.IntN(2)})
		fresh := 1 + rng.IntN(20)
		x := narrow(testSignals(rng, p.Reads()+fresh-1)["noise"])
		got, a := make([]float32, fresh), append([]float32(nil), p.A0...)
		shared.Score(p, got, x, a)
		for i, want := range score(p, x, fresh, fresh) {
			if got[i] != want {
				t.Fatalf("w=%d, score %d of %d: %v, want %v", p.Window, i, fresh, got[i], want)
			}
		}
	}
}

// TestUnitAndOffsetDoNotMatter requires that adding a constant and multiplying by one change only
// roundings, and that a power of two changes nothing.
func TestUnitAndOffsetDoNotMatter(t *testing.T) {
	rng := seedtest.New(t)
	p := newParams(t, Params{Window: 30})
	const fresh = 20
	x := testSignals(rng, p.Reads()+fresh-1)["noise"]
	change := func(f func(v float64) float64) []float32 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = f(v)
		}
		return score(p, narrow(y), fresh, 16)
	}
	want := change(func(v float64) float64 { return v })
	for _, e := range []int{-100, -40, -12, 3, 13, 50, 100} {
		for i, got := range change(func(v float64) float64 { return math.Ldexp(v, e) }) {
			if got != want[i] {
				t.Fatalf("times 2^%d: score %d is %v, was %v", e, i, got, want[i])
			}
		}
	}
	for i, got := range change(func(v float64) float64 { return 100 + v*7 }) {
		if math.Abs(float64(got-want[i])) > 1e-4 {
			t.Errorf("score %d is %v, was %v", i, got, want[i])
		}
	}
}

// TestFaintComponents requires that a Ritz value along whose vector mu has a squared component of 1e-8 or more takes a whole place,
// and one with less a part of it: the share of its component in 1e-8.
func TestFaintComponents(t *testing.T) {
	for _, c := range []struct{ component, score float64 }{
		{1e-3, 0.999}, {1e-6, 1}, {1e-7, 1}, {1.1e-8, 1}, {0.75e-8, 0.75}, {0.25e-8, 0.25},
	} {
		// A past of two directions, and mu almost along the smaller one: of one place, what is left of the larger.
		mu := []float64{math.Sqrt(c.component), math.Sqrt(1 - c.component)}
		p := Params{Window: 2, Rank: 1, Krylov: 2, Steps: 1, A0: []float32{1, 0}}
		m := matrices{past: [][]float64{{4, 0}, {0, 1}}, current: [][]float64{{mu[0] * mu[0], mu[0] * mu[1]}, {mu[0] * mu[1], mu[1] * mu[1]}}}
		score, spectrum := m.score(&p, slices.Clone(mu), times)
		if math.Abs(score-c.score) > 2e-6 || len(spectrum.Ritz) != 2 {
			t.Errorf("component %v: the definition is %v with %v, want %v", c.component, score, spectrum, c.score)
		}
		var fast tridiagonals
		fast.n = 2
		fast.d[0][0], fast.d[1][0] = 4*c.component+1-c.component, 4*(1-c.component)+c.component
		fast.e[0][0] = 3 * mu[0] * mu[1]
		fast.solve(1)
		if score := fast.outside(0, 1, 0); math.Abs(float64(score)-c.score) > 2e-6 {
			t.Errorf("component %v: the fast form is %v, want %v", c.component, score, c.score)
		}
	}
}

// TestTridiagonals compares the fast form of the tridiagonal problem with Jacobi's.
func TestTridiagonals(t *testing.T) {
	rng := seedtest.New(t)
	for range 500 {
		var fast tridiagonals
		fast.n = 1 + rng.IntN(MaxKrylov)
		count := 1 + rng.IntN(vec.Lanes)
		type matrix struct{ d, e []float64 }
		var ms []matrix
		for k := range count {
			n := 1 + rng.IntN(fast.n)
			m := matrix{make([]float64, n), make([]float64, n-1)}
			for i := range n {
				m.d[i] = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(8)))
				fast.d[i][k] = m.d[i]
				if i > 0 {
					m.e[i-1] = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(8)))
					fast.e[i-1][k] = m.e[i-1]
				}
			}
			ms = append(ms, m)
		}
		fast.solve(count)
		for k, m := range ms {
			size := largest(m.d) + largest(m.e)
			values, vectors := jacobi(m.d, m.e)
			// Values may be in any order, and vectors of close values mix:
			// compare moments, sums of z^2 f(value), which determine both.
			for _, f := range []func(float64) float64{
				func(float64) float64 { return 1 },
				func(v float64) float64 { return v },
				func(v float64) float64 { return v * v },
				math.Exp,
				func(v float64) float64 { return math.Sin(3 * v) },
			} {
				got, want := 0.0, 0.0
				for i := range fast.n {
					got += fast.z[i][k] * fast.z[i][k] * f(fast.d[i][k]/size)
				}
				for i, v := range values {
					want += vectors[0][i] * vectors[0][i] * f(v/size)
				}
				if math.Abs(got-want) > 1e-9 {
					t.Fatalf("%d of %d rows: a moment is %v, want %v", len(m.d), fast.n, got, want)
				}
			}
		}
	}
}
