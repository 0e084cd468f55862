package plan

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
)

// TestLOFClass compares classes with the limits, and launches with the device's limits.
func TestLOFClass(t *testing.T) {
	draw := func(int) float32 { return 0 }
	rng := seedtest.New(t)
	for _, c := range []struct {
		n, dim, embed, k, fresh, virtuals int
		ok                                bool
	}{
		{1024, 8, 1, 20, 1024, 0, true}, {4096, 64, 1, 128, 4096, 256, true}, {4096, 4, 16, 128, 1, 256, true},
		{4097, 8, 1, 20, 1, 0, false}, {1024, 65, 1, 20, 1, 0, false}, {1024, 13, 5, 20, 1, 0, false},
		{1024, 8, 1, 129, 1, 0, false}, {1024, 8, 1, 20, 1, 257, false}, {2, 1, 1, 1, 2, 0, true}, {1, 1, 1, 1, 1, 0, true},
	} {
		b := &detectors.Batch{}
		task := executortest.LOFTask(t, b, lof.OpParams{Window: max(c.n, 2*c.k), K: c.k, Embed: c.embed, Warmup: 2}, c.n, c.dim,
			c.fresh, c.virtuals, draw)
		if _, _, ok := lofClass(task, b.Rows(0).Params); ok != c.ok {
			t.Errorf("%+v: taken is %v", c, ok)
		}
	}
	for range 2000 {
		n := 1 + rng.IntN(1<<(1+rng.IntN(12)))
		k := 1 + rng.IntN(min(n/2+1, lofK))
		dim := 1 + rng.IntN(1<<(1+rng.IntN(6)))
		fresh, virtuals := 1+rng.IntN(n), rng.IntN(2)*rng.IntN(257)
		b := &detectors.Batch{}
		task := executortest.LOFTask(t, b, lof.OpParams{Window: max(n, 2*k), K: k, Warmup: 2}, n, dim, fresh, virtuals, draw)
		c, cost, ok := lofClass(task, b.Rows(0).Params)
		if !ok {
			if dim <= lofDim {
				t.Fatalf("n=%d dim=%d k=%d fresh=%d virtual=%d is not taken", n, dim, k, fresh, virtuals)
			}
			continue
		}
		var p builder
		lofLaunches(c, &p, []chain{{0, 1, cost}, {1, 1, cost}})
		for _, l := range p.launches {
			if l.Grid < 2 || l.Block < 32 || l.Block > 512 || l.Block%32 != 0 || l.Shared > lofOnBlock || cost < 1 {
				t.Fatalf("n=%d dim=%d k=%d fresh=%d virtual=%d: %+v, cost %d", n, dim, k, fresh, virtuals, l, cost)
			}
		}
	}
}
