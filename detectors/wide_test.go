package detectors

import (
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors/seedtest"
)

// TestChangesLevel requires that windows of ordinary series, and those with a spike, do not change their level, so that they keep
// their path and their bits, and that windows with a change, at once or by a short ramp, do from the fourth sample on until the
// center follows.
func TestChangesLevel(t *testing.T) {
	rng := seedtest.New(t)
	flagged := func(x []float64, fresh int, count int64) bool {
		rows := floatBits(x...)
		from, n := CenterRows(CenterRun(len(x)), len(x), count)
		cut := rng.IntN(len(x))
		centers, _ := Centers(nil, rows[:cut], rows[cut:], 1, from, n)
		wide := WideFresh
		if rng.IntN(2) == 0 && fresh == 1 {
			wide = WideCourse
		}
		return ChangesLevel(wide, rows[:cut], rows[cut:], 1, fresh, centers)
	}
	for name, at := range map[string]func(r *rand.Rand, n int) func(i int) float64{
		"noise":   func(r *rand.Rand, _ int) func(int) float64 { return func(int) float64 { return r.NormFloat64() } },
		"uniform": func(r *rand.Rand, _ int) func(int) float64 { return func(int) float64 { return r.Float64() } },
		"heavy tails": func(r *rand.Rand, _ int) func(int) float64 {
			return func(int) float64 { return r.NormFloat64() / math.Abs(r.NormFloat64()) }
		},
		"rounded": func(r *rand.Rand, _ int) func(int) float64 {
			return func(int) float64 { return math.Round(3*r.NormFloat64()) / 10 }
		},
		"wave": func(r *rand.Rand, n int) func(int) float64 {
			turn, noise := math.Exp(-7*r.Float64()), math.Pow(10, -4*r.Float64())
			return func(i int) float64 { return math.Sin(turn*float64(i)) + noise*r.NormFloat64() }
		},
		"trend": func(r *rand.Rand, n int) func(int) float64 {
			noise := math.Pow(10, -4*r.Float64())
			return func(i int) float64 { return float64(i)/float64(n) + noise*r.NormFloat64() }
		},
		"walk": func(r *rand.Rand, n int) func(int) float64 {
			v := 0.0
			return func(int) float64 { v += r.NormFloat64(); return v }
		},
		"spikes": func(r *rand.Rand, n int) func(int) float64 {
			return func(i int) float64 {
				if r.IntN(60) == 0 {
					return 1e6 * r.NormFloat64()
				}
				return r.NormFloat64()
			}
		},
		"constant": func(r *rand.Rand, n int) func(int) float64 { return func(int) float64 { return 0.1 } },
		"states":   func(r *rand.Rand, n int) func(int) float64 { return func(i int) float64 { return float64(i / 9 % 3) } },
	} {
		windows, wrong := 0, 0
		for range 2000 {
			n := 16 << rng.IntN(7)
			value := at(rng, n)
			x := make([]float64, n)
			for i := range x {
				x[i] = value(i)
			}
			fresh := 1
			if rng.IntN(10) == 0 {
				fresh = n
			}
			windows++
			if flagged(x, fresh, int64(n+rng.IntN(1000))) {
				wrong++
			}
		}
		if 25*wrong > windows { // of spikes, 1.5 % do
			t.Errorf("%s: %d of %d windows change their level", name, wrong, windows)
		}
	}
	for range 2000 {
		n := 32 << rng.IntN(6)
		step, ramp, at := math.Pow(10, 3+5*rng.Float64()), rng.IntN(n/64+1), n/2+rng.IntN(n/2-6)
		if rng.IntN(2) == 0 {
			step = -step
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64() + step*max(0, min(1, float64(i-at)/float64(ramp+1)))
		}
		count := int64(4 * n)
		from, common := CenterRows(CenterRun(n), n, count)
		center := median(x[from], x[from+common/2], x[from+common-1])
		if at+ramp+4 < n && math.Abs(center) < math.Abs(step)/1e2 && !flagged(x, 1, count) {
			t.Errorf("a step of %v by %d rows at %d of %d is not seen", step, ramp, at, n)
		}
	}
}
