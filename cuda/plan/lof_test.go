package plan

import (
	"testing"

	"odradek/detectors"
)

// lofTask is a task of n points, drawn by draw, in a batch.
func lofTask(t testing.TB, b *detectors.Batch, p detectors.LOFParams, n, dim, fresh, virtuals int,
	draw func(i int) float32) *detectors.Task {
	t.Helper()
	d, err := detectors.NewLOF(p)
	if err != nil {
		t.Fatal(err)
	}
	task := detectors.Task{Op: detectors.LOF, Dim: uint32(dim), Fresh: uint32(fresh)}
	var s []float32
	task.Params = b.Put(d.Params())
	embed := max(p.Embed, 1)
	task.X, s = b.GrowF32((n + embed - 1) * dim)
	for i := range s {
		s[i] = draw(i)
	}
	if virtuals > 0 {
		task.Bins, s = b.GrowF32(virtuals * (dim*embed + 1))
		for i := range s {
			s[i] = draw(i)
			if i >= virtuals*dim*embed {
				s[i] = float32(i%7) / 2
			}
		}
	}
	task.Scores = b.GrowOut(fresh)
	b.Tasks = append(b.Tasks, task)
	return &b.Tasks[len(b.Tasks)-1]
}

// TestLOFClass holds classes to the limits, and launches to what a device has.
func TestLOFClass(t *testing.T) {
	draw := func(int) float32 { return 0 }
	rng := seeded(t)
	for _, c := range []struct {
		n, dim, embed, k, fresh, virtuals int
		ok                                bool
	}{
		{1024, 8, 1, 20, 1024, 0, true}, {4096, 64, 1, 128, 4096, 256, true}, {4096, 4, 16, 128, 1, 256, true},
		{4097, 8, 1, 20, 1, 0, false}, {1024, 65, 1, 20, 1, 0, false}, {1024, 13, 5, 20, 1, 0, false},
		{1024, 8, 1, 129, 1, 0, false}, {1024, 8, 1, 20, 1, 257, false}, {2, 1, 1, 1, 2, 0, true}, {1, 1, 1, 1, 1, 0, true},
	} {
		b := &detectors.Batch{}
		task := lofTask(t, b, detectors.LOFParams{Window: max(c.n, 2*c.k), K: c.k, Embed: c.embed, Warmup: 2}, c.n, c.dim,
			c.fresh, c.virtuals, draw)
		if _, _, ok := lofClass(task, b.Rows(0).Params.F32()); ok != c.ok {
			t.Errorf("%+v: taken is %v", c, ok)
		}
	}
	for range 2000 {
		n := 1 + rng.IntN(1<<(1+rng.IntN(12)))
		k := 1 + rng.IntN(min(n/2+1, lofK))
		dim := 1 + rng.IntN(1<<(1+rng.IntN(6)))
		fresh, virtuals := 1+rng.IntN(n), rng.IntN(2)*rng.IntN(257)
		b := &detectors.Batch{}
		task := lofTask(t, b, detectors.LOFParams{Window: max(n, 2*k), K: k, Warmup: 2}, n, dim, fresh, virtuals, draw)
		c, cost, ok := lofClass(task, b.Rows(0).Params.F32())
		if !ok {
			if dim <= lofDim {
				t.Fatalf("n=%d dim=%d k=%d fresh=%d virtual=%d is not taken", n, dim, k, fresh, virtuals)
			}
			continue
		}
		var p Planner
		lofLaunches(c, &p, []chain{{0, 1, cost}, {1, 1, cost}})
		for _, l := range p.launches {
			if l.Grid < 2 || l.Block < 32 || l.Block > 256 || l.Block%32 != 0 || l.Shared > lofOnBlock || cost < 1 {
				t.Fatalf("n=%d dim=%d k=%d fresh=%d virtual=%d: %+v, cost %d", n, dim, k, fresh, virtuals, l, cost)
			}
		}
	}
}
