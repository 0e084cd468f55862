//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

// TestBlocksEmulated executes batches of topn, scan and the index of kNN, on kernels on the CPU, as on devices of one to five
// multiprocessors, and requires the same bits: results do not depend on the number of blocks.
func TestBlocksEmulated(t *testing.T) {
	rng := seedtest.New(t)
	// Few enough multiprocessors that small sets have fewer blocks than they have work for.
	var devices []Options
	for sms := range 3 {
		o := emulated(t)
		o.Env = append(o.Env, fmt.Sprint("ODRADEK_EMULATE_SMS=", 1+2*sms))
		devices = append(devices, o)
	}
	sizes := struct{ topn, knn, rows, nullRows, maps int }{topn: 4097, knn: 8192, rows: 40, nullRows: 12, maps: 17}
	noise := func(int) float32 { return float32(rng.NormFloat64()) }
	size, dim, k := rng.IntN(400), rng.IntN(4), rng.IntN(20)
	grid := func(b *detectors.Batch, replicates int, model scan.OpModel) {
		rows, cols := sizes.rows+size%12, sizes.rows-9+size/12%12
		if replicates > 0 {
			rows, cols = sizes.nullRows+size%8, sizes.nullRows+size/8%8
		}
		p := scan.OpParams{Cells: rows * cols, Columns: cols, Top: 1 + k%3, Seed: rng.IntN(1 << 30), Replicates: replicates, Model: model}
		addGrid(t, b, p, 1, func(int, int) (int64, int64) { n := rng.Int64N(9); return rng.Int64N(n + 1), n })
	}
	for name, add := range map[string]func(b *detectors.Batch){
		"topn": func(b *detectors.Batch) {
			n, dim := sizes.topn+size, 1+dim
			executortest.TopNTask(t, b, knn.TopNParams{K: 1 + k, Top: 1 + k, Tumbling: true}, n, dim, n, noise)
		},
		"knn": func(b *detectors.Batch) {
			n, dim := sizes.knn+size, 1+dim
			executortest.KNNTask(t, b, knn.Params{K: 1 + k, Tumbling: true}, n, dim, n, noise)
		},
		"scan":                       func(b *detectors.Batch) { grid(b, 0, scan.ModelPoisson) },
		"scan, Bernoulli":            func(b *detectors.Batch) { grid(b, 0, scan.ModelBernoulli) },
		"scan, null maps":            func(b *detectors.Batch) { grid(b, sizes.maps+k, scan.ModelPoisson) },
		"scan, null maps, Bernoulli": func(b *detectors.Batch) { grid(b, sizes.maps+k, scan.ModelBernoulli) },
	} {
		t.Run(name, func(t *testing.T) {
			copies := 1 + rng.IntN(2)
			pack := rng.Uint64()
			var want detectors.Words
			for _, o := range devices {
				rng = rand.New(rand.NewPCG(pack, 0)) // the same tasks for each device
				e := open(t, o)
				b := e.Batch()
				for range copies {
					add(b)
				}
				if err := e.Execute(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = slices.Clone(b.Out)
				} else if !slices.Equal(b.Out, want) {
					t.Errorf("%s gives other results than %s", o.Env[len(o.Env)-1], devices[0].Env[len(o.Env)-1])
				}
				noFault(t, e.Stats())
				byKernels(t, e.Stats(), 0)
				e.Release(b)
				e.Close()
			}
		})
	}
}
