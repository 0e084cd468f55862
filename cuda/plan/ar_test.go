package plan

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/ar"
)

// arTask returns a task of the given dimension and fresh rows, and the parameters of its detector.
func arTask(t *testing.T, order, dim, fresh int) (*detectors.Task, detectors.Words) {
	t.Helper()
	d, err := ar.New(ar.OpParams{Order: order, Memory: 1000})
	if err != nil {
		t.Fatal(err)
	}
	rows := d.Window() + fresh - 1
	n, ok := d.Size(detectors.View{Dim: dim, Rows: rows, Fresh: fresh})
	if !ok {
		t.Fatalf("order %d: no task of %d rows", order, rows)
	}
	task := &detectors.Task{Op: ar.Op, Dim: uint32(dim), Fresh: uint32(fresh), X: detectors.Span{Len: uint32(rows * dim)}}
	task.Scores.Len, task.Next.Len, task.Detail.Len = uint32(n.Scores), uint32(n.Carry), uint32(n.Detail)
	return task, d.Params()
}

// TestARClass compares classes with the kernels' limits, and requires that each value of each chain has one group.
func TestARClass(t *testing.T) {
	for _, c := range []struct {
		order, dim, fresh int
		variant           uint32
	}{
		{1, 1, 1, 2}, {15, 1, 1, 2}, {16, 1, 1, 0}, {16, 3, 1, 0}, {16, 1, 2, 4}, {17, 1, 1, 3}, {31, 1, 1, 3}, {32, 1, 1, 1},
		{32, 1, 16, 5}, {33, 1, 1, 6}, {64, 38, 16, 6}, {8, 8, 1, 2}, {8, 9, 1, 2}, {8, 33, 1, 2}, {8, 600, 1, 2},
	} {
		task, params := arTask(t, c.order, c.dim, c.fresh)
		class, cost, ok := arPlan.class(task, params)
		if !ok || class.Variant != c.variant || int(class.B) != c.dim || class.Shared > 200<<10 {
			t.Errorf("%+v: %+v, %d bytes of a block, taken %v", c, class, class.Shared, ok)
		}
		k := arKernels[c.variant]
		each := int(class.Shared) / arSeries(class)
		if need := 24*c.order + k.bytes*c.order*(c.order+3)/2; each < need || each >= need+16 {
			t.Errorf("%+v: %d bytes of a series, of which %d are used", c, each, need)
		}
		var p builder
		var chains []chain
		lengths := []uint32{5, 5, 5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
		for first, i := uint32(0), 0; i < len(lengths); i++ {
			chains = append(chains, chain{first, lengths[i], cost})
			first += lengths[i]
		}
		arLaunches(class, &p, chains)
		seen := map[[2]uint32]uint32{} // tasks by first task and value
		for _, tile := range p.tiles {
			each, from := tile.Part>>16&0x7fff, tile.Part&0xffff
			tasks := tile.Count // of a chain
			if c.dim == 1 {
				tasks /= max(1, each)
				if from != 0 || tile.Part>>31 != 0 || tile.Count != each*tasks || each < 1 || each > p.launches[0].Block/uint32(k.lanes) {
					t.Errorf("%+v: %+v", c, tile)
				}
			} else if tile.Part>>31 != 1 || each != uint32(c.dim) {
				t.Errorf("%+v: %+v", c, tile)
			}
			for group := range p.launches[0].Block / uint32(k.lanes) {
				if c.dim == 1 && group < each {
					seen[[2]uint32{tile.First + group*tasks, 0}] += tasks
				} else if c.dim > 1 && from+group < uint32(c.dim) {
					seen[[2]uint32{tile.First, from + group}] += tasks
				}
			}
		}
		for _, ch := range chains {
			for v := range uint32(c.dim) {
				if seen[[2]uint32{ch.first, v}] != ch.count {
					t.Errorf("%+v: %d of %d tasks of the chain at %d have value %d scored", c, seen[[2]uint32{ch.first, v}], ch.count, ch.first, v)
				}
			}
		}
		if len(seen) != len(chains)*c.dim || len(p.launches) != 1+min(1, c.dim-1) {
			t.Errorf("%+v: %d groups with work, %d launches", c, len(seen), len(p.launches))
		}
	}
}

// TestAROutputs requires that the kernels take no task whose rows or outputs do not fit its order.
func TestAROutputs(t *testing.T) {
	task, params := arTask(t, 10, 3, 5)
	for _, change := range []func(t *detectors.Task){
		func(t *detectors.Task) { t.X.Len -= 3 },
		func(t *detectors.Task) { t.X.Len++ },
		func(t *detectors.Task) { t.Scores.Len = 4 },
		func(t *detectors.Task) { t.Next.Len-- },
		func(t *detectors.Task) { t.Detail.Len = 0 },
	} {
		other := *task
		change(&other)
		if class, _, ok := arPlan.class(&other, params); ok {
			t.Errorf("%+v: taken as %+v", other, class)
		}
	}
}
