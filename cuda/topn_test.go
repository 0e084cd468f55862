//go:build linux

package cuda

import (
	"cmp"
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

// topnDraws returns sets that are hard for bounds of weights, besides lofDraws' and pointDraws'.
func topnDraws(rng *rand.Rand, dim int) map[string]func(int) float32 {
	draws := lofDraws(rng)
	maps.Copy(draws, pointDraws(rng, min(dim, 4)))
	blob := 0
	draws["pairs"] = func(i int) float32 { // every point twice, of large weight too
		if i%dim == 0 {
			blob = i / dim / 2
		}
		r := rand.New(rand.NewPCG(uint64(blob), uint64(i%dim)))
		return float32(r.NormFloat64() * float64(1+blob%97/96*20))
	}
	draws["lattice"] = func(i int) float32 { // all weights within the set are equal
		return float32(i / dim / int(math.Pow(21, float64(i%dim%3))) % 21)
	}
	draws["offset"] = func(int) float32 { return 1e7 + float32(rng.IntN(50)) }
	return draws
}

// TestTopNEmulated compares the largest weights with the CPU's, on kernels on the CPU: for some kinds of numbers, or
// with ODRADEK_LONG for all; numbers of points at the limits of leaves and nodes; up to as many as there are.
func TestTopNEmulated(t *testing.T) {
	most, long := 8, os.Getenv("ODRADEK_LONG") != ""
	if long {
		most = 100
	}
	topN(t, emulated(t), most, func(rng *rand.Rand) int {
		if long && rng.IntN(2) == 0 {
			return 1 + rng.IntN(1<<13)
		}
		return []int{2, 31, 33, 127, 128, 513, 1024, 1025, 2048, 2049, 3001}[rng.IntN(11)]
	})
}

// TestTopNDevice is TestTopNEmulated on a device, with larger sets and all kinds of numbers.
func TestTopNDevice(t *testing.T) {
	topN(t, deviceOptions(t), 100, func(rng *rand.Rand) int {
		return 1 + rng.IntN(1<<(5+rng.IntN(13)))
	})
}

func topN(t *testing.T, o Options, most int, size func(*rand.Rand) int) {
	o.Memory, o.Deadline = 4<<30, max(o.Deadline, time.Minute)
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	kinds := slices.Sorted(maps.Keys(topnDraws(rng, 1)))
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds[:min(most, len(kinds))] {
		t.Run(kind, func(t *testing.T) {
			b := e.Batch()
			defer e.Release(b)
			var names []string
			for range 3 {
				n, dim, embed := size(rng), 1+rng.IntN(1<<rng.IntN(6)), 1
				if rng.IntN(3) == 0 {
					embed = 1 + rng.IntN(max(1, 64/dim))
				}
				if dim*embed > 16 { // the CPU compares all pairs where all weights are asked for, which takes minutes
					n = min(n, 20_000)
				}
				p := knn.TopNParams{K: 1 + rng.IntN(1<<rng.IntN(8)), Embed: embed, Top: 1 + rng.IntN(20), IncludeSelf: rng.IntN(3) == 0, Tumbling: true}
				fresh := n
				switch rng.IntN(4) {
				case 0:
					p.Top = 1 + rng.IntN(2*n)
				case 1:
					p.Tumbling, fresh = false, 1+rng.IntN(n)
				}
				executortest.TopNTask(t, b, p, n, dim, fresh, topnDraws(rng, dim)[kind])
				names = append(names, fmt.Sprintf("n=%d dim=%d %+v fresh=%d", n, dim, p, fresh))
			}
			before := e.Stats()
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				topnAsCPU(t, b, i, name)
			}
			if left := e.Stats().CPUTasks - before.CPUTasks; left > 0 {
				t.Logf("%d of %q were scored on the CPU", left, names)
			}
		})
	}
	t.Run("equal", func(t *testing.T) { // any bound that is too low by a rounding leaves out one of the first
		b := e.Batch()
		defer e.Release(b)
		const n = 3001 // a prime
		dim, step := 1+rng.IntN(4), 1+rng.IntN(n-1)
		executortest.TopNTask(t, b, knn.TopNParams{K: 1, Tumbling: true}, n, dim, n, func(i int) float32 {
			if i%dim > 0 {
				return 5
			}
			return float32(i / dim * step % n)
		})
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		for i, v := range b.Rows(0).Scores {
			if i < 10 && v != 1 || i >= 10 && v != 0 {
				t.Fatalf("point %d of equal weights has the score %v", i, v)
			}
		}
	})
	t.Run("spoilt", func(t *testing.T) {
		b := e.Batch()
		defer e.Release(b)
		bad := rng.IntN(3 * 900)
		noise := func(int) float32 { return float32(rng.NormFloat64()) }
		executortest.TopNTask(t, b, knn.TopNParams{K: 5, Tumbling: true}, 900, 3, 900, func(i int) float32 {
			if i == bad {
				return float32(math.Inf(-1))
			}
			return noise(i)
		})
		executortest.TopNTask(t, b, knn.TopNParams{K: 5, Tumbling: true}, 830, 2, 830, noise)
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		topnAsCPU(t, b, 0, "with an infinity")
		topnAsCPU(t, b, 1, "the next set")
	})
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}

// TestTopNPartsEmulated finds the outliers of tables of float64 by searches of parts, on kernels on the CPU: they are the paper's
// algorithms', to the bit, of ties and of values that float32s round.
func TestTopNPartsEmulated(t *testing.T) { topnParts(t, emulated(t), 500) }

// TestTopNPartsDevice is TestTopNPartsEmulated on a device, with larger tables.
func TestTopNPartsDevice(t *testing.T) { topnParts(t, deviceOptions(t), 20_000) }

func topnParts(t *testing.T, o Options, most int) {
	e := open(t, o)
	defer e.Close()
	rng := seedtest.New(t)
	b := e.Batch()
	defer e.Release(b)
	found := 0
	for round := range 6 {
		n, dim := 200+rng.IntN(most), 1+rng.IntN(5)
		x := make([]float64, n*dim)
		for i := range x {
			switch x[i] = rng.NormFloat64(); round % 4 {
			case 1:
				x[i] = float64(rng.IntN(20)) / 10
			case 2:
				x[i] = 1e7*float64(rng.IntN(3)) + x[i]/8
			case 3:
				x[i] *= math.Exp(3 * x[i])
			}
		}
		p := knn.TopParams{N: 1 + rng.IntN(10), K: 1 + rng.IntN(30), Self: rng.IntN(2) == 0, Workers: 2}
		got, ok, err := knn.FindByLeaves(x, dim, p, n/(1+rng.IntN(5)), knn.LeavesBy(t.Context(), e, b), detectors.Sequential)
		if err != nil {
			t.Fatal(err)
		}
		want, err := knn.Algorithms[1].Find(x, dim, p)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			found++
		}
		if ok && !slices.Equal(got.Outliers, want.Outliers) {
			t.Errorf("round %d, %d x %d, %+v: %v, want %v", round, n, dim, p, got.Outliers, want.Outliers)
		}
	}
	if found < 3 { // of ties, or values that float32s round far, too many bounds may be alike
		t.Errorf("%d of 6 tables are searched", found)
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}

// topnAsCPU compares the scores of a task with the CPU's.
func topnAsCPU(t *testing.T, b *detectors.Batch, task int, name string) {
	t.Helper()
	r := b.Rows(task)
	want := r
	want.Scores = make([]float32, len(r.Scores))
	knn.OpTopN.Spec().CPU(t.Context(), &want, detectors.Sequential)
	if err := knn.OpTopN.Spec().Compare(&r, detectors.Result{Scores: r.Scores}, detectors.Result{Scores: want.Scores}); err != nil {
		t.Errorf("%s: %v; the largest are %v, want %v", name, err, ranking(r.Scores), ranking(want.Scores))
	}
}

// ranking returns the first of the largest scores with their places.
func ranking(scores []float32) (text []string) {
	at := make([]int, len(scores))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, i := range at[:min(len(at), 12)] {
		text = append(text, fmt.Sprintf("%d: %v", i, scores[i]))
	}
	return text
}
