package ops_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
)

// longTasks returns tasks of the ops that share the work of one task.
func longTasks(t *testing.T, rng *rand.Rand) map[string]detectors.Rows {
	tasks := map[string]detectors.Rows{}
	add := func(name string, n, dim int, d detectors.Detector, err error) {
		if err != nil {
			t.Fatal(err)
		}
		r := detectors.Rows{Dim: dim, Fresh: n, Params: d.Params(), X: make([]float32, n*dim)}
		for i := range r.X {
			r.X[i] = float32(rng.IntN(50)) // with ties
			if name == "knn with a NaN" && i == n/3 {
				r.X[i] /= 0 * r.X[i]
			}
		}
		size, ok := d.Size(detectors.View{Dim: dim, Rows: n, Fresh: n})
		if !ok {
			t.Fatalf("%s: too little history", name)
		}
		r.Scores, r.Detail = make([]float32, size.Scores), make(detectors.Words, size.Detail)
		tasks[name] = r
	}
	const n = 5001
	for _, dim := range []int{2, 3} {
		d, err := knn.New(knn.Params{Window: n, K: 7, Tumbling: true, Neighbours: true, IncludeSelf: dim == 3})
		add("knn"+string(rune('0'+dim)), n, dim, d, err)
		d, err = lof.New(lof.OpParams{Window: n, K: 7, Tumbling: true})
		add("lof"+string(rune('0'+dim)), n, dim, d, err)
	}
	d, err := knn.New(knn.Params{Window: n, K: 7, Tumbling: true})
	add("knn with a NaN", n, 5, d, err)
	add("knn by a tree", 3*n, 2, d, err)
	return tasks
}

// TestLongTaskShares requires that the CPU form of a long task uses its Parallel, and has the same bits
// in any order that it chooses.
func TestLongTaskShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 15))
	spec := func(name string) *detectors.Spec {
		op, _ := detectors.OpByName(name[:3])
		return op.Spec()
	}
	for name, r := range longTasks(t, rng) {
		results := map[string]detectors.Result{}
		shares := 0
		for how, p := range map[string]detectors.Parallel{
			"in order": detectors.Sequential,
			"backwards": func(n int, f func(int)) {
				shares = max(shares, n)
				for i := range n {
					f(n - 1 - i)
				}
			},
			"at once": func(n int, f func(int)) {
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() { f(i) })
				}
				wg.Wait()
			},
			"by helpers": detectors.NewHelpers(3).Parallel(t.Context()),
		} {
			r.Scores, r.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
			spec(name).CPU(t.Context(), &r, p)
			results[how] = detectors.Result{Scores: r.Scores, Detail: r.Detail}
		}
		if shares < 4 {
			t.Errorf("%s: %d shares", name, shares)
		}
		want := results["in order"]
		for how, got := range results {
			if !slices.Equal(detectors.WordsOf(got.Scores), detectors.WordsOf(want.Scores)) || !slices.Equal(got.Detail, want.Detail) {
				t.Errorf("%s: done %s it has another result than in order", name, how)
			}
		}
		// With a context that is done it returns, and does not use the omitted parts.
		ctx, cancel := context.WithCancel(t.Context())
		spec(name).CPU(ctx, &r, func(n int, f func(int)) {
			for i := range n / 2 {
				f(i)
			}
			cancel()
		})
	}
}

// TestLongTaskIsCancelled requires that a task of a million points, minutes of work, ends soon after
// its context.
func TestLongTaskIsCancelled(t *testing.T) {
	const n = 1 << 20
	d := detectors.Must(knn.New(knn.Params{Window: n, K: 5, Tumbling: true}))
	for _, workers := range []int{1, 2} {
		e := detectors.NewCPU(workers)
		b := e.Batch()
		task := detectors.Task{Op: d.Op(), Dim: 2, Fresh: n}
		var dst []float32
		task.Params = b.Put(d.Params())
		task.X, dst = b.GrowF32(2 * n)
		rng := rand.New(rand.NewPCG(5, 15))
		for i := range dst {
			dst[i] = rng.Float32()
		}
		task.Scores = b.GrowOut(n)
		b.Tasks = append(b.Tasks, task)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		err := e.Execute(ctx, b)
		cancel()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("%d workers: it took %v and says %v", workers, took, err)
		}
		e.Release(b)
		_ = e.Close()
	}
}
