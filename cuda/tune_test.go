//go:build linux

package cuda

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cuda/kernels"
	"odradek/cuda/tune"
	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

// tuneAll lets plans of any cost be measured, and returns a file for that.
func tuneAll(t *testing.T) (file string) {
	least := leastTuned
	leastTuned = 1
	t.Cleanup(func() { leastTuned = least })
	return filepath.Join(t.TempDir(), "tuning.json")
}

// TestTuningEmulated executes batches with all choices of the launch parameters of topn, scan and the index of kNN, on
// kernels on the CPU, and requires the bits of the default of each.
func TestTuningEmulated(t *testing.T) {
	rng := seedtest.New(t)
	o := emulated(t)
	// Few enough multiprocessors that small sets have fewer blocks than they have work for.
	o.Env = append(o.Env, fmt.Sprint("ODRADEK_EMULATE_SMS=", 1+rng.IntN(2)))
	sameBits(t, rng, o, tuningSizes{topn: 4097, knn: 8192, rows: 40, nullRows: 12, maps: 17})
}

// TestTuningDevice is TestTuningEmulated on a device, with larger sets.
func TestTuningDevice(t *testing.T) {
	sameBits(t, seedtest.New(t), deviceOptions(t), tuningSizes{topn: 300_000, knn: 300_000, rows: 240, nullRows: 40, maps: 600})
}

// tuningSizes are the least sizes of sets and grids, and null maps.
type tuningSizes struct{ topn, knn, rows, nullRows, maps int }

func sameBits(t *testing.T, rng *rand.Rand, o Options, sizes tuningSizes) {
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
			o := o
			o.Tuning = tuneAll(t)
			e := open(t, o)
			defer e.Close()
			b := e.Batch()
			defer e.Release(b)
			for range 1 + rng.IntN(2) {
				add(b)
			}
			var want detectors.Words
			for i := 0; ; i++ {
				for k := range b.Out {
					b.Out[k] = math.Float32bits(float32(math.NaN()))
				}
				if err := e.Execute(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = slices.Clone(b.Out)
				}
				if !slices.Equal(b.Out, want) {
					t.Fatalf("batch %d has other results than the first: %+v", i, e.Stats().Tuned)
				}
				all := e.Stats().Tuned
				if len(all) != 1 || i > 20 {
					t.Fatalf("after %d batches there are %+v", i+1, all)
				}
				if all[0].Blocks > 0 {
					t.Logf("%d batches", i+1)
					break
				}
			}
			noFault(t, e.Stats())
			byKernels(t, e.Stats(), 0)
		})
	}
}

// TestTuning requires that the fastest choice, by the times that a device reports, is taken and written, and that a second
// executor reads it and measures nothing.
func TestTuning(t *testing.T) {
	rng := seedtest.New(t)
	const sms = 2 // of the Go child
	choices := []int{8, 4, 16}
	file := tuneAll(t)
	n := 16*sms*128 + rng.IntN(3000) // work for as many blocks
	run := func(fastest, batches int) ([]Tuned, string) {
		var log strings.Builder
		o := goChildOptions(t, "")
		o.Tuning, o.Log = file, slog.New(slog.NewTextHandler(&log, nil))
		o.Env = append(o.Env, fmt.Sprintf("%s=%d", childFastest, fastest*sms))
		e := open(t, o)
		b := e.Batch()
		for range batches {
			b.Reset()
			executortest.TopNTask(t, b, knn.TopNParams{K: 2, Tumbling: true}, n, 1, n, func(int) float32 { return rng.Float32() })
			if err := e.Execute(context.Background(), b); err != nil {
				t.Fatal(err)
			}
		}
		e.Release(b)
		tuned := e.Stats().Tuned
		noFault(t, e.Stats())
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return tuned, log.String()
	}
	want := choices[1+rng.IntN(len(choices)-1)]
	tuned, log := run(want, 2*len(choices))
	if len(tuned) != 1 || tuned[0].Blocks != want || tuned[0].Device != "Go test child" || tuned[0].SMs != sms ||
		!strings.HasPrefix(tuned[0].Class, "topn_search_2 points<=2^13 tasks<=2^0") {
		t.Fatalf("there are %+v, want %d blocks", tuned, want)
	}
	if said := fmt.Sprintf(`"blocks a multiprocessor"=%d`, want); !strings.Contains(log, said) {
		t.Errorf("the log says %q", log)
	}
	again, _ := run(choices[0], 3) // on which the default would be the fastest
	if len(again) != 1 || again[0].Blocks != want || again[0].Times() != tuned[0].Times() {
		t.Errorf("a second executor has %+v, want %+v", again, tuned)
	}
	if got := tune.Open(file, kernels.Sum(), slog.New(slog.DiscardHandler)).Choices(); len(got) != 1 || got[0].Blocks != want {
		t.Errorf("the file has %+v", got)
	}
}

// TestTuningMixed times no batch with tasks of two classes, or with little work.
func TestTuningMixed(t *testing.T) {
	rng := seedtest.New(t)
	for _, c := range []struct {
		name  string
		sizes []int
		least int
	}{
		{"two sizes", []int{4096, 8192}, 1},
		{"too small", []int{4096}, math.MaxInt},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := tuneAll(t)
			leastTuned = c.least
			o := goChildOptions(t, "")
			o.Tuning = file
			e := open(t, o)
			defer e.Close()
			b := e.Batch()
			defer e.Release(b)
			for _, n := range c.sizes {
				executortest.TopNTask(t, b, knn.TopNParams{K: 2, Tumbling: true}, n, 1, n, func(int) float32 { return rng.Float32() })
			}
			for range 3 {
				if err := e.Execute(context.Background(), b); err != nil {
					t.Fatal(err)
				}
			}
			if all := e.Stats().Tuned; len(all) > 0 {
				t.Errorf("there are %+v", all)
			}
		})
	}
}

// TestTuningDisturbed counts no time of a batch beside which another one was planned, before its plan was written or later.
func TestTuningDisturbed(t *testing.T) {
	rng := seedtest.New(t)
	for range 20 {
		e, execute := disturbed(t, rng)
		other := &e.devices[0].Load
		other.Add(1)
		execute()
		if all := e.Stats().Tuned; len(all) > 0 {
			t.Errorf("beside another batch there is %+v", all)
		}
		other.Add(-1)
		came := make(chan time.Time, 1)
		go func() {
			for len(e.Stats().Tuned) == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			other.Add(1)
			came <- time.Now()
		}()
		execute()
		ended := time.Now()
		if ended.Sub(<-came) < 5*time.Millisecond {
			continue // too late, on a busy machine
		}
		if all := e.Stats().Tuned; len(all) != 1 || all[0].Tries[0].Time > 0 {
			t.Errorf("with another batch that came later there is %+v", all)
		}
		other.Add(-1)
		execute()
		if all := e.Stats().Tuned; len(all) != 1 || all[0].Tries[0].Time == 0 {
			t.Errorf("of a batch alone there is %+v", all)
		}
		return
	}
	t.Fatal("no batch took long enough")
}

// disturbed opens an executor that measures, and returns what executes a batch of some 100 ms.
func disturbed(t *testing.T, rng *rand.Rand) (e *Executor, execute func()) {
	t.Helper()
	o := goChildOptions(t, "")
	o.Tuning = tuneAll(t)
	e = open(t, o)
	b := e.Batch()
	t.Cleanup(func() { e.Release(b); e.Close() })
	const n = 60_000
	executortest.TopNTask(t, b, knn.TopNParams{K: 20, Tumbling: true}, n, 3, n, func(int) float32 { return rng.Float32() })
	return e, func() {
		t.Helper()
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
}
