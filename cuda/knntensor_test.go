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
	"time"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestKNNTensorEmulated compares weights and neighbours from products of matrices with the CPU's, on kernels
// on the CPU: a random kind of numbers (all kinds before a release), sizes at the limits of blocks and of groups of places.
// It leaves out spots, nearly all of whose points search in float32, which takes minutes there: the device's test has them.
func TestKNNTensorEmulated(t *testing.T) {
	rng := seedtest.New(t)
	e := open(t, emulated(t))
	defer e.Close()
	most := 1
	if os.Getenv("ODRADEK_LONG") != "" {
		most = 100
	}
	knnTensor(t, e, rng, most, []string{"spot"}, func() int { return []int{2049, 2176, 2304, 2305, 2560, 2561}[rng.IntN(6)] })
}

// TestKNNTensorDevice is TestKNNTensorEmulated on a device, with all kinds of numbers and larger sets.
func TestKNNTensorDevice(t *testing.T) {
	o := deviceOptions(t)
	o.Memory, o.Deadline = 4<<30, time.Minute
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	most, more := 100, 1<<13
	if testing.Short() {
		most, more = 4, 1<<8
	}
	knnTensor(t, e, rng, most, nil, func() int { return 2049 + rng.IntN(more) })
}

func knnTensor(t *testing.T, e *Executor, rng *rand.Rand, most int, without []string, size func() int) {
	kinds := append(slices.Sorted(maps.Keys(pointDraws(rng, 4))), slices.Sorted(maps.Keys(lofDraws(rng)))...)
	kinds = append(kinds, "offset")
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return slices.Contains(without, kind) })
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	if rng.IntN(2) == 0 { // of these, distances are as small as the error of 16 bits
		blobs := slices.Index(kinds, "blobs")
		kinds[0], kinds[blobs] = kinds[blobs], kinds[0]
	}
	for i, kind := range kinds[:min(most, len(kinds))] {
		dim := []int{5, 8, 10, 11, 16, 17, 32, 33, 64}[(i+rng.IntN(2)*4)%9]
		draw := lofDraws(rng)[kind]
		if draw == nil {
			draw = pointDraws(rng, min(dim, 4))[kind]
		}
		if kind == "offset" {
			draw = func(int) float32 { return 100 + 0.01*float32(rng.NormFloat64()) }
		}
		n, k := size(), 1+rng.IntN(128)
		if rng.IntN(2) == 0 {
			k = []int{1, 20, 24, 25, 50, 64, 65, 128}[rng.IntN(8)]
		}
		p := knn.Params{K: k, Tumbling: true, IncludeSelf: k > 1 && rng.IntN(3) == 0, Neighbours: rng.IntN(2) == 0}
		if dim%2 == 0 && rng.IntN(3) == 0 {
			p.Embed, dim = 2, dim/2
		}
		t.Run(fmt.Sprintf("%s %dx%d %+v", kind, n, dim, p), func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			for range 2 {
				executortest.KNNTask(t, b, p, n, dim, n, draw)
			}
			// The second time the memory holds what the first left there.
			var before [2][]float32
			for range 2 {
				if err := e.Execute(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				for i := range before {
					scores := b.Rows(i).Scores
					if before[i] != nil && !slices.EqualFunc(scores, before[i], func(v, w float32) bool { return v == w || v != v && w != w }) {
						t.Errorf("task %d has other weights than the first time", i)
					}
					before[i] = slices.Clone(scores)
				}
			}
			for i := range before {
				r := b.Rows(i)
				want := r
				want.Scores, want.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
				knn.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
				if err := knn.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores, Detail: r.Detail},
					detectors.Result{Scores: want.Scores, Detail: want.Detail}); err != nil {
					t.Errorf("task %d: %v", i, err)
				}
			}
		})
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}
