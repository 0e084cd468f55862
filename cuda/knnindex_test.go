//go:build linux

package cuda

import (
	"context"
	"fmt"
	"maps"
	"math"
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

// pointDraws returns sets that are hard for an index, each as the coordinates of points of dim
// values in turn.
func pointDraws(rng *rand.Rand, dim int) map[string]func(int) float32 {
	center := [100][4]float64{}
	for i := range center {
		for c := range center[i] {
			center[i][c] = rng.Float64()*20 - 10
		}
	}
	blob, scale := 0, 1.0
	blobs := func(deviation float64) func(int) float32 {
		return func(i int) float32 {
			if i%dim == 0 {
				blob = rng.IntN(len(center))
			}
			return float32(center[blob][i%dim] + deviation*rng.NormFloat64())
		}
	}
	outliers := func(far float64) func(int) float32 {
		return func(i int) float32 {
			if i%dim == 0 {
				scale = 1
				if i/dim%1000 == 0 {
					scale = far
				}
			}
			return float32(scale * (rng.Float64()*20 - 10))
		}
	}
	return map[string]func(int) float32{
		"blobs": blobs(1), "small blobs": blobs(0.02), "specks": blobs(1e-6),
		"outliers": outliers(100), "far outliers": outliers(1e12),
		"strip": func(i int) float32 { return float32(rng.NormFloat64() / math.Pow(1000, float64(i%dim))) },
		"spot":  func(i int) float32 { return 7 + float32(max(0, rng.IntN(9000)-8998)) },
		"grid":  func(int) float32 { return float32(rng.IntN(30)) },
	}
}

// TestKNNIndexEmulated compares the weights of sets with an index with the CPU's and with the
// definition, on kernels on the CPU: for some random kinds of numbers, or with ODRADEK_LONG for all;
// for sizes at the limits of leaves and nodes.
func TestKNNIndexEmulated(t *testing.T) {
	rng := seedtest.New(t)
	e := open(t, emulated(t))
	defer e.Close()
	most := 6
	if os.Getenv("ODRADEK_LONG") != "" {
		most = 100
		t.Run("two rows of nodes", func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			p := knn.Params{K: 50, Tumbling: true}
			n := 33*1024 + rng.IntN(100) - 50
			executortest.KNNTask(t, b, p, n, 2, n, pointDraws(rng, 2)["outliers"])
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			knnAsCPU(t, rng, b, p)
		})
	}
	knnIndex(t, e, rng, most, func() int { return []int{8192, 8193, 8223, 8224, 9215, 9216, 9217}[rng.IntN(7)] })
	noFault(t, e.Stats())
}

// TestKNNIndexDevice is TestKNNIndexEmulated on a device, with larger sets.
func TestKNNIndexDevice(t *testing.T) {
	o := deviceOptions(t)
	o.Memory, o.Deadline = 4<<30, time.Minute
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	knnIndex(t, e, rng, 100, func() int { return 1<<13 + rng.IntN(1<<17) })
	noFault(t, e.Stats())
}

func knnIndex(t *testing.T, e *Executor, rng *rand.Rand, most int, size func() int) {
	kinds := slices.Sorted(maps.Keys(pointDraws(rng, 1)))
	lofs := lofDraws(rng)
	kinds = append(kinds, slices.Sorted(maps.Keys(lofs))...)
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i, kind := range kinds[:min(most, len(kinds))] {
		dim := 1 + i%4
		draw := lofs[kind]
		if draw == nil {
			draw = pointDraws(rng, dim)[kind]
		}
		n, k := size(), 1+rng.IntN(64)
		if rng.IntN(2) == 0 {
			k = []int{10, 11, 20, 21, 32, 33, 50, 51, 64}[rng.IntN(9)]
		}
		p := knn.Params{K: max(k, 2), Tumbling: true, IncludeSelf: rng.IntN(3) == 0}
		t.Run(fmt.Sprintf("%s %dx%d k=%d", kind, n, dim, p.K), func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			executortest.KNNTask(t, b, p, n, dim, n, draw)
			before := e.Stats().CPUTasks
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			if e.Stats().CPUTasks > before {
				t.Logf("scored on the CPU")
			}
			knnAsCPU(t, rng, b, p)
		})
	}
	t.Run("spoilt", func(t *testing.T) {
		b := e.Batch()
		defer e.Release(b)
		bad := rng.IntN(3 * 9000)
		executortest.KNNTask(t, b, knn.Params{K: 5, Tumbling: true}, 9000, 3, 9000, func(i int) float32 {
			if i == bad {
				return float32(math.NaN())
			}
			return float32(rng.NormFloat64())
		})
		executortest.KNNTask(t, b, knn.Params{K: 5, Tumbling: true}, 8300, 2, 8300, lofs["noise"])
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(b.Rows(0).Scores, func(v float32) bool { return v == v }); i >= 0 {
			t.Errorf("weight %d of a set with a NaN is %v", i, b.Rows(0).Scores[i])
		}
		if i := slices.IndexFunc(b.Rows(1).Scores, func(v float32) bool { return v != v }); i >= 0 {
			t.Errorf("weight %d of the next set is NaN", i)
		}
	})
}

// knnAsCPU compares the weights of the first task with the CPU's, and some with the
// definition's.
func knnAsCPU(t *testing.T, rng *rand.Rand, b *detectors.Batch, p knn.Params) {
	t.Helper()
	r := b.Rows(0)
	want := r
	want.Scores = make([]float32, len(r.Scores))
	knn.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
	if err := knn.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores}, detectors.Result{Scores: want.Scores}); err != nil {
		t.Error(err)
	}
	x := make([]float64, len(r.X))
	for i, v := range r.X {
		x[i] = float64(v)
	}
	for range 3 {
		i := rng.IntN(r.Fresh)
		w, _ := knn.Define(x, r.Dim, 1, p.K, p.IncludeSelf, knn.Query{At: i, To: r.Fresh})
		if got := float64(r.Scores[i]); w <= math.MaxFloat32 && !(math.Abs(got-w) <= 1e-6*w) {
			t.Errorf("point %d has weight %v, the definition gives %v", i, got, w)
		}
	}
}
