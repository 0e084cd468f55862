package plan

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// TestKNNReferenceClass compares classes of tasks with a model with the limits, and launches with a device's.
func TestKNNReferenceClass(t *testing.T) {
	for _, c := range []struct {
		n, dim, embed, k int
		znorm, ok        bool
	}{
		{1024, 1, 16, 10, false, true}, {10_000, 8, 1, 10, false, true}, {100_000, 2, 1, 10, false, true}, {1, 1, 1, 256, false, true},
		{50, 64, 1, 256, false, true}, {50, 65, 1, 10, false, false}, {50, 1, 65, 10, false, false}, {50, 13, 5, 10, false, false},
		{50, 2, 1, 257, false, false}, {50, 1, 64, 10, true, true}, {50, 4, 16, 10, true, true}, {50, 4, 17, 10, true, false},
		{1 << 20, 15, 1, 10, false, true}, {1 << 20, 16, 1, 10, false, false}, // 64 MB
	} {
		m, err := knn.NewModel(knn.Reference{Dim: c.dim, Embed: c.embed, Points: make([]float64, c.n*c.dim*c.embed), ZNorm: c.znorm})
		if err != nil {
			t.Fatal(err)
		}
		class, ok := ClassOf(detectors.Must(knn.NewByModel(knn.ModelParams{Model: m, K: c.k})), c.dim, 16)
		if ok != c.ok {
			t.Errorf("%+v: taken is %v", c, ok)
		}
		if ok && (class.Variant != knnIsReference || class.Shared > referenceShared) {
			t.Errorf("%+v: class %+v, %d bytes of shared memory", c, class, class.Shared)
		}
	}
	for width := 1; width <= knnDim; width++ {
		for k := 1; k <= referenceK; k++ {
			s := referenceShapeOf(width, k)
			if s.points%referenceStep != 0 || s.points < referenceStep || s.room <= k || s.bytes(s.warps()) > referenceShared {
				t.Fatalf("%d numbers a point, k=%d: %+v, %d bytes", width, k, s, s.bytes(s.warps()))
			}
		}
	}
}

// TestKNNReferenceBlocks: blocks are full of points of one model, regardless of the order of the tasks, and every fresh row is in
// one of them.
func TestKNNReferenceBlocks(t *testing.T) {
	rng := seedtest.New(t)
	for range 50 {
		models := 1 + rng.IntN(4)
		tasks := make([]Task, 1+rng.IntN(600))
		var chains []chain
		fresh, perModel := 0, make([]uint32, models) // fresh rows of each model
		for i := range tasks {
			m := rng.IntN(models)
			tasks[i] = Task{Fresh: uint32(1 + rng.IntN(1<<rng.IntN(8))), Model: detectors.Span{Off: uint32(1000 * m), Len: 900}}
			perModel[m] += tasks[i].Fresh
			fresh += int(tasks[i].Fresh)
			chains = append(chains, chain{uint32(i), 1, 1})
		}
		pl := builder{tasks: tasks, sms: usualSMs}
		shape := referenceShapeOf(2, 10)
		launchReference(Class{Variant: knnIsReference, A: uint32(shape.points | shape.room<<16), B: 2}, &pl, chains)
		l := pl.launches[0]
		queries, least := l.Block/2, uint32(0)
		for _, n := range perModel {
			least += (n + queries - 1) / queries
		}
		if len(pl.launches) != 1 || l.Grid != least || l.Block > 128 || l.Block > 32 && fresh <= 132*16 || l.Block < 128 && fresh > 132*32 {
			t.Fatalf("%d fresh rows of %v: %+v, want %d blocks", fresh, perModel, pl.launches, least)
		}
		seen := make([]uint32, len(tasks))
		for _, b := range pl.tiles[:l.Grid] {
			model := tasks[pl.tiles[b.First].First].Model
			for _, run := range pl.tiles[b.First : b.First+b.Count] {
				if tasks[run.First].Model != model || run.Part != seen[run.First] {
					t.Fatalf("run %+v of a block of model %v; %d fresh rows were before it", run, model, seen[run.First])
				}
				seen[run.First] += run.Count
			}
		}
		for i, n := range seen {
			if n != tasks[i].Fresh {
				t.Fatalf("task %d: %d fresh rows of %d", i, n, tasks[i].Fresh)
			}
		}
	}
}
