//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestKNNEmulated runs shapes outside the suite on kernels on the CPU: all kernels, limits of their
// sizes, half of the kinds of numbers.
func TestKNNEmulated(t *testing.T) {
	rng := seedtest.New(t)
	e := open(t, emulated(t))
	defer e.Close()
	draws := lofDraws(rng)
	draws["rising"] = func(i int) float32 { return float32(i) }
	draws["falling"] = func(i int) float32 { return -float32(i) / 7 }
	draws["grid"] = func(i int) float32 { return float32(i % 60) }
	draws["offset"] = func(int) float32 { return 100 + 0.01*float32(rng.NormFloat64()) }
	for _, kind := range someKinds(rng, draws) {
		draw := draws[kind]
		t.Run(kind, func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			var names []string
			add := func(p knn.Params, n, dim, fresh int) {
				p.Neighbours, p.IncludeSelf = rng.IntN(3) > 0, rng.IntN(3) == 0
				executortest.KNNTask(t, b, p, n, dim, fresh, draw)
				names = append(names, fmt.Sprintf("n=%d dim=%d %+v fresh=%d", n, dim, p, fresh))
			}
			for range 2 {
				n := 1 + rng.IntN(300)
				add(knn.Params{K: 1 + rng.IntN(n), Tumbling: true}, n, 1+rng.IntN(10), n)
				add(knn.Params{K: 1 + rng.IntN(n)}, n, 1+rng.IntN(10), 1+rng.IntN(min(n, 9)))
			}
			for range 2 {
				n := []int{32, 33, 64, 65, 128, 129, 256, 257, 512, 513}[rng.IntN(10)]
				add(knn.Params{K: 1 + rng.IntN(min(n/2, 40)), Tumbling: true}, n, 1+rng.IntN(8), n)
			}
			add(knn.Params{K: 1 + rng.IntN(20), Embed: 1 + rng.IntN(16), Tumbling: true}, 200, 1+rng.IntN(3), 200)
			// Sets for knn_scan: many neighbours, or many points.
			many := 300 + rng.IntN(300)
			add(knn.Params{K: 129 + rng.IntN(100), Tumbling: true}, many, 1+rng.IntN(64), many)
			switch n := 2049 + rng.IntN(100); rng.IntN(3) {
			case 0:
				add(knn.Params{K: 1 + rng.IntN(30), Tumbling: true}, n, 1+rng.IntN(17), n)
			case 1:
				add(knn.Params{K: 1 + rng.IntN(20), Tumbling: true, Embed: 1 + rng.IntN(6)}, n, 1+rng.IntN(6), n)
			}
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				r := b.Rows(i)
				want := r
				want.Scores, want.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
				knn.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
				if err := knn.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores, Detail: r.Detail},
					detectors.Result{Scores: want.Scores, Detail: want.Detail}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	s := e.Stats()
	noFault(t, s)
	byKernels(t, s, 0)
}

// TestKNNChainEmulated scores growing windows of one series, a batch's chain of tasks: one block
// computes them one after the other, and none may disturb another's squares.
func TestKNNChainEmulated(t *testing.T) { knnChain(t, emulated(t)) }

// TestKNNChainDevice is TestKNNChainEmulated on a device.
func TestKNNChainDevice(t *testing.T) { knnChain(t, deviceOptions(t)) }

func knnChain(t *testing.T, o Options) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	b := e.Batch()
	defer e.Release(b)
	draw := lofDraws(rng)["noise"]
	const chains, links = 8, 40
	for range chains {
		n := 40 + rng.IntN(60)
		for i := range links {
			p := knn.Params{K: 5, Embed: 2, Neighbours: true}
			fresh := 4 + rng.IntN(9)
			n += fresh
			task := executortest.KNNTask(t, b, p, n, 1, fresh, draw)
			if i > 0 {
				task.After = uint32(len(b.Tasks) - 1)
			}
		}
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for i := range b.Tasks {
		r := b.Rows(i)
		want := r
		want.Scores, want.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
		knn.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
		if err := knn.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores, Detail: r.Detail},
			detectors.Result{Scores: want.Scores, Detail: want.Detail}); err != nil {
			t.Errorf("task %d of %d rows, %d fresh: %v", i, r.Len(), r.Fresh, err)
		}
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}

// TestDeviceKNN searches large sets, and compares some points' weights and neighbours
// with the CPU's.
func TestDeviceKNN(t *testing.T) {
	o := deviceOptions(t)
	o.Memory, o.Deadline = 4<<30, time.Minute
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	draws := lofDraws(rng)
	noise, walk := draws["noise"], 0.0
	for _, c := range []struct {
		name      string
		n, dim, k int
		draw      func(int) float32
	}{
		{"normal", 1 << 20, 2, 50, noise}, {"normal", 581012, 10, 50, noise}, {"normal", 30000, 8, 20, noise}, {"normal", 100000, 40, 20, noise},
		{"normal", 20000, 3, 1024, noise}, {"tied", 100000, 3, 20, draws["tied"]},
		{"grid", 200000, 2, 30, func(int) float32 { return float32(rng.IntN(300)) }},
		{"rising", 300000, 1, 50, func(i int) float32 { return float32(i) }},
		{"walk", 300000, 4, 50, func(int) float32 { walk += rng.NormFloat64(); return float32(walk) }},
		{"spikes", 100000, 6, 50, draws["spikes"]}, {"far", 100000, 5, 50, draws["far"]},
	} {
		t.Run(fmt.Sprintf("%s %dx%d k=%d", c.name, c.n, c.dim, c.k), func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			listed := c.n*c.k <= 1<<24
			executortest.KNNTask(t, b, knn.Params{K: c.k, Tumbling: true, Neighbours: listed}, c.n, c.dim, c.n, c.draw)
			began := time.Now()
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			t.Logf("Execute with everything: %v", time.Since(began))
			r := b.Rows(0)
			var s knn.Scorer
			s.Load(r.X, r.Dim, 1)
			for range 100 {
				i := rng.IntN(c.n)
				w, same := make([]float64, 1), true
				s.Weights(w, c.k, false, func(int) knn.Query { return knn.Query{At: i, To: c.n} }, func(_ int, near []knn.Neighbour) {
					for a, o := range near {
						same = same && (!listed || r.Detail[i*c.k+a] == uint32(o.At))
					}
				})
				if got := float64(r.Scores[i]); !(math.Abs(got-w[0]) <= 1e-6*w[0]) || !same {
					t.Fatalf("point %d has weight %v, want %v; the neighbours are right: %v", i, got, w[0], same)
				}
			}
		})
	}
	if s := e.Stats(); s.CPUTasks > 0 {
		t.Errorf("%d tasks were scored on the CPU", s.CPUTasks)
	}
	noFault(t, e.Stats())
}
