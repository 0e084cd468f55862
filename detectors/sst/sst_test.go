package sst

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("ODRADEK_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("ODRADEK_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

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

func signals(rng *rand.Rand, n int) map[string][]float64 {
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
			x := signals(rand.New(rand.NewPCG(1, 1)), p.Reads()+c.fresh-1)["tones and noise"]
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

func TestFastIsTheDefinition(t *testing.T) {
	rng := newRand(t)
	for _, c := range []Params{{Window: 50}, {Window: 100}, {Window: 20, Rank: 2}, {Window: 50, Rank: 5}, {Window: 100, Rank: 12}} {
		p := newParams(t, c)
		fresh := 40
		for name, x := range signals(rng, p.Reads()+fresh-1) {
			x32 := make([]float32, len(x))
			for i := range x {
				x32[i] = float32(x[i])
				x[i] = float64(x32[i])
			}
			a := make([]float64, p.Window)
			for i := range a {
				a[i] = float64(p.A0[i])
			}
			a32 := append([]float32(nil), p.A0...)
			want, spectra := Define(p, x, fresh, a)
			for _, group := range []int{fresh, 1} {
				got := make([]float32, fresh)
				copy(a32, p.A0)
				var s Scorer
				for i := 0; i < fresh; i += group {
					s.Score(p, got[i:i+group], x32[:len(x)-fresh+i+group], a32)
				}
				worst, at := 0.0, 0
				for i := range got {
					if d := math.Abs(float64(got[i]) - want[i]); d > worst {
						worst, at = d, i
					}
				}
				t.Logf("w=%d r=%d %-16s group %2d: worst %.2g at %d: %v, %v %v", p.Window, p.Rank, name, group, worst, at, got[at], want[at], spectra[at])
			}
		}
	}
}
