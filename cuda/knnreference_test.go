//go:build linux

package cuda

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestKNNReferenceEmulated compares weights among the points of models, and neighbours, with the CPU's, to the bit, on
// kernels on the CPU: every kind of number, numbers of points at the limits of steps and tiles, widths and neighbours at
// the limits of memory, points of the set as queries, tasks of several models in one batch.
func TestKNNReferenceEmulated(t *testing.T) {
	knnReference(t, emulated(t), 14, func(rng *rand.Rand) int {
		return []int{1, 2, 5, 63, 64, 65, 127, 128, 129, 255, 256, 257, 383, 384, 385, 511, 512, 1024, 1025, 2049, 4099}[rng.IntN(21)]
	})
}

// TestKNNReferenceDevice is TestKNNReferenceEmulated on a device, with larger sets and more tasks; short without them,
// as under a sanitizer.
func TestKNNReferenceDevice(t *testing.T) {
	tasks, most := 300, 14
	if testing.Short() {
		tasks, most = 20, 11
	}
	knnReference(t, deviceOptions(t), tasks, func(rng *rand.Rand) int { return 1 + rng.IntN(1<<(1+rng.IntN(most))) })
	if testing.Short() {
		return
	}
	e := open(t, deviceOptions(t))
	defer e.Close()
	for _, c := range []struct{ n, dim, k, tasks int }{
		{100_000, 2, 10, 500}, {100_000, 16, 50, 50}, {1_000_000, 4, 100, 20}, {1 << 21, 3, 10, 10},
	} {
		t.Run(fmt.Sprintf("%dx%d k=%d", c.n, c.dim, c.k), func(t *testing.T) {
			rng := seedtest.New(t)
			noise := lofDraws(rng)["noise"]
			r := &referenceBatch{rng: rng, b: e.Batch()}
			defer e.Release(r.b)
			d := r.model(t, c.n, c.dim, 1, c.k, noise)
			for range c.tasks {
				r.add(d, d.Model(), c.dim, 16, noise)
			}
			began := time.Now()
			if err := e.Execute(context.Background(), r.b); err != nil {
				t.Fatal(err)
			}
			t.Logf("Execute with everything: %v", time.Since(began))
			r.check(t)
		})
	}
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}

// referenceDraws returns numbers that are hard for float32 filters, besides lofDraws'.
func referenceDraws(rng *rand.Rand) map[string]func(int) float32 {
	draws := lofDraws(rng)
	draws["clusters"] = func(int) float32 { // far from the mean, near to each other
		return float32(float64(rng.IntN(2)*2-1)*1e6 + rng.NormFloat64())
	}
	draws["grid"] = func(i int) float32 { return float32(i % 60) }
	return draws
}

// referenceBatch makes tasks of models and packs them.
type referenceBatch struct {
	rng   *rand.Rand
	b     *detectors.Batch
	names []string
}

// model returns a detector by a model of n points.
func (r *referenceBatch) model(t *testing.T, n, dim, embed, k int, draw func(int) float32) *knn.ModelDetector {
	t.Helper()
	s := knn.Reference{Dim: dim, Embed: embed, Points: make([]float64, n*dim*embed), ZNorm: embed > 2 && r.rng.IntN(3) == 0}
	for i := range s.Points {
		s.Points[i] = float64(draw(i))
	}
	m, err := knn.NewModel(s)
	if err != nil {
		t.Fatal(err)
	}
	d, err := knn.NewByModel(knn.ModelParams{Model: m, K: k, IncludeSelf: r.rng.IntN(3) == 0, Neighbours: r.rng.IntN(2) == 0})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// add adds a task of fresh rows of dim values: some are points of the model, some are not finite.
func (r *referenceBatch) add(d *knn.ModelDetector, model *detectors.Model, dim, fresh int, draw func(int) float32) {
	r.b.Put(make(detectors.Words, r.rng.IntN(3)))
	embed := d.Window()
	task := detectors.Task{Op: knn.Op, Dim: uint32(dim), Fresh: uint32(fresh), Params: r.b.Put(d.Params()), Model: r.b.Model(model)}
	before := r.rng.IntN(2) * r.rng.IntN(3) // more rows than there have to be
	var x []float32
	task.X, x = r.b.GrowF32((before + fresh + embed - 1) * dim)
	for i := range x {
		x[i] = draw(i)
		if o := d.Origin(); len(o) == dim {
			x[i] = float32(float64(x[i]) - o[i%dim])
		}
	}
	points, width := d.Model().Words()[6+2*len(d.Origin()):].F32(), len(d.Origin())*embed
	for i := 0; i+width <= len(x); i += dim {
		switch r.rng.IntN(60) {
		case 0:
			x[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.rng.IntN(3)]
		case 1, 2, 3:
			copy(x[i:], points[r.rng.IntN(len(points)/width)*width:][:width])
		}
	}
	size, _ := d.Size(detectors.View{Dim: dim, Rows: len(x) / dim, Fresh: fresh})
	r.b.GrowOutputs(&task, size)
	r.b.Tasks = append(r.b.Tasks, task)
	p := d.Params()
	r.names = append(r.names, fmt.Sprintf("%d words of a model of rows of %d, params %v, %d values of rows of %d, %d fresh",
		len(model.Words()), len(d.Origin()), p, len(x), dim, fresh))
}

// check compares the results with the CPU's.
func (r *referenceBatch) check(t *testing.T) {
	t.Helper()
	for i, name := range r.names {
		got := r.b.Rows(i)
		want := got
		want.Scores, want.Detail = make([]float32, len(got.Scores)), make(detectors.Words, len(got.Detail))
		knn.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
		for a, w := range want.Scores {
			if g := got.Scores[a]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
				t.Errorf("%s: point %d has weight %v, want %v", name, a, g, w)
				break
			}
		}
		if !slices.Equal(got.Detail, want.Detail) {
			t.Errorf("%s: neighbours %v, want %v", name, got.Detail, want.Detail)
		}
	}
}

func knnReference(t *testing.T, o Options, tasks int, size func(*rand.Rand) int) {
	o.Deadline = max(o.Deadline, time.Minute)
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	draws := referenceDraws(rng)
	run := func(name string, fill func(t *testing.T, r *referenceBatch)) {
		t.Run(name, func(t *testing.T) {
			r := &referenceBatch{rng: rng, b: e.Batch()}
			defer e.Release(r.b)
			fill(t, r)
			if err := e.Execute(context.Background(), r.b); err != nil {
				t.Fatal(err)
			}
			r.check(t)
		})
	}
	for _, kind := range slices.Sorted(maps.Keys(draws)) {
		draw := draws[kind]
		run(kind, func(t *testing.T, r *referenceBatch) {
			type modelCase struct {
				d   *knn.ModelDetector
				dim int
			}
			var models []modelCase
			for range 4 {
				dim := 1 + rng.IntN(1<<rng.IntN(7))%64
				embed := 1
				if rng.IntN(2) == 0 {
					embed = 1 + rng.IntN(max(1, 64/dim))
				}
				n := size(rng)
				n = max(1, min(n, 200_000/(dim*embed)))
				models = append(models, modelCase{r.model(t, n, dim, embed, 1+rng.IntN(1<<rng.IntN(9)), draw), dim})
			}
			for range tasks {
				m := models[rng.IntN(len(models))]
				r.add(m.d, m.d.Model(), m.dim, 1+rng.IntN(1<<rng.IntN(6)), draw)
			}
		})
	}
	noise := draws["noise"]
	run("limits", func(t *testing.T, r *referenceBatch) {
		for _, c := range []struct{ n, dim, embed, k int }{
			{300, 64, 1, 256}, {300, 1, 64, 16}, {200, 3, 21, 17}, {1, 1, 1, 256}, {257, 1, 1, 256}, {256, 1, 1, 256}, {255, 1, 1, 256},
			{65, 63, 1, 1}, {1030, 4, 1, 128}, {70, 16, 4, 129},
		} {
			d := r.model(t, c.n, c.dim, c.embed, c.k, noise)
			r.add(d, d.Model(), c.dim, 33, noise)
		}
	})
	run("many", func(t *testing.T, r *referenceBatch) { // blocks of two warps, then of four
		models := []*knn.ModelDetector{r.model(t, 40+rng.IntN(100), 2, 1, 7, noise), r.model(t, 130, 2, 1, 3, draws["tied"])}
		for range 160 + rng.IntN(2)*200 {
			m := models[rng.IntN(2)]
			r.add(m, m.Model(), 2, 14+rng.IntN(5), draws["tied"])
		}
	})
	run("approaching", func(t *testing.T, r *referenceBatch) { // many points at one distance, then as many at a smaller one
		for range 20 {
			dim, many := 1+rng.IntN(4), 60+rng.IntN(200)
			d := r.model(t, 6*many, dim, 1, 1+rng.IntN(60), func(i int) float32 { return float32(5 - i/dim/many) })
			r.add(d, d.Model(), dim, 20, func(int) float32 { return float32(rng.IntN(8) / 7) })
		}
	})
	run("near first", func(t *testing.T, r *referenceBatch) { // all neighbours are among the first points
		for range 5 {
			dim, near := 1+rng.IntN(6), 60+rng.IntN(200)
			d := r.model(t, 512+rng.IntN(600), dim, 1, 1+rng.IntN(50), func(i int) float32 {
				if i/dim < near {
					return noise(i)
				}
				return 1000 + noise(i)
			})
			r.add(d, d.Model(), dim, 20, noise)
		}
	})
	run("sphere", func(t *testing.T, r *referenceBatch) { // distances that float32 does not distinguish
		for range 3 {
			dim, n := 2+rng.IntN(20), 200+rng.IntN(1000)
			points := make([]float64, n*dim)
			for p := range slices.Chunk(points, dim) {
				size := 0.0
				for c := range p {
					p[c] = rng.NormFloat64()
					size += p[c] * p[c]
				}
				for c := range p {
					p[c] *= (1 + 1e-7*rng.Float64()) / math.Sqrt(size)
				}
			}
			d := r.model(t, n, dim, 1, 1+rng.IntN(50), func(i int) float32 { return float32(points[i]) })
			r.add(d, d.Model(), dim, 20, func(int) float32 { return 1e-8 * float32(rng.IntN(2)) })
		}
	})
	run("unfit", func(t *testing.T, r *referenceBatch) {
		two, three := r.model(t, 50, 2, 3, 5, noise), r.model(t, 70, 3, 2, 5, noise)
		r.add(two, two.Model(), 3, 4, noise) // rows of another dimension
		r.add(two, three.Model(), 2, 4, noise)
		r.add(three, two.Model(), 3, 4, noise) // and as many numbers a point
		r.add(two, two.Model(), 2, 4, noise)
		bad := slices.Clone(two.Model().Words())
		bad[len(bad)-1-rng.IntN(100)] = math.Float32bits(float32(math.NaN()))
		r.add(two, detectors.NewModel(bad), 2, 4, noise)
		short := slices.Clone(two.Model().Words())
		r.add(two, detectors.NewModel(short[:len(short)-1]), 2, 4, noise)
		r.add(two, detectors.NewModel(short[:7]), 2, 4, noise)
	})
	noFault(t, e.Stats())
	byKernels(t, e.Stats(), 0)
}
