//go:build linux

package cuda

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestKNNRecentEmulated compares the weights of runs of one value among those before them with the
// definition, on kernels on the CPU: at the limits of windows, runs and neighbours, with every kind of
// number.
func TestKNNRecentEmulated(t *testing.T) { knnRecent(t, emulated(t), 1) }

// TestKNNRecentDevice is TestKNNRecentEmulated on a device, with more tasks.
func TestKNNRecentDevice(t *testing.T) { knnRecent(t, deviceOptions(t), 20) }

func knnRecent(t *testing.T, o Options, times int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	draws := lofDraws(rng)
	draws["sine"] = func(i int) float32 { return float32(math.Sin(float64(i)/9) + 0.01*rng.NormFloat64()) }
	draws["plateaus"] = func(i int) float32 { return float32(i / 50 % 3) }
	draws["missing"] = func(i int) float32 {
		if i%701 == 700 {
			return float32(math.NaN())
		}
		return float32(i%5) + float32(rng.Float64())
	}
	draws["infinite"] = func(i int) float32 { return float32(math.Inf(1 - i%9/8*2)) }
	// Float32 has no square of the differences between the small ones, scaled or not.
	draws["extremes"] = func(int) float32 {
		if rng.IntN(300) == 0 {
			return 1e30
		}
		return float32(1e-12 * rng.NormFloat64())
	}
	for _, kind := range slices.Sorted(maps.Keys(draws)) {
		t.Run(kind, func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			var names []string
			add := func(n, k, embed, fresh int) {
				p := knn.Params{K: max(1, min(k, n)), Embed: embed, IncludeSelf: rng.IntN(3) == 0}
				executortest.KNNTask(t, b, p, n, 1, min(fresh, n), draws[kind])
				names = append(names, fmt.Sprintf("n=%d %+v fresh=%d", n, p, fresh))
			}
			for range times {
				add(1+rng.IntN(300), 1+rng.IntN(64), 2+rng.IntN(63), 1+rng.IntN(20))
				add([]int{1, 2, 16, 33, 64, 65, 511, 512, 513, 514, 1025, 1026, 2049}[rng.IntN(13)], 1+rng.IntN(64), 16*(1+rng.IntN(4)), 1+rng.IntN(3))
				add(2048, 27, 32, 1)
				add(2048, 27, 32, 1)
			}
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				r := b.Rows(i)
				want := r
				want.Scores = make([]float32, len(r.Scores))
				knn.Op.Spec().Score(want)
				if err := knn.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores}, detectors.Result{Scores: want.Scores}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}
