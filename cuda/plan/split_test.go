package plan

import (
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
)

// TestCut requires that parts have similar costs, contain each task once, and that no chain crosses
// from one into the next.
func TestCut(t *testing.T) {
	testPlan(t, sst.OpIKA, lof.Op)
	rng := seedtest.New(t)
	var p Planner
	cuts := 0
	for range 300 {
		b := &detectors.Batch{}
		reach := 1 + rng.IntN(40) // how far back chains go
		for i := range 2 + rng.IntN(300) {
			after := 0
			if back := 1 + rng.IntN(reach); back <= i && rng.IntN(3) > 0 {
				after = i - back + 1
			}
			addTask(b, []detectors.Op{sst.OpIKA, lof.Op, simple.OpZScore}[rng.IntN(3)], 1+rng.IntN(3), 20+rng.IntN(30), after)
		}
		unlink(b)
		p.Start(b)
		p.Assign(b)
		parts := make([]*Planner, 2+rng.IntN(3))
		for i := range parts {
			parts[i] = &Planner{}
		}
		if !p.Cut(b, parts) {
			continue
		}
		cuts++
		var seen []int32
		for k, q := range parts {
			q.schedule(b, make([]Task, q.Tasks))
			for _, i := range q.order {
				if i < q.First || k+1 < len(parts) && i >= parts[k+1].First {
					t.Fatalf("task %d is in part %d, which begins at %d", i, k, q.First)
				}
				if from := Before(b, int(i)); from >= 0 && p.Progress.places[from] == onDevice && from < q.First {
					t.Fatalf("task %d of part %d has its carry from task %d of another", i, k, from)
				}
			}
			seen = append(seen, q.order...)
		}
		slices.Sort(seen)
		if len(slices.Compact(seen)) != p.Tasks || len(seen) != p.Tasks {
			t.Fatalf("%d tasks in parts, %d of them different, of %d", len(seen), len(slices.Compact(seen)), p.Tasks)
		}
	}
	if cuts < 20 {
		t.Errorf("%d of 300 batches were cut", cuts)
	}
}

// unlink leaves one successor to each task: chains do not fork.
func unlink(b *detectors.Batch) {
	taken := map[uint32]bool{}
	for i := range b.Tasks {
		if a := b.Tasks[i].After; taken[a] {
			b.Tasks[i].After = 0
		} else if a > 0 {
			taken[a] = true
		}
	}
}
