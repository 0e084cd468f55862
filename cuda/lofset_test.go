//go:build linux

package cuda

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
)

// TestLOFSetEmulated compares the factors of sets too large for a block's search with the CPU's, on
// kernels on the CPU.
func TestLOFSetEmulated(t *testing.T) { lofSets(t, emulated(t), 1, 4130) }

// TestLOFSetDevice is TestLOFSetEmulated on a device, with larger sets and all kinds of numbers.
func TestLOFSetDevice(t *testing.T) { lofSets(t, deviceOptions(t), 100, 30_000) }

func lofSets(t *testing.T, o Options, most, size int) {
	o.Memory, o.Deadline = 4<<30, max(o.Deadline, time.Minute)
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	draws := lofDraws(rng)
	draws["missing"] = func(i int) float32 {
		if i == 4000 {
			return float32(math.NaN())
		}
		return float32(rng.NormFloat64())
	}
	kinds := slices.Sorted(maps.Keys(draws))
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds[:min(most, len(kinds))] {
		n, dim, embed := 4097+rng.IntN(size-4096), 1+rng.IntN(1<<rng.IntN(6)), 1
		if rng.IntN(2) == 0 {
			embed = 1 + rng.IntN(64/dim)
		}
		p := lof.OpParams{Window: n, K: 1 + rng.IntN(60), Embed: embed, Floor: lof.Floor(rng.IntN(3)), Warmup: n}
		fresh := n - rng.IntN(n/2)
		t.Run(fmt.Sprintf("%s %dx%d %+v fresh=%d", kind, n, dim, p, fresh), func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			executortest.LOFTask(t, b, p, n, dim, fresh, 0, draws[kind])
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			r := b.Rows(0)
			want := r
			want.Scores = make([]float32, len(r.Scores))
			lof.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
			if err := lof.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores}, detectors.Result{Scores: want.Scores}); err != nil {
				t.Error(err)
			}
		})
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}
