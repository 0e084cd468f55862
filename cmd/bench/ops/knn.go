package ops

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/detectors"
	"odradek/detectors/knn"
)

//go:embed knn.py
var knnProgram string

// The parameters of knn-cpu.
const (
	knnPoints = 1_000_000
	knnDim    = 2
	knnK      = 50
)

// KNNTrees measures all weights of normal points and the largest of a table, each tree built
// anew, on all cores.
func (b *Bench) KNNTrees(ctx context.Context) ([]testbed.Row, error) {
	points := knnPoints
	if b.Quick {
		points /= 10
	}
	workers := runtime.GOMAXPROCS(0)
	rng := rand.New(rand.NewPCG(5, 6))
	x := make([]float32, points*knnDim)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	parallel := detectors.NewHelpers(workers - 1).Parallel(ctx)
	weights := make([]float32, points)
	took := func(f func()) (seconds, spread float64, err error) {
		var all []float64
		for range b.Repeat {
			began := time.Now()
			f()
			if ctx.Err() != nil {
				return 0, 0, ctx.Err()
			}
			all = append(all, time.Since(began).Seconds())
		}
		seconds, spread = testbed.Median(all)
		return seconds, spread, nil
	}
	seconds, spread, err := took(func() {
		if t := knn.NewTree(x, knnDim, parallel); ctx.Err() == nil { // else it lacks parts
			t.Weights(weights, knnK, false, parallel)
		}
	})
	if err != nil {
		return nil, err
	}
	all := testbed.NewRow("all weights", seconds, "s").Noted("%d x %d, k=%d, tree included, %d cores; median of %d, spread %.0f%%",
		points, knnDim, knnK, workers, b.Repeat, spread)

	args := []any{points, knnDim, knnK, workers}
	file := filepath.Join(b.Tables, "10_cover.npz")
	top := testbed.Row{Case: "top 10 of cover", Skipped: "no " + file}
	if _, err := os.Stat(file); err == nil {
		wide, dim, err := readNPZ(file, "X")
		if err != nil {
			return nil, err
		}
		table := make([]float32, len(wide)) // small whole numbers
		for i, v := range wide {
			table[i] = float32(v)
		}
		seconds, spread, err := took(func() {
			if t := knn.NewTree(table, dim, parallel); ctx.Err() == nil {
				t.Top(knn.TopParams{N: topN, K: knnK}, parallel)
			}
		})
		if err != nil {
			return nil, err
		}
		top = testbed.NewRow(top.Case, seconds, "s").Noted("%d x %d, k=%d, tree included, %d cores; median of %d, spread %.0f%%",
			len(table)/dim, dim, knnK, workers, b.Repeat, spread)
		args = append(args, file)
	}
	base, err := b.runPython(ctx, "scipy and scikit-learn", knnProgram, args...)
	if err != nil || len(base) != len(args)-3 {
		b.Say("scipy and scikit-learn: %v", err)
		all.Target, top.Target = ">= 1.5 times the baseline", ">= 20 times the baseline"
		return []testbed.Row{all, top}, nil
	}
	all = all.Against("scipy's cKDTree, as many workers", base[0], true).WantRatio(1.5)
	if len(base) > 1 {
		top = top.Against("scikit-learn's kneighbors, as many jobs", base[1], true).WantRatio(20)
	}
	return []testbed.Row{all, top}, nil
}
