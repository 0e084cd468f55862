package lof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/detectors/vec"
)

// kinds are distributions of a coordinate.
var kinds = map[string]func(rng *rand.Rand) float64{
	"noise":    func(rng *rand.Rand) float64 { return rng.NormFloat64() },
	"tied":     func(rng *rand.Rand) float64 { return float64(rng.IntN(3)) },
	"quarters": func(rng *rand.Rand) float64 { return float64(rng.IntN(40)) / 4 },
	"tenths":   func(rng *rand.Rand) float64 { return float64(rng.IntN(40)) / 10 },
	"constant": func(*rand.Rand) float64 { return 0.1 },
	"zero":     func(*rand.Rand) float64 { return 0 },
	"mostly":   func(rng *rand.Rand) float64 { return max(0, rng.NormFloat64()-1) },
	"far":      func(rng *rand.Rand) float64 { return 1e6 + 0.1*float64(rng.IntN(9)) },
	"huge":     func(rng *rand.Rand) float64 { return 1e37 * rng.NormFloat64() },
	"tiny":     func(rng *rand.Rand) float64 { return 1e-38 * rng.NormFloat64() },
	"mixed":    func(rng *rand.Rand) float64 { return math.Exp(80 * (rng.Float64() - 0.5)) },
	"grain":    func(rng *rand.Rand) float64 { return float64(rng.IntN(5)) * 0x1p-149 },
}

// TestScoreIsTheDefinition compares the fast form with the definition, and requires the same bits
// however many scores are requested.
func TestScoreIsTheDefinition(t *testing.T) {
	rng := seedtest.New(t)
	var shared Scorer
	for kind, draw := range kinds {
		t.Run(kind, func(t *testing.T) {
			for range 40 {
				dim, n := 1+rng.IntN(5), 1+rng.IntN(150)
				p := &Params{K: 1 + rng.IntN(30), Floor: Floor(rng.IntN(3))}
				if rng.IntN(8) == 0 {
					p.K = 1 + rng.IntN(200)
				}
				points := make([]float32, n*dim)
				for i := range points {
					points[i] = float32(draw(rng))
				}
				var virtuals, counts []float32
				if rng.IntN(2) == 0 {
					counts = make([]float32, 1+rng.IntN(40))
					virtuals = make([]float32, len(counts)*dim)
					for i := range virtuals {
						virtuals[i] = float32(draw(rng))
					}
					for i := range counts {
						counts[i] = 5 * rng.Float32()
					}
					if rng.IntN(2) == 0 {
						p.Alpha = rng.Float64()
					}
				}
				what := fmt.Sprintf("n=%d dim=%d %+v virtual=%d", n, dim, *p, len(counts))
				want := Define(p, widen(points), dim, n, widen(virtuals), widen(counts))
				got := make([]float32, n)
				shared.Score(p, got, points, dim, virtuals, counts)
				for i := range want {
					if w := want[i]; !near(float64(got[i]), float64(float32(w)), 1e-6) && !(w != w && got[i] != got[i]) {
						t.Fatalf("%s: score %d is %v, the definition gives %v", what, i, got[i], w)
					}
				}
				for _, fresh := range []int{1, 1 + rng.IntN(n)} {
					some := make([]float32, fresh)
					shared.Score(p, some, points, dim, virtuals, counts)
					for i, v := range some {
						if math.Float32bits(v) != math.Float32bits(got[n-fresh+i]) {
							t.Fatalf("%s: the last %d: score %d is %v, among all it is %v", what, fresh, i, v, got[n-fresh+i])
						}
					}
				}
			}
		})
	}
}

func TestDegenerate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	f := func(name string, p Params, dim int, x []float64, want ...float64) {
		t.Helper()
		got := Define(&p, x, dim, len(want), nil, nil)
		fast := make([]float32, len(want))
		new(Scorer).Score(&p, fast, narrow(x), dim, nil, nil)
		for i, w := range want {
			if g := got[i]; !near(g, w, 1e-9) && !(g != g && w != w) {
				t.Errorf("%s: score %d is %v, want %v", name, i, g, w)
			}
			if g := float64(fast[i]); !near(g, w, 1e-6) && !(g != g && w != w) {
				t.Errorf("%s: fast: score %d is %v, want %v", name, i, g, w)
			}
		}
	}
	f("alone", Params{K: 3}, 2, []float64{1, 2}, 1)
	f("two", Params{K: 3}, 1, []float64{1, 2}, 1, 1)
	f("equal", Params{K: 2}, 1, []float64{7, 7, 7, 7}, 1, 1, 1, 1)
	f("equal, strict", Params{K: 2, Floor: None}, 1, []float64{7, 7, 7, 7}, 1, 1, 1, 1)
	f("beside a spot", Params{K: 2}, 1, []float64{7, 7, 7, 9}, 1, 1, 1, 1)
	f("beside a spot, at a distance of four resolutions", Params{K: 2}, 1, []float64{7, 7, 7.5, 7, 9}, 1, 1, 1, 1, 3.5)
	f("beside a spot, added", Params{K: 2, Floor: Added}, 1, []float64{7, 7, 7, 9}, 1, 1, 1, 2e10+1)
	f("beside a spot, strict", Params{K: 2, Floor: None}, 1, []float64{7, 7, 7, 9}, 1, 1, 1, inf)
	f("not a number", Params{K: 2}, 2, []float64{0, 1, 2, nan, 3, 4, 5, 6}, nan, nan)
	f("infinite", Params{K: 2}, 1, []float64{0, -inf, 2, 3}, nan, nan)

	// A constant dimension changes nothing.
	rng := seedtest.New(t)
	var x, y []float64
	for range 50 {
		v := float64(float32(rng.NormFloat64()))
		x, y = append(x, v), append(y, v, 1234.5)
	}
	f("constant dimension", Params{K: 5}, 2, y, Define(&Params{K: 5}, x, 1, 50, nil, nil)...)

	// Virtual points on the spot of the real ones, and a single one.
	p := &Params{K: 3}
	for i, s := range Define(p, []float64{5, 5, 5, 5, 5}, 1, 5, []float64{5}, []float64{80}) {
		if !near(s, 1, 1e-9) {
			t.Errorf("score %d of points on one spot with a virtual one is %v, want 1", i, s)
		}
	}
}

func TestFaultsAreReportedTogether(t *testing.T) {
	err := (&Params{K: -1, Alpha: math.NaN()}).Check()
	for _, want := range []string{"k is -1", "alpha is NaN"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q: %v", want, err)
		}
	}
}

// cpu is the processor time since, in seconds: the machine may be shared.
func cpu(b *testing.B) func() float64 {
	now := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	start := now()
	return func() float64 { return now() - start }
}

func BenchmarkScore(b *testing.B) {
	for _, c := range []struct{ n, dim, k, fresh, virtuals int }{
		{1024, 8, 20, 1024, 0}, {1024, 8, 20, 1, 0}, {1024, 8, 20, 16, 0}, {1024, 8, 20, 1, 256}, {1024, 1, 20, 1, 0},
		{1024, 1, 20, 1024, 0}, {256, 1, 20, 256, 0}, {256, 1, 20, 1, 0}, {64, 1, 10, 1, 0}, {4096, 32, 20, 4096, 0},
	} {
		b.Run(fmt.Sprintf("n=%d/d=%d/k=%d/fresh=%d/virtual=%d", c.n, c.dim, c.k, c.fresh, c.virtuals), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			points, virtuals := vec.Aligned(2*c.n*c.dim), make([]float32, c.virtuals*c.dim)
			for i := range points {
				points[i] = float32(rng.NormFloat64())
			}
			for i := range virtuals {
				virtuals[i] = float32(rng.NormFloat64())
			}
			counts := make([]float32, c.virtuals)
			for i := range counts {
				counts[i] = 3
			}
			var s Scorer
			scores := make([]float32, c.fresh)
			at := 0
			used := cpu(b)
			b.ReportAllocs()
			for b.Loop() {
				at = (at + 1) % c.n
				s.Score(&Params{K: c.k}, scores, points[at*c.dim:(at+c.n)*c.dim], c.dim, virtuals, counts)
			}
			b.ReportMetric(float64(c.fresh)*float64(b.N)/used(), "points/cpu-s")
		})
	}
	b.Run("equal", func(b *testing.B) {
		var s Scorer
		points, scores := make([]float32, 1024*8), make([]float32, 1024)
		for b.Loop() {
			s.Score(&Params{K: 20}, scores, points, 8, nil, nil)
		}
	})
	b.Run("tied", func(b *testing.B) {
		var s Scorer
		points, scores := make([]float32, 1024), make([]float32, 1024)
		for i := range points {
			points[i] = float32(rand.IntN(10))
		}
		for b.Loop() {
			s.Score(&Params{K: 20}, scores, points, 1, nil, nil)
		}
	})
}
