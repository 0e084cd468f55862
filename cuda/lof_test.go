//go:build linux

package cuda

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
)

// lofDraws are distributions of a number.
func lofDraws(rng *rand.Rand) map[string]func(int) float32 {
	walk := [64]float64{}
	return map[string]func(int) float32{
		"noise":    func(int) float32 { return float32(rng.NormFloat64()) },
		"tied":     func(int) float32 { return float32(rng.IntN(3)) },
		"tenths":   func(int) float32 { return float32(rng.IntN(40)) / 10 },
		"constant": func(int) float32 { return 0.1 },
		"mostly":   func(int) float32 { return float32(max(0, rng.NormFloat64()-1)) },
		"far":      func(int) float32 { return 1e6 + 0.1*float32(rng.IntN(9)) },
		"huge":     func(int) float32 { return float32(1e37 * rng.NormFloat64()) },
		"tiny":     func(int) float32 { return float32(1e-38 * rng.NormFloat64()) },
		"grain":    func(int) float32 { return float32(rng.IntN(5)) * 0x1p-149 },
		"walk":     func(i int) float32 { walk[i%7] += rng.NormFloat64(); return float32(walk[i%7]) },
		"spikes":   func(int) float32 { return float32(rng.NormFloat64()) * float32(1+rng.IntN(50)/49*1000000) },
		"two":      func(int) float32 { return float32(1e-12*rng.NormFloat64() + float64(rng.IntN(2))) },
	}
}

// someKinds returns the kinds of numbers: with ODRADEK_LONG all of them, else a random half.
func someKinds(rng *rand.Rand, draws map[string]func(int) float32) []string {
	kinds := slices.Sorted(maps.Keys(draws))
	if os.Getenv("ODRADEK_LONG") != "" {
		return kinds
	}
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds[:len(kinds)/2]
}

// lofK is the largest k of a kernel.
const lofK = 128

// TestLOFEmulated runs shapes outside the suite on kernels on the CPU: all kernels, limits of their
// sizes, half of the kinds of numbers.
func TestLOFEmulated(t *testing.T) {
	rng := seedtest.New(t)
	e := open(t, emulated(t))
	defer e.Close()
	draws := lofDraws(rng)
	for _, kind := range someKinds(rng, draws) {
		draw := draws[kind]
		t.Run(kind, func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			var names []string
			add := func(n, dim, embed, k, fresh, virtuals int) {
				p := lof.OpParams{
					Window: max(n, 2*k), K: k, Embed: embed, Warmup: 2, Floor: lof.Floor(rng.IntN(3)),
					ZNorm: embed > 2 && rng.IntN(2) == 0, Alpha: float64(rng.IntN(2)) * rng.Float64(),
				}
				executortest.LOFTask(t, b, p, n, dim, fresh, virtuals, draw)
				names = append(names, fmt.Sprintf("n=%d dim=%d %+v fresh=%d virtual=%d", n, dim, p, fresh, virtuals))
			}
			for range 6 {
				n := 1 + rng.IntN(300)
				add(n, 1+rng.IntN(10), 1, 1+rng.IntN(min(n, lofK)), 1+rng.IntN(n), rng.IntN(2)*rng.IntN(60))
			}
			for _, n := range []int{32, 33, 64, 65, 128, 129, 256, 257, 512, 513} {
				add(n, 1+rng.IntN(4), 1, 1+rng.IntN(min(n/2, 40)), 1+rng.IntN(3), 0)
			}
			add(90, 1+rng.IntN(3), 1+rng.IntN(16), 1+rng.IntN(20), 90, rng.IntN(20))
			add(1+rng.IntN(1100), 8, 1, 1+rng.IntN(31), 1, 0)
			switch rng.IntN(4) { // one large
			case 0:
				add(2000+rng.IntN(150), 1+rng.IntN(8), 1, 1+rng.IntN(31), 700, rng.IntN(2)*rng.IntN(100))
			case 1:
				add(2000+rng.IntN(150), 1+rng.IntN(20), 1, 32+rng.IntN(90), 2, 0)
			case 2:
				add(3900+rng.IntN(197), 1+rng.IntN(60), 1, 1+rng.IntN(20), 1, 0)
			case 3:
				add(1024, 8, 1, 20, 1024, 0)
			}
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				r := b.Rows(i)
				got, want := r, r
				want.Scores = make([]float32, len(r.Scores))
				lof.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
				if err := lof.Op.Spec().Compare(&r, detectors.Result{Scores: got.Scores}, detectors.Result{Scores: want.Scores}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	s := e.Stats()
	noFault(t, s)
	byKernels(t, s, 0.1)
}
