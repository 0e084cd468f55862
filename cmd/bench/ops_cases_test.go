package main

import (
	"testing"

	"odradek/detectors"
)

// TestCaseShapes: every op has cases that are benchmarks, and their shapes can be packed
// and scored, whatever the elements.
func TestCaseShapes(t *testing.T) {
	exec := detectors.NewCPU(1)
	defer exec.Close()
	for _, op := range detectors.Ops() {
		shapes := caseShapes(op)
		if len(shapes) == 0 {
			t.Errorf("%v has no case that is a benchmark", op)
		}
		for i := range shapes {
			in, err := shapes[i].input()
			if err != nil {
				t.Error(err)
				continue
			}
			batch := exec.Batch()
			if err := in.settle(t.Context(), exec, batch, min(2, in.tasks)); err != nil {
				t.Errorf("%s: %v", in.name, err)
			}
			r := batch.Rows(0)
			if op == detectors.Discords { // no score but where a discord is new
				if r.Detail[2] == detectors.NoNeighbour {
					t.Errorf("%s: no discord", in.name)
				}
				r.Scores = nil
			}
			for _, s := range r.Scores {
				if s != s {
					t.Errorf("%s: a score is NaN", in.name)
					break
				}
			}
			exec.Release(batch)
		}
	}
	if len(allShapes()) < len(opShapes) {
		t.Error("shapes are lost")
	}
}
