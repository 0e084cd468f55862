//go:build linux

package cuda

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
)

// TestLineEmulated runs LOF and kNN of one coordinate on kernels on the CPU: sizes around the
// limits of warps and blocks, every kind of number, few scores and all.
func TestLineEmulated(t *testing.T) { onLine(t, emulated(t), 3, 1<<12) }

// TestLineDevice is TestLineEmulated on a device, with more and larger windows.
func TestLineDevice(t *testing.T) {
	if testing.Short() { // under a tool that slows the test down
		onLine(t, deviceOptions(t), 1, 1<<10)
		return
	}
	onLine(t, deviceOptions(t), 20, 1<<12)
}

// lineSizes are around the sizes at which line.h changes kernels or warps.
var lineSizes = []int{1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049,
	4095, 4096}

// lineDraws are lofDraws and numbers whose order in time matters.
func lineDraws(rng *rand.Rand) map[string]func(int) float32 {
	draws := lofDraws(rng)
	draws["rising"] = func(i int) float32 { return float32(i) }
	draws["falling"] = func(i int) float32 { return -float32(i) / 7 }
	draws["saw"] = func(i int) float32 { return float32(i % 60) }
	draws["steps"] = func(i int) float32 { return float32(i / 9) }
	draws["zeros"] = func(i int) float32 { // of both signs
		if rng.IntN(8) == 0 {
			return float32(math.Copysign(0, float64(rng.IntN(2))-0.5))
		}
		return float32(rng.IntN(200)-100) / 7
	}
	// From 1 all numbers near 0 are equally far by rounding in float64, from powers of two in
	// float32 alone.
	draws["equally far"] = func(int) float32 { return float32(1e-19*rng.NormFloat64() + float64(rng.IntN(40)/39)) }
	draws["nearly so"] = func(int) float32 {
		v := math.Ldexp(float64(2*rng.IntN(2)-1), rng.IntN(30))
		if rng.IntN(10) > 0 {
			v *= 1e-7 * rng.Float64()
		}
		return float32(v)
	}
	return draws
}

// onLine scores windows of up to most points, each size the given number of times, and compares with
// the CPU's scores.
func onLine(t *testing.T, o Options, times, most int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	draws := lineDraws(rng)
	for _, kind := range slices.Sorted(maps.Keys(draws)) {
		t.Run(kind, func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			var names []string
			add := func(n int) {
				draw := draws[kind]
				if rng.IntN(12) == 0 { // a value that is not finite
					at, v := rng.IntN(n), []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
					draw = func(i int) float32 {
						if i == at {
							return float32(v)
						}
						return draws[kind](i)
					}
				}
				k := 1 + rng.IntN(min(max(n/2, 1), 40))
				if rng.IntN(5) == 0 { // all of them, or about all
					k = max(1, n-2+rng.IntN(4))
				}
				k = min(k, 1<<10)
				fresh := []int{1, 1 + rng.IntN(min(n, 16)), 1 + rng.IntN(n), n}[rng.IntN(4)]
				l := lof.OpParams{Window: max(n, 2*k), K: k, Embed: 1, Warmup: 2, Floor: lof.Floor(rng.IntN(3))}
				executortest.LOFTask(t, b, l, n, 1, fresh, 0, draw)
				names = append(names, fmt.Sprintf("lof n=%d k=%d fresh=%d", n, k, fresh))
				p := knn.Params{K: k, Embed: 1, Tumbling: rng.IntN(2) == 0, IncludeSelf: rng.IntN(3) == 0}
				if p.Tumbling {
					fresh = n
				} else {
					fresh = min(fresh, 20)
				}
				executortest.KNNTask(t, b, p, n, 1, fresh, draw)
				names = append(names, fmt.Sprintf("knn n=%d %+v fresh=%d", n, p, fresh))
			}
			for range times {
				for _, n := range lineSizes {
					if n <= most {
						add(n)
					}
				}
				for range 8 {
					add(1 + rng.IntN(300))
				}
			}
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			scores, off := 0, 0
			for i, name := range names {
				r := b.Rows(i)
				want := r
				want.Scores = make([]float32, len(r.Scores))
				b.Tasks[i].Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
				scores += len(want.Scores)
				for f, w := range want.Scores {
					g := r.Scores[f]
					if g == w || g != g && w != w {
						continue
					}
					if off++; g != math.Nextafter32(w, g) {
						t.Errorf("%s: score %d is %v, the CPU's is %v", name, f, g, w)
						break
					}
				}
			}
			// Sums are in another order, so that one score in a million is rounded to the next number.
			if off > 2+scores/100_000 {
				t.Errorf("%d of %d scores are not the CPU's to the bit", off, scores)
			}
		})
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}
