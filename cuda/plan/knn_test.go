package plan

import (
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestKNNClass compares classes with the limits, and launches with the device's limits.
func TestKNNClass(t *testing.T) {
	draw := func(int) float32 { return 0 }
	rng := seedtest.New(t)
	for _, c := range []struct {
		n, dim, embed, k, fresh int
		tumbling, ok            bool
	}{
		{1024, 8, 1, 20, 1024, true, true}, {1 << 16, 64, 1, 1024, 1 << 16, true, true}, {5000, 4, 16, 128, 5000, true, true},
		{1000, 65, 1, 20, 1000, true, false}, {1000, 13, 5, 20, 1000, true, false}, {1000, 1, 1, 20, 999, true, false},
		{2, 1, 1, 1, 2, true, true}, {1, 1, 1, 1, 1, true, true}, {1024, 1, 19, 10, 1, false, true}, {4098, 1, 1, 10, 1, false, false},
		{100, 1, 65, 10, 1, false, false}, {4096, 64, 1, 1024, 9, false, true},
	} {
		b := &detectors.Batch{}
		task := executortest.KNNTask(t, b, knn.Params{K: c.k, Embed: c.embed, Tumbling: c.tumbling}, c.n, c.dim, c.fresh, draw)
		if _, _, ok := knnClass(task, b.Rows(0).Params); ok != c.ok {
			t.Errorf("%+v: taken is %v", c, ok)
		}
	}
	for _, c := range []struct {
		dim, embed int
		tumbling   bool
		ok         bool
	}{{1, 3, true, true}, {4, 16, false, true}, {4, 17, false, false}, {1, 64, true, true}, {1, 65, true, false}} {
		d := detectors.Must(knn.New(knn.Params{Window: 100, K: 5, Embed: c.embed, ZNorm: true, Tumbling: c.tumbling}))
		class, ok := ClassOf(d, c.dim, 100)
		rows, takes := ClassOf(detectors.Must(knn.New(knn.Params{Window: 100, K: 5, Tumbling: c.tumbling})), c.dim*c.embed, 100)
		if ok != c.ok || takes != c.ok || class != rows {
			t.Errorf("%+v: normalised points are of class %+v, %v; as rows of %+v, %v", c, class, ok, rows, takes)
		}
	}
	for range 500 {
		n := 1 + rng.IntN(1<<(1+rng.IntN(17)))
		k := 1 + rng.IntN(min(n/2+1, knnK))
		dim := 1 + rng.IntN(1<<(1+rng.IntN(6)))%knnDim
		p := knn.Params{K: k, Tumbling: rng.IntN(2) == 0}
		fresh := n
		if !p.Tumbling {
			n = min(n, knnBefore)
			fresh = 1 + rng.IntN(n)
		}
		b := &detectors.Batch{}
		task := executortest.KNNTask(t, b, p, n, dim, fresh, draw)
		c, cost, ok := knnClass(task, b.Rows(0).Params)
		if !ok {
			t.Fatalf("n=%d dim=%d %+v is not taken", n, dim, p)
		}
		var pl builder
		knnLaunches(c, &pl, []chain{{0, 1, cost}, {1, 1, cost}})
		for _, l := range pl.launches {
			if l.Grid < 1 || l.Block < 32 || l.Block > 512 || l.Block%32 != 0 || l.Shared > lofOnBlock || cost < 1 || pl.scratchBytes > 5<<30 {
				t.Fatalf("n=%d dim=%d %+v: %+v, cost %d, scratch %d", n, dim, p, l, cost, pl.scratchBytes)
			}
		}
	}
}

// TestKNNTensorClass: sets of five values or more and up to 128 neighbours are searched by products of matrices first.
// Results cannot show it: what the products leave, or all of a set, is searched in float32 after them.
func TestKNNTensorClass(t *testing.T) {
	for _, c := range []struct {
		n, dim, embed, k int
		self             bool
		want             string // the kernel, "" none
	}{
		{2049, 5, 1, 20, false, "knn_tensor_16"}, {16384, 8, 1, 20, false, "knn_tensor_16"}, {581_012, 10, 1, 50, false, "knn_tensor_16"},
		{2560, 8, 2, 128, false, "knn_tensor_32"}, {2560, 16, 1, 20, false, "knn_tensor_32"}, {2560, 32, 1, 20, false, "knn_tensor_48"},
		{2560, 64, 1, 129, true, "knn_tensor_80"}, {2049, 4, 1, 20, false, ""}, {2560, 8, 1, 129, false, ""}, {1024, 8, 1, 20, false, ""},
	} {
		b := &detectors.Batch{}
		p := knn.Params{K: c.k, Embed: c.embed, Tumbling: true, IncludeSelf: c.self}
		task := executortest.KNNTask(t, b, p, c.n, c.dim, c.n, func(int) float32 { return 0 })
		class, cost, ok := knnClass(task, b.Rows(0).Params)
		if !ok {
			t.Fatalf("%+v is not taken", c)
		}
		var pl builder
		knnLaunches(class, &pl, []chain{{0, 1, cost}})
		got := ""
		for _, l := range pl.launches {
			if name := names[l.Kernel]; strings.HasPrefix(name, "knn_tensor_") {
				got = name
			}
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
